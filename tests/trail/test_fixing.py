"""Fixing rows: no number up to the highest lies outside all ranges, and nobody is held up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from finops.ledger.models import RejectedRow, Snapshot
from finops.ledger.operations import charges
from finops.ledger.operations.ingest import ingest
from finops.trail import fingerprints
from finops.trail.fingerprints import Busy, changed_rows, fix_rows
from finops.trail.models import Entry
from tests.ledger.focus_files import focus_file
from tests.trail.test_fingerprints import NOW, document, rejected

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@contextmanager
def another() -> Iterator[psycopg.Connection]:
    """A connection of somebody else to the same database."""
    said = connection.get_connection_params()
    kept = {key: said[key] for key in ("host", "port", "user", "password", "dbname") if key in said}
    with psycopg.connect(**kept) as other:
        yield other


def of_numbers(numbers: list[int]) -> None:
    """Rows that have these numbers, as when those between were drawn and never written."""
    one = document(f"{random.Random(numbers[0]).randrange(16):x}")
    RejectedRow.objects.bulk_create(
        RejectedRow(pk=n, document=one, line=n, column="c", value="v", reason="r") for n in numbers
    )


def slipped_in(number: int) -> list[str]:
    """What is told of a row that is slipped in, and taken out again."""
    of = RejectedRow.objects.first()
    assert of is not None
    with transaction.atomic():
        RejectedRow.objects.create(
            pk=number, document_id=of.document_id, line=1, column="c", value="v", reason="r"
        )
        told = list(changed_rows())
        transaction.set_rollback(True)
    return told


def locks_on_tables() -> set[str]:
    """The locks by which this transaction keeps others from writing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relation::regclass::text FROM pg_locks JOIN pg_class ON oid = relation WHERE "
            "pid = pg_backend_pid() AND mode = 'ShareLock' AND relname ~ '^(ledger|reports)_'"
        )
        return {table for (table,) in cursor.fetchall()}


def test_a_row_slipped_into_any_gap_of_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "ROWS_A_DIGEST", 4)
    first, second = [1_000_010, 1_000_011, 1_000_050], [1_000_090, 1_000_101]
    of_numbers(first)
    fix_rows(by="Ada", at=NOW)
    of_numbers(second)
    entry = fix_rows(by="Ada", at=NOW)
    assert list(changed_rows()) == []
    assert entry is not None
    ranges = entry.detail["tables"]["ledger_rejectedrow"]["ranges"]
    assert [one[:3] for one in ranges] == [[1_000_051, 1_000_093, 1], [1_000_094, 1_000_101, 1]]
    before, in_between = [-7, 0, 1, 1_000_009], [1_000_012, 1_000_030, 1_000_049]
    between_two, in_an_empty_stretch = [1_000_051, 1_000_089], [1_000_095, 1_000_100]
    for number in (*before, *in_between, *between_two, *in_an_empty_stretch):
        assert len(slipped_in(number)) == 1, number
    assert "from the first to 1000013 are now 3" in " ".join(slipped_in(0))
    assert slipped_in(1_000_102) == [], "it is the next new row"


@pytest.mark.parametrize("seed", range(5))
def test_ranges_cover_every_number_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(seed)
    monkeypatch.setattr(fingerprints, "ROWS_A_DIGEST", drawn.choice([1, 3, 10]))
    start = 1_000_000 * (seed + 1)
    numbers = sorted(drawn.sample(range(start, start + 200), 30))
    for part in (numbers[:7], numbers[7:8], numbers[8:]):
        of_numbers(part)
        fix_rows(by="Ada", at=NOW)
    told = [e.detail["tables"]["ledger_rejectedrow"] for e in Entry.objects.order_by("number")]
    ranges = [one for entry in told for one in entry["ranges"]]
    assert ranges[0][0] is None and ranges[-1][1] == numbers[-1]
    assert all(after[0] == one[1] + 1 for one, after in pairwise(ranges))
    assert sum(one[2] for one in ranges) == 30 and all(one[2] > 0 for one in ranges)


def test_others_can_write_while_digests_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected(document("a"), 3)
    seen: list[set[str]] = []
    computed = fingerprints._range

    def watched(*values: object) -> tuple[int, str]:
        seen.append(locks_on_tables())
        return computed(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(fingerprints, "_range", watched)
    assert fix_rows(by="Ada", at=NOW) is not None
    assert seen == [set()] and locks_on_tables() == set()


def test_one_who_writes_is_not_waited_for_and_does_not_wait() -> None:
    with another() as other:
        other.execute("LOCK TABLE ledger_rule IN ROW EXCLUSIVE MODE")  # as every insert does
        with pytest.raises(Busy):
            fix_rows(by="Ada", at=NOW, wait_seconds=0)
        assert locks_on_tables() == set()
        other.execute("SET LOCAL lock_timeout = '5s'")
        other.execute("LOCK TABLE ledger_charge IN ROW EXCLUSIVE MODE")
        other.rollback()
    rejected(document("a"), 1)
    assert fix_rows(by="Ada", at=NOW, wait_seconds=0) is not None


@pytest.mark.django_db(databases=["default", "sample"], transaction=True)
def test_a_lost_connection_is_not_said_to_be_others_writing() -> None:
    with another() as other, connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        other.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
    try:
        with pytest.raises(OperationalError):
            fix_rows(by="Ada", at=NOW, wait_seconds=0)
    finally:
        connection.close()


@pytest.mark.django_db(databases=["default", "sample"], transaction=True)
def test_no_snapshot_gets_a_number_that_a_fixing_could_overtake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot's number is drawn long before its row is written: it holds its table before."""
    held: list[bool] = []
    draw = charges._next_snapshot_id

    def watched() -> int:
        with another() as other, pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("LOCK TABLE ledger_snapshot IN SHARE MODE NOWAIT")
        held.append(True)
        return draw()

    monkeypatch.setattr(charges, "_next_snapshot_id", watched)
    ingest([str(focus_file(tmp_path / "a.csv", {"ResourceId": "i-1"}))], by="Ada", at=NOW)
    assert held == [True] and Snapshot.objects.count() == 1


def test_tables_without_numbers_are_read_once_in_a_run() -> None:
    for letter in "abc":
        rejected(document(letter), 1)
        fix_rows(by="Ada", at=NOW)
    with CaptureQueriesContext(connection) as asked:
        assert list(changed_rows()) == []
    told = [one["sql"] for one in asked if "::text, encode(sha256" in one["sql"]]
    columns = [one["sql"] for one in asked if "pg_attribute" in one["sql"]]
    assert len(told) == 1 and len(columns) == 2
