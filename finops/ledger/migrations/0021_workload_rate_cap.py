"""A declared rate is more than nothing, and what it is of."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0020_quiet_hours'),
    ]

    operations = [
        migrations.AlterField(
            model_name='workload',
            name='rate_cap_tokens_per_second',
            field=models.BigIntegerField(blank=True, help_text='Fastest rise of one token counter of one engine, for upper bounds (§2.6).', null=True),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.CheckConstraint(condition=models.Q(('rate_cap_tokens_per_second__isnull', True), ('rate_cap_tokens_per_second__gt', 0), _connector='OR'), name='workload_rate_cap_positive'),
        ),
    ]
