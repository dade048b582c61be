"""Oracle Cloud's own cost report (`reports/cost-csv`), CSV or CSV.gz (method §3.3).

Each file holds lines that no other file holds: a month is many files, and a new one adds to the
others. A tag is a column of its own, so columns change by file. Amounts are `cost/myCost`; the report
knows neither an invoice nor a billing period, so the month of the use stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from finops.core.money import EXACT, plain
from finops.core.period import month_of
from finops.sources.focus import currency_of
from finops.sources.gpu_shapes import gpu_of, instance_type_of
from finops.sources.parquet import is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused
from finops.sources.rows import Fault, Row, charges_of, header_of, table_rows

_T = TypeVar("_T")
FORMAT: Final = "oci-cost"
FORMATS: Final[tuple[str, ...]] = (FORMAT,)
ISSUER: Final = "Oracle"

_READ: Final = """
    lineItem/referenceNo lineItem/tenantId lineItem/intervalUsageStart lineItem/intervalUsageEnd
    lineItem/isCorrection lineItem/backreferenceNo
    product/service product/compartmentId product/compartmentName product/region product/resourceId
    product/Description usage/billedQuantity
    cost/productSku cost/unitPrice cost/myCost cost/myCostOverage cost/currencyCode
    cost/billingUnitReadable cost/skuUnitDescription
"""
_SIGNS: Final = ("lineItem/tenantId", "lineItem/intervalUsageStart", "cost/myCost")
_TAG: Final = re.compile(r"tags[/\\]+(.+)", re.IGNORECASE)


def _plain(column: str) -> str:
    """A name as it is compared: a stray backslash or other capitals make no difference."""
    return re.sub(r"[^a-z0-9]", "", column.lower())


_NAMES: Final = {_plain(column): column for column in _READ.split()}


def recognises(head: bytes, name: str) -> str | None:
    """`oci-cost` when tenant, interval and cost stand in the header."""
    if is_parquet(head):
        return None
    places = _placed(header_of(head))
    return FORMAT if all(sign in places for sign in _SIGNS) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one file.

    Refused when it cannot be read at all, or a column that is read stands twice.
    """
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    places = _placed(header)
    if absent := [sign for sign in _SIGNS if sign not in places]:
        raise Refused(
            f"{name}: line 1: not a cost report of Oracle: no column {absent[0]}",
            line=1,
            column=absent[0],
        )
    known = [plain_name for column in header if (plain_name := _plain(column)) in _NAMES]
    if twice := [one for at, one in enumerate(known) if one in known[:at]]:
        raise Refused(
            f"{name}: line 1: the column {_NAMES[twice[0]]} stands more than once",
            line=1,
            column=_NAMES[twice[0]],
        )
    tags = {at: found.group(1) for at, c in enumerate(header) if (found := _TAG.fullmatch(c))}
    read = set(places.values()) | set(tags)
    account = Account(
        format,
        unknown_columns=tuple(c for at, c in enumerate(header) if at not in read and c.strip()),
        missing_columns=tuple(c for c in _READ.split() if c not in places),
        adds_to_others=True,
    )
    over = _Overage()
    build = partial(_charge, tags, over)
    return Parsed(
        account, over.told(charges_of(rows, len(header), places, account, build), account)
    )


class _Overage:
    """Σ `cost/myCostOverage`: what of the cost lies above a commitment. It is not added."""

    def __init__(self) -> None:
        self._total = Decimal(0)

    def add(self, row: Row) -> None:
        """Adds one row's."""
        self._total = EXACT.add(self._total, row.quantity("cost/myCostOverage") or Decimal(0))

    def told(self, records: Iterator[_T], account: Account) -> Iterator[_T]:
        """The records, and at their end a warning when there is overage."""
        yield from records
        if self._total:
            account.warnings.append(
                f"cost/myCostOverage is {plain(self._total)} in all: the part above the commitment; "
                "billed is cost/myCost, to which it is not added"
            )


def _placed(header: Sequence[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, column in enumerate(header):
        if (known := _NAMES.get(_plain(column))) and not _TAG.fullmatch(column):
            places.setdefault(known, place)
    return places


def _charge(tags: Mapping[int, str], over: _Overage, row: Row) -> ChargeRecord:
    start = row.moment("lineItem/intervalUsageStart")
    end = row.moment("lineItem/intervalUsageEnd")
    if end < start:
        text = row.text("lineItem/intervalUsageEnd")
        raise Fault("lineItem/intervalUsageEnd", text, f"ends before it starts ({start})")
    cost = row.money("cost/myCost", required=True)
    over.add(row)
    description, part = row.text("product/Description"), row.text("cost/productSku")
    gpu = gpu_of(None, None, (description,), (part,))
    quantity = row.quantity("usage/billedQuantity")
    unit = row.text("cost/billingUnitReadable") or row.text("cost/skuUnitDescription")
    month = _month(start)
    return ChargeRecord(
        line=row.line,
        issuer=ISSUER,
        billing_account=row.required("lineItem/tenantId"),
        billing_account_name=None,
        billing_period_start=month[0],
        billing_period_end=month[1],
        charge_period_start=start,
        charge_period_end=end,
        category="Usage",
        charge_class="Correction" if _is_correction(row) else None,
        currency=currency_of(row, "cost/currencyCode"),
        billed_cost=cost,
        effective_cost=cost,
        description=description,
        frequency="Usage-Based",
        sub_account=row.text("product/compartmentId"),
        sub_account_name=row.text("product/compartmentName"),
        provider=ISSUER,
        service=row.text("product/service"),
        sku=part,
        resource=row.text("product/resourceId"),
        region=row.text("product/region"),
        instance_type=instance_type_of(description) if description else None,
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else None,
        pricing_quantity=quantity,
        pricing_unit=unit if quantity is not None else None,
        consumed_quantity=quantity,
        consumed_unit=unit if quantity is not None else None,
        contracted_unit_price=row.quantity("cost/unitPrice"),
        tags=_tags(row, tags),
    )


def _is_correction(row: Row) -> bool:
    return (row.text("lineItem/isCorrection") or "").lower() == "true"


def _month(start: datetime) -> tuple[datetime, datetime]:
    period = month_of(f"{start:%Y-%m}")
    return period.start, period.end


def _tags(row: Row, tags: Mapping[int, str]) -> dict[str, str]:
    return {name: text for at, name in tags.items() if (text := row.at(at)) is not None}
