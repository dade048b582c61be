"""Google Cloud's billing export, standard and detailed: CSV, JSON lines or Parquet (method §3.5).

The export lives in BigQuery; files of it are made by the customer, so names come with dots, with
underscores or nested, and credits as JSON or as Python prints them. Credits are summed once a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

from finops.core.money import add
from finops.core.period import month_of
from finops.sources.cells import instant
from finops.sources.files import byte_lines
from finops.sources.gcp_cells import amounts_of, json_line, nested, plain
from finops.sources.gpu_shapes import Gpu, gpu_of, shape_of
from finops.sources.parquet import is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused
from finops.sources.rows import Fault, Row, Rows, charges_of, header_of, table_rows

FORMAT: Final = "gcp-billing"
FORMATS: Final[tuple[str, ...]] = (FORMAT,)
ISSUER: Final = "Google Cloud"
MACHINE: Final = "compute.googleapis.com/machine_spec"

READ: Final = """
    billing_account_id service.id service.description sku.id sku.description usage_start_time
    usage_end_time project.id project.name project.labels labels system_labels tags
    location.location location.region location.zone cost currency usage.amount usage.unit
    usage.amount_in_pricing_units usage.pricing_unit credits invoice.month cost_type
    cost_at_list price.effective_price price.unit resource.name resource.global_name export_time
"""
_WANTED: Final = """
    billing_account_id service.description sku.id sku.description usage_start_time usage_end_time
    project.id cost currency usage.amount usage.unit credits invoice.month cost_type resource.name
"""
_SIGNS: Final = ("billing_account_id", "usage_start_time", "cost", "sku.id")
_CATEGORIES: Final = {
    "regular": "Usage",
    "tax": "Tax",
    "adjustment": "Adjustment",
    "rounding_error": "Adjustment",
}
_COMMITMENT: Final = "commitment"
HOST_PARTS: Final = (" core ", " ram ", " cpu ")


def recognises(head: bytes, name: str) -> str | None:
    """`gcp-billing` when the fields of the export stand in the header, schema or first line."""
    if is_parquet(head):
        return (
            FORMAT
            if all(sign in head for sign in (b"billing_account_id", b"sku", b"credits"))
            else None
        )
    if head.lstrip().startswith(b"{"):
        first = json_line(head.split(b"\n", 1)[0])
        return FORMAT if first is not None and _has_signs(nested(first)) else None
    return FORMAT if _has_signs(_placed(header_of(head))) else None


def _has_signs(fields: Mapping[str, object]) -> bool:
    return all(sign in fields or sign.split(".")[0] in fields for sign in _SIGNS)


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges and rejections of one file. Refused when it cannot be read at all."""
    account = Account(format)
    if _is_json(path, name):
        header, rows = READ.split(), _json_rows(path, name, account)
    else:
        header, rows = _table(path, name, account)
    places = _placed(header)
    if not _has_signs(places):
        raise Refused(f"{name}: line 1: these are not the fields of a billing export", line=1)
    account.missing_columns = account.missing_columns or _missing(places)
    records = charges_of(rows, len(header), places, account, partial(_timed_charge, account))
    return Parsed(account, records)


def _is_json(path: Path, name: str) -> bool:
    for _, line in byte_lines(path, name) if not _starts_as_parquet(path) else ():
        if line.strip():
            return line.lstrip().startswith(b"{")
    return False


def _starts_as_parquet(path: Path) -> bool:
    with path.open("rb") as stream:
        return is_parquet(stream.read(4))


def _placed(header: Sequence[str]) -> dict[str, int]:
    """Where each field stands, by its dotted name; of a nested column the part stands there too."""
    at: dict[str, int] = {}
    for place, column in enumerate(header):
        at.setdefault(plain(column), place)
    return {name: at[plain(name)] for name in READ.split() if plain(name) in at} | {
        name: at[name] for name in _parents() if name in at
    }


def _parents() -> set[str]:
    return {name.split(".")[0] for name in READ.split() if "." in name}


def _missing(places: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        name for name in _WANTED.split() if name not in places and name.split(".")[0] not in places
    )


def _table(path: Path, name: str, account: Account) -> tuple[list[str], Rows]:
    """A CSV or Parquet file; nested columns of Parquet are taken apart."""
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    known = {plain(one) for one in READ.split()} | {plain(one) for one in _parents()}
    account.unknown_columns = tuple(c for c in header if c.strip() and plain(c) not in known)
    twice = [
        c
        for at, c in enumerate(header)
        if plain(c) in known and plain(c) in map(plain, header[:at])
    ]
    if twice:
        raise Refused(
            f"{name}: line 1: the column {twice[0]} stands more than once", line=1, column=twice[0]
        )
    structs = {at: column for at, column in enumerate(header) if column in _parents()}
    if not structs:
        return header, rows
    wanted = READ.split()
    account.missing_columns = _missing(_placed(header))
    return wanted, _apart(rows, header, structs, wanted)


def _apart(
    rows: Rows, header: Sequence[str], structs: Mapping[int, str], wanted: Sequence[str]
) -> Rows:
    for line, cells in rows:
        fields: dict[str, str | None] = {}
        for at, column in enumerate(header):
            cell = cells[at] if at < len(cells) else None
            if at in structs and cell:
                value = json_line(cell.encode())
                fields |= nested({column: value}) if value is not None else {}
            else:
                fields[column] = cell
        yield line, [fields.get(name) for name in wanted]


def _json_rows(path: Path, name: str, account: Account) -> Rows:
    """Objects of JSON lines as rows of the fields that are read; numbers keep their digits."""
    unknown: dict[str, None] = {}
    known = set(READ.split())
    for line, content in byte_lines(path, name):
        if not content.strip():
            continue
        value = json_line(content)
        if value is None:
            raise Refused(f"{name}: line {line}: not a JSON object", line=line)
        fields = nested(value)
        unknown.update(dict.fromkeys(one for one in fields if one not in known))
        account.unknown_columns = tuple(unknown)
        yield line, [fields.get(one) for one in READ.split()]


def _timed_charge(account: Account, row: Row) -> ChargeRecord:
    """A row's charge; the latest `export_time` of the rows is the file's own time."""
    if (told := row.text("export_time")) is not None:
        with suppress(ValueError):
            at = instant(told)
            account.exported_at = max(at, account.exported_at or at)
    return _charge(row)


def _charge(row: Row) -> ChargeRecord:
    month = _month(row)
    start, end = row.moment("usage_start_time"), row.moment("usage_end_time")
    if end < start:
        raise Fault("usage_end_time", row.text("usage_end_time"), f"before its start ({start})")
    cost = row.money("cost", required=True)
    net = None if cost is None else add([cost, *_credits(row)])
    category = _category(row)
    machine = row.map("system_labels").get(MACHINE)
    gpu = _gpu(row, machine)
    is_late = category == "Adjustment" and end <= month[0]
    return ChargeRecord(
        line=row.line,
        issuer=ISSUER,
        billing_account=row.required("billing_account_id"),
        billing_account_name=None,
        billing_period_start=month[0],
        billing_period_end=month[1],
        charge_period_start=start,
        charge_period_end=end,
        category=category,
        currency=row.currency("currency"),
        billed_cost=net,
        effective_cost=net,
        list_cost=row.quantity("cost_at_list"),
        contracted_cost=cost,
        charge_class="Correction" if is_late else None,
        description=row.text("sku.description"),
        frequency="Recurring" if category == "Purchase" else None,
        sub_account=row.text("project.id"),
        sub_account_name=row.text("project.name"),
        provider=ISSUER,
        service=row.text("service.description"),
        sku=row.text("sku.id"),
        resource=row.text("resource.global_name") or row.text("resource.name"),
        resource_name=(row.text("resource.name") or "").rsplit("/", 1)[-1] or None,
        region=row.text("location.region") or row.text("location.location"),
        instance_type=machine,
        gpu_model=gpu.model if gpu else None,
        gpu_count=gpu.count if gpu else None,
        pricing_category="Dynamic"
        if "spot" in (row.text("sku.description") or "").lower()
        else None,
        pricing_quantity=row.quantity("usage.amount_in_pricing_units"),
        pricing_unit=row.text("usage.pricing_unit"),
        consumed_quantity=row.quantity("usage.amount") if category == "Usage" else None,
        consumed_unit=row.text("usage.unit") if category == "Usage" else None,
        contracted_unit_price=row.quantity("price.effective_price"),
        tags=row.map("project.labels") | row.map("tags") | row.map("labels"),
    )


def _month(row: Row) -> tuple[datetime, datetime]:
    """The month of the invoice, which need not be that of the use."""
    text = row.required("invoice.month")
    try:
        period = month_of(f"{text[:4]}-{text[4:]}" if len(text) == 6 else text)
    except ValueError:
        raise Fault("invoice.month", text, "not a month (YYYYMM)") from None
    return period.start.astimezone(UTC), period.end.astimezone(UTC)


def _credits(row: Row) -> list[Decimal]:
    """The amounts of a row's credits. They are money: unreadable, they cost the row its place."""
    text = row.text("credits")
    if text is None:
        return []
    try:
        return amounts_of(text)
    except ValueError as error:
        raise Fault("credits", text, str(error)) from None


def _category(row: Row) -> str:
    kind = (row.text("cost_type") or "regular").lower()
    if kind not in _CATEGORIES:
        row.notes.append(f"cost_type {kind} is not known: taken as an adjustment")
    category = _CATEGORIES.get(kind, "Adjustment")
    is_fee = (row.text("sku.description") or "").lower().startswith(_COMMITMENT)
    return "Purchase" if category == "Usage" and is_fee else category


def _gpu(row: Row, machine: str | None) -> Gpu | None:
    """GPUs of the row's own SKU. Cores and memory of a GPU machine have its model and no GPU."""
    description = row.text("sku.description")
    gpu = gpu_of(None, None, (description,))
    if gpu is not None:
        return Gpu(machine or gpu.instance_type, gpu.model, gpu.count)
    shape = shape_of(machine) if machine else None
    text = f" {(description or '').lower()} "
    if shape and " instance" in text and any(part in text for part in HOST_PARTS):
        return Gpu(machine, shape.gpu_model, Decimal(0))
    return None
