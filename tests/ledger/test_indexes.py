"""The tables with most rows keep no index that another one contains: each costs every row."""

from __future__ import annotations

import pytest
from django.db import connection

pytestmark = pytest.mark.django_db

TABLES = (
    "ledger_readingblock",
    "ledger_tokenhour",
    "ledger_cachehour",
    "ledger_devicehour",
    "ledger_charge",
)


@pytest.mark.parametrize("table", TABLES)
def test_no_index_is_contained_in_another(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, indkey::text, indisunique FROM pg_index "
            "WHERE indrelid = %s::regclass AND indpred IS NULL AND indexprs IS NULL",
            [table],
        )
        indexes = {name: (key.split(), unique) for name, key, unique in cursor.fetchall()}
    assert indexes
    contained = [
        (name, other)
        for name, (columns, unique) in indexes.items()
        for other, (more, _) in indexes.items()
        if name != other and not unique and more[: len(columns)] == columns
    ]
    assert contained == []
