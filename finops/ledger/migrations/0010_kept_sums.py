"""Kept sums: lines of an invoice export that nothing looks at one by one, added up."""


from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0009_baseline_decisions'),
    ]

    operations = [
        migrations.AddField(
            model_name='charge',
            name='last_line',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='charge',
            name='line_count',
            field=models.BigIntegerField(db_default=1),
        ),
        migrations.AddField(
            model_name='reread',
            name='rows_summed',
            field=models.BigIntegerField(db_default=0, help_text='Lines that went into kept sums.'),
        ),
        migrations.AddField(
            model_name='snapshot',
            name='catalogue_seen',
            field=models.CharField(blank=True, help_text='The GPU catalogue that its kept sums were made under.', max_length=64),
        ),
        migrations.AddField(
            model_name='snapshot',
            name='rules_seen',
            field=models.BigIntegerField(help_text='The newest rule that its kept sums were made under.', null=True),
        ),
        migrations.AlterField(
            model_name='snapshot',
            name='charges',
            field=models.BigIntegerField(help_text='Lines, those in kept sums included.'),
        ),
        migrations.AddConstraint(
            model_name='charge',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('last_line__isnull', True), ('line_count', 1)), models.Q(('last_line__gte', models.F('line')), ('last_line__isnull', False), ('line_count__gte', 1)), _connector='OR'), name='charge_counts_its_lines'),
        ),
        migrations.AddConstraint(
            model_name='reread',
            constraint=models.CheckConstraint(condition=models.Q(('rows_summed__gte', 0)), name='reread_rows_summed'),
        ),
    ]
