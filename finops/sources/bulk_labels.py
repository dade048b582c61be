"""The texts that many lines kept whole have in common, as COPY reads them, made once for all of them.

A line also has texts of its own: its resource's. Both are cells of a FOCUS file that are copied as they
stand; a cell of which COPY or the parser would make anything else makes its line odd (`bulk_kept`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from finops.sources.cells import NULLS

OWN: Final[Mapping[str, Sequence[str]]] = {
    "resource": ("ResourceId",),
    "resource_name": ("ResourceName",),
}
"""Fields of a charge that are the text of a cell, and mostly another one on each line."""
COMMON: Final[Mapping[str, Sequence[str]]] = {
    "charge_class": ("ChargeClass",),
    "sub_account": ("SubAccountId",),
    "sub_account_name": ("SubAccountName",),
    "service": ("ServiceName",),
    "service_category": ("ServiceCategory",),
    "region": ("RegionId", "RegionName"),
    "pricing_category": ("PricingCategory",),
    "pricing_unit": ("PricingUnit",),
    "consumed_unit": ("ConsumedUnit",),
    "commitment": ("CommitmentDiscountId",),
    "commitment_name": ("CommitmentDiscountName",),
    "commitment_status": ("CommitmentDiscountStatus",),
    "invoice": ("InvoiceId",),
}
"""Such fields that lines share; of several columns the first that is filled."""
BEFORE_CELL: Final = "\x01"
"""Stands before each cell where they are looked at in a row; neither COPY nor the parser takes it for
anything else."""
ODD: Final = r"[\x00\x02-\x1F\x7F\\]|\x01[^!-~\x01]|[^!-~\x01]\x01|[^!-~\x01]$"
"""In such a row: other controls, a backslash, and what a cell may not begin or end with."""
_ODD: Final = re.compile(ODD)
_UNKNOWN: Final = r"\N"


def columns_of(fields: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The columns of some fields."""
    return tuple(name for names in fields.values() for name in names)


def label(columns: Sequence[str], cells: Sequence[str]) -> str | None:
    """The fields of `COMMON` with a tab between, from the cells of columns; None where one is odd."""
    if _ODD.search("".join(BEFORE_CELL + cell for cell in cells)):
        return None
    known = {name: cell for name, cell in zip(columns, cells, strict=True) if cell not in NULLS}
    told = (
        next((known[name] for name in names if name in known), _UNKNOWN)
        for names in COMMON.values()
    )
    return "\t".join(told)
