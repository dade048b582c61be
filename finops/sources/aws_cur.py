"""AWS Cost and Usage Reports: legacy (slash or snake names) and 2.0 (maps), CSV or Parquet.

One name of a column has three spellings (`lineItem/UnblendedCost`, `line_item_unblended_cost`, a key
of a map); all are read as one. What each kind of line costs is in `aws_lines` (method §3.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from finops.core.money import EXACT, plain
from finops.sources.aws_lines import DISCOUNTS, Kind, billed, effective, kind_of
from finops.sources.cells import text_or_none
from finops.sources.gpu_shapes import gpu_of, instance_type_of
from finops.sources.parquet import has_columns, is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.rows import Fault, Row, Rows, charges_of, header_of, table_rows

_T = TypeVar("_T")
LEGACY: Final = "aws-cur"
CUR_2: Final = "aws-cur-2"
NET: Final = "-net"  # a format read by its Net columns
FORMATS: Final[tuple[str, ...]] = (LEGACY, CUR_2, LEGACY + NET, CUR_2 + NET)
ISSUER: Final = "Amazon Web Services"
PROVIDER: Final = "AWS"

# Plain name (lower case, letters and digits) of every column that is read.
_READ: Final = """
    bill/InvoiceId bill/InvoicingEntity bill/BillType bill/PayerAccountId bill/PayerAccountName
    bill/BillingPeriodStartDate bill/BillingPeriodEndDate
    lineItem/UsageAccountId lineItem/UsageAccountName lineItem/LineItemType
    lineItem/UsageStartDate lineItem/UsageEndDate lineItem/ProductCode lineItem/UsageType
    lineItem/Operation lineItem/ResourceId lineItem/UsageAmount lineItem/CurrencyCode
    lineItem/UnblendedRate lineItem/UnblendedCost lineItem/NetUnblendedCost
    lineItem/LineItemDescription
    product/ProductName product/servicename product/instanceType product/regionCode product/region
    product/sku pricing/RateId pricing/RateCode pricing/publicOnDemandCost
    pricing/publicOnDemandRate pricing/unit
    reservation/ReservationARN reservation/EffectiveCost
    reservation/UnusedAmortizedUpfrontFeeForBillingPeriod reservation/UnusedRecurringFee
    reservation/NetEffectiveCost reservation/NetUnusedAmortizedUpfrontFeeForBillingPeriod
    reservation/NetUnusedRecurringFee savingsPlan/NetSavingsPlanEffectiveCost
    savingsPlan/SavingsPlanARN savingsPlan/SavingsPlanEffectiveCost
    savingsPlan/TotalCommitmentToDate savingsPlan/UsedCommitment
    splitLineItem/ParentResourceId
"""
_WANTED: Final = """
    bill/InvoiceId bill/InvoicingEntity bill/PayerAccountId bill/BillingPeriodStartDate
    bill/BillingPeriodEndDate lineItem/UsageAccountId lineItem/LineItemType lineItem/UsageStartDate
    lineItem/UsageEndDate lineItem/ProductCode lineItem/UsageType lineItem/Operation
    lineItem/ResourceId lineItem/UsageAmount lineItem/CurrencyCode lineItem/UnblendedCost
    pricing/unit
"""
_COSTS: Final = ("lineItem/UnblendedCost", "lineItem/NetUnblendedCost")
_SIGNS: Final = ("lineItem/LineItemType", "lineItem/UnblendedCost", "lineItem/UsageStartDate")
_MAPS: Final = ("resource_tags", "cost_category", "product")
_FAMILIES: Final = (
    "identity|bill|lineItem|product|pricing|reservation|savingsPlan|discount|resourceTags|"
    "costCategory|splitLineItem"
)
_GLUE: Final = re.compile(rf"(?<=[A-Za-z])(?=(?:{_FAMILIES})/)")
_TAG: Final = re.compile(r"(?:resourceTags/|resource_tags_)(?:user[:_])?(.+)")
_CATEGORY: Final = re.compile(r"(?:costCategory/|cost_category_)(.+)")
_SPLIT_OPERATIONS: Final = frozenset(["EKSPod-EC2", "ECSTask-EC2"])
_PARQUET_SIGN: Final = "lineItem/LineItemType"
_PARQUET_MAP: Final = b"resource_tags"


def _plain(column: str) -> str:
    return re.sub(r"[^a-z0-9]", "", column.lower())


_NAMES: Final = {_plain(column): column for column in _READ.split()}


def recognises(head: bytes, name: str) -> str | None:
    """`aws-cur` or `aws-cur-2` when the columns of a line item stand in the header."""
    if is_parquet(head):
        if not has_columns(head, _PARQUET_SIGN):
            return None
        tags = re.search(_PARQUET_MAP + rb"(.?)", head)
        is_map = tags is not None and tags.group(1) != b"_"
        return CUR_2 if is_map else LEGACY
    header = header_of(head)
    places = _placed(header)
    if not all(sign in places for sign in _SIGNS):
        return None
    return CUR_2 if set(_MAPS) & {column.strip().lower() for column in header} else LEGACY


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one part of a report; splits of other rows are counted apart.

    A format that ends in `-net` takes costs after discounts, where the report has them. Refused when it cannot be read at all, or a column that is read stands twice.
    """
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    header, rows = _unglued(header, rows)
    places = _placed(header)
    if absent := [sign for sign in _SIGNS if sign not in places]:
        raise Refused(
            f"{name}: line 1: not a Cost and Usage Report: no column {absent[0]}",
            line=1,
            column=absent[0],
        )
    _refuse_twice(header, name)
    maps = {column.strip().lower(): at for at, column in enumerate(header)}
    places |= {column: maps[column] for column in _MAPS if column in maps}
    named = _named(header)
    read = set(places.values()) | set(named)
    by_net = format.endswith(NET)
    version = "2.0" if set(_MAPS) & maps.keys() else "legacy"
    account = Account(
        format.removesuffix(NET),
        version=version + (NET if by_net else ""),
        unknown_columns=tuple(c for at, c in enumerate(header) if at not in read and c.strip()),
        missing_columns=tuple(c for c in _WANTED.split() if c not in places),
    )
    nets = _Nets(by_net)
    build = partial(_charge, named, nets)
    records = charges_of(rows, len(header), places, account, build)
    return Parsed(account, nets.told(records, account))


def discounts_of(path: Path, name: str) -> tuple[bool, bool]:
    """Whether a part of a report has lines of discounts, and costs after discounts.

    A report tells a discount in lines of its own or in its Net columns; both together would take
    it off twice.
    """
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    header, rows = _unglued(header, rows)
    places = _placed(header)
    kind, gross, net = (places.get(c) for c in ("lineItem/LineItemType", *_COSTS))
    if kind is None or gross is None or net is None:
        return False, False
    has_lines = has_net = False
    for _, cells in rows:
        if not isinstance(cells, Rejection) and len(cells) == len(header):
            has_lines = has_lines or cells[kind] in DISCOUNTS
            after = text_or_none(cells[net])
            has_net = has_net or (after is not None and after != cells[gross])
    return has_lines, has_net


class _Nets:
    """Σ NetUnblendedCost − UnblendedCost: what a discount takes that is no line of its own."""

    def __init__(self, taken: bool) -> None:
        self.taken, self._difference = taken, Decimal(0)

    def add(self, row: Row, billed: Decimal | None) -> None:
        """Adds one row."""
        net = row.quantity("lineItem/NetUnblendedCost")
        if net is not None and billed is not None:
            self._difference = EXACT.add(self._difference, EXACT.subtract(net, billed))

    def told(self, records: Iterator[_T], account: Account) -> Iterator[_T]:
        """The records, and at their end a warning when the two bases differ."""
        yield from records
        if self._difference:
            basis = "NetUnblendedCost" if self.taken else "UnblendedCost; compare the invoice"
            account.warnings.append(
                f"NetUnblendedCost is {plain(self._difference)} from UnblendedCost in all: a discount "
                f"stands in the Net columns only. Billed is {basis}"
            )


def _placed(header: Sequence[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, column in enumerate(header):
        known = _NAMES.get(_plain(column))
        if known and known not in places:
            places[known] = place
    return places


def _refuse_twice(header: Sequence[str], name: str) -> None:
    seen = set[str]()
    for column in header:
        known = _NAMES.get(_plain(column))
        if known in seen:
            raise Refused(
                f"{name}: line 1: the column {column} stands more than once", line=1, column=column
            )
        if known:
            seen.add(known)


def _unglued(header: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """The header with names that lost their comma taken apart, when the first row says so.

    Real files hold `pricing/OfferingClasspricing/PurchaseOption` above two fields.
    """
    first = next(rows, None)
    if first is None:
        return header, rows
    apart = list(chain.from_iterable(_GLUE.split(column) for column in header))
    if len(first[1]) == len(apart) != len(header):
        header = apart
    return header, chain((first,), rows)


def _named(header: Sequence[str]) -> dict[int, str]:
    """Columns of tags and cost categories, and the names they are kept under."""
    found = {}
    for place, column in enumerate(header):
        if tag := _TAG.fullmatch(column.strip()):
            found[place] = tag.group(1)
        elif category := _CATEGORY.fullmatch(column.strip()):
            found[place] = f"cost_category:{category.group(1)}"
    return found


def _tags(row: Row, named: Mapping[int, str]) -> dict[str, str]:
    tags = {name: text for at, name in named.items() if (text := row.at(at)) is not None}
    tags |= {key.removeprefix("user_"): v for key, v in row.map("resource_tags").items()}
    categories = row.map("cost_category")
    return tags | {f"cost_category:{key}": value for key, value in categories.items()}


def _charge(named: Mapping[int, str], nets: _Nets, row: Row) -> ChargeRecord | None:
    operation = row.text("lineItem/Operation")
    if operation in _SPLIT_OPERATIONS or row.text("splitLineItem/ParentResourceId"):
        return None
    kind = kind_of(row)
    gross = row.money("lineItem/UnblendedCost", required=True)
    nets.add(row, gross)
    start, end = _period(row, "lineItem/UsageStartDate", "lineItem/UsageEndDate")
    billing = _period(row, "bill/BillingPeriodStartDate", "bill/BillingPeriodEndDate")
    product = row.map("product")
    stated = row.text("product/instanceType") or product.get("instance_type")
    usage_type = row.text("lineItem/UsageType")
    description = row.text("lineItem/LineItemDescription")
    services = (row.text("lineItem/ProductCode"), _service(row, product))
    gpu = gpu_of(stated, usage_type, (description,), services=services)
    quantity = row.quantity("lineItem/UsageAmount") if kind.is_usage else None
    unit = row.text("pricing/unit") if quantity is not None else None
    return ChargeRecord(
        line=row.line,
        issuer=row.text("bill/InvoicingEntity") or ISSUER,
        billing_account=row.required("bill/PayerAccountId"),
        billing_account_name=row.text("bill/PayerAccountName"),
        billing_period_start=billing[0],
        billing_period_end=billing[1],
        charge_period_start=start,
        charge_period_end=end,
        category=kind.category,
        currency=row.currency("lineItem/CurrencyCode"),
        billed_cost=billed(row, nets.taken),
        effective_cost=effective(row, kind, nets.taken),
        list_cost=row.quantity("pricing/publicOnDemandCost") if kind.is_usage else None,
        description=description,
        frequency=kind.frequency,
        sub_account=row.text("lineItem/UsageAccountId"),
        sub_account_name=row.text("lineItem/UsageAccountName"),
        provider=PROVIDER,
        service=_service(row, product),
        sku=row.text("product/sku") or product.get("sku"),
        sku_price=row.text("pricing/RateId") or row.text("pricing/RateCode"),
        resource=row.text("lineItem/ResourceId"),
        resource_type=usage_type,
        region=row.text("product/regionCode")
        or row.text("product/region")
        or product.get("region"),
        instance_type=_instance_type(stated, usage_type, gpu.instance_type if gpu else None),
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else None,
        pricing_category=_pricing_category(kind, usage_type),
        pricing_quantity=quantity,
        pricing_unit=unit,
        consumed_quantity=quantity,
        consumed_unit=unit,
        list_unit_price=row.quantity("pricing/publicOnDemandRate") if kind.is_usage else None,
        contracted_unit_price=row.quantity("lineItem/UnblendedRate") if kind.is_usage else None,
        commitment=kind.commitment,
        commitment_status=kind.status,
        invoice=row.text("bill/InvoiceId"),
        tags=_tags(row, named),
    )


def _period(row: Row, first: str, last: str) -> tuple[datetime, datetime]:
    start, end = row.moment(first), row.moment(last)
    if end < start:
        raise Fault(last, row.text(last), f"the period ends before it starts ({start})")
    return start, end


def _service(row: Row, product: Mapping[str, str]) -> str | None:
    return (
        row.text("product/ProductName")
        or product.get("product_name")
        or row.text("product/servicename")
        or row.text("lineItem/ProductCode")
    )


def _instance_type(stated: str | None, usage_type: str | None, shape: str | None) -> str | None:
    return shape or stated or (instance_type_of(usage_type) if usage_type else None)


def _pricing_category(kind: Kind, usage_type: str | None) -> str | None:
    if not kind.is_usage:
        return None
    if kind.commitment:
        return "Committed"
    return "Dynamic" if usage_type and "SpotUsage" in usage_type else "Standard"
