"""Proposed restatements that a person leaves, with the reason (method §11)."""

import django.db.models.deletion
from django.db import migrations, models

APPEND_ONLY = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reports_leftproposal
FOR EACH STATEMENT EXECUTE FUNCTION reports_append_only();
"""
BACKWARD = "DROP TRIGGER append_only ON reports_leftproposal;"


class Migration(migrations.Migration):
    dependencies = [("reports", "0005_fresh_looks")]

    operations = [
        migrations.CreateModel(
            name="LeftProposal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "text",
                    models.TextField(help_text="Why the sealed report stays as it is."),
                ),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=150)),
                (
                    "look",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="left",
                        to="reports.freshlook",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("text", ""), _negated=True),
                        name="left_proposal_has_text",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("by", ""), _negated=True),
                        name="left_proposal_has_a_person",
                    ),
                ],
            },
        ),
        migrations.RunSQL(APPEND_ONLY, BACKWARD),
    ]
