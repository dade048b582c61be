"""Budgets of training by quarter, dated and append-only (method §5)."""

import django.db.models.deletion
import finops.ledger.models.fields
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_trainingbudget
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0010_kept_sums'),
    ]

    operations = [
        migrations.CreateModel(
            name='TrainingBudget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('quarter', models.CharField(help_text='Like 2026-Q4.', max_length=7)),
                ('amount', finops.ledger.models.fields.NumericField()),
                ('currency', models.CharField(max_length=40)),
                ('note', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('document', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='training_budgets', to='ledger.document')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='training_budget_positive'), models.CheckConstraint(condition=models.Q(('quarter__regex', '^[0-9]{4}-Q[1-4]$')), name='training_budget_quarter'), models.CheckConstraint(condition=models.Q(('currency', ''), _negated=True), name='training_budget_currency')],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_trainingbudget;"),
    ]
