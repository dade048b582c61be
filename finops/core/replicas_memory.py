"""Replicas of one kind whose pool is far from that of their equals (method §8.3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Final

from .money import divide

FAR: Final = Decimal("0.05")
"""Usual differences between starts are blocks; a disturbed measurement is off by gigabytes."""


def standing_out(
    pools: Sequence[tuple[str, Hashable, int]],
) -> list[tuple[str, int, int, Decimal]]:
    """Of engines by name, kind and pool, those over 5 % away from the middle one of their kind:
    name, pool, the middle pool and the share by which it differs, signed.

    Of two the larger is taken as the measure: what disturbs a measurement makes the pool smaller.
    """
    kinds: dict[Hashable, list[int]] = {}
    for _, kind, pool in pools:
        kinds.setdefault(kind, []).append(pool)
    found = []
    for name, kind, pool in pools:
        mine = sorted(kinds[kind])
        middle = mine[len(mine) // 2]
        away = divide(Decimal(pool - middle), Decimal(middle)) if middle else Decimal(0)
        if abs(away) > FAR:
            found.append((name, pool, middle, away))
    return found
