"""Decisions on baselines: approved by another person than their author (method §6)."""

import django.db.models.deletion
from django.db import migrations, models


TWO_PEOPLE = """
CREATE FUNCTION ledger_baseline_two_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.verdict = 'approved' AND lower(NEW."by") =
     (SELECT lower("by") FROM ledger_baseline WHERE id = NEW.baseline_id) THEN
    RAISE EXCEPTION 'author and approver of a baseline are two people: % registered it', NEW."by"
      USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS (SELECT 1 FROM ledger_baselinedecision
             WHERE baseline_id = NEW.baseline_id AND verdict IN ('refused', 'withdrawn')) THEN
    RAISE EXCEPTION 'baseline % is decided for good: register a new one', NEW.baseline_id
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER two_people BEFORE INSERT ON ledger_baselinedecision
FOR EACH ROW EXECUTE FUNCTION ledger_baseline_two_people();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_baselinedecision
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""

BACKWARD = """
DROP TRIGGER append_only ON ledger_baselinedecision;
DROP TRIGGER two_people ON ledger_baselinedecision;
DROP FUNCTION ledger_baseline_two_people();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0008_service_objectives'),
    ]

    operations = [
        migrations.CreateModel(
            name='BaselineDecision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verdict', models.CharField(choices=[('approved', 'Approved'), ('refused', 'Refused'), ('withdrawn', 'Withdrawn')], max_length=10)),
                ('text', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('baseline', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='ledger.baseline')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['approved', 'refused', 'withdrawn'])), name='baseline_decision_verdict'), models.CheckConstraint(condition=models.Q(('verdict', 'approved'), models.Q(('text', ''), _negated=True), _connector='OR'), name='baseline_decision_says_why'), models.CheckConstraint(condition=models.Q(('by', ''), _negated=True), name='baseline_decision_has_a_person'), models.UniqueConstraint(fields=('baseline', 'verdict'), name='baseline_decision_once')],
            },
        ),
        migrations.RunSQL(TWO_PEOPLE, BACKWARD),
    ]
