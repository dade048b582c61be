"""Parts of windows that several workers read of one source; append-only."""

import django.db.models.deletion
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_fetchedpart
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0014_device_hour_holders'),
    ]

    operations = [
        migrations.CreateModel(
            name='FetchedPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('window_start', models.DateTimeField()),
                ('window_end', models.DateTimeField()),
                ('part', models.SmallIntegerField()),
                ('parts', models.SmallIntegerField()),
                ('at', models.DateTimeField()),
                ('notes', models.JSONField(default=list)),
                ('series', models.IntegerField()),
                ('readings', models.BigIntegerField()),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='fetched_parts', to='ledger.document')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='fetched_parts', to='ledger.source')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('window_end__gt', models.F('window_start'))), name='fetched_part_window_not_empty'), models.CheckConstraint(condition=models.Q(('part__gte', 1), ('part__lte', models.F('parts')), ('parts__gte', 2)), name='fetched_part_of_several'), models.UniqueConstraint(fields=('source', 'window_start', 'window_end', 'parts', 'part', 'document'), name='fetched_part_once')],
            },
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_fetchedpart;"),
    ]
