"""Tables that only grow: the database itself refuses UPDATE, DELETE and TRUNCATE on them."""

from django.db import migrations

TABLES = [
    "baseline",
    "cachehour",
    "charge",
    "delivery",
    "document",
    "fetch",
    "invoiceamount",
    "periodconfirmation",
    "readingblock",
    "rejectedrow",
    "rule",
    "snapshot",
    "snapshotdecision",
    "snapshotdocument",
    "tokenhour",
    "usagehour",
]

FUNCTION = """
CREATE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % is refused; correct by adding a row', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation';
END $$;
"""

# For each statement, not each row: a statement that would change nothing is a mistake as well.
TRIGGER = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_{table}
FOR EACH STATEMENT EXECUTE FUNCTION ledger_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION ledger_append_only();"),
        *(
            migrations.RunSQL(
                TRIGGER.format(table=table), f"DROP TRIGGER append_only ON ledger_{table};"
            )
            for table in TABLES
        ),
    ]
