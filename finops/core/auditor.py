"""Figures of a card's memory as other tools show them, each found again in our table (method §8).

An auditor reads a number off nvidia-smi, a cloud console or a machine's own memory and asks which of
ours it is. Tools differ in unit (MiB, GiB, GB) and in what they leave out; nothing here is guessed:
a figure is named where it is within half a per cent of one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from .money import divide

UNITS: Final = {"MiB": 1 << 20, "GiB": 1 << 30, "GB": 10**9, "MB": 10**6}
PER_CENT: Final = "%"
NEAR: Final = Decimal("0.005")
_ASKED: Final = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:[.,][0-9]+)?)"
    r"(?P<unit>MiB|GiB|MB|GB|%)?(?:/.*)?",
    re.IGNORECASE | re.ASCII,
)
"""Commas set thousands apart where three digits follow each, else one begins the decimals."""
LONGEST_NUMBER: Final = 20
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a card: what it is, its bytes, and where it is seen under which name."""

    name: str
    bytes: int
    seen_as: str


def figures_of(row: Row) -> list[Figure]:
    """The figures of a card that other tools show too, those that are known."""
    cache = row.get("kv_reserved_bytes")
    held = _sum(*(row.get(f"{n}_bytes") for n in ("kv_reserved", "weights", "graphs", "non_torch")))
    total, driver = row.get("total_bytes"), row.get("driver_bytes")
    told = [
        ("in use, mean", row.get("used_bytes"), "nvidia-smi memory.used, DCGM FB_USED"),
        ("in use, at the peak", row.get("peak_used_bytes"), "nvidia-smi memory.used at that time"),
        ("the whole card", total, "nvidia-smi memory.total"),
        (
            "the whole card without the driver's part",
            None if total is None or driver is None else total - driver,
            "CUDA and the engine's log: the total that gpu_memory_utilization is a share of",
        ),
        ("free", row.get("free_bytes"), "nvidia-smi memory.free, DCGM FB_FREE"),
        ("kept by the driver", driver, "nvidia-smi memory.reserved, DCGM FB_RESERVED"),
        (
            "in use with the driver's part",
            _sum(row.get("used_bytes"), driver),
            "nvidia-smi memory.used of drivers before 510",
        ),
        ("weights", row.get("weights_bytes"), "the engine's log: model loading took"),
        ("the KV cache's reservation", cache, "the engine's log: KV cache memory"),
        ("KV cache in use, mean", row.get("kv_active_bytes"), "no tool outside the engine"),
        ("weights, cache, graphs and context", held, "what the engine holds from its start"),
    ]
    return [Figure(name, size, seen) for name, size, seen in told if size]


def _sum(*parts: int | None) -> int | None:
    """The sum; None where a part is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


@dataclass(frozen=True, slots=True)
class Match:
    """A figure of ours beside the number asked for; `difference_bytes` is theirs less ours."""

    figure: Figure
    shown: Decimal
    difference_bytes: int


def asked(text: str, unit: str) -> tuple[Decimal, str] | None:
    """A number as it is read off another tool, and its unit: its own (`33442MiB / 46068MiB` of
    nvidia-smi is the first), else the one given; None for what is no number."""
    found = _ASKED.fullmatch("".join(text.split()))
    if found is None or len(found["number"]) > LONGEST_NUMBER:
        return None
    number = found["number"]
    is_grouped = re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", number) is not None
    plain = number.replace(",", "" if is_grouped else ".")
    own = (found["unit"] or "").casefold()
    units = {name.casefold(): name for name in (*UNITS, PER_CENT)}
    return Decimal(plain), units.get(own, unit)


def find(number: Decimal, unit: str, row: Row) -> list[Match]:
    """The figures a number may be, the nearest first; empty where none is near.

    `unit` is one of UNITS or `%` (of the whole card). Raises ValueError for another unit.
    """
    if unit != PER_CENT and unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join((*UNITS, PER_CENT))}, not {unit!r}")
    total = row.get("total_bytes")
    if unit == PER_CENT and not total:
        return []
    scale = Decimal(total or 0) / 100 if unit == PER_CENT else Decimal(UNITS[unit])
    asked = number * scale
    found = [
        Match(one, divide(Decimal(one.bytes), scale), int(asked - one.bytes))
        for one in figures_of(row)
        if abs(asked - one.bytes) <= one.bytes * NEAR + _half_unit(number, scale)
    ]
    return sorted(found, key=lambda one: abs(one.difference_bytes))


def _half_unit(number: Decimal, scale: Decimal) -> Decimal:
    """What rounding to the digits given may hide."""
    exponent = number.as_tuple().exponent
    return scale * Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0) / 2


def over_profile(row: Row) -> int | None:
    """By how many bytes a card's peak exceeded what its engine holds and the activation peak that
    it measured at its start; None where that is not known or was not exceeded."""
    names = ("kv_reserved", "weights", "graphs", "non_torch", "activation_peak")
    peak, parts = row.get("peak_used_bytes"), _sum(*(row.get(f"{name}_bytes") for name in names))
    if peak is None or parts is None:
        return None
    return max(0, int(peak - parts)) or None
