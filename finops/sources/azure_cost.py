"""Azure's cost files: actual and amortised, of enterprise and customer agreements, and old usage.

An actual and an amortised file describe the same money twice (method §3.5). A row of an actual file
gives what is billed, and the effective cost only where no commitment comes in; a row of an amortised
file gives the effective cost, and nothing of what is billed. A file without any commitment is both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from finops.core.money import EXACT
from finops.sources import azure_columns as columns
from finops.sources.cells import number
from finops.sources.focus import UNKNOWN_ACCOUNT, currency_of
from finops.sources.gpu_shapes import Gpu, gpu_of, instance_type_of
from finops.sources.parquet import is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.rows import Fault, Row, Rows, charges_of, header_of, table_rows

FORMAT: Final = "azure-cost"
FORMATS: Final[tuple[str, ...]] = (FORMAT, "azure-cost-actual", "azure-cost-amortized")
ACTUAL: Final = "actual"
AMORTISED: Final = "amortised"
EITHER: Final = "actual and amortised"
ISSUER: Final = "Microsoft"
UNNAMED: Final = "commitment without a name"
DAY: Final = timedelta(days=1)
_NEEDED: Final = 5

_FORCED: Final = {"azure-cost-actual": ACTUAL, "azure-cost-amortized": AMORTISED}
_COVERED: Final = frozenset(["reservation", "savingsplan"])
_UNUSED: Final = frozenset(["unusedreservation", "unusedsavingsplan"])
_PRICING: Final = {"ondemand": "Standard", "spot": "Dynamic"} | dict.fromkeys(_COVERED, "Committed")
_FREQUENCIES: Final = {
    "usagebased": "Usage-Based",
    "recurring": "Recurring",
    "onetime": "One-Time",
}
MACHINES: Final = frozenset(
    ["virtual machines", "cloud services", "azure machine learning", "machine learning"]
)
_BLOCK: Final = re.compile(r"([0-9]+)\s*([KMB]?)(?:\s+(.*))?", re.DOTALL)
_POWERS: Final = {"": 1, "K": 1000, "M": 1_000_000, "B": 1_000_000_000}
_PARQUET_SIGNS: Final = (b"metercategory", b"cost", b"chargetype")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What kind of charge a row is, and whether a commitment pays for it or is paid by it."""

    category: str
    charge_class: str | None
    commitment: str | None
    status: str | None

    @property
    def is_consumed(self) -> bool:
        """Whether its quantity was used; what nobody used of a commitment was not."""
        return self.category == "Usage" and self.status != "Unused"


def recognises(head: bytes, name: str) -> str | None:
    """`azure-cost` when the columns of a cost file stand in the header."""
    if is_parquet(head):
        lower = head.lower()
        return FORMAT if all(sign in lower for sign in _PARQUET_SIGNS) else None
    return FORMAT if columns.looks_like_azure(header_of(head)) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one file; the account's version tells its view.

    Refused when it cannot be read at all, or a column that is read stands twice.
    """
    places, rows, header = _opened(path, name)
    view = _FORCED.get(format) or view_of(path, name)
    read = set(places.values())
    account = Account(
        FORMAT,
        version=view,
        unknown_columns=tuple(c for at, c in enumerate(header) if at not in read and c.strip()),
        missing_columns=columns.missing(places),
    )
    records = charges_of(rows, len(header), places, account, partial(_charge, view))
    return Parsed(account, _in_its_words(records, header, places))


def _in_its_words(
    records: Iterator[ChargeRecord | Rejection], header: Sequence[str], places: Mapping[str, int]
) -> Iterator[ChargeRecord | Rejection]:
    """Rejections that name the file's own column."""
    for record in records:
        if isinstance(record, Rejection) and record.column and record.column in places:
            record = replace(record, column=header[places[record.column]])
        yield record


def _opened(path: Path, name: str) -> tuple[dict[str, int], Rows, list[str]]:
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    if not columns.looks_like_azure(header):
        raise Refused(f"{name}: line 1: these are not the columns of an Azure cost file", line=1)
    twice = columns.duplicates(header)
    if twice:
        raise Refused(
            f"{name}: line 1: the column {twice[0]} stands more than once", line=1, column=twice[0]
        )
    header, rows = _as_wide_as_its_rows(header, rows)
    return columns.placed(header), rows, header


def _as_wide_as_its_rows(header: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """A file whose first row ends early has no last columns; later rows must be as wide."""
    first = next(rows, None)
    if first is None:
        return header, rows
    if _NEEDED <= len(first[1]) < len(header):
        header = header[: len(first[1])]
    return header, chain((first,), rows)


def view_of(path: Path, name: str) -> str:
    """Whether a file is the actual or the amortised view, or has no commitment and so is either.

    A purchase of a commitment is in actual files only; a part that nobody used, and use that a
    commitment covers at more than nothing, in amortised ones only.
    """
    places, rows, header = _opened(path, name)
    amortised = free = False
    for line, cells in rows:
        if len(cells) != len(header):
            continue
        row = Row(cells, places, line)
        charge_type = _word(row, "charge type")
        if charge_type in _UNUSED:
            amortised = True
        elif not _is_covered(row):
            continue
        elif charge_type in ("purchase", "refund"):
            return ACTUAL
        elif row.quantity("cost"):
            amortised = True
        else:
            free = True
    if amortised:
        return AMORTISED
    return ACTUAL if free else EITHER


def _word(row: Row, column: str) -> str:
    return re.sub(r"[\s_-]", "", row.text(column) or "").lower()


def _is_covered(row: Row) -> bool:
    named = row.text("benefit") or row.text("reservation")
    return bool(named) or _word(row, "pricing model") in _COVERED


def _kind(row: Row) -> _Kind:
    charge_type = _word(row, "charge type") or "usage"
    covered = _is_covered(row)
    commitment = None
    if covered or charge_type in _UNUSED:
        commitment = row.text("benefit") or row.text("reservation") or row.text("order") or UNNAMED
    if charge_type in _UNUSED:
        return _Kind("Usage", None, commitment, "Unused")
    if charge_type == "usage":
        return _Kind("Usage", None, commitment, "Used" if covered else None)
    if charge_type == "purchase":
        return _Kind("Purchase", None, commitment, None)
    if charge_type == "refund":
        is_usage = not covered and _word(row, "frequency") in ("", "usagebased")
        return _Kind("Usage" if is_usage else "Purchase", "Correction", commitment, None)
    if charge_type == "tax":
        return _Kind("Tax", None, commitment, None)
    if charge_type != "roundingadjustment":
        row.notes.append(f"ChargeType {row.text('charge type')} is taken as an adjustment")
    return _Kind("Adjustment", None, commitment, None)


def _description(row: Row) -> str | None:
    """The product, else the meter; a rounding line says that it is one."""
    told = row.text("product") or row.text("meter")
    if (row.text("charge type") or "").lower().replace(" ", "") != "roundingadjustment":
        return told
    return f"Rounding adjustment: {told}" if told else "Rounding adjustment"


def _amounts(row: Row, view: str, kind: _Kind) -> tuple[Decimal | None, Decimal | None]:
    """Billed and effective, each None where this view does not tell it."""
    cost = row.money("cost", required=True)
    if view == AMORTISED:
        return None, cost
    if view == ACTUAL and kind.commitment:
        return cost, None
    return cost, cost


def _charge(view: str, row: Row) -> ChargeRecord:
    kind = _kind(row)
    start = row.moment("date")
    billing = _billing_period(row, start)
    details = row.map("details")
    gpu, instance_type = _machine(row, details)
    billed, effective = _amounts(row, view, kind)
    quantity, unit = row.quantity("quantity"), row.text("unit")
    consumed, consumed_unit = _without_block(quantity, unit)
    pricing = _word(row, "pricing model")
    return ChargeRecord(
        line=row.line,
        issuer=ISSUER,
        billing_account=_account(row),
        billing_account_name=row.text("account name"),
        billing_period_start=billing[0],
        billing_period_end=billing[1],
        charge_period_start=start,
        charge_period_end=start + DAY,
        category=kind.category,
        currency=currency_of(row, "currency"),
        billed_cost=billed,
        effective_cost=effective,
        list_cost=row.quantity("list cost"),
        charge_class=kind.charge_class,
        description=_description(row),
        frequency=_FREQUENCIES.get(_word(row, "frequency"), row.text("frequency")),
        sub_account=row.text("subscription"),
        sub_account_name=row.text("subscription name"),
        provider=_provider(row),
        service=row.text("category") or row.text("service"),
        sku=row.text("meter id"),
        sku_price=row.text("part"),
        resource=row.text("resource"),
        resource_name=details.get("VMName") or row.text("resource name"),
        resource_type=row.text("resource type"),
        region=row.text("location"),
        instance_type=instance_type,
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else None,
        pricing_category=_PRICING.get(pricing, row.text("pricing model")),
        pricing_quantity=quantity,
        pricing_unit=unit,
        consumed_quantity=consumed if kind.is_consumed else None,
        consumed_unit=consumed_unit if kind.is_consumed else None,
        list_unit_price=row.quantity("list unit price") or None,
        contracted_unit_price=row.quantity("unit price") or None,
        commitment=kind.commitment,
        commitment_name=row.text("benefit name") or row.text("reservation name"),
        commitment_status=kind.status,
        invoice=row.text("invoice"),
        tags=_tags(row),
        view=None if view == EITHER else view,
    )


def _account(row: Row) -> str:
    """The billing account; the oldest files name only the subscription."""
    if row.has("account"):
        return row.required("account")
    return row.text("subscription") or UNKNOWN_ACCOUNT


def _provider(row: Row) -> str:
    if _word(row, "publisher type") == "marketplace":
        return row.text("publisher") or ISSUER
    return ISSUER


def _billing_period(row: Row, date: datetime) -> tuple[datetime, datetime]:
    """The billing period, whose last day Azure counts in; absent, the month of the date."""
    if not (row.has("period start") and row.has("period end")):
        start = date.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        row.notes.append("the file names no billing period: it is the month of each date")
        return start, (start + timedelta(days=32)).replace(day=1)
    start, last = row.moment("period start"), row.moment("period end")
    if last < start:
        raise Fault("BillingPeriodEndDate", row.text("period end"), f"before its start ({start})")
    is_next_month = last.day == 1 and start.day == 1 and last - start > timedelta(days=27)
    return start, last if is_next_month else last + DAY


def _without_block(quantity: Decimal | None, unit: str | None) -> tuple[Decimal | None, str | None]:
    """A quantity in single units: `0.0129` of `10K` is 129; hours of `100 Hours` are hours.

    Real files count operations in blocks, but a machine's hours as hours.
    """
    found = _BLOCK.fullmatch(unit or "")
    if quantity is None or not found:
        return quantity, unit
    rest = (found.group(3) or "").strip()
    size = int(found.group(1)) * _POWERS[found.group(2)]
    if rest.lower() in ("hour", "hours"):
        return quantity, "Hours"
    return EXACT.multiply(quantity, number(str(size))), rest or "Units"


def _machine(row: Row, details: dict[str, str]) -> tuple[Gpu | None, str | None]:
    """GPUs and instance type. A licence or disk of a machine names it too, and is no GPU time."""
    stated = details.get("ServiceType")
    category = (row.text("category") or "virtual machines").lower()
    texts = [row.text("meter"), row.text("subcategory"), row.text("product")]
    gpu = gpu_of(stated if category in MACHINES else None, None, texts)
    if gpu and category.endswith("licenses"):
        gpu = None
    named = gpu.instance_type if gpu else None
    if not named and stated and category in MACHINES:
        named = instance_type_of(stated) or stated
    return gpu, named


def _tags(row: Row) -> dict[str, str]:
    tags = row.map("tags")
    group = row.text("resource group")
    return tags if group is None else {"resource_group": group} | tags
