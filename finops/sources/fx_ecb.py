"""The European Central Bank's reference rates, as its CSV or XML files give them (method §3.9)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Final

from finops.sources import currencies
from finops.sources.cells import number
from finops.sources.files import csv_rows, read_whole
from finops.sources.records import Account, FxRateRecord, Parsed, Refused, Rejection
from finops.sources.rows import header_of

FORMAT: Final = "fx-ecb"
FORMATS: Final[tuple[str, ...]] = (FORMAT,)
BASE: Final = "EUR"
LARGEST_BYTES: Final = 64 * 1024 * 1024

_CODE: Final = re.compile(r"[A-Z]{3}")
_DAY: Final = re.compile(
    r"""time=["']([^"']*)["']|currency=["']([^"']*)["']\s+rate=["']([^"']*)["']"""
)
_NOTHING: Final = ("", "N/A", "-")
_ENOUGH_CODES: Final = 3


def recognises(head: bytes, name: str) -> str | None:
    """`fx-ecb` for the bank's XML envelope, or a CSV of a date and currency codes."""
    if b"eurofxref" in head or (b"<Cube" in head and b"rate=" in head):
        return FORMAT
    header = [column.strip() for column in header_of(head)]
    codes = [column for column in header[1:] if column]
    is_table = bool(header) and header[0] == "Date" and len(codes) >= _ENOUGH_CODES
    return FORMAT if is_table and all(map(_CODE.fullmatch, codes)) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """One record for each currency and day; days without a rate are left out."""
    account = Account(format)
    with path.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith(b"<"):
        text = read_whole(path, name, LARGEST_BYTES).decode("utf-8", "replace")
        return Parsed(account, _from_xml(text, name, account))
    return Parsed(account, _from_csv(path, name, account))


def _from_csv(path: Path, name: str, account: Account) -> Iterator[FxRateRecord | Rejection]:
    rows = csv_rows(path, name)
    header = [column.strip() for column in next(rows, (1, [""]))[1]]
    if header[0] != "Date":
        raise Refused(
            f"{name}: line 1: the first column is {header[0][:40]!r}, not Date",
            line=1,
            column="Date",
            value=header[0],
        )
    for line, cells in rows:
        for code, cell in zip(header[1:], cells[1:], strict=False):
            if code and cell.strip() not in _NOTHING:
                account.rows_read += 1
                yield _record(line, cells[0], code, cell)


def _from_xml(text: str, name: str, account: Account) -> Iterator[FxRateRecord | Rejection]:
    day, line, counted = "", 1, 0
    for found in _DAY.finditer(text):
        if found.group(1) is not None:
            day = found.group(1)
            continue
        account.rows_read += 1
        line += text.count("\n", counted, found.start())
        counted = found.start()
        yield _record(line, day, found.group(2), found.group(3))
    if not account.rows_read:
        raise Refused(f"{name}: no rates in it")


def _record(line: int, day: str, code: str, cell: str) -> FxRateRecord | Rejection:
    try:
        when = _date(day.strip())
    except ValueError:
        return Rejection.of(line, "Date", day, "not a date (YYYY-MM-DD)")
    reason = currencies.refusal(code)
    if reason:
        return Rejection.of(line, "currency", code, reason)
    try:
        rate = number(cell.strip())
    except ValueError as error:
        return Rejection.of(line, code, cell, str(error))
    if rate <= 0:
        return Rejection.of(line, code, cell, "a rate must be more than 0")
    return FxRateRecord(line, BASE, code, when, rate)


def _date(text: str) -> date:
    if not text.isascii():  # strptime reads the digits of every script
        raise ValueError("not a date")
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.strptime(text, "%d %B %Y").date()  # noqa: DTZ007 - a day has no zone
