"""FOCUS files of usage without any cost, CSV or JSON, as CoreWeave's export gives them (§3.10).

Quantities only: every amount is unknown until a rate card prices it, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from finops.sources import focus
from finops.sources import focus_columns as columns
from finops.sources.gpu_shapes import UNRECOGNISED, gpu_of
from finops.sources.json_rows import looks_like_json
from finops.sources.parquet import is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.rows import charges_of, header_of, table_rows

FORMAT: Final = "coreweave-focus"
FORMATS: Final[tuple[str, ...]] = (FORMAT,)
_COSTS: Final = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
_SIGNS: Final = ("ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "ChargeCategory")
_QUANTITIES: Final = ("ConsumedQuantity", "PricingQuantity")


def recognises(head: bytes, name: str) -> str | None:
    """`coreweave-focus` for charge periods and quantities without a column of cost."""
    if looks_like_json(head):
        return (
            FORMAT if focus.json_signs(head) and not focus.json_signs(head, *_COSTS[:2]) else None
        )
    if is_parquet(head):
        signs = all(sign.encode() in head for sign in (*_SIGNS, "ConsumedQuantity"))
        return FORMAT if signs and b"BilledCost" not in head else None
    places = columns.placed(header_of(head))
    has_quantity = any(one in places for one in _QUANTITIES)
    without_cost = not any(one in places for one in _COSTS[:2])
    if has_quantity and all(sign in places for sign in _SIGNS) and without_cost:
        return FORMAT
    return None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges without money. Columns of cost are not read even when they are there (`--as`)."""
    rows = table_rows(path, name)
    header = [column or "" for column in next(rows, (1, ()))[1]]
    if twice := columns.duplicates(header):
        raise Refused(
            f"{name}: line 1: the column {twice[0]} stands more than once", line=1, column=twice[0]
        )
    places = columns.placed(header)
    if absent := [sign for sign in _SIGNS if sign not in places]:
        raise Refused(f"{name}: line 1: no column {absent[0]}", line=1, column=absent[0])
    version = columns.version_of(header)
    account = Account(
        format,
        version=version,
        unknown_columns=columns.unknown(header, places),
        missing_columns=columns.missing(places, version),
    )
    unpriced = {column: at for column, at in places.items() if column not in _COSTS}
    records = charges_of(rows, len(header), unpriced, account, focus.charge_of)
    return Parsed(account, _with_gpus(records))


def _with_gpus(
    records: Iterator[ChargeRecord | Rejection],
) -> Iterator[ChargeRecord | Rejection]:
    """GPUs told by the SKU's name, where the descriptions are blank."""
    for record in records:
        if isinstance(record, ChargeRecord) and record.gpu_model in (None, UNRECOGNISED):
            names = [
                (one or "").replace("-", " ").replace("_", " ")
                for one in (record.sku, record.sku_price)
            ]
            hours = "gpu" in (record.consumed_unit or record.pricing_unit or "").lower()
            gpu = gpu_of(None, None, [f"{one} GPU" if hours else one for one in names if one])
            if gpu is not None and gpu.model != UNRECOGNISED:
                record = replace(record, gpu_model=gpu.model, gpu_count=gpu.count)
        yield record
