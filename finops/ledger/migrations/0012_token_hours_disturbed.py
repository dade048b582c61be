"""An index of the few token hours with a restart or the end of a gap, for the map of hours."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_training_budgets")]

    operations = [
        migrations.AddIndex(
            model_name="tokenhour",
            index=models.Index(
                fields=["hour", "series"],
                condition=models.Q(restarts__gt=0) | models.Q(facts__has_key="gaps"),
                name="token_hour_disturbed",
            ),
        ),
    ]
