"""Tokens of a period, by any grouping: booked, bounded and covered (method §2)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import orjson
from django.db import connections
from django.db.models import Max

from finops.core.allocation import Assigner, Place
from finops.core.counter import BIRTH_WITHIN_MS
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds
from finops.core.series import Row, SeriesRows
from finops.core.tokens import Rate, SeriesPeriod, Tokens, tokens_of, union
from finops.ledger.models import ReadingBlock, Series, UsageHour
from finops.ledger.queries.births import Births
from finops.ledger.queries.endings import end_of_series, last_of_marks, source_goes_on
from finops.ledger.queries.sources import unfinished_windows
from finops.ledger.which import ledger_name
from finops.sources.engines import role_of

SUMMED_ROLES = (
    "prompt",
    "generation",
    "cached_prompt",
    "prefix_hits",
    "delivered_prompt",
    "delivered_generation",
    "external_prompt",
    "answers",
    "answered",
)
LAST_INSTANT = datetime(2999, 1, 1, tzinfo=UTC)
KeyOf = Callable[[Mapping[str, str], datetime], Hashable]
"""From a series' labels (with `source` and `__name__`) and an hour to the group it belongs to."""

DISAGGREGATION_LABELS = ("role", "llm_d_ai_role", "engine_type", "disaggregation_mode")
NOT_OF = {
    "decode": frozenset({"prompt", "cached_prompt", "prefix_hits", "delivered_prompt"}),
    "prefill": frozenset({"generation", "delivered_generation"}),
}
"""What an engine of each half of a disaggregated service does not count (method §2)."""


@dataclass(slots=True)
class Known:
    """One series, what is known of it around the period, and its labels with its source."""

    series: Series
    source: str
    labels: dict[str, str]
    first_ms: int
    around: SeriesRows

    @property
    def rows(self) -> list[Row]:
        """Its rows in the period."""
        return self.around.rows

    @property
    def engine(self) -> tuple[int, str]:
        """The engine: target and `engine` label."""
        return self.series.target_id, self.series.engine

    @property
    def half(self) -> str | None:
        """`prefill` or `decode` where a label says that the engine does only that."""
        values = (self.labels.get(name, "") for name in DISAGGREGATION_LABELS)
        return next((value for value in values if value in NOT_OF), None)

    @property
    def is_left_out(self) -> bool:
        """Whether the other half counts this: prompts are counted by the prefill role, generated
        tokens by the decode role (method §2)."""
        return self.half is not None and self.series.role in NOT_OF[self.half]

    @property
    def is_gateway(self) -> bool:
        """Whether a gateway or front end counts, not an engine."""
        role = role_of(self.series.metric, self.labels)
        return role is not None and role.layer == "gateway"


class TokenLedger:
    """The token rows of one period, loaded once; totals of any part of it, by any grouping.

    `as_of` leaves out rows that were posted, and documents that were received, after it.
    """

    def __init__(self, period: Period, as_of: datetime | None = None) -> None:
        self.period = period
        self.known = _load(period, as_of or LAST_INSTANT)
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
            return known.around.parts(start, end, key_of.by_hour(known.labels))
        return known.around.parts(start, end, lambda ms: key_of(known.labels, instant_of(ms)))

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


def series_in(series: Series, period: Period) -> SeriesPeriod | None:
    """One series in a period of whole hours; None where the period has nothing of it."""
    start, end = milliseconds(period.start), milliseconds(period.end)
    for known in _load(period, LAST_INSTANT, series.pk):
        return known.around.parts(start, end, lambda ms: None).get(None)
    return None


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


# -- loading -----------------------------------------------------------------------------------

_ROWS = """
SELECT DISTINCT ON (series_id, hour) series_id,
    (extract(epoch FROM hour) * 1000)::bigint,
    tokens, readings, restarts, hidden_resets, opening_tokens, rate_tokens, rate_ms, usual_ms,
    first_ms, last_ms, facts
FROM ledger_tokenhour JOIN ledger_series ON ledger_series.id = series_id
WHERE hour >= %s AND hour < %s AND role = ANY(%s) AND posted_at <= %s
    AND (%s::bigint IS NULL OR series_id = %s)
ORDER BY series_id, hour, revision DESC
"""

_AROUND = """
SELECT series.id, first.first_ms, first.facts, first.usual_ms, last.last_ms, last.usual_ms,
    following.*
FROM ledger_series series
CROSS JOIN LATERAL (
    SELECT first_ms, facts, usual_ms FROM ledger_tokenhour
    WHERE series_id = series.id AND posted_at <= %s ORDER BY hour, revision DESC LIMIT 1
) first
CROSS JOIN LATERAL (
    SELECT last_ms, usual_ms FROM ledger_tokenhour
    WHERE series_id = series.id AND posted_at <= %s ORDER BY hour DESC, revision DESC LIMIT 1
) last
LEFT JOIN LATERAL (
    SELECT (extract(epoch FROM hour) * 1000)::bigint,
        tokens, readings, restarts, hidden_resets, opening_tokens, rate_tokens, rate_ms, usual_ms,
        first_ms, last_ms, facts
    FROM ledger_tokenhour
    WHERE series_id = series.id AND hour >= %s AND posted_at <= %s
    ORDER BY hour, revision DESC LIMIT 1
) following ON true
WHERE series.role = ANY(%s) AND (%s::bigint IS NULL OR series.id = %s) AND last.last_ms >= %s AND (
    first.first_ms < %s
    -- Born before the period's end and first read after it: by the mark, or who knows when (§2.6).
    OR (first.facts #>> '{births,0,0}')::bigint = first.first_ms
    AND coalesce(
        (first.facts #>> '{births,0,1}')::bigint / 1000, first.first_ms - %s
    ) < %s
)
"""

# Hours of which only some shards are there tell of no other target that its source went on (§2.5).
_SOURCES = """
WITH unfinished AS (
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[])
        AS unfinished_windows(source_id, start_ms, end_ms)
)
SELECT target.source_id, max(block.last_ms)
FROM ledger_target target
JOIN ledger_series series ON series.target_id = target.id
CROSS JOIN LATERAL (
    SELECT last_ms FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND received_at <= %s AND NOT EXISTS (
        SELECT 1 FROM unfinished
        WHERE source_id = target.source_id AND last_ms >= start_ms AND first_ms < end_ms
    )
    ORDER BY hour DESC, last_ms DESC LIMIT 1
) block
GROUP BY target.source_id
"""


def _load(period: Period, as_of: datetime, only: int | None = None) -> list[Known]:
    """The series of a period, or the one of this number."""
    start, end = milliseconds(period.start), milliseconds(period.end)
    roles = list(SUMMED_ROLES)
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_SOURCES, [*_unfinished(as_of), as_of])
        source_last = dict(cursor.fetchall())
        which = [roles, only, only, start, end, BIRTH_WITHIN_MS, end]
        cursor.execute(_AROUND, [as_of, as_of, period.end, as_of, *which])
        around = {row[0]: row[1:] for row in cursor.fetchall()}
        cursor.execute(_ROWS, [period.start, period.end, roles, as_of, only, only])
        rows: dict[int, list[Row]] = {}
        for series_id, *values in cursor.fetchall():
            rows.setdefault(series_id, []).append(_row(values))
    found = Series.objects.filter(pk__in=around.keys()).select_related("target__source")
    births = Births(start, as_of)
    known = [_known(series, around[series.pk], source_last, rows, births) for series in found]
    here = [one for one in known if one.first_ms < end or one.around.is_born_unread(end)]
    return sorted(here, key=lambda one: one.series.pk)


def _unfinished(as_of: datetime) -> tuple[list[int], list[int], list[int]]:
    """Source, start and end of every window of which only some shards are there."""
    found = unfinished_windows(as_of)
    return (
        [source_id for source_id, _, _ in found],
        [milliseconds(start) for _, start, _ in found],
        [milliseconds(end) for _, _, end in found],
    )


def _row(values: Sequence[Any]) -> Row:
    facts = values[-1]
    return Row._make([*values[:-1], _json(facts)])


def _json(value: Any) -> dict[str, Any]:
    """jsonb as the raw cursor gives it: text, or a mapping already."""
    return orjson.loads(value) if isinstance(value, str | bytes) else (value or {})


def _known(
    series: Series,
    around: Sequence[Any],
    source_last: Mapping[int, int],
    rows: Mapping[int, list[Row]],
    births: Births,
) -> Known:
    first_ms, facts, first_usual_ms, last_ms, usual_ms, *following = around
    first_facts, as_of = _json(facts), births.as_of
    unread_ms = births.add(series, first_ms, first_facts, first_usual_ms)
    is_marked = unread_ms is not None and first_facts["births"][0][1] is not None
    source = series.target.source
    return Known(
        series=series,
        source=source.name,
        labels=series.rule_labels,
        first_ms=first_ms,
        around=SeriesRows(
            rows=rows.get(series.pk, []),
            following=_row(following) if following and following[0] is not None else None,
            born_ms=unread_ms if is_marked and unread_ms is not None else first_ms,
            last_ms=last_ms,
            usual_ms=usual_ms,
            source_last_ms=source_last.get(source.pk, last_ms),
            first_ms=first_ms,
            first_usual_ms=first_usual_ms,
            unread_ms=unread_ms,
            birth=partial(births.of, series.pk),
            dark_of_end=cache(partial(end_of_series, series, last_ms, usual_ms, as_of)),
            source_goes_on=cache(partial(source_goes_on, series, as_of)),
            last_of_marks=cache(partial(last_of_marks, series, as_of)),
        ),
    )
