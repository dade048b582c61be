"""Waivers: a second person signs for what stands against sealing (method §11)."""

import django.db.models.deletion
from django.db import migrations, models

SECOND_PERSON = """
CREATE FUNCTION reports_waiver_second_person() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW."by" = (SELECT prepared_by FROM reports_report WHERE id = NEW.report_id) THEN
    RAISE EXCEPTION 'a waiver is signed by a second person: % prepared the report', NEW."by"
      USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS (SELECT 1 FROM reports_reportevent
             WHERE report_id = NEW.report_id AND kind = 'sealed') THEN
    RAISE EXCEPTION 'the report is sealed' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER second_person BEFORE INSERT ON reports_waiver
FOR EACH ROW EXECUTE FUNCTION reports_waiver_second_person();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reports_waiver
FOR EACH STATEMENT EXECUTE FUNCTION reports_append_only();
"""

BACKWARD = """
DROP TRIGGER append_only ON reports_waiver;
DROP TRIGGER second_person ON reports_waiver;
DROP FUNCTION reports_waiver_second_person();
"""

KINDS = ["provisional-month", "invoice-differs", "recomputation"]


class Migration(migrations.Migration):
    dependencies = [("reports", "0003_list_columns")]

    operations = [
        migrations.CreateModel(
            name="Waiver",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(choices=[(k, k) for k in KINDS], max_length=20)),
                ("subject", models.TextField(help_text="The month, the invoice, or `figures`.")),
                ("text", models.TextField(help_text="Why it may be sealed all the same.")),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=150)),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="waivers",
                        to="reports.report",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", KINDS)), name="waiver_kind"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("text", ""), _negated=True), name="waiver_has_text"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("by", ""), _negated=True), name="waiver_has_a_person"
                    ),
                ],
            },
        ),
        migrations.RunSQL(SECOND_PERSON, BACKWARD),
    ]
