"""Starts of engines, models' configurations and devices by the hour; all append-only."""

import django.db.models.deletion
import finops.ledger.models.fields
from django.db import migrations, models


TABLES = ["devicehour", "enginestart", "evidencelink", "modelconfig"]

# The function is made by 0002; for each statement, not each row.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_{table}
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_workload_max_model_len"),
    ]

    operations = [
        migrations.CreateModel(
            name="ModelConfig",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("model", models.TextField(blank=True, help_text="The name it gives itself.")),
                ("config", models.JSONField()),
                ("posted_at", models.DateTimeField()),
                (
                    "document",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="model_config",
                        to="ledger.document",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DeviceHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "device",
                    models.TextField(help_text="UUID, with the MIG instance behind a slash."),
                ),
                ("hour", models.DateTimeField()),
                ("revision", models.IntegerField()),
                ("observed_ms", models.BigIntegerField()),
                ("used_byte_ms", finops.ledger.models.fields.NumericField(null=True)),
                ("free_byte_ms", finops.ledger.models.fields.NumericField(null=True)),
                ("reserved_byte_ms", finops.ledger.models.fields.NumericField(null=True)),
                ("total_bytes", models.BigIntegerField(null=True)),
                ("peak_used_bytes", models.BigIntegerField(null=True)),
                ("peak_ms", models.BigIntegerField(null=True)),
                ("tenants", models.JSONField(default=list)),
                (
                    "shared",
                    models.BooleanField(
                        default=False, help_text="Several pods held it at one instant."
                    ),
                ),
                ("labels", models.JSONField(default=dict)),
                ("posted_at", models.DateTimeField()),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="device_hours",
                        to="ledger.target",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["hour"], name="ledger_devi_hour_898768_idx")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("target", "device", "hour", "revision"), name="device_hour_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("observed_ms__gte", 0)), name="device_hour_observed"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EngineStart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField(help_text="Which start of the document.")),
                ("engine_version", models.TextField(blank=True)),
                ("model", models.TextField(blank=True)),
                ("served_names", models.JSONField(default=list)),
                ("data_parallel_rank", models.IntegerField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("has_failed", models.BooleanField(default=False)),
                ("figures", models.JSONField()),
                ("posted_at", models.DateTimeField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="engine_starts",
                        to="ledger.document",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("document", "number"), name="engine_start_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="EvidenceLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pod", models.TextField(blank=True)),
                ("tensor_parallel", models.IntegerField(null=True)),
                ("pipeline_parallel", models.IntegerField(null=True)),
                ("kv_dtype", models.CharField(blank=True, max_length=40)),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=150)),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="links",
                        to="ledger.document",
                    ),
                ),
                (
                    "workload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evidence_links",
                        to="ledger.workload",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("tensor_parallel__isnull", True),
                                ("tensor_parallel__gt", 0),
                                _connector="OR",
                            ),
                            models.Q(
                                ("pipeline_parallel__isnull", True),
                                ("pipeline_parallel__gt", 0),
                                _connector="OR",
                            ),
                        ),
                        name="evidence_link_parallelism",
                    )
                ],
            },
        ),
        *(
            migrations.RunSQL(
                TRIGGER.format(table=table), f"DROP TRIGGER append_only ON ledger_{table};"
            )
            for table in TABLES
        ),
    ]
