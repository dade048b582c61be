"""A block of readings may hold the hours of half a UTC day, never more; blocks of one hour stay as they are."""

from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("ledger", "0021_workload_rate_cap")]

    operations = [
        migrations.AddConstraint(
            model_name="readingblock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    last_ms__lt=(models.F("first_ms") / 43_200_000 + 1) * 43_200_000
                ),
                name="reading_block_within_half_day",
            ),
        ),
    ]
