"""Whatever is changed after the seal is found: packs, papers, statements, trail, database.

The places are drawn by a seed, so a failure can be repeated.
"""

from __future__ import annotations

import copy
import hashlib
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from finops.ledger.models import Document
from finops.ledger.operations import documents
from finops.ledger.which import use_ledger
from finops.trail import operations as trail
from finops.trail.guards import expected_guards, missing_guards
from reports.evidence import signing, verify
from reports.evidence.checking import check_file
from reports.evidence.printed import print_report
from reports.evidence.sealed import zip_bytes
from reports.queries.verifying import verify_seals
from tests.evidence.conftest import Sealed, unpacked
from tests.reports.helpers import NOW
from tests.reports.test_closing import WEEK, command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(databases=["default", "sample"]),
]
SEED = 20261129


def flipped(content: bytes, where: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[where] ^= 1 << bit
    return bytes(changed)


def problems_of(content: bytes, path: Path) -> list[str]:
    path.write_bytes(content)
    try:
        found: list[str] = check_file(path)["problems"]
    except ValueError as error:  # no longer a pack, record or PDF at all
        return [str(error)]
    return found


def test_every_flipped_bit_of_a_pack_is_found(sealed: Sealed, tmp_path: Path) -> None:
    content, drawn, path = sealed.pack(), random.Random(SEED), tmp_path / "pack.zip"
    assert problems_of(content, path) == []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
    places = [drawn.randrange(len(content)) for _ in range(120)]
    for entry in entries:  # some of the header and some of the content of every file
        first = entry.header_offset
        length = 30 + len(entry.filename) + entry.compress_size
        places += [drawn.randrange(first, first + 30 + len(entry.filename))]
        places += [drawn.randrange(first + 30, first + length) for _ in range(3)]
    assert len(places) > 200
    missed = [p for p in places if not problems_of(flipped(content, p, drawn.randrange(8)), path)]
    assert missed == []
    for shorter in (content[:-1], content[: len(content) // 2], content + b"\0", content[1:]):
        assert problems_of(shorter, path)


def test_a_pack_written_anew_around_a_changed_row_is_found(sealed: Sealed, tmp_path: Path) -> None:
    """Sums made again, the zip made again: the digests in the seal still tell."""
    files = unpacked(sealed.pack())
    drawn, path = random.Random(SEED), tmp_path / "pack.zip"
    names = [n for n in files if n != "SHA256SUMS" and files[n].count(b"\n") != 1]
    changed = {}
    for name in names:
        digits = [i for i, byte in enumerate(files[name]) if chr(byte).isdigit()]
        where = drawn.choice(digits or range(len(files[name])))
        changed[name] = flipped(files[name], where, 0)

    def told(*chosen: str) -> dict[str, Any]:
        path.write_bytes(written_anew(files | {name: changed[name] for name in chosen}))
        return check_file(path)

    texts = {"README.md", "IPE.md"}  # texts of a version: said, and no more
    columns = {name for name in names if name.endswith(".parquet")}
    for name in sorted({*names} - texts - columns):
        assert told(name)["problems"], name
    for name in sorted(texts):
        assert told(name)["not_checked"] == [name]
    # Of all columns at once each is named that tells other rows; of the others, a byte that no row
    # is made of is said, and no more.
    assert len(columns) > 20
    problems = told(*columns)["problems"]
    same = {name for name in columns if not any(name in problem for problem in problems)}
    rest = told(*same)
    assert rest["problems"] == [] and len(rest["notes"]) == len(same)
    assert all(any(name in note for note in rest["notes"]) for name in same)


def written_anew(files: dict[str, bytes]) -> bytes:
    """A pack of these files, whose sums are made again."""
    sums = {n: hashlib.sha256(c).hexdigest() for n, c in files.items() if n != "SHA256SUMS"}
    listed = "".join(f"{sums[n]}  {n}\n" for n in sorted(sums))
    return zip_bytes(files | {"SHA256SUMS": listed.encode()}, compressed=False)


def test_every_changed_figure_is_unequal_when_computed_again(sealed: Sealed) -> None:
    """Digests apart: the second computation alone finds a figure that the rows do not give."""
    pack = verify.Pack(unpacked(sealed.pack()))
    statement = sealed.stand.statement
    assert verify.recompute(pack, statement).wrong == []
    parts = (
        "figures",
        "workloads",
        "tieout",
        "allocation",
        "allocation_statement",
        "trend",
        "bridge_groups",
        "bridge",
        "memory",
    )
    parts += ("service_levels", "service_level", "training", "control_totals")
    places = [p for part in parts for p in numbers(statement[part], (part,))]
    assert len(places) > 100 and any("sums" in p for p in places)
    missed = []
    for place in places:
        changed = copy.deepcopy(statement)
        holder: Any = changed
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]]
        holder[place[-1]] = value + 1 if isinstance(value, int) else str(Decimal(value) + 1)
        if not verify.recompute(pack, changed).wrong:
            missed.append(place)
    assert missed == []


NOT_COMPUTED = ("reasons", "notes", "kv_bytes_per_token", "frozen_at", "previous")


def numbers(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers inside a value."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NOT_COMPUTED:
                yield from numbers(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers(inner, (*place, index))
    elif isinstance(value, int) or _is_decimal(value):
        yield place


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


@pytest.mark.parametrize("kind", ["record", "statement"])
def test_every_flipped_bit_of_a_record_is_found(sealed: Sealed, tmp_path: Path, kind: str) -> None:
    report = sealed.stand.report
    content = bytes(report.seal.record if kind == "record" else report.statement)
    drawn, path = random.Random(SEED), tmp_path / "record.json"
    assert problems_of(content, path) == []
    for _ in range(150):
        changed = flipped(content, drawn.randrange(len(content)), drawn.randrange(8))
        assert problems_of(changed, path)


def test_every_flipped_bit_of_a_paper_is_found(sealed: Sealed, tmp_path: Path) -> None:
    printed = print_report(sealed.stand, size="A4", by="Ben", at=NOW, sign=True)
    assert printed.signed is not None and printed.signed.startswith(printed.unsigned)
    drawn, path = random.Random(SEED), tmp_path / "report.pdf"
    command("report", WEEK, "--pdf", tmp_path / "letter.pdf", "--paper", "Letter")
    known = signing.printings_of(sealed.stand.report.seal)
    assert hashlib.sha256(printed.unsigned).hexdigest() in known and len(known) == 2
    for content in (printed.unsigned, printed.signed):
        assert problems_of(content, path) == []
        for _ in range(40):
            where = drawn.randrange(len(content))
            assert problems_of(flipped(content, where, drawn.randrange(8)), path), where
    tail = len(printed.signed) - len(printed.unsigned)
    for _ in range(40):  # the signature's own bytes
        where = len(printed.unsigned) + drawn.randrange(tail)
        assert problems_of(flipped(printed.signed, where, drawn.randrange(8)), path), where


@contextmanager
def unguarded() -> Iterator[Callable[..., int]]:
    """Runs SQL as one who has switched the triggers off; everything is undone afterwards."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")

        def run(sql: str, *values: Any) -> int:
            cursor.execute(sql, values)
            return int(cursor.rowcount)

        yield run
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
        transaction.set_rollback(True)


def changed_and_found(sql: str, check: Callable[[], list[str]], *values: Any) -> bool:
    with unguarded() as run:
        assert run(sql, *values) > 0, sql
        return bool(check())


def test_every_change_of_the_trail_is_found(sealed: Sealed) -> None:
    assert trail.verify() == [] and verify_seals() == []
    drawn = random.Random(SEED)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM trail_entry")
        count = cursor.fetchone()[0]
    anchored = (sealed.stand.seal or {})["trail"]["entries"]
    changes = [
        "UPDATE trail_entry SET actor = actor || 'x' WHERE number = %s",
        "UPDATE trail_entry SET action = upper(action) WHERE number = %s",
        "UPDATE trail_entry SET subject = subject || ' ' WHERE number = %s",
        "UPDATE trail_entry SET at = at + interval '1 microsecond' WHERE number = %s",
        """UPDATE trail_entry SET detail = detail || '{"x": 1}' WHERE number = %s""",
        "UPDATE trail_entry SET digest = reverse(digest) WHERE number = %s",
        "UPDATE trail_entry SET previous_digest = reverse(digest) WHERE number = %s",
    ]
    for sql in changes:
        for number in [1, count, *(drawn.randrange(1, count + 1) for _ in range(8))]:
            assert changed_and_found(sql, trail.verify, number), (sql, number)
    for number in range(1, count):  # a deleted row anywhere but at the end
        assert changed_and_found("DELETE FROM trail_entry WHERE number = %s", trail.verify, number)
    for number in range(1, anchored + 1):  # cut off at any point before the seal
        cut = "DELETE FROM trail_entry WHERE number >= %s"
        assert changed_and_found(cut, verify_seals, number)
    for number in range(1, count):  # two rows exchanged
        with unguarded() as run:
            run("ALTER TABLE trail_entry DROP CONSTRAINT trail_numbers_from_one")
            for old, new in ((number, -1), (number + 1, number), (-1, number + 1)):
                run("UPDATE trail_entry SET number = %s WHERE number = %s", new, old)
            assert trail.verify()


REPORT_CHANGES = [
    "UPDATE reports_report SET statement = set_byte(statement, {byte}, get_byte(statement, {byte}) # 1)",
    "UPDATE reports_report SET digest = reverse(digest)",
    "UPDATE reports_report SET headline = headline || '.'",
    """UPDATE reports_report SET figures = jsonb_set(figures, '{{prompt_tokens}}', '1')""",
    "UPDATE reports_report SET prepared_by = 'Ben'",
    "UPDATE reports_report SET reason = 'x'",
    "UPDATE reports_report SET method_version = '2'",
    "UPDATE reports_report SET revision = 7",
    "UPDATE reports_seal SET record = set_byte(record, {byte}, get_byte(record, {byte}) # 1)",
    "UPDATE reports_seal SET digest = reverse(digest)",
    "UPDATE reports_seal SET previous_digest = digest",
    "UPDATE reports_seal SET by = 'Ada'",
    "UPDATE reports_seal SET at = at + interval '1 second'",
    "UPDATE reports_seal SET number = 2",
    "UPDATE reports_reportevent SET by = 'Ada' WHERE kind = 'approved'",
    "UPDATE reports_reportevent SET comment = 'x' WHERE kind = 'approved'",
    "UPDATE reports_reportevent SET at = at + interval '1 second' WHERE kind = 'closed'",
    "DELETE FROM reports_reportevent WHERE kind = 'approved'",
]


def test_every_change_of_reports_and_seals_is_found(sealed: Sealed) -> None:
    drawn = random.Random(SEED)
    size = min(
        len(bytes(sealed.stand.report.statement)), len(bytes(sealed.stand.report.seal.record))
    )
    for sql in REPORT_CHANGES:
        for _ in range(30 if "{byte}" in sql else 1):
            assert changed_and_found(sql.format(byte=drawn.randrange(size)), verify_seals), sql


LEDGER_CHANGES = [
    "UPDATE ledger_charge SET billed_cost = billed_cost + 0.01 WHERE id = (SELECT min(id) FROM ledger_charge)",
    "UPDATE ledger_charge SET effective_cost = effective_cost * 2 WHERE effective_cost <> 0",
    "DELETE FROM ledger_charge WHERE id = (SELECT max(id) FROM ledger_charge)",
    "UPDATE ledger_charge SET currency = 'EUR' WHERE id = (SELECT min(id) FROM ledger_charge)",
    "UPDATE ledger_tokenhour SET tokens = tokens + 1 WHERE id = (SELECT min(id) FROM ledger_tokenhour WHERE tokens > 0)",
    "UPDATE ledger_tokenhour SET restarts = restarts + 1 WHERE id = (SELECT min(id) FROM ledger_tokenhour WHERE tokens > 0)",
    "DELETE FROM ledger_tokenhour WHERE id = (SELECT min(id) FROM ledger_tokenhour WHERE tokens > 0)",
    "DELETE FROM ledger_readingblock WHERE id = (SELECT min(id) FROM ledger_readingblock)",
    "UPDATE ledger_document SET rows_read = rows_read + 1 WHERE charges > 0",
    "UPDATE ledger_snapshot SET charges = charges + 1",
]


@pytest.mark.parametrize("sql", LEDGER_CHANGES)
def test_every_change_of_the_ledger_is_found(sealed: Sealed, sql: str) -> None:
    def check() -> list[str]:
        problems: list[str] = command("check-ledger")["problems"]
        return problems

    assert changed_and_found(sql, check)


def test_changed_bytes_in_the_store_are_found(sealed: Sealed) -> None:
    drawn = random.Random(SEED)
    for one in Document.objects.all():
        path = documents.stored(one.pk)
        content = path.read_bytes()
        path.write_bytes(flipped(content, drawn.randrange(len(content)), drawn.randrange(8)))
        assert any(one.name in problem for problem in command("check-ledger")["problems"])
        path.write_bytes(content)


def test_a_trigger_that_is_off_is_said() -> None:
    with use_ledger("default"):
        guards_are_missed_when_off()


def guards_are_missed_when_off() -> None:
    assert missing_guards() == []
    for table, name in sorted(expected_guards()):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DROP EVENT TRIGGER trail_guards_switched")  # it refuses the trail's
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {name}")
            found = missing_guards()
            assert any(table in problem and name in problem for problem in found), table
            transaction.set_rollback(True)
