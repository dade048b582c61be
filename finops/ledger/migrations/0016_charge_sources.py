"""Charges point to snapshots and documents that are there: seen once a statement, not once a row.

Two foreign keys cost a look-up of each for every row, which was a third of the database's work on a
long bill. Snapshots and documents are never deleted, so that only new charges can point to nothing:
each statement adds the pairs it brings to the snapshots' documents, whose own foreign keys are
checked at the end of the transaction.
"""

import django.db.models.deletion
from django.db import migrations, models

FUNCTION = """
CREATE FUNCTION ledger_charge_sources() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_snapshotdocument (snapshot_id, document_id)
  SELECT DISTINCT snapshot_id, document_id FROM added
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
"""
TRIGGER = """
CREATE TRIGGER charge_sources AFTER INSERT ON ledger_charge REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION ledger_charge_sources();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0015_fetched_parts")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION ledger_charge_sources();"),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER charge_sources ON ledger_charge;"),
        migrations.AlterField(
            model_name="charge",
            name="document",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="lines",
                to="ledger.document",
            ),
        ),
        migrations.AlterField(
            model_name="charge",
            name="snapshot",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="lines",
                to="ledger.snapshot",
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(fields=["document"], name="charge_document"),
        ),
    ]
