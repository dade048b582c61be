"""Reads a FOCUS file in bulk and line by line, and holds the one to the other.

The expected sums are added here with Python's Decimal from what the line-by-line parser reads.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal, Inexact
from pathlib import Path

import pytest

from finops.core.allocation import OUT_OF_SCOPE, Place, Rule, charge_matchers
from finops.core.matching import parse_matchers
from finops.sources import bulk_chunks, focus, focus_bulk
from finops.sources.bulk_table import LINE, KeptTable, SumsTable
from finops.sources.records import ChargeRecord, Rejection
from finops.sources.summing import AMOUNTS, DIMENSIONS, is_summable
from tests.ledger.focus_files import focus_text

EXACT = Context(prec=300, traps=[Inexact])

Sums = dict[tuple[object, ...], list[Decimal | int | None]]


def rule(text: str) -> Rule:
    return Rule(1, 1, 1, "charge", Place(OUT_OF_SCOPE), charge_matchers(parse_matchers(text)))


def reached(record: ChargeRecord, rules: Iterable[Rule]) -> bool:
    """By the columns of the record itself, as a rule would see its charge."""
    names = {"account": "billing_account", "class": "charge_class"}

    class Columns(dict[str, str | None]):
        def get(self, name: str, default: object = None) -> str | None:  # type: ignore[override]
            if name.startswith("tag:"):
                return record.tags.get(name[4:])
            return getattr(record, names.get(name, name), None)

    return any(one.reaches(Columns()) for one in rules)


def summed(records: Iterable[ChargeRecord]) -> Sums:
    """Lines or sums of lines by what a sum keeps, added exactly; counts and places of lines."""
    found: Sums = {}
    for one in records:
        amounts = [getattr(one, name) for name in AMOUNTS]
        key = (*(getattr(one, name) for name in DIMENSIONS), *(a is None for a in amounts))
        known = found.setdefault(key, [*(None if a is None else Decimal(0) for a in amounts), 0])
        for place, amount in enumerate(amounts):
            if amount is not None:
                known[place] = EXACT.add(Decimal(known[place] or 0), amount)
        known[4] = int(known[4] or 0) + one.line_count
    return found


def told(records: Iterable[object]) -> Iterator[object]:
    """All records, those of tables too; lines and totals of a table must say the same as these."""
    for one in records:
        if isinstance(one, SumsTable):
            sums = list(one.records())
            endings = {kind.key: f"\t{shared(kind.total)!a}\n" for kind in one.kinds}
            lines = "".join(one.lines(endings)).splitlines()
            assert sorted(lines) == sorted(as_line(each) for each in sums)
            assert sum(kind.sums for kind in one.kinds) == len(sums)
            assert merged(kind.total for kind in one.kinds) == merged(sums)
            yield from sums
        elif isinstance(one, KeptTable):
            kept = list(one.records())
            endings = {kind.key: f"\t{rest(one, kind.total)!a}\n" for kind in one.kinds}
            lines = "".join(one.lines(endings)).removesuffix("\n").split("\n")
            assert [cells(line) for line in lines] == [as_cells(one, each) for each in kept]
            assert sum(kind.sums for kind in one.kinds) == len(kept)
            assert gathered(one, (kind.total for kind in one.kinds)) == gathered(one, kept)
            yield from kept
        else:
            yield one


def rest(table: KeptTable, record: ChargeRecord) -> list[object]:
    """What a line's ending has to tell: all that the line does not."""
    names = [one.name for one in dataclasses.fields(record)]
    return [getattr(record, n) for n in names if n not in (*table.fields, "line_count")]


def cells(line: str) -> list[object]:
    """The cells of a line of COPY's text form, amounts as Decimal."""
    *told, ending = line.split("\t")
    found: list[object] = [None if cell == r"\N" else unescaped(cell) for cell in told]
    for place in range(3, 3 + 8):
        text = found[place]
        found[place] = None if text is None else str(Decimal(str(text)))
    return [*found, ending]


def unescaped(cell: str) -> str:
    signs = {r"\\": "\\", r"\t": "\t", r"\n": "\n", r"\r": "\r"}
    return re.sub(r"\\.", lambda found: signs[found[0]], cell)


def as_cells(table: KeptTable, record: ChargeRecord) -> list[object]:
    """The same of a record."""
    found: list[object] = []
    for name in table.fields:
        value = getattr(record, name)
        if name == "tags":
            value = json.dumps(value, ensure_ascii=False)
        found.append(None if value is None else str(value))
    return [*found, ascii(rest(table, record))]


def gathered(table: KeptTable, records: Iterable[ChargeRecord]) -> dict[str, list[object]]:
    """What lines come to that differ in nothing but what a line tells."""
    found: dict[str, list[ChargeRecord]] = defaultdict(list)
    for one in records:
        found[ascii(rest(table, one))].append(one)
    return {
        key: [
            min(one.line for one in each),
            sum(one.line_count for one in each),
            min(one.charge_period_start for one in each),
            max(one.charge_period_end for one in each),
            *(str(known(getattr(one, name) for one in each)) for name in AMOUNTS),
        ]
        for key, each in found.items()
    }


def known(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of what is known."""
    return added(amount for amount in amounts if amount is not None)


def shared(record: ChargeRecord) -> list[object]:
    """What all sums of a kind have in common."""
    return [getattr(record, name) for name in DIMENSIONS if name not in LINE]


def as_line(record: ChargeRecord) -> str:
    amounts = (getattr(record, name) for name in AMOUNTS)
    plain = ["\\N" if amount is None else f"{amount:f}" for amount in amounts]
    texts = [str(getattr(record, name)) for name in LINE[:5]]
    return "\t".join((*texts, *plain, ascii(shared(record))))


def merged(records: Iterable[ChargeRecord]) -> dict[str, list[object]]:
    """What records come to that differ in their lines and charge periods alone."""
    found: dict[str, list[ChargeRecord]] = defaultdict(list)
    for one in records:
        unknown = [getattr(one, name) is None for name in AMOUNTS]
        found[ascii((shared(one), unknown))].append(one)
    return {
        key: [
            min(one.line for one in each),
            max(one.last_line or 0 for one in each),
            sum(one.line_count for one in each),
            min(one.charge_period_start for one in each),
            max(one.charge_period_end for one in each),
            *(str(added(getattr(one, name) for one in each)) for name in AMOUNTS),
        ]
        for key, each in found.items()
    }


def added(amounts: Iterable[Decimal | None]) -> Decimal | None:
    total: Decimal | None = None
    for amount in amounts:
        total = amount if total is None or amount is None else EXACT.add(total, amount)
    return total


def both_ways(
    path: Path, rules: Iterable[Rule] = (), threads: int = 1
) -> tuple[list[ChargeRecord], list[ChargeRecord], list[Rejection], list[str]]:
    """Reads a file both ways and compares; the lines kept whole, the sums, rejections, warnings."""
    rules = list(rules)
    slow = list(focus.parse(path, path.name, "focus").records)
    parsed = focus_bulk.parse(path, path.name, "focus", rules, threads)
    fast = list(told(parsed.records))

    def whole(records: Iterable[object]) -> list[ChargeRecord]:
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        kept = [one for one in charges if one.last_line is None]
        return [one for one in kept if not is_summable(one) or reached(one, rules)]

    def loose(records: Iterable[object]) -> list[ChargeRecord]:
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        return [one for one in charges if one not in kept_whole]

    kept_whole = whole(slow)
    assert sorted(whole(fast), key=lambda one: one.line) == kept_whole
    rejections = [one for one in slow if isinstance(one, Rejection)]
    found = [one for one in fast if isinstance(one, Rejection)]
    assert sorted(found, key=lambda one: one.line) == rejections
    assert summed(loose(fast)) == summed(loose(slow))
    assert parsed.account.rows_read == len(slow)
    sums = [one for one in fast if isinstance(one, ChargeRecord) and one.last_line is not None]
    return kept_whole, sums, rejections, parsed.account.warnings


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that a test has several; for every test of a module that names it."""
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1500)


def written(folder: Path, *rows: Mapping[str, str], packed: bool = False) -> Path:
    text = focus_text(rows).encode()
    path = folder / ("lines.csv.gz" if packed else "lines.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


def parquet(folder: Path, select: str) -> Path:
    import duckdb

    path = folder / "lines.parquet"
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


COMMON = """
    'Cloud Ltd' AS InvoiceIssuerName, '1' AS BillingAccountId, 'USD' AS BillingCurrency,
    'Usage' AS ChargeCategory, 'Compute' AS ServiceName, 's' || (i % 3) AS SubAccountId,
    CASE WHEN i % 10 = 7 THEN 'H100 GPU hours' ELSE 'hours' END AS ChargeDescription,
    MAP {'team': 'chat'} AS Tags
"""
TIMES = """
    TIMESTAMP '2026-10-01' AS BillingPeriodStart, TIMESTAMP '2026-11-01' AS BillingPeriodEnd,
    TIMESTAMP '2026-10-05 10:00:00' + to_hours((i % 4)::INT) AS ChargePeriodStart,
    TIMESTAMP '2026-10-05 11:00:00' + to_hours((i % 4)::INT) AS ChargePeriodEnd
"""
