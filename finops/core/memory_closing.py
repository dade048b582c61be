"""The closing memory table of a week as a report states it, and its headroom cost (method §8.5, §8.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .memory_table import PARTS, Table
from .money import EXACT, divide, plain, round_half_even

FLEET = ""  # the name of the group of all engines and GPUs
DECIMALS = 4
COLUMNS = ("total", *PARTS, "used", "kv_reserved", "activation_peak")
"""What a group's row is made of; what closes it and its cost follow from these."""


@dataclass(frozen=True, slots=True)
class Closing:
    """One group's table over the week: of a workload's engines, or of the fleet."""

    workload: str
    table: Table
    cost: Decimal | None = None

    def row(self) -> tuple[str, *tuple[int | None, ...]]:
        """The group and its columns, in bytes; None is not measured."""
        known = {**self.table.beside, **self.table.parts, "total": self.table.total}
        return (self.workload, *(known.get(name) for name in COLUMNS))

    def as_json(self) -> dict[str, Any]:
        """Plain values: bytes by name, the signed remainder, and the headroom cost as text."""
        name, *values = self.row()
        named = {f"{n}_bytes": v for n, v in zip(COLUMNS, values, strict=True)}
        headroom = headroom_cost(self.cost, named["kv_unreferenced_bytes"], named["total_bytes"])
        return {
            "workload": name or None,
            **named,
            "unattributed_bytes": self.table.unattributed,
            "headroom_cost": None if headroom is None else plain(headroom),
        }


def headroom_cost(
    cost: Decimal | None, unreferenced: int | None, total: int | None
) -> Decimal | None:
    """Effective cost × the share of the device that is reserved and not referenced, to four
    decimals; None where one of them is not known. For information, never added to idle (§8.8)."""
    if not cost or unreferenced is None or not total:
        return None
    above = EXACT.multiply(cost, Decimal(unreferenced))
    return round_half_even(divide(above, Decimal(total)), DECIMALS)


def stated(rows: tuple[Closing, ...]) -> list[Mapping[str, Any]]:
    """The rows of a statement: the workloads, then the fleet."""
    return [one.as_json() for one in rows]
