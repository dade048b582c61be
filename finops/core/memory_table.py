"""The memory table of a GPU, an engine or a group: it closes with a signed remainder (method §8.5).

driver + free + other processes + weights + KV active + KV unreferenced + graphs + non-torch +
unattributed = device total. What is not measured is None and part of the remainder, which is never
forced to zero. The printed activation peak stands beside the table and is not added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from .money import EXACT, add, divide

PARTS: Final = (
    "driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs", "non_torch",
)  # fmt: skip
BESIDE: Final = ("total", "used", "kv_reserved", "activation_peak")
LABELS: Final = {
    "driver": "reserved by the driver",
    "free": "free",
    "other": "other processes",
    "weights": "weights",
    "kv_active": "KV cache, referenced by live requests",
    "kv_unreferenced": "KV cache, reserved, unreferenced (may hold reusable prefix cache)",
    "graphs": "CUDA graphs",
    "non_torch": "non-torch (context, NCCL)",
}


@dataclass(slots=True)
class Means:
    """Time-weighted sums of bytes by name; a part known for some of the time is a mean of that."""

    byte_ms: dict[str, Decimal] = field(default_factory=dict)
    ms: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, value: Decimal | int | None, held_ms: int) -> None:
        """Adds bytes held for a time; None is unknown and adds nothing."""
        self.add_sum(name, None if value is None else Decimal(value) * held_ms, held_ms)

    def add_sum(self, name: str, byte_ms: Decimal | int | None, held_ms: int) -> None:
        """Adds what was held over a time, bytes × milliseconds; None is unknown and adds nothing."""
        if byte_ms is None or held_ms <= 0:
            return
        self.byte_ms[name] = EXACT.add(self.byte_ms.get(name, Decimal(0)), Decimal(byte_ms))
        self.ms[name] = self.ms.get(name, 0) + held_ms

    def exact(self) -> Exact:
        """The means in bytes, not rounded; None where nothing was measured."""
        return {
            name: divide(self.byte_ms[name], Decimal(self.ms[name])) if self.ms.get(name) else None
            for name in (*PARTS, *BESIDE)
        }


Exact = Mapping[str, Decimal | None]
"""Parts of a table, in bytes that are not rounded yet; None is not measured."""


@dataclass(frozen=True, slots=True)
class Table:
    """One memory table in bytes. `unattributed` is signed: activations, allocator cache, and what
    is not measured."""

    total: int | None
    parts: Mapping[str, int | None]
    beside: Mapping[str, int | None]

    @property
    def unattributed(self) -> int | None:
        """What the known parts leave of the device; None where the device is not measured."""
        if self.total is None:
            return None
        return self.total - sum(value for value in self.parts.values() if value is not None)

    @property
    def not_measured(self) -> list[str]:
        """The parts that nothing tells."""
        missing = [name for name in PARTS if self.parts.get(name) is None]
        return (["total"] if self.total is None else []) + missing

    def as_json(self) -> dict[str, Any]:
        """Plain values by name, each ending in `_bytes`."""
        value: dict[str, Any] = {"total_bytes": self.total}
        value |= {f"{name}_bytes": self.parts.get(name) for name in PARTS}
        value["unattributed_bytes"] = self.unattributed
        value |= {f"{n}_bytes": v for n, v in self.beside.items() if n != "total"}
        return value | {"not_measured": self.not_measured}


def table_of(exact: Exact) -> Table:
    """The table of exact parts, each rounded once. What is not referenced is what active leaves
    of reserved, so that the rounded parts add up."""
    whole = {
        name: None
        if (value := exact.get(name)) is None
        else int(value.to_integral_value(ROUND_HALF_EVEN))
        for name in (*PARTS, *BESIDE)
    }
    reserved, active = whole["kv_reserved"], whole["kv_active"]
    if reserved is not None and active is not None:
        whole["kv_unreferenced"] = reserved - active
    return Table(
        total=whole["total"],
        parts={name: whole[name] for name in PARTS},
        beside={name: whole[name] for name in BESIDE},
    )


def together(pieces: Iterable[tuple[Exact, int]], whole_ms: int) -> Exact:
    """Engines of a GPU, or GPUs of a group, over a time: each counts for as long as it was there.

    So what followed one another on one card is never added up. A part is known when every piece
    tells it. Pieces that were there for no time at all count alike.
    """
    known = [(exact, held) for exact, held in pieces if held > 0 or not whole_ms]

    def total(name: str) -> Decimal | None:
        values = [(exact.get(name), held) for exact, held in known]
        if not values or any(value is None for value, _ in values):
            return None
        told = ((value, held) for value, held in values if value is not None)
        return add([_for(value, held, whole_ms) for value, held in told])

    return {name: total(name) for name in (*PARTS, *BESIDE)}


def _for(value: Decimal, held_ms: int, whole_ms: int) -> Decimal:
    """A piece's share of a time: a quotient to 60 digits, as every mean (§1)."""
    if held_ms == whole_ms or not whole_ms:
        return value
    return divide(EXACT.multiply(value, Decimal(held_ms)), Decimal(whole_ms))
