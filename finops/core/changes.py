"""Changes of a workload and their impact: matched hours before and after, and how sure that is (§10).

An hour after a change is matched with one before it: the same hour of the week, a similar load. The
interval comes from drawing the pairs again with a seeded generator, in whole numbers, so that
anyone who draws with the same seed gets the same bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .bridge import decimal_of
from .period import HOUR_MS, milliseconds

KINDS = ("configuration", "engine version", "replicas")
CONFIRMED, DISMISSED = "confirmed", "dismissed"
WEEK_HOURS = 168
WINDOW_HOURS = 14 * 24
LEAST_PAIRS = 24
DRAWS = 500
LOW, HIGH = 12, 487
"""Of 500 draws in order, the ones between which 95 % lie."""
LOAD_BAND = Fraction(1, 5)
MILLION = 10**6
LEVELS = 201  # half per cents of use, and what lies at the very top
NOT_ENOUGH = "not enough data: fewer than 24 matched hours"


@dataclass(frozen=True, slots=True)
class Change:
    """Something about a workload that was not so before `at`, the hour in which it first showed."""

    workload: str
    kind: str
    at: datetime
    before: str
    after: str

    @property
    def key(self) -> str:
        """What tells it from every other change, also when it is found again."""
        text = "\n".join((self.workload, self.kind, self.at.isoformat(), self.before, self.after))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class LoadHour:
    """One hour of a workload: its own cost, its tokens, and the time at each level of KV use."""

    hour_ms: int
    cost: Decimal
    tokens: int
    levels_ms: Mapping[int, int]


Pair = tuple[LoadHour, LoadHour]


def pairs_of(hours: Iterable[LoadHour], at: datetime) -> list[Pair]:
    """Matched hours (before, after): the same hour of the week, loads at most a fifth apart.

    Two weeks on either side; the hour of the change itself belongs to neither. Of several that
    match, the nearest load is taken, then the later hour; each hour before is used once.
    """
    change_ms = milliseconds(at) // HOUR_MS * HOUR_MS
    reach = WINDOW_HOURS * HOUR_MS
    loaded = sorted((h for h in hours if h.tokens > 0 and h.cost > 0), key=lambda h: h.hour_ms)
    befores = [h for h in loaded if change_ms - reach <= h.hour_ms < change_ms]
    afters = [h for h in loaded if change_ms < h.hour_ms <= change_ms + reach]
    used: set[int] = set()
    pairs = []
    for after in afters:
        matching = [
            one
            for one in befores
            if one.hour_ms not in used
            and (after.hour_ms - one.hour_ms) // HOUR_MS % WEEK_HOURS == 0
            and abs(one.tokens - after.tokens) <= LOAD_BAND * max(one.tokens, after.tokens)
        ]
        if matching:
            best = min(matching, key=lambda one: (abs(one.tokens - after.tokens), -one.hour_ms))
            used.add(best.hour_ms)
            pairs.append((best, after))
    return pairs


class Drawing:
    """A repeatable source of whole numbers: SHA-256 of a seed and a count."""

    def __init__(self, seed: str) -> None:
        self.seed, self.count, self.pool = seed, 0, b""

    def below(self, limit: int) -> int:
        """The next number below a limit (at most 2^16): four bytes, modulo the limit."""
        if len(self.pool) < 4:
            self.pool = hashlib.sha256(f"{self.seed}:{self.count}".encode()).digest()
            self.count += 1
        four, self.pool = self.pool[:4], self.pool[4:]
        return int.from_bytes(four, "big") % limit


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure before and after, and its difference with a 95 % interval."""

    before: Decimal
    after: Decimal
    difference: Decimal
    lower: Decimal
    upper: Decimal


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change did, in matched hours. None with the reason where too little is known."""

    pairs: int
    seed: str
    cost: Difference | None
    p99: Difference | None
    reason: str | None


def impact(change: Change, hours: Iterable[LoadHour]) -> Impact:
    """The impact of a change on cost per million tokens and on p99 of KV use."""
    pairs, seed = pairs_of(hours, change.at), change.key
    if len(pairs) < LEAST_PAIRS:
        return Impact(len(pairs), seed, None, None, NOT_ENOUGH)
    drawing = Drawing(seed)
    draws = [[drawing.below(len(pairs)) for _ in pairs] for _ in range(DRAWS)]
    return Impact(len(pairs), seed, _cost(pairs, draws), _p99(pairs, draws), None)


def _cost(pairs: Sequence[Pair], draws: Sequence[Sequence[int]]) -> Difference:
    digits = max(-int(h.cost.as_tuple().exponent) for pair in pairs for h in pair)
    unit = 10 ** max(0, digits)
    rows = [
        (int(b.cost * unit), b.tokens, int(a.cost * unit), a.tokens) for b, a in pairs
    ]  # whole units of the last digit

    def prices(picked: Iterable[tuple[int, int, int, int]]) -> tuple[Fraction, Fraction]:
        cost_before, tokens_before, cost_after, tokens_after = map(sum, zip(*picked, strict=True))
        scale = Fraction(MILLION, unit)
        return scale * cost_before / tokens_before, scale * cost_after / tokens_after

    before, after = prices(rows)
    drawn = [prices([rows[i] for i in draw]) for draw in draws]
    return _difference(before, after, [late - early for early, late in drawn])


def _p99(pairs: Sequence[Pair], draws: Sequence[Sequence[int]]) -> Difference | None:
    if not all(h.levels_ms for pair in pairs for h in pair):
        return None
    tables = [_table([pair[side].levels_ms for pair in pairs]) for side in (0, 1)]
    before, after = (p99_of(table.sum(axis=0)) for table in tables)
    drawn = []
    for draw in draws:
        times = np.bincount(draw, minlength=len(pairs)).astype(np.int64)
        early, late = (p99_of(times @ table) for table in tables)
        drawn.append(late - early)
    return _difference(before, after, drawn)


def _table(hours: Sequence[Mapping[int, int]]) -> npt.NDArray[np.int64]:
    """Milliseconds by hour and level; whole numbers far below 2^63."""
    table = np.zeros((len(hours), LEVELS), np.int64)
    for number, levels in enumerate(hours):
        for level, held in levels.items():
            table[number, min(level, LEVELS - 1)] += held
    return table


def p99_of(held_ms: npt.NDArray[np.int64]) -> Fraction:
    """The use not exceeded for 99 % of the time: the upper edge of its half per cent."""
    reached = np.cumsum(held_ms)
    level = int(np.argmax(100 * reached >= 99 * reached[-1]))
    return min(Fraction(1), Fraction(level + 1, 200))


def _difference(before: Fraction, after: Fraction, drawn: list[Fraction]) -> Difference:
    in_order = sorted(drawn)
    values = (before, after, after - before, in_order[LOW], in_order[HIGH])
    return Difference(*(decimal_of(value) for value in values))
