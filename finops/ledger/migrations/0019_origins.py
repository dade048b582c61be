"""Other places that the bytes of a document came from; append-only."""

import django.db.models.deletion
from django.db import migrations, models

# The function stands since 0002_append_only.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_origin
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0018_catalogue_seen_of_all'),
    ]

    operations = [
        migrations.CreateModel(
            name='Origin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField()),
                ('origin', models.TextField(help_text='Path or URL it came from, never with credentials.')),
                ('source', models.CharField(blank=True, max_length=80)),
                ('at', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='origins', to='ledger.document')),
            ],
        ),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER append_only ON ledger_origin;"),
    ]
