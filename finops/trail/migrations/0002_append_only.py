"""The trail only grows: the database itself refuses UPDATE, DELETE and TRUNCATE on it."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION trail_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON trail_entry
FOR EACH STATEMENT EXECUTE FUNCTION trail_append_only();
"""

BACKWARD = """
DROP TRIGGER append_only ON trail_entry;
DROP FUNCTION trail_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("trail", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
