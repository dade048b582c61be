"""Fixing rows: no number up to the highest lies outside all ranges, and nobody is held up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Timer

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from finops.ledger.models import RejectedRow, Snapshot
from finops.ledger.operations import charges
from finops.ledger.operations.ingest import ingest
from finops.trail import fingerprints
from finops.trail.fingerprints import Busy, changed_rows, fix_rows, fixed_tables
from finops.trail.models import Entry
from finops.trail.operations import record
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
            "SELECT relname FROM pg_locks JOIN pg_class ON oid = relation WHERE "
            "pid = pg_backend_pid() AND mode ~ '^(Share|Exclusive|AccessExclusive)' "
            "AND mode <> 'ShareUpdateExclusiveLock' AND relname ~ '^(ledger|reports)_'"
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


def insert(other: psycopg.Connection) -> int:
    """A row of somebody else, not committed; its number."""
    row = other.execute(
        'INSERT INTO ledger_rejectedrow (document_id, line, "column", value, reason) '
        "VALUES (repeat('a', 64), 1, 'c', 'v', 'r') RETURNING id"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.django_db(databases=["default", "sample"], transaction=True)
def test_a_row_on_its_way_is_waited_for_or_its_table_left_to_the_next_time() -> None:
    one = document("a")
    rejected(one, 1)
    with another() as other:
        number = insert(other)
        rejected(one, 1)  # a higher number, and seen before the lower one
        first = fix_rows(by="Ada", at=NOW, wait_seconds=0)
        assert first is not None and first.detail["left"] == ["ledger_rejectedrow"]
        assert set(first.detail["tables"]) == {"ledger_document"}
        with pytest.raises(Busy, match="ledger_rejectedrow"):
            fix_rows(by="Ada", at=NOW, wait_seconds=0)
        call_command("trail")
        late = Timer(0.5, other.commit)
        late.start()
        second = fix_rows(by="Ada", at=NOW)
        late.join()
    assert second is not None and "left" not in second.detail
    ((_, last, rows, _),) = second.detail["tables"]["ledger_rejectedrow"]["ranges"]
    assert rows == 3 and last == number + 1 and list(changed_rows()) == []


@pytest.mark.django_db(databases=["default", "sample"], transaction=True)
def test_who_begins_to_write_later_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected(document("a"), 2)
    with another() as other, another() as later:
        insert(other)
        asked = fingerprints._writers

        def and_then(*values: object) -> set[tuple[str, str]]:
            found = asked(*values)  # type: ignore[arg-type]
            if later.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                insert(later)
                other.commit()
            return found

        monkeypatch.setattr(fingerprints, "_writers", and_then)
        entry = fix_rows(by="Ada", at=NOW, wait_seconds=60)
        later.commit()
    assert entry is not None and "left" not in entry.detail
    assert entry.detail["tables"]["ledger_rejectedrow"]["ranges"][0][2] == 2
    assert list(changed_rows()) == [], "both rows of the others came after, and higher"
    fix_rows(by="Ada", at=NOW)
    told = Entry.objects.latest("number").detail["tables"]["ledger_rejectedrow"]["ranges"]
    assert sum(one[2] for one in told) == 2 and list(changed_rows()) == []


def test_holes_that_earlier_versions_left_are_closed_by_fixing_once_more() -> None:
    of_numbers([1_000_010, 1_000_020])
    columns = next(list(o.columns) for o in fixed_tables() if o.table == "ledger_rejectedrow")
    said = {"columns": columns, "ranges": [[1_000_010, 1_000_020, 2, "0" * 64]]}
    old = {"tables": {"ledger_rejectedrow": said}}
    record(at=NOW, actor="Ada", action="rows fixed", subject="ledger", detail=old)
    entry = fix_rows(by="Ada", at=NOW)
    assert entry is not None
    (closed,) = entry.detail["tables"]["ledger_rejectedrow"]["ranges"]
    assert closed[:3] == [None, 1_000_020, 2] and fix_rows(by="Ada", at=NOW) is None


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
