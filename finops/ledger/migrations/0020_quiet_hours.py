"""Hours that a store answered whole and with nothing; append-only."""

import django.db.models.deletion
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_quiethour
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0019_origins'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuietHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('witness', models.TextField(blank=True)),
                ('witness_readings', models.IntegerField(default=0)),
                ('fetch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='quiet_hours', to='ledger.fetch')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('fetch', 'start'), name='quiet_hour_once'), models.CheckConstraint(condition=models.Q(('end__gt', models.F('start'))), name='quiet_hour_not_empty'), models.CheckConstraint(condition=models.Q(models.Q(('witness', ''), ('witness_readings', 0)), models.Q(models.Q(('witness', ''), _negated=True), ('witness_readings__gt', 0)), _connector='OR'), name='quiet_hour_witness_was_read')],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_quiethour;"),
    ]
