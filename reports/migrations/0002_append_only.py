"""Tables that only grow, and the rule of two people, kept by the database itself (method §11)."""

from django.db import migrations

TABLES = ["report", "reportevent", "seal", "annotation", "disposition", "upload", "uploadoutcome"]

FUNCTION = """
CREATE FUNCTION reports_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % is refused; correct by adding a row', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation';
END $$;
"""

TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reports_{table}
FOR EACH STATEMENT EXECUTE FUNCTION reports_append_only();
"""

TWO_PEOPLE = """
CREATE FUNCTION reports_two_people() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  preparer text;
  last_word text;
BEGIN
  SELECT prepared_by INTO preparer FROM reports_report WHERE id = NEW.report_id;
  IF NEW.kind = 'approved' AND NEW."by" = preparer THEN
    RAISE EXCEPTION 'preparer and approver of a report are two people: % prepared it', preparer
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.kind = 'sealed' THEN
    SELECT kind INTO last_word FROM reports_reportevent
      WHERE report_id = NEW.report_id AND kind IN ('approved', 'returned')
      ORDER BY id DESC LIMIT 1;
    IF last_word IS DISTINCT FROM 'approved' THEN
      RAISE EXCEPTION 'a report is sealed only after another person approved it'
        USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER two_people BEFORE INSERT ON reports_reportevent
FOR EACH ROW EXECUTE FUNCTION reports_two_people();
"""


class Migration(migrations.Migration):
    dependencies = [("reports", "0001_initial")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION reports_append_only();"),
        *(
            migrations.RunSQL(
                TRIGGER.format(table=table), f"DROP TRIGGER append_only ON reports_{table};"
            )
            for table in TABLES
        ),
        migrations.RunSQL(
            TWO_PEOPLE,
            "DROP TRIGGER two_people ON reports_reportevent; DROP FUNCTION reports_two_people();",
        ),
    ]
