"""Indexes that others contain are gone from the tables with most rows.

A series' blocks and hours, and a target's device hours, are found by the unique constraints that
begin with it. A document's blocks keep one index; the one for patterns was of no use.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0016_charge_sources'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='readingblock',
            index=models.Index(fields=['document'], name='reading_block_document'),
        ),
        migrations.AlterField(
            model_name='cachehour',
            name='series',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='cache_hours', to='ledger.series'),
        ),
        migrations.AlterField(
            model_name='devicehour',
            name='target',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='device_hours', to='ledger.target'),
        ),
        migrations.AlterField(
            model_name='readingblock',
            name='document',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='blocks', to='ledger.document'),
        ),
        migrations.AlterField(
            model_name='readingblock',
            name='series',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='blocks', to='ledger.series'),
        ),
        migrations.AlterField(
            model_name='tokenhour',
            name='series',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='hours', to='ledger.series'),
        ),
    ]
