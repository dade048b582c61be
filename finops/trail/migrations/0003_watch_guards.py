"""Switching off a trigger that guards append-only rows writes an entry of the trail.

By event triggers, which only a superuser may create; elsewhere the program itself looks when it
verifies and seals. The entry is one of the chain: its digest is that of `operations.digest_of`.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION trail_guard_entry(act text, named text, command text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  last record;
  moment timestamptz := clock_timestamp();
  next_number bigint;
  previous text;
  content text;
BEGIN
  PERFORM pg_advisory_xact_lock(1918986604);
  SELECT number, digest INTO last FROM trail_entry ORDER BY number DESC LIMIT 1;
  next_number := coalesce(last.number, 0) + 1;
  previous := coalesce(last.digest, repeat('0', 64));
  content := '{"action":' || to_json(act)::text
    || ',"actor":' || to_json('database user ' || session_user)::text
    || ',"at":"' || to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00"'
    || ',"detail":{"command":' || to_json(command)::text || '}'
    || ',"number":' || next_number
    || ',"previous":"' || previous || '"'
    || ',"subject":' || to_json(named)::text || '}';
  INSERT INTO trail_entry (number, at, actor, action, subject, detail, previous_digest, digest)
  VALUES (next_number, moment, 'database user ' || session_user, act, named,
          jsonb_build_object('command', command), previous,
          encode(sha256(convert_to(content, 'UTF8')), 'hex'));
END $$;

CREATE FUNCTION trail_watch_switch() RETURNS event_trigger
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
END $$;

CREATE FUNCTION trail_watch_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  gone record;
BEGIN
  IF to_regclass('public.trail_entry') IS NULL THEN RETURN; END IF;
  FOR gone IN
    SELECT address_names[array_length(address_names, 1) - 1] || '.'
           || address_names[array_length(address_names, 1)] AS named
    FROM pg_event_trigger_dropped_objects()
    WHERE object_type = 'trigger' AND original
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
    CREATE EVENT TRIGGER trail_guards_switched ON ddl_command_end
      WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION trail_watch_switch();
    CREATE EVENT TRIGGER trail_guards_dropped ON sql_drop
      WHEN TAG IN ('DROP TRIGGER') EXECUTE FUNCTION trail_watch_drop();
    ALTER EVENT TRIGGER trail_guards_switched ENABLE ALWAYS;
    ALTER EVENT TRIGGER trail_guards_dropped ENABLE ALWAYS;
  END IF;
END $$;
"""

BACKWARD = """
DROP EVENT TRIGGER IF EXISTS trail_guards_switched;
DROP EVENT TRIGGER IF EXISTS trail_guards_dropped;
DROP FUNCTION trail_watch_switch();
DROP FUNCTION trail_watch_drop();
DROP FUNCTION trail_guard_entry(text, text, text);
"""


class Migration(migrations.Migration):
    dependencies = [("trail", "0002_append_only")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
