"""A guard that is lost with its function or table, and a guard's function that is written anew, stand
in the trail too: `DROP FUNCTION … CASCADE` and `CREATE OR REPLACE FUNCTION` switch guards off as well.
"""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION trail_watch_switch() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  guard record;
  was text;
BEGIN
  IF to_regclass('public.trail_entry') IS NULL THEN RETURN; END IF;
  FOR guard IN
    SELECT DISTINCT relation.relname || '.' || one.tgname AS named,
           one.tgenabled IN ('O', 'A') AS is_on
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_class relation ON relation.oid = command.objid
    JOIN pg_trigger one ON one.tgrelid = relation.oid
    WHERE command.classid = 'pg_class'::regclass
      AND one.tgname IN ('append_only', 'two_people', 'second_person')
    ORDER BY 1
  LOOP
    SELECT action INTO was FROM trail_entry
    WHERE subject = guard.named AND action LIKE 'guard %' ORDER BY number DESC LIMIT 1;
    IF NOT guard.is_on AND was IS DISTINCT FROM 'guard switched off' THEN
      PERFORM trail_guard_entry('guard switched off', guard.named, tg_tag);
    ELSIF guard.is_on AND was = 'guard switched off' THEN
      PERFORM trail_guard_entry('guard switched on again', guard.named, tg_tag);
    END IF;
  END LOOP;
  FOR guard IN
    SELECT DISTINCT function.proname AS named
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_proc function ON function.oid = command.objid
    WHERE command.classid = 'pg_proc'::regclass
      AND (EXISTS (SELECT FROM pg_trigger one WHERE one.tgfoid = function.oid)
           OR EXISTS (SELECT FROM pg_event_trigger one WHERE one.evtfoid = function.oid))
    ORDER BY 1
  LOOP
    PERFORM trail_guard_entry('function of guards changed', guard.named || '()', tg_tag);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION trail_watch_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  gone record;
BEGIN
  IF to_regclass('public.trail_entry') IS NULL THEN RETURN; END IF;
  FOR gone IN
    SELECT address_names[array_length(address_names, 1) - 1] || '.'
           || address_names[array_length(address_names, 1)] AS named
    FROM pg_event_trigger_dropped_objects()
    WHERE object_type = 'trigger' AND (original OR tg_tag = 'DROP FUNCTION')
      AND address_names[array_length(address_names, 1)]
          IN ('append_only', 'two_people', 'second_person')
    ORDER BY 1
  LOOP
    PERFORM trail_guard_entry('guard removed', gone.named, tg_tag);
  END LOOP;
END $$;

DO $$
BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    DROP EVENT TRIGGER IF EXISTS trail_guards_switched;
    DROP EVENT TRIGGER IF EXISTS trail_guards_dropped;
    CREATE EVENT TRIGGER trail_guards_switched ON ddl_command_end
      WHEN TAG IN ('ALTER TABLE', 'CREATE FUNCTION', 'ALTER FUNCTION')
      EXECUTE FUNCTION trail_watch_switch();
    CREATE EVENT TRIGGER trail_guards_dropped ON sql_drop
      WHEN TAG IN ('DROP TRIGGER', 'DROP FUNCTION')
      EXECUTE FUNCTION trail_watch_drop();
    ALTER EVENT TRIGGER trail_guards_switched ENABLE ALWAYS;
    ALTER EVENT TRIGGER trail_guards_dropped ENABLE ALWAYS;
  END IF;
END $$;
"""

BACKWARD = """
DO $$
BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    DROP EVENT TRIGGER IF EXISTS trail_guards_switched;
    DROP EVENT TRIGGER IF EXISTS trail_guards_dropped;
    CREATE EVENT TRIGGER trail_guards_switched ON ddl_command_end
      WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION trail_watch_switch();
    CREATE EVENT TRIGGER trail_guards_dropped ON sql_drop
      WHEN TAG IN ('DROP TRIGGER') EXECUTE FUNCTION trail_watch_drop();
    ALTER EVENT TRIGGER trail_guards_switched ENABLE ALWAYS;
    ALTER EVENT TRIGGER trail_guards_dropped ENABLE ALWAYS;
  END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("trail", "0003_watch_guards")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
