"""What engineers say of detected changes; append-only (method §10)."""

import django.db.models.deletion
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_changedecision
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0012_token_hours_disturbed'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangeDecision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('changed_at', models.DateTimeField(help_text='The hour in which the change first showed.')),
                ('before', models.TextField()),
                ('after', models.TextField()),
                ('verdict', models.CharField(choices=[('confirmed', 'confirmed'), ('dismissed', 'dismissed')], max_length=10)),
                ('note', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='change_decisions', to='ledger.workload')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['confirmed', 'dismissed'])), name='change_decision_verdict'), models.CheckConstraint(condition=models.Q(('kind__in', ['configuration', 'engine version', 'replicas'])), name='change_decision_kind')],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_changedecision;"),
    ]
