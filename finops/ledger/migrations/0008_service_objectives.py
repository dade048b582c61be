"""Service level objectives of workloads, dated and append-only (method §5)."""

import django.db.models.deletion
import finops.ledger.models.fields
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_serviceobjective
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0007_nodes_and_stores'),
    ]

    operations = [
        migrations.CreateModel(
            name='ServiceObjective',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('first_token_seconds', finops.ledger.models.fields.NumericField(null=True)),
                ('inter_token_seconds', finops.ledger.models.fields.NumericField(null=True)),
                ('target', finops.ledger.models.fields.NumericField(help_text='The share that has to come in time, 0 to 1.')),
                ('valid_from', models.DateTimeField()),
                ('note', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='objectives', to='ledger.workload')),
            ],
            options={
                'indexes': [models.Index(fields=['workload', 'valid_from'], name='objective_in_force')],
                'constraints': [models.CheckConstraint(condition=models.Q(('first_token_seconds__isnull', False), ('inter_token_seconds__isnull', False), _connector='OR'), name='objective_has_a_threshold'), models.CheckConstraint(condition=models.Q(models.Q(('first_token_seconds__isnull', True), ('first_token_seconds__gt', 0), _connector='OR'), models.Q(('inter_token_seconds__isnull', True), ('inter_token_seconds__gt', 0), _connector='OR')), name='objective_thresholds_positive'), models.CheckConstraint(condition=models.Q(('target__gt', 0), ('target__lte', 1)), name='objective_target_is_a_share')],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_serviceobjective;"),
    ]
