"""Every way round a guard that the database can see stands in the trail, whatever command took it.

The event triggers watch all commands, not only those of a list: a guard is lost with its table, its
schema or its owner's things as well, and a trigger can be replaced or renamed. Guards are known by
their name or by the function they call, and compared with what they were made as. Told as well:
guarded tables that a parent could change (it would not fire their triggers), guarded rows rewritten
by a change of a column's type, columns that are dropped or renamed, and rules and other triggers on
guarded tables, which could swallow what is written. A guarded table keeps its name: its primary key
has it too, so another table cannot take its place under it unseen. A guard that is made, and
nothing told of before, writes nothing, and neither does a table without rows: migrations leave no
noise.

The trail itself stays in its place: what would rename or move it (or its schema), rename one of its
columns, switch its guard off, or put a rule or another trigger on it, is refused.
"""

from importlib import import_module

from django.db import migrations

STILL = """
DROP EVENT TRIGGER IF EXISTS trail_rows_rewritten;
DROP EVENT TRIGGER IF EXISTS trail_guards_switched;
DROP EVENT TRIGGER IF EXISTS trail_guards_dropped;
"""
"""Nobody watches while the watchers themselves are written anew."""

GUARDS = """
CREATE FUNCTION trail_guard_named(trigger_name text, calls text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
  SELECT CASE
    WHEN trigger_name IN ('append_only', 'two_people', 'second_person', 'charge_sources')
    THEN trigger_name
    WHEN calls ~ '^(ledger|reports|trail)_append_only$' THEN 'append_only'
    WHEN calls IN ('reports_two_people', 'ledger_baseline_two_people') THEN 'two_people'
    WHEN calls = 'reports_waiver_second_person' THEN 'second_person'
    WHEN calls = 'ledger_charge_sources' THEN 'charge_sources'
  END
$$;

CREATE FUNCTION trail_guards_of(tables oid[]) RETURNS TABLE (named text, state text)
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
  WITH found AS (
    SELECT relation.oid AS on_oid, relation.relname AS on_table, one.oid AS trigger_oid,
           one.tgenabled IN ('O', 'A') AS is_on,
           public.trail_guard_named(one.tgname, function.proname) AS guard
    FROM pg_trigger one
    JOIN pg_class relation ON relation.oid = one.tgrelid
    JOIN pg_proc function ON function.oid = one.tgfoid
    WHERE NOT one.tgisinternal AND relation.oid = ANY(tables)
  ), compared AS (
    SELECT on_table, guard, is_on,
           NOT EXISTS (SELECT FROM pg_inherits WHERE on_oid IN (inhrelid, inhparent))
           AND EXISTS (SELECT FROM pg_constraint WHERE conrelid = on_oid AND contype = 'p'
                       AND conname = on_table || '_pkey')
           AND replace(pg_get_triggerdef(trigger_oid), 'public.', '') = 'CREATE TRIGGER ' || CASE
             WHEN guard = 'append_only' THEN format(
               'append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON %s FOR EACH STATEMENT '
               'EXECUTE FUNCTION %s_append_only()', on_table, split_part(on_table, '_', 1))
             WHEN guard = 'charge_sources' THEN
               'charge_sources AFTER INSERT ON ledger_charge REFERENCING NEW TABLE AS added '
               'FOR EACH STATEMENT EXECUTE FUNCTION ledger_charge_sources()'
             ELSE format(
               '%s BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION %s()', guard, on_table,
               CASE on_table
                 WHEN 'reports_reportevent' THEN 'reports_two_people'
                 WHEN 'ledger_baselinedecision' THEN 'ledger_baseline_two_people'
                 WHEN 'reports_waiver' THEN 'reports_waiver_second_person'
               END)
           END AS is_as_made
    FROM found WHERE guard IS NOT NULL
  )
  SELECT on_table || '.' || guard,
         CASE WHEN bool_or(is_on AND is_as_made) THEN 'on'
              WHEN bool_or(is_on) THEN 'changed'
              ELSE 'off' END
  FROM compared GROUP BY on_table, guard
$$;

CREATE FUNCTION trail_must_stand(command text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
  trail oid := to_regclass('public.trail_entry');
BEGIN
  IF NOT EXISTS (SELECT FROM trail_guards_of(ARRAY[trail])
                 WHERE named = 'trail_entry.append_only' AND state = 'on')
     OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = trail)
     OR EXISTS (SELECT FROM pg_trigger
                WHERE tgrelid = trail AND NOT tgisinternal AND tgname <> 'append_only') THEN
    RAISE EXCEPTION 'trail_entry is append-only, by its own trigger alone and without rules: '
                    '% is refused', command USING ERRCODE = 'restrict_violation';
  END IF;
END $$;
"""

WATCHERS = """
CREATE OR REPLACE FUNCTION trail_watch_switch() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  guard record;
  was text;
  act text;
BEGIN
  IF to_regclass('public.trail_entry') IS NULL THEN
    RAISE EXCEPTION 'trail_entry stays in its place: % is refused', tg_tag
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands()
             WHERE classid = 'pg_class'::regclass AND objid = 'public.trail_entry'::regclass
               AND objsubid > 0 AND command_tag LIKE 'ALTER %') THEN
    RAISE EXCEPTION 'trail_entry is append-only: % is refused', tg_tag
      USING ERRCODE = 'restrict_violation';
  END IF;
  PERFORM trail_must_stand(tg_tag);
  FOR guard IN
    SELECT named, state FROM trail_guards_of(ARRAY(
      SELECT objid FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass
      UNION
      SELECT one.tgrelid FROM pg_event_trigger_ddl_commands() command
      JOIN pg_trigger one ON one.oid = command.objid
      WHERE command.classid = 'pg_trigger'::regclass
      UNION
      SELECT one.indrelid FROM pg_event_trigger_ddl_commands() command
      JOIN pg_index one ON one.indexrelid = command.objid
      WHERE command.classid = 'pg_class'::regclass
      UNION
      SELECT one.conrelid FROM pg_event_trigger_ddl_commands() command
      JOIN pg_constraint one ON one.oid = command.objid
      WHERE command.classid = 'pg_constraint'::regclass
      UNION
      SELECT inhrelid FROM pg_inherits
      UNION
      SELECT inhparent FROM pg_inherits))
    ORDER BY named
  LOOP
    SELECT action INTO was FROM trail_entry
    WHERE subject = guard.named AND action LIKE 'guard %' ORDER BY number DESC LIMIT 1;
    act := CASE guard.state
      WHEN 'off' THEN 'guard switched off'
      WHEN 'changed' THEN 'guard changed'
      ELSE 'guard switched on again' END;
    IF guard.state = 'on' THEN
      CONTINUE WHEN was IS NULL OR was LIKE '% on again';
    ELSE
      CONTINUE WHEN was = act;
    END IF;
    PERFORM trail_guard_entry(act, guard.named, tg_tag);
  END LOOP;
  FOR guard IN
    SELECT 'guarded column renamed' AS told, relation.oid AS on_oid,
           relation.relname || '.' || one.attname AS named
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_class relation ON relation.oid = command.objid
    JOIN pg_attribute one ON one.attrelid = command.objid AND one.attnum = command.objsubid
    WHERE command.classid = 'pg_class'::regclass AND command.objsubid > 0
      AND command.command_tag LIKE 'ALTER %'
      AND pg_relation_size(relation.oid) > 0
    UNION
    SELECT 'rule on guarded rows', relation.oid, relation.relname || '.' || one.rulename
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_rewrite one ON one.oid = command.objid
    JOIN pg_class relation ON relation.oid = one.ev_class
    WHERE command.classid = 'pg_rewrite'::regclass
    UNION
    SELECT 'trigger on guarded rows', relation.oid, relation.relname || '.' || one.tgname
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_trigger one ON one.oid = command.objid
    JOIN pg_proc function ON function.oid = one.tgfoid
    JOIN pg_class relation ON relation.oid = one.tgrelid
    WHERE command.classid = 'pg_trigger'::regclass
      AND trail_guard_named(one.tgname, function.proname) IS NULL
    ORDER BY 3
  LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM trail_guards_of(ARRAY[guard.on_oid]));
    PERFORM trail_guard_entry(guard.told, guard.named, tg_tag);
  END LOOP;
  FOR guard IN
    SELECT DISTINCT function.proname AS named
    FROM pg_event_trigger_ddl_commands() command
    JOIN pg_proc function ON function.oid = command.objid
    WHERE command.classid = 'pg_proc'::regclass
      AND (EXISTS (SELECT FROM pg_trigger one WHERE one.tgfoid = function.oid)
           OR EXISTS (SELECT FROM pg_event_trigger one WHERE one.evtfoid = function.oid)
           OR function.proname IN (
             'trail_guard_entry', 'trail_guard_named', 'trail_guards_of', 'trail_must_stand'))
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
  IF to_regclass('public.trail_entry') IS NULL THEN
    RAISE EXCEPTION 'trail_entry stays in its place: % is refused', tg_tag
      USING ERRCODE = 'restrict_violation';
  END IF;
  FOR gone IN
    SELECT address_names[array_length(address_names, 1) - 1] || '.'
           || address_names[array_length(address_names, 1)] AS named
    FROM pg_event_trigger_dropped_objects()
    WHERE object_type = 'trigger'
      AND address_names[array_length(address_names, 1)]
          IN ('append_only', 'two_people', 'second_person', 'charge_sources')
    ORDER BY 1
  LOOP
    PERFORM trail_guard_entry('guard removed', gone.named, tg_tag);
  END LOOP;
  FOR gone IN
    SELECT relation.relname || '.' || dropped.address_names[3] AS named
    FROM pg_event_trigger_dropped_objects() dropped
    JOIN pg_class relation ON relation.oid = dropped.objid
    WHERE dropped.object_type = 'table column'
      AND EXISTS (SELECT FROM trail_guards_of(ARRAY[dropped.objid]))
      AND pg_relation_size(dropped.objid) > 0
    ORDER BY 1
  LOOP
    PERFORM trail_guard_entry('guarded column removed', gone.named, tg_tag);
  END LOOP;
  FOR gone IN
    SELECT object_type || ' on guarded rows removed' AS told,
           address_names[2] || '.' || address_names[3] AS named
    FROM pg_event_trigger_dropped_objects()
    WHERE object_type IN ('rule', 'trigger') AND array_length(address_names, 1) = 3
      AND address_names[3] NOT IN ('append_only', 'two_people', 'second_person', 'charge_sources')
      AND address_names[3] !~ '^(RI|PK)_ConstraintTrigger_'
      AND EXISTS (SELECT FROM trail_guards_of(ARRAY[
        to_regclass(format('%I.%I', address_names[1], address_names[2]))::oid]))
    ORDER BY 2
  LOOP
    PERFORM trail_guard_entry(gone.told, gone.named, tg_tag);
  END LOOP;
END $$;

CREATE FUNCTION trail_watch_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  rewritten oid := pg_event_trigger_table_rewrite_oid();
BEGIN
  IF rewritten = 'public.trail_entry'::regclass THEN
    RAISE EXCEPTION 'trail_entry is append-only: % is refused', tg_tag
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF pg_relation_size(rewritten) > 0 AND EXISTS (SELECT FROM trail_guards_of(ARRAY[rewritten]))
  THEN
    PERFORM trail_guard_entry(
      'guarded rows rewritten', (SELECT relname FROM pg_class WHERE oid = rewritten), tg_tag);
  END IF;
END $$;

DO $$
BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    CREATE EVENT TRIGGER trail_guards_switched ON ddl_command_end
      EXECUTE FUNCTION trail_watch_switch();
    CREATE EVENT TRIGGER trail_guards_dropped ON sql_drop
      EXECUTE FUNCTION trail_watch_drop();
    CREATE EVENT TRIGGER trail_rows_rewritten ON table_rewrite
      EXECUTE FUNCTION trail_watch_rewrite();
    ALTER EVENT TRIGGER trail_guards_switched ENABLE ALWAYS;
    ALTER EVENT TRIGGER trail_guards_dropped ENABLE ALWAYS;
    ALTER EVENT TRIGGER trail_rows_rewritten ENABLE ALWAYS;
  END IF;
END $$;
"""

BEFORE = import_module("finops.trail.migrations.0004_watch_functions").FORWARD

FORWARD = STILL + GUARDS + WATCHERS
BACKWARD = (
    STILL
    + "DROP FUNCTION trail_watch_rewrite(); DROP FUNCTION trail_must_stand(text);"
    + "DROP FUNCTION trail_guards_of(oid[]); DROP FUNCTION trail_guard_named(text, text);"
    + BEFORE
)


class Migration(migrations.Migration):
    dependencies = [("trail", "0004_watch_functions")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
