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
        if value is None or held_ms <= 0:
            return
        self.byte_ms[name] = self.byte_ms.get(name, Decimal(0)) + Decimal(value) * held_ms
        self.ms[name] = self.ms.get(name, 0) + held_ms

    def mean(self, name: str) -> int | None:
        """The mean in bytes, rounded once; None where nothing was measured."""
        if not self.ms.get(name):
            return None
        exact = self.byte_ms[name] / self.ms[name]
        return int(exact.to_integral_value(ROUND_HALF_EVEN))


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


def table_of(means: Means) -> Table:
    """The table of time-weighted means."""
    return Table(
        total=means.mean("total"),
        parts={name: means.mean(name) for name in PARTS},
        beside={name: means.mean(name) for name in BESIDE},
    )


def added(tables: Iterable[Table]) -> Table:
    """Several devices' tables together; a part is known when every device tells it."""
    known = list(tables)

    def total(values: list[int | None]) -> int | None:
        told = [value for value in values if value is not None]
        return sum(told) if told and len(told) == len(values) else None

    return Table(
        total=total([one.total for one in known]),
        parts={name: total([one.parts.get(name) for one in known]) for name in PARTS},
        beside={name: total([one.beside.get(name) for one in known]) for name in BESIDE},
    )
