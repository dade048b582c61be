"""What a period's tokens are: booked, bounded and covered (method §2.5, §2.6).

The bounds of a period are not sums of the bounds of its hours: they are made here from what the
hours' rows kept (highest rate, dark seconds, edges).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

COVERAGE_DECIMALS = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Rate:
    """A rise over a time: tokens in milliseconds; compared exactly."""

    tokens: int = 0
    ms: int = 1

    def __lt__(self, other: Rate) -> bool:
        return self.tokens * other.ms < other.tokens * self.ms

    def over(self, dark_ms: int) -> int:
        """ceil(rate × dark)."""
        return -(-self.tokens * dark_ms // self.ms)


@dataclass(frozen=True, slots=True)
class Dark:
    """Time in which an incarnation may have counted unseen. `shown` is what the next reading of
    an unmarked restart without an `up` = 0 before it already shows; otherwise 0."""

    ms: int
    shown: int = 0


@dataclass(slots=True)
class SeriesPeriod:
    """One counter series in a period."""

    booked: int = 0
    readings: int = 0
    restarts: int = 0
    hidden_resets: int = 0
    ends: int = 0
    openings: int = 0
    opening_tokens: int = 0
    alternations: int = 0
    gaps: int = 0
    unmarked: bool = False
    edge_in_gap: bool = False
    unread_edges: int = 0
    """Edges of the period that lie between two readings with a gap between them, or between a
    birth and a first reading so far from it."""
    straddles_start: int = 0
    straddles_end: int = 0
    rate: Rate = field(default_factory=Rate)
    darks: list[Dark] = field(default_factory=list)
    living_ms: int = 0
    unobserved_ms: int = 0
    cap: Rate | None = None
    """The highest rate declared for the workload that has the series, where one is."""

    def lower(self) -> int:
        """Booked, less what straddles the period's start across a gap."""
        return self.booked - self.straddles_start

    def upper(self, least_rate: Rate | None = None) -> int:
        """Booked, plus what may have been counted in the dark and across the end's gap.

        `least_rate` is used where it is higher, and so is the declared cap.
        """
        rate = max(self.rate, self.cap or Rate(), least_rate or Rate())
        unseen = sum(max(0, rate.over(dark.ms) - dark.shown) for dark in self.darks)
        return self.booked + unseen + self.straddles_end

    def own_upper(self) -> int | None:
        """`upper` by the series' own highest rate or the cap; None where it was dark and has neither."""
        known = self.rate.tokens or self.cap is not None
        return self.upper() if known or not self.darks else None

    def exact(self) -> bool:
        """Nothing can be missing or misplaced (method §2.6)."""
        clean = not (self.restarts or self.ends or self.openings or self.alternations)
        return clean and not self.edge_in_gap and not (self.unmarked and self.gaps)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a group in a period; None where nothing says, never 0 for unknown."""

    prompt: int | None = None
    cached_prompt: int | None = None
    generation: int | None = None
    delivered_prompt: int | None = None
    delivered_generation: int | None = None
    delivered_cached_prompt: int | None = None
    delivered_lower: int | None = None
    delivered_upper: int | None = None
    prompt_lower: int | None = None
    prompt_upper: int | None = None
    generation_lower: int | None = None
    generation_upper: int | None = None
    exact: bool = False
    restarts: int = 0
    hidden_resets: int = 0
    readings: int = 0
    coverage: Decimal = Decimal("0.0000")
    ends: int = 0
    gaps: int = 0
    alternations: int = 0
    unplaced_openings: int = 0
    opening_tokens: int = 0
    unmarked_restarts: int = 0
    unread_edges: int = 0
    unobserved_ms: int = 0
    living_ms: int = 0
    delivered_twice: bool = False
    delivered_beside: int = 0
    """Delivered tokens that gateways or usage records tell where the engines tell theirs too."""

    def as_json(self) -> dict[str, Any]:
        """The contract's TOKENS object."""
        names = ("cached_prompt", *_SUMS, "exact", *_COUNTS)
        return {name: getattr(self, name) for name in names} | {"coverage": str(self.coverage)}


def coverage(living_ms: int, unobserved_ms: int) -> Decimal:
    """1 − unobserved ÷ living, to four decimals; 0 where nothing lived (method §2.5).

    Never shown as 1 while anything is unobserved, nor as 0 while anything was observed.
    """
    if living_ms <= 0:
        return Decimal("0.0000")
    share = Context(prec=40, rounding=ROUND_HALF_EVEN).divide(
        Decimal(max(0, living_ms - unobserved_ms)), Decimal(living_ms)
    )
    shown = share.quantize(COVERAGE_DECIMALS, rounding=ROUND_HALF_EVEN)
    if shown == 1 and unobserved_ms > 0:
        return Decimal("0.9999")
    return shown


_SUMS = (
    "prompt",
    "generation",
    "delivered_prompt",
    "delivered_generation",
    "delivered_cached_prompt",
    "delivered_lower",
    "delivered_upper",
    "prompt_lower",
    "prompt_upper",
    "generation_lower",
    "generation_upper",
)
_COUNTS = (
    "restarts",
    "hidden_resets",
    "readings",
    "ends",
    "gaps",
    "alternations",
    "unplaced_openings",
    "opening_tokens",
    "unmarked_restarts",
    "unread_edges",
)

Parts = dict[str, list[SeriesPeriod]]
"""The series of a group by role."""


def _total(parts: Sequence[SeriesPeriod]) -> int | None:
    """What readings booked; of parts that have bounds alone nobody knows (method §1)."""
    return sum(part.booked for part in parts) if any(part.readings for part in parts) else None


def _bounds(parts: Sequence[SeriesPeriod], cap: Rate | None) -> tuple[int | None, int | None]:
    if not parts:
        return None, None
    highest = max((part.rate for part in parts), default=Rate())
    return (
        sum(part.lower() for part in parts),
        # A series with no two readings of one counter has no rate of its own: its peers' holds.
        sum(part.upper(cap if part.rate.tokens else max(highest, cap or Rate())) for part in parts),
    )


def tokens_of(
    parts: Parts,
    cached_known: bool,
    cap: Rate | None = None,
    engines: Sequence[SeriesPeriod] | None = None,
) -> Tokens:
    """The tokens of a group from its series.

    `cached_known` says whether every engine that counts prompt tokens tells cached ones too.
    Restarts, hidden resets and readings are those of `engines`, one series for each engine; by
    default of the prompt counters.
    """
    prompt, generation = parts.get("prompt", []), parts.get("generation", [])
    prompt_bounds, generation_bounds = _bounds(prompt, cap), _bounds(generation, cap)
    delivered = [*parts.get("delivered_prompt", []), *parts.get("delivered_generation", [])]
    delivered_bounds = [
        _bounds(parts.get(role, []), cap) for role in ("delivered_prompt", "delivered_generation")
    ]
    engines = prompt if engines is None else engines
    lived = prompt or engines
    living = sum(part.living_ms for part in lived)
    unobserved = sum(part.unobserved_ms for part in lived)
    counted = [*prompt, *generation]
    return Tokens(
        prompt=_total(prompt),
        cached_prompt=_total(parts.get("cached_prompt", [])) if cached_known else None,
        generation=_total(generation),
        delivered_prompt=_total(parts.get("delivered_prompt", [])),
        delivered_generation=_total(parts.get("delivered_generation", [])),
        delivered_lower=sum(low or 0 for low, _ in delivered_bounds) if delivered else None,
        delivered_upper=sum(high or 0 for _, high in delivered_bounds) if delivered else None,
        prompt_lower=prompt_bounds[0],
        prompt_upper=prompt_bounds[1],
        generation_lower=generation_bounds[0],
        generation_upper=generation_bounds[1],
        exact=bool(counted) and all(part.exact() for part in counted),
        restarts=sum(part.restarts for part in engines),
        hidden_resets=sum(part.hidden_resets for part in engines),
        readings=sum(part.readings for part in engines),
        coverage=coverage(living, unobserved),
        ends=sum(part.ends for part in engines),
        gaps=sum(part.gaps for part in engines),
        alternations=sum(part.alternations for part in engines),
        unplaced_openings=sum(part.openings for part in counted),
        opening_tokens=sum(part.opening_tokens for part in counted),
        unmarked_restarts=sum(part.restarts for part in engines if part.unmarked),
        unread_edges=sum(part.unread_edges for part in engines),
        unobserved_ms=unobserved,
        living_ms=living,
    )


def union(groups: Iterable[Tokens]) -> Tokens:
    """The tokens of several disjoint groups together; unknown parts make their sum unknown only
    where no group says (delivered tokens of usage records stand beside processed ones)."""
    every = list(groups)

    def add(name: str) -> int | None:
        known = [value for value in (getattr(g, name) for g in every) if value is not None]
        return sum(known) if known else None

    cached = [g.cached_prompt for g in every if g.prompt is not None]
    living, unobserved = sum(g.living_ms for g in every), sum(g.unobserved_ms for g in every)
    values: dict[str, Any] = {name: add(name) for name in _SUMS}
    values |= {name: sum(getattr(g, name) for g in every) for name in _COUNTS}
    return Tokens(
        **values,
        cached_prompt=None if None in cached or not cached else sum(c for c in cached if c),
        exact=bool(every) and all(g.exact for g in every if g.readings or g.unread_edges),
        coverage=coverage(living, unobserved),
        living_ms=living,
        unobserved_ms=unobserved,
        delivered_twice=any(g.delivered_twice for g in every),
        delivered_beside=sum(g.delivered_beside for g in every),
    )
