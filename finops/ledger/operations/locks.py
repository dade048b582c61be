"""Advisory locks of the ledger in use, by name, held until the transaction ends."""

from __future__ import annotations

from django.db import connections

from finops.ledger.which import ledger_name


def lock(*names: str) -> None:
    """Waits until no other transaction of this ledger holds the lock of these names.

    To be taken in sorted order where a transaction takes several of a kind.
    """
    _take("pg_advisory_xact_lock", names)


def lock_shared(*names: str) -> None:
    """Waits until no other transaction holds the lock alone; others may share it."""
    _take("pg_advisory_xact_lock_shared", names)


def _take(function: str, names: tuple[str, ...]) -> None:
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtextextended(%s, 0))", ["\x1f".join(names)])
