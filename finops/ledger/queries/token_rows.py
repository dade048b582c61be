"""The rows of token series around a period, as the ledger holds them: loaded once, for `tokens`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import orjson
from django.db import connections

from finops.core.counter_values import BIRTH_WITHIN_MS
from finops.core.period import Period, milliseconds
from finops.core.series import Row, SeriesRows
from finops.ledger.models import Series
from finops.ledger.which import ledger_name
from finops.sources.engines import role_of

from .births import Births
from .endings import end_of_series, last_of_marks, source_goes_on
from .sources import unfinished_windows

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which series are asked for: of these roles, and where one is named of a source or a series alone."""

    roles: tuple[str, ...] = SUMMED_ROLES
    source: int | None = None
    series: int | None = None


EVERY = Wanted()


_ROWS = """
SELECT DISTINCT ON (series_id, hour) series_id,
    (extract(epoch FROM hour) * 1000)::bigint,
    tokens, readings, restarts, hidden_resets, opening_tokens, rate_tokens, rate_ms, usual_ms,
    first_ms, last_ms, facts
FROM ledger_tokenhour JOIN ledger_series ON ledger_series.id = series_id
WHERE hour >= %(start)s AND hour < %(end)s AND role = ANY(%(roles)s) AND posted_at <= %(as_of)s
ORDER BY series_id, hour, revision DESC
"""

# The same of some series, each by itself: an hour has rows of all series of all sources.
_ROWS_OF = """
SELECT wanted.id, mine.*
FROM unnest(%(ids)s::bigint[]) AS wanted(id)
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (hour) (extract(epoch FROM hour) * 1000)::bigint,
        tokens, readings, restarts, hidden_resets, opening_tokens, rate_tokens, rate_ms, usual_ms,
        first_ms, last_ms, facts
    FROM ledger_tokenhour
    WHERE series_id = wanted.id AND hour >= %(start)s AND hour < %(end)s AND posted_at <= %(as_of)s
    ORDER BY hour, revision DESC
) mine
ORDER BY 1, 2
"""

_AROUND = """
SELECT series.id, first.first_ms, first.facts, first.usual_ms, last.last_ms, last.usual_ms,
    following.*
FROM ledger_series series
CROSS JOIN LATERAL (
    SELECT first_ms, facts, usual_ms FROM ledger_tokenhour
    WHERE series_id = series.id AND posted_at <= %(as_of)s ORDER BY hour, revision DESC LIMIT 1
) first
CROSS JOIN LATERAL (
    SELECT last_ms, usual_ms FROM ledger_tokenhour
    WHERE series_id = series.id AND posted_at <= %(as_of)s
    ORDER BY hour DESC, revision DESC LIMIT 1
) last
LEFT JOIN LATERAL (
    SELECT (extract(epoch FROM hour) * 1000)::bigint,
        tokens, readings, restarts, hidden_resets, opening_tokens, rate_tokens, rate_ms, usual_ms,
        first_ms, last_ms, facts
    FROM ledger_tokenhour
    WHERE series_id = series.id AND hour >= %(end)s AND posted_at <= %(as_of)s
    ORDER BY hour, revision DESC LIMIT 1
) following ON true
WHERE series.role = ANY(%(roles)s)
AND (%(series)s::bigint IS NULL OR series.id = %(series)s)
AND (%(source)s::bigint IS NULL OR series.target_id IN (
    SELECT id FROM ledger_target WHERE source_id = %(source)s
))
AND last.last_ms >= %(start_ms)s AND (
    first.first_ms < %(end_ms)s
    -- Born before the period's end and first read after it: by the mark, or who knows when (§2.6).
    OR (first.facts #>> '{births,0,0}')::bigint = first.first_ms
    AND coalesce(
        (first.facts #>> '{births,0,1}')::bigint / 1000, first.first_ms - %(birth_within_ms)s
    ) < %(end_ms)s
)
"""

# Hours of which only some shards are there tell of no other target that its source went on (§2.5).
_SOURCES = """
WITH unfinished AS (
    SELECT * FROM unnest(%(sources)s::bigint[], %(starts_ms)s::bigint[], %(ends_ms)s::bigint[])
        AS unfinished_windows(source_id, start_ms, end_ms)
)
SELECT target.source_id, max(block.last_ms)
FROM ledger_target target
JOIN ledger_series series ON series.target_id = target.id
CROSS JOIN LATERAL (
    SELECT hour FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND received_at <= %(as_of)s AND NOT EXISTS (
        SELECT 1 FROM unfinished
        WHERE source_id = target.source_id AND last_ms >= start_ms AND first_ms < end_ms
    )
    ORDER BY hour DESC LIMIT 1
) newest
CROSS JOIN LATERAL (
    SELECT max(last_ms) AS last_ms FROM ledger_readingblock
    JOIN ledger_document document ON document.sha256 = document_id
    WHERE series_id = series.id AND hour >= date_bin('12 hours', newest.hour, 'epoch')
      AND received_at <= %(as_of)s AND NOT EXISTS (
        SELECT 1 FROM unfinished
        WHERE source_id = target.source_id AND last_ms >= start_ms AND first_ms < end_ms
    )
) block
WHERE %(source)s::bigint IS NULL OR target.source_id = %(source)s
GROUP BY target.source_id
"""


def load(period: Period, as_of: datetime, wanted: Wanted = EVERY) -> list[Known]:
    """The series of a period, or those of it that are wanted."""
    start, end = milliseconds(period.start), milliseconds(period.end)
    which: dict[str, Any] = {
        "roles": list(wanted.roles), "source": wanted.source, "series": wanted.series,
        "as_of": as_of, "start": period.start, "end": period.end, "start_ms": start, "end_ms": end,
        "birth_within_ms": BIRTH_WITHIN_MS,
    }  # fmt: skip
    with connections[ledger_name()].cursor() as cursor:
        cursor.execute(_SOURCES, which | _unfinished(as_of, wanted.source))
        source_last = dict(cursor.fetchall())
        cursor.execute(_AROUND, which)
        around = {row[0]: row[1:] for row in cursor.fetchall()}
        cursor.execute(*_rows_of(which, list(around), wanted))
        rows: dict[int, list[Row]] = {}
        for series_id, *values in cursor.fetchall():
            rows.setdefault(series_id, []).append(_row(values))
    found = Series.objects.filter(pk__in=around.keys()).select_related("target__source")
    births = Births(start, as_of)
    known = [_known(series, around[series.pk], source_last, rows, births) for series in found]
    here = [one for one in known if one.first_ms < end or one.around.is_born_unread(end)]
    return sorted(here, key=lambda one: one.series.pk)


def _rows_of(which: dict[str, Any], ids: list[int], wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """The query for the rows in the period, and what it asks for."""
    is_every = wanted.source is None and wanted.series is None
    return (_ROWS, which) if is_every else (_ROWS_OF, which | {"ids": ids})


def _unfinished(as_of: datetime, source_id: int | None) -> dict[str, list[int]]:
    """Source, start and end of every window of which only some shards are there."""
    found = unfinished_windows(as_of, source_id)
    return {
        "sources": [source for source, _, _ in found],
        "starts_ms": [milliseconds(start) for _, start, _ in found],
        "ends_ms": [milliseconds(end) for _, _, end in found],
    }


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
