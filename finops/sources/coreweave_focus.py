"""FOCUS files of usage without any cost, CSV, JSON or Parquet, as CoreWeave's export gives them (§3.10).

Quantities only: what is billed and what is effective are unknown until a rate card prices them, and
never 0. A file that does tell them is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from finops.sources import focus
from finops.sources import focus_columns as columns
from finops.sources.cells import text_or_none
from finops.sources.gpu_shapes import UNRECOGNISED, gpu_of
from finops.sources.json_rows import looks_like_json
from finops.sources.parquet import has_columns, is_parquet
from finops.sources.records import Account, ChargeRecord, Parsed, Refused, Rejection
from finops.sources.rows import Cells, charges_of, header_of, table_rows

FORMAT: Final = "coreweave-focus"
FORMATS: Final[tuple[str, ...]] = (FORMAT,)
_COSTS: Final = ("BilledCost", "EffectiveCost")
_SIGNS: Final = ("ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "ChargeCategory")
_QUANTITIES: Final = ("ConsumedQuantity", "PricingQuantity")


def recognises(head: bytes, name: str) -> str | None:
    """`coreweave-focus` for charge periods and quantities without a column of cost."""
    if looks_like_json(head):
        return FORMAT if focus.json_signs(head) and not focus.json_signs(head, *_COSTS) else None
    if is_parquet(head):
        signs = has_columns(head, *_SIGNS, "ConsumedQuantity")
        return FORMAT if signs and not has_columns(head, "BilledCost") else None
    places = columns.placed(header_of(head))
    has_quantity = any(one in places for one in _QUANTITIES)
    without_cost = not any(one in places for one in _COSTS)
    if has_quantity and all(sign in places for sign in _SIGNS) and without_cost:
        return FORMAT
    return None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Charges without what is billed or effective, whose columns may be there (`--as`) but empty.

    Refused, as the records are read, where one of them is filled.
    """
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
    costs = {column: at for column, at in places.items() if column in _COSTS}
    uncosted = _without_costs(rows, costs, name)
    records = charges_of(uncosted, len(header), unpriced, account, focus.charge_of)
    return Parsed(account, _with_gpus(records))


def _without_costs(
    rows: Iterable[tuple[int, Cells | Rejection]], costs: Mapping[str, int], name: str
) -> Iterator[tuple[int, Cells | Rejection]]:
    """The rows of a file without costs. Refused at the first that tells one: it would be lost."""
    for line, cells in rows:
        told = () if isinstance(cells, Rejection) else cells
        for column, place in costs.items():
            text = text_or_none(told[place]) if place < len(told) else None
            if text is not None:
                raise Refused(
                    f"{name}: line {line}, {column}: {text[:80]!r} is a cost, which {FORMAT} would "
                    "leave out; read the file as focus (--as focus), or leave the column empty",
                    line=line,
                    column=column,
                    value=text,
                )
        yield line, cells


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
