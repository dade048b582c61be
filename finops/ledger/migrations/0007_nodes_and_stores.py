"""GPU-hours of nodes and pods, and what is kept of each store: tenant, product, region, probe."""

import django.db.models.deletion
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_gpuhour
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0006_invoice_formats")]

    operations = [
        migrations.CreateModel(
            name="GpuHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("revision", models.IntegerField()),
                ("gpu_ms", models.BigIntegerField()),
                ("observed_ms", models.BigIntegerField()),
                ("posted_at", models.DateTimeField()),
                (
                    "series",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="gpu_hours",
                        to="ledger.series",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("series", "hour", "revision"), name="gpu_hour_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("gpu_ms__gte", 0)), name="gpu_hour_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("observed_ms__gte", 0), ("observed_ms__lte", 3600000)),
                        name="gpu_hour_observed_within_hour",
                    ),
                ],
                "indexes": [models.Index(fields=["hour"], name="ledger_gpuhour_hour")],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_gpuhour;"),
        migrations.AddField(
            "source",
            "tenant",
            models.CharField(
                blank=True,
                default="",
                help_text="Sent as X-Scope-OrgID (Mimir, Cortex).",
                max_length=150,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "source",
            "product",
            models.CharField(
                blank=True,
                default="",
                help_text="What the store is, where its answers do not say.",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "source",
            "region",
            models.CharField(
                blank=True,
                default="",
                help_text="Region of requests signed SigV4.",
                max_length=40,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "source",
            "probe",
            models.JSONField(
                blank=True, default=dict, help_text="What the store last said of itself."
            ),
        ),
    ]
