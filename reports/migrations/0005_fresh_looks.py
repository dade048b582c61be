"""Fresh looks: sealed weeks built again after something of them arrived (method §11)."""

import django.db.models.deletion
from django.db import migrations, models

APPEND_ONLY = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reports_freshlook
FOR EACH STATEMENT EXECUTE FUNCTION reports_append_only();
"""
BACKWARD = "DROP TRIGGER append_only ON reports_freshlook;"


class Migration(migrations.Migration):
    dependencies = [("reports", "0004_waivers")]

    operations = [
        migrations.CreateModel(
            name="FreshLook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "digest",
                    models.CharField(
                        help_text="SHA-256 of the statement built afresh.", max_length=64
                    ),
                ),
                (
                    "differences",
                    models.JSONField(help_text="As the difference table of a restatement."),
                ),
                (
                    "documents",
                    models.JSONField(
                        default=list, help_text="Names of documents that came since."
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="looks",
                        to="reports.report",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("digest__regex", "^[0-9a-f]{64}$")),
                        name="fresh_look_digest_is_sha256",
                    ),
                    models.UniqueConstraint(
                        fields=("report", "at"), name="fresh_look_once_an_instant"
                    ),
                ],
            },
        ),
        migrations.RunSQL(APPEND_ONLY, BACKWARD),
    ]
