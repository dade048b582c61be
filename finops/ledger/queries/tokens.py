"""Tokens of a period, by any grouping: booked, bounded and covered (method §2)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Max

from finops.core.allocation import Assigner, Place
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds
from finops.core.series import Row
from finops.core.tokens import Rate, SeriesPeriod, Tokens, tokens_of, union
from finops.ledger.models import ReadingBlock, Series, UsageHour
from finops.sources.engines import role_of

from .caps import Caps
from .token_rows import LAST_INSTANT, Known, Wanted, load

KeyOf = Callable[[Mapping[str, str], datetime], Hashable]
"""From a series' labels (with `source` and `__name__`) and an hour to the group it belongs to."""


class TokenLedger:
    """The token rows of one period, loaded once; totals of any part of it, by any grouping.

    `as_of` leaves out rows that were posted, and documents that were received, after it. With `caps`
    the caps declared for workloads count in the upper bounds of their series.
    """

    def __init__(
        self, period: Period, as_of: datetime | None = None, caps: Caps | None = None
    ) -> None:
        self.period = period
        self.caps = caps
        self.known = load(period, as_of or LAST_INSTANT)
        self.usage = list(
            UsageHour.objects.filter(
                hour__gte=period.start,
                hour__lt=period.end,
                document__received_at__lte=as_of or LAST_INSTANT,
            ).select_related("source")
        )

    def totals(self, period: Period | None = None) -> Tokens:
        """The tokens of the period, or of a part of it in whole hours."""
        return self.by(lambda labels, hour: None, period).get(None, Tokens())

    def by(
        self,
        key_of: KeyOf,
        period: Period | None = None,
        caps: Mapping[Hashable, int] | None = None,
    ) -> dict[Any, Tokens]:
        """Tokens by group. `caps` are declared highest rates of groups, in tokens per second."""
        wanted = period or self.period
        engines: Groups = {}
        gateways: Groups = {}
        for known in self.known:
            if known.is_left_out:
                continue
            groups = gateways if known.is_gateway else engines
            for key, part in self.parts(known, wanted, key_of).items():
                groups.setdefault(key, {}).setdefault(known.series.role, []).append((known, part))
        result: dict[Hashable, Tokens] = {}
        for key, roles in engines.items():
            cap = (caps or {}).get(key)
            result[key] = _group(roles, Rate(cap, 1000) if cap else None)
        for key, roles in gateways.items():
            tokens = _group(roles, None)
            result[key] = _beside(result[key], tokens) if key in result else tokens
        for key, tokens in self._usage(wanted, key_of).items():
            result[key] = _beside(result[key], tokens) if key in result else tokens
        return result

    def hours(self, role: str) -> Iterator[tuple[Known, datetime, int]]:
        """Booked tokens of one role by series and hour."""
        for known in self.known:
            if known.series.role == role:
                for row in known.rows:
                    yield known, instant_of(row.hour_ms), row.tokens

    def places(self, role: str, assign: Assigner) -> Iterator[tuple[Known, Row, Place]]:
        """The rows of one role by series and hour, and the place of each."""
        for known in self.known:
            if known.series.role == role:
                place_of = assign.by_hour(known.labels)
                for row in known.rows:
                    yield known, row, place_of(row.hour_ms)

    def parts(self, known: Known, period: Period, key_of: KeyOf) -> dict[Hashable, SeriesPeriod]:
        """One series in a period, by the group that each of its hours belongs to."""
        start, end = milliseconds(period.start), milliseconds(period.end)
        if isinstance(key_of, Assigner):
            found = known.around.parts(start, end, key_of.by_hour(known.labels))
        else:
            found = known.around.parts(start, end, lambda ms: key_of(known.labels, instant_of(ms)))
        _cap(found, known, start, end, self.caps)
        return found

    def _usage(self, period: Period, key_of: KeyOf) -> dict[Hashable, Tokens]:
        sums: dict[Hashable, list[UsageHour]] = {}
        for row in self.usage:
            if row.hour in period:
                sums.setdefault(key_of(row.rule_labels, row.hour), []).append(row)
        return {
            key: Tokens(
                delivered_prompt=sum(row.prompt_tokens for row in rows),
                delivered_generation=sum(row.generation_tokens for row in rows),
                delivered_cached_prompt=_sum_or_none([row.cached_tokens for row in rows]),
                delivered_lower=sum(row.prompt_tokens + row.generation_tokens for row in rows),
                delivered_upper=sum(row.prompt_tokens + row.generation_tokens for row in rows),
                exact=True,
            )
            for key, rows in sums.items()
        }


def _beside(engines: Tokens, others: Tokens) -> Tokens:
    """Engines, and gateways or usage records, of one group. Where both count delivered tokens, the
    same requests may stand in both: said, and for a person to decide by the rules (method §2.7)."""
    both = union([engines, others])
    if engines.delivered_prompt is None:
        return both
    told = (others.delivered_prompt or 0) + (others.delivered_generation or 0)
    beside = engines.delivered_beside + told
    return replace(both, delivered_twice=True, delivered_beside=beside)


def _sum_or_none(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _cap(
    parts: Mapping[Hashable, SeriesPeriod], known: Known, start: int, end: int, caps: Caps | None
) -> None:
    """Gives the parts of a series in [start, end) the cap of the workloads that have it there."""
    if caps is None or known.is_gateway:
        return
    hours = [row.hour_ms for row in known.rows if start <= row.hour_ms < end]
    cap = caps.of_series(known.labels, hours or [start])
    for part in parts.values():
        part.cap = cap


def series_in(series: Series, period: Period) -> SeriesPeriod | None:
    """One series in a period of whole hours; None where the period has nothing of it. Of other series
    only those of its source are looked at, for how far this reaches."""
    wanted = Wanted(source=series.target.source_id, series=series.pk)
    return next((part for _, part in _whole(period, wanted)), None)


def series_of_source(
    source_id: int, roles: tuple[str, ...], period: Period
) -> list[tuple[Known, SeriesPeriod]]:
    """The series of one source and of some roles in a period of whole hours that has anything of them;
    of no other source anything is read."""
    return list(_whole(period, Wanted(roles, source_id)))


def _whole(period: Period, wanted: Wanted) -> Iterator[tuple[Known, SeriesPeriod]]:
    start, end = milliseconds(period.start), milliseconds(period.end)
    caps = Caps()
    for known in load(period, LAST_INSTANT, wanted):
        found = known.around.parts(start, end, lambda ms: None)
        _cap(found, known, start, end, caps)
        if None in found:
            yield known, found[None]


def reach() -> dict[str, datetime]:
    """The last reading, or the last hour of usage records, of each source."""
    last: dict[str, datetime] = {
        name: instant_of(ms)
        for name, ms in ReadingBlock.objects.values_list("series__target__source__name").annotate(
            Max("last_ms")
        )
    }
    for name, hour in UsageHour.objects.values_list("source__name").annotate(Max("hour")):
        until = instant_of(milliseconds(hour) + HOUR_MS)
        last[name] = max(until, last.get(name, until))
    return last


Roles = dict[str, list[tuple[Known, SeriesPeriod]]]
Groups = dict[Hashable, Roles]


def _group(roles: Roles, cap: Rate | None) -> Tokens:
    parts = {role: [part for _, part in found] for role, found in roles.items()}
    cached = _cached(roles)
    if cached is not None:
        parts["cached_prompt"] = cached
    return tokens_of(parts, cached_known=cached is not None, cap=cap, engines=_engines(roles))


def _engines(roles: Roles) -> list[SeriesPeriod]:
    """One series for each engine, on which restarts and readings are counted: a prompt counter,
    else what there is. An engine may have several (SGLang's differ by `is_streaming`)."""
    best: dict[tuple[int, str], SeriesPeriod] = {}
    for role in ("prompt", "generation", "delivered_prompt"):
        found: dict[tuple[int, str], SeriesPeriod] = {}
        for known, part in roles.get(role, ()):
            held = found.get(known.engine)
            if held is None or part.readings > held.readings:
                found[known.engine] = part
        best = found | best
    return list(best.values())


def _cached(roles: Roles) -> list[SeriesPeriod] | None:
    """Cached prompt tokens of each engine that counts prompt tokens: `prompt_tokens_cached`, or
    prefix-cache hits under the preferred name; None when one of them tells neither."""
    best: dict[tuple[int, str], tuple[int, list[SeriesPeriod]]] = {}
    for rank, role in enumerate(("cached_prompt", "prefix_hits")):
        for known, part in roles.get(role, ()):
            metric = role_of(known.series.metric)
            order = 10 * rank + (metric.alias_rank if metric else 9)
            if known.engine not in best or order < best[known.engine][0]:
                best[known.engine] = (order, [part])
            elif order == best[known.engine][0]:
                best[known.engine][1].append(part)
    engines = {known.engine for known, _ in roles.get("prompt", ())}
    if not engines or engines - best.keys():
        return None
    return [p for engine, (_, parts) in best.items() if engine in engines for p in parts]
