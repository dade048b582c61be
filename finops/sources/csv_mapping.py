"""CSV files of no known format, read by a saved mapping of their columns to FOCUS (`csv:NAME`).

A mapping names the FOCUS columns that each column of the file stands for, constants for what the
file does not hold, and how its dates and decimals are written. The rest is as for FOCUS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from finops.sources import focus
from finops.sources import focus_columns as columns
from finops.sources.cells import instant, text_or_none
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.rows import Cells, Rows, charges_of, table_rows

PREFIX: Final = "csv:"
NEEDED: Final = ("ChargePeriodStart",)
COSTS: Final = ("BilledCost", "EffectiveCost")
_NUMBERS: Final = """
    BilledCost EffectiveCost ListCost ContractedCost PricingQuantity ConsumedQuantity
    ListUnitPrice ContractedUnitPrice
"""
NUMBERS: Final = frozenset(_NUMBERS.split())
DATES: Final = ("ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "BillingPeriodEnd")
LONGEST: Final = 400
# Groups of three by one and the same sign: besides a point or comma a blank (France) or an apostrophe
# (Switzerland), as spreadsheets write them.
_GROUPS: Final = r"-?\d{{1,3}}([{0} \u00a0\u202f'\u2019])\d{{3}}(?:\1\d{{3}})*(?:{1}\d+)?"
_THOUSANDS: Final = {
    ",": re.compile(_GROUPS.format(".", ","), re.ASCII),
    ".": re.compile(_GROUPS.format(",", r"\."), re.ASCII),
}
_DAY_FIRST_TIME: Final = ("%H", "%I", "%c", "%X", "%T", "%R", "%s")


_Source = tuple[str, int | str | None]  # target column, place in the file or constant


@dataclass(slots=True)
class _Seen:
    """The cells of the row that is being read, as the file has them."""

    cells: Cells = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """One version of a mapping, checked."""

    columns: Mapping[str, tuple[str, ...]]
    constants: Mapping[str, str]
    dates: str | None = None
    decimal: str = "."
    version: int = 0
    has_time: bool = field(default=False)


def mapping_of(value: object, version: int = 0) -> Columns:
    """The mapping that a JSON value describes. ValueError names what cannot be used."""
    if not isinstance(value, dict):
        raise ValueError("a mapping is an object with columns and constants")
    if unknown := set(value) - {"columns", "constants", "dates", "decimal"}:
        raise ValueError(f"{min(unknown)!r} is no part of a mapping")
    targets = _columns(value.get("columns"))
    constants = _constants(value.get("constants") or {})
    decimal = value.get("decimal", ".")
    if decimal not in (".", ","):
        raise ValueError(f"decimal is . or , not {decimal!r}")
    dates = _dates(value.get("dates"))
    given = [one for many in targets.values() for one in many] + list(constants)
    if twice := next((one for one in given if given.count(one) > 1), None):
        raise ValueError(f"{twice} is given more than once")
    if absent := [one for one in NEEDED if one not in given]:
        raise ValueError(f"no column stands for {absent[0]}")
    if not any(one in given for one in (*COSTS, "ConsumedQuantity", "PricingQuantity")):
        raise ValueError("no column stands for BilledCost, EffectiveCost or a quantity")
    has_time = dates is None or any(sign in dates for sign in _DAY_FIRST_TIME)
    return Columns(targets, constants, dates, decimal, version, has_time)


def _columns(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict) or not value:
        raise ValueError("columns must name at least one column of the file")
    found = {}
    for source, target in value.items():
        targets = [target] if isinstance(target, str) else target
        if not isinstance(targets, list) or not targets:
            raise ValueError(f"column {source!r}: name a FOCUS column, or a list of them")
        found[source.strip()] = tuple(_known(one) for one in targets)
    return found


def _constants(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("constants is not an object")
    for name, text in value.items():
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError(f"constant {name!r} is no text of at most {LONGEST} characters")
    return {_known(name): text for name, text in value.items()}


def _known(name: object) -> str:
    if not isinstance(name, str) or name not in columns.SINCE:
        raise ValueError(f"{name!r} is no column of FOCUS")
    return name


def _dates(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or "%" not in value or len(value) > 60:
        raise ValueError("dates is no pattern such as %d/%m/%Y %H:%M")
    try:
        sample = datetime(2026, 10, 28, 13, 5, tzinfo=UTC)
        datetime.strptime(sample.strftime(value), value)  # noqa: DTZ007 - only whether it reads
    except ValueError as error:
        raise ValueError(f"dates {value!r}: {error}") from None
    return value


def parse(path: Path, name: str, format: str, mapping: Columns) -> Parsed:
    """Charges and rejections of one file by a mapping. Refused when a mapped column is absent."""
    rows = table_rows(path, name)
    header = [(column or "").strip() for column in next(rows, (1, ()))[1]]
    for column in mapping.columns:
        if header.count(column) != 1:
            often = "absent" if column not in header else "there more than once"
            raise Refused(
                f"{name}: line 1: the mapped column {column!r} is {often}", line=1, column=column
            )
    wide, sources = _targets(mapping, header)
    places = {target: at for at, target in enumerate(wide)}
    account = Account(
        format,
        version=str(mapping.version) if mapping.version else None,
        unknown_columns=tuple(column for column in header if column not in mapping.columns),
        missing_columns=tuple(
            c for c in columns.missing(places, "1.2") if c in NUMBERS or c == "InvoiceId"
        ),
    )
    seen = _Seen()
    plain = _plain_rows(rows, len(header), sources, mapping, places, seen)
    records = charges_of(plain, len(wide), places, account, focus.charge_of)
    return Parsed(account, _in_its_words(records, mapping, sources, seen))


def _in_its_words(
    records: Iterator[ChargeRecord | Rejection],
    mapping: Columns,
    sources: Sequence[_Source],
    seen: _Seen,
) -> Iterator[ChargeRecord | Rejection]:
    """Rejections that name the file's own column, and its cell as it is written there."""
    own = {target: column for column, targets in mapping.columns.items() for target in targets}
    places = {target: source for target, source in sources if isinstance(source, int)}
    for record in records:
        if isinstance(record, Rejection) and record.column in own:
            cell, reason = seen.cells[places[record.column]], record.reason
            if record.column in NUMBERS and reason.startswith("not a number"):
                reason = (
                    "not a number; decimals have a " + {".": "point", ",": "comma"}[mapping.decimal]
                )
            elif record.column in DATES and reason.startswith("not a date") and mapping.dates:
                reason = f"not a date written {mapping.dates}"
            record = Rejection.of(record.line, own[record.column], cell, reason)
        yield record


def _targets(mapping: Columns, header: Sequence[str]) -> tuple[list[str], list[_Source]]:
    sources: list[_Source] = [
        (target, header.index(column))
        for column, targets in mapping.columns.items()
        for target in targets
    ]
    sources += list(mapping.constants.items())
    given = {target for target, _ in sources}
    wanted = [*DATES, "ChargeCategory"]
    sources += [(target, None) for target in wanted if target not in given]
    return [target for target, _ in sources], sources


def _plain_rows(
    rows: Rows,
    width: int,
    sources: Sequence[_Source],
    mapping: Columns,
    places: Mapping[str, int],
    seen: _Seen,
) -> Iterator[tuple[int, Cells | Rejection]]:
    """The rows as FOCUS would write them; a row of another width is a rejection."""
    for line, cells in rows:
        seen.cells = cells
        if len(cells) != width:
            reason = f"the row has {len(cells)} fields, the header {width}"
            yield line, Rejection.of(line, None, len(cells), reason)
            continue
        plain = [_cell(target, source, cells, mapping) for target, source in sources]
        start = plain[places["ChargePeriodStart"]]
        if _moment(start) is None:
            reason = "not a date and time" if start else "missing"
            yield line, Rejection.of(line, "ChargePeriodStart", start, reason)
            continue
        _fill(plain, places, mapping)
        yield line, plain


def _cell(
    target: str, source: int | str | None, cells: Sequence[str | None], mapping: Columns
) -> str | None:
    text = text_or_none(cells[source]) if isinstance(source, int) else source
    if text is None or not isinstance(source, int):
        return text
    if target in NUMBERS:
        return _number(text, mapping.decimal)
    return _date(text, mapping.dates) if target in DATES and mapping.dates else text


def _number(text: str, decimal: str) -> str:
    """The number with a point and no separators of thousands; anything else as it stands."""
    if grouped := _THOUSANDS[decimal].fullmatch(text):
        text = text.replace(grouped[1], "")
    elif decimal == "," and "." in text:
        return f"{text} (a point, but decimals have a comma)"
    return text.replace(",", ".") if decimal == "," else text


def _date(text: str, pattern: str) -> str:
    if any(sign.isdigit() and not sign.isascii() for sign in text):
        return (
            f"{text} (digits of another script)"  # strptime reads them; a report's reader may not
        )
    try:
        found = datetime.strptime(text, pattern)  # noqa: DTZ007 - UTC where no zone is written
    except ValueError:
        return f"{text} (not {pattern})"  # no other reading of a date is tried
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _fill(plain: list[str | None], places: Mapping[str, int], mapping: Columns) -> None:
    """What no column gives: a day's end, the month of the charge, the usual category."""
    start = _moment(plain[places["ChargePeriodStart"]])
    defaults: dict[str, Any] = {"ChargeCategory": "Usage"}
    if start is not None:
        month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        defaults["BillingPeriodStart"] = month.isoformat()
        defaults["BillingPeriodEnd"] = (month + timedelta(days=32)).replace(day=1).isoformat()
        is_day = start == start.replace(hour=0, minute=0, second=0, microsecond=0)
        if is_day and not mapping.has_time:
            defaults["ChargePeriodEnd"] = (start + timedelta(days=1)).isoformat()
        else:
            defaults["ChargePeriodEnd"] = start.isoformat()
    for target, value in defaults.items():
        if plain[places[target]] is None:
            plain[places[target]] = value


def _moment(text: str | None) -> datetime | None:
    try:
        return instant(text) if text else None
    except ValueError:
        return None
