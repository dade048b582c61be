"""Pools of engines that tell their memory by gauges of their own, as SGLang does (method §8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from finops.core.cache import Pool
from finops.core.money import round_half_even
from finops.ledger.models import Series
from finops.sources.engines import role_of

from .gauges import Gauges
from .roles import POOL_ROLES

RANKS = ("dp_rank", "tp_rank", "pp_rank")


def pools_by_gauges(usage: Series, series: Sequence[Series], gauges: Gauges) -> list[Pool]:
    """The pools of an engine in time order, a new one where its size in tokens changed.

    A token is a block of its own. Gauges of a rank are of one GPU; the usage's own rank counts.
    """
    mine = [one for one in series if one.role in POOL_ROLES and _is_same_rank(one, usage)]
    sizes = next((one for one in mine if one.role == "pool_tokens"), None)
    if sizes is None:
        return []
    pools: list[Pool] = []
    for time_ms, value in _readings(sizes, gauges):
        if value <= 0 or (pools and pools[-1].pool_tokens == int(value)):
            continue
        tokens = int(value)
        told = tuple(sorted(_bytes_at(mine, time_ms, gauges).items()))
        pools.append(Pool(time_ms, tokens, 1, tokens, None, told, null_blocks=0))
    return pools


def _is_same_rank(one: Series, usage: Series) -> bool:
    return one.engine == usage.engine and all(
        one.labels.get(name) == usage.labels.get(name) for name in RANKS
    )


def _readings(one: Series, gauges: Gauges) -> list[tuple[int, float]]:
    times, values = gauges.first(one)
    return list(zip(times.tolist(), values.tolist(), strict=True))


def _bytes_at(mine: Sequence[Series], time_ms: int, gauges: Gauges) -> dict[str, str]:
    """Bytes by role at an instant, as text; graphs of several phases are added."""
    found: dict[str, int] = {}
    for one in mine:
        role = role_of(one.metric)
        if one.role == "pool_tokens" or role is None:
            continue
        value = next((v for t, v in _readings(one, gauges) if t >= time_ms), None)
        if value is not None:
            # The text of the reading, not its binary value, times the unit.
            size = int(round_half_even(Decimal(repr(value)) * role.scale, 0))
            found[one.role] = found.get(one.role, 0) + size
    return {name: str(size) for name, size in found.items()}
