"""Each column of the rows that figures come from, changed by one who switched the triggers off.

A column is either found or named here with the reason why nothing can tell: a new column has to be
decided on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from django.db import IntegrityError, connection, models

from finops.ledger.models import Charge
from finops.trail import operations as trail
from finops.trail.models import Entry
from reports.models import Report, ReportEvent, Seal
from reports.queries.verifying import verify_seals
from tests.evidence.conftest import Sealed
from tests.evidence.test_mutations import changed_and_found
from tests.reports.test_closing import command

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129
ROWS = 3

OTHER = {
    "category": "CASE {0} WHEN 'Usage' THEN 'Tax' ELSE 'Usage' END",
    "currency": "CASE {0} WHEN 'USD' THEN 'EUR' ELSE 'USD' END",
    "billing_period": "'2026-01'",
    "document_id": "reverse({0})",
    "line": "{0} + 100000",
    "kind": "'dismissed'",
}
"""Columns whose values are bound by a constraint."""
BY_TYPE: list[tuple[type[models.Field], str]] = [  # type: ignore[type-arg]
    (models.DateTimeField, "{0} + interval '1 microsecond'"),
    (models.JSONField, """coalesce({0}, '{{}}') || '{{"x": 1}}'"""),
    (models.BinaryField, "set_byte({0}, length({0}) / 2, get_byte({0}, length({0}) / 2) # 1)"),
    (models.BooleanField, "NOT {0}"),
    (
        models.CharField,
        "CASE WHEN coalesce({0}, '') = '' THEN 'x' ELSE overlay({0} placing 'y' from 1 for 1) END",
    ),
    (models.TextField, "coalesce({0}, '') || 'x'"),
    (models.ForeignKey, "{0} + 100000"),
    (models.Field, "coalesce({0}, 0) + 1"),
]
"""The smallest change of a value, by its type; null becomes a value."""


def columns(model: type[models.Model], untold: set[str]) -> list[tuple[str, str]]:
    """Each column that must be found, and the SQL of its changed value."""
    found = []
    for field in model._meta.concrete_fields:
        if isinstance(field, models.AutoField) or field.column in untold:
            continue
        change = OTHER.get(field.column) or next(c for t, c in BY_TYPE if isinstance(field, t))
        found.append((field.column, change.format(f'"{field.column}"')))
    return found


def keys(model: type[models.Model], drawn: random.Random, where: str = "true") -> list[object]:
    table, key = model._meta.db_table, model._meta.pk.column  # type: ignore[union-attr]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {key} FROM {table} WHERE {where} ORDER BY 1")
        found = [row[0] for row in cursor.fetchall()]
    assert found, table
    return drawn.sample(found, min(ROWS, len(found)))


def ledger_problems() -> list[str]:
    problems: list[str] = command("check-ledger")["problems"]
    return problems


def missed(
    model: type[models.Model],
    check: Callable[[], list[str]],
    *,
    untold: set[str],
    where: str = "true",
) -> Iterator[str]:
    """The changes of a table's rows that a check does not find."""
    drawn, table = random.Random(SEED), model._meta.db_table
    key = model._meta.pk.column  # type: ignore[union-attr]
    rows = keys(model, drawn, where)
    for column, change in columns(model, untold):
        for row in rows[: 1 if check is ledger_problems else ROWS]:
            sql = f'UPDATE {table} SET "{column}" = {change} WHERE {key} = %s'
            try:
                found = changed_and_found(sql, check, row)
            except IntegrityError:  # refused by the table's own constraints
                continue
            if not found:
                yield f"{table}.{column} of {row}"
    for row in rows:
        if not changed_and_found(f"DELETE FROM {table} WHERE {key} = %s", check, row):
            yield f"{table}: {row} deleted"


def test_each_column_of_a_charge(sealed: Sealed) -> None:
    assert ledger_problems() == []
    assert list(missed(Charge, ledger_problems, untold={"last_line", "line_count"})) == []


def test_each_column_of_the_trail(sealed: Sealed) -> None:
    newest = "number < (SELECT max(number) FROM trail_entry)"  # its loss is found by a seal alone
    assert list(missed(Entry, trail.verify, untold=set(), where=newest)) == []


def test_each_column_of_reports_and_seals(sealed: Sealed) -> None:
    assert verify_seals() == []
    found = [
        one for m in (Report, Seal, ReportEvent) for one in missed(m, verify_seals, untold=set())
    ]
    assert found == []
