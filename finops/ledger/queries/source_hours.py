"""Every source by the hour: read whole, answered with nothing, read in part, or not; and what was asked
in one hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from finops.core.period import Period, hour_of, instant_of
from finops.core.series import Row
from finops.core.tokens import SeriesPeriod
from finops.ledger.models import (
    Document,
    Fetch,
    FetchedPart,
    QuietHour,
    Series,
    Source,
    TokenHour,
    UsageHour,
)
from finops.sources.engines import ROLES

from .answers import Answer, answers, covers, is_empty_hour
from .token_rows import Known
from .tokens import series_of_source

WHOLE, EMPTY, PART, UNREAD = "whole", "empty", "part", "unread"
DAYS = 7
_PROMPTS = {role.engine for role in ROLES.values() if role.name == "prompt"}
DELIVERED_ALONE = frozenset(
    metric
    for metric, role in ROLES.items()
    if role.name in {"delivered_prompt", "delivered_generation"} and role.engine not in _PROMPTS
)
"""Counters of engines and gateways that count delivered tokens and no others; one name may serve
prompts and answers, told apart by a label."""
COUNTED = Q(series__role="prompt") | Q(
    series__role="delivered_prompt", series__metric__in=sorted(DELIVERED_ALONE)
)
"""Restarts and gaps are told of an engine's prompt counter, and of the prompt counter that a gateway
or an engine without one has; no engine's twice."""


@dataclass(slots=True)
class Events:
    """What disturbed the readings of a source's engines in one hour."""

    restarts: int = 0
    gaps: int = 0


def newest_hours(at: datetime) -> Period:
    """The seven days the page shows: up to now, or to the end of what was handed over in files."""
    collected = Source.objects.filter(kind="prometheus", active=True).exists()
    hours = TokenHour.objects.order_by("-hour").values_list("hour", flat=True)
    last = None if collected else hours.first()
    end = hour_of(min(last + timedelta(hours=1), at) if last else at)
    return Period(end - timedelta(days=DAYS), end)


def source_hours(period: Period) -> dict[str, list[str]]:
    """By source, the state of each hour of the period; five queries however many sources.

    A source that is asked is whole in an hour when complete fetches cover all of it, empty when they
    do and none brought a reading, and read in part when only some was answered. Of files it is only
    known which hours they hold readings of.
    """
    hours = list(period.hours())
    found = {name: [UNREAD] * len(hours) for name in _names()}
    fetches = answers(period)
    for name, rows in fetches.items():
        found[name] = [_state(hour, rows) for hour in hours]
    at = {hour: number for number, hour in enumerate(hours)}
    for name, hour in _of_files(period):
        if name not in fetches and hour in at:
            found[name][at[hour]] = WHOLE
    return found


def _names() -> list[str]:
    return list(Source.objects.order_by("name").values_list("name", flat=True))


def _state(hour: datetime, fetches: list[Answer]) -> str:
    mine = [one for one in fetches if one.reaches_into(hour)]
    complete = [one for one in mine if one.complete]
    if not covers(hour, ((one.start, one.end) for one in complete)):
        return PART if mine else UNREAD
    return EMPTY if is_empty_hour(hour, complete) else WHOLE


def _of_files(period: Period) -> list[tuple[str, datetime]]:
    counted = TokenHour.objects.filter(
        hour__gte=period.start, hour__lt=period.end, series__target__source__kind="files"
    )
    usage = UsageHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    return [
        *counted.order_by().values_list("series__target__source__name", "hour").distinct(),
        *usage.order_by().values_list("source__name", "hour").distinct(),
    ]


def fetches_of(name: str, hour: datetime) -> list[dict[str, Any]]:
    """What was asked of a source about one hour, newest first, as plain values. A window that
    several workers read has a document for each shard."""
    span = {
        "source__name": name,
        "window_start__lt": hour + timedelta(hours=1),
        "window_end__gt": hour,
    }
    rows = Fetch.objects.filter(**span)
    shards = list(FetchedPart.objects.filter(**span).order_by("part", "pk"))
    newest = list(rows.order_by("-id")[:50])
    found = QuietHour.objects.filter(
        fetch__in=newest, start__lt=hour + timedelta(hours=1), end__gt=hour
    )
    quiet = {row.fetch_id: row for row in found}
    documents = {row.pk: _documents(row, shards) for row in newest}
    refused = _refused({each for mine in documents.values() for each in mine})
    return [
        {
            "at": row.at,
            "start": row.window_start,
            "end": row.window_end,
            "complete": row.complete,
            "warnings": list(row.warnings),
            "series": row.series,
            "readings": row.readings,
            "refused": sum(refused.get(each, 0) for each in documents[row.pk]),
            "documents": documents[row.pk],
            "quiet": quiet.get(row.pk),
        }
        for row in newest
    ]


def _refused(digests: set[str]) -> dict[str, int]:
    """How many readings of each document were refused, of those of which any was."""
    rows = Document.objects.filter(pk__in=digests, rows_rejected__gt=0)
    return dict(rows.values_list("pk", "rows_rejected"))


def _documents(fetch: Fetch, shards: list[FetchedPart]) -> list[str]:
    """The digests of what a fetch brought: of the shard that it came with, and of the others."""
    if fetch.document_id is None:
        return []
    own = {
        (shard.window_start, shard.window_end, shard.parts)
        for shard in shards
        if shard.document_id == fetch.document_id
    }
    found = [
        shard.document_id
        for shard in shards
        if (shard.window_start, shard.window_end, shard.parts) in own
        and (shard.window_start, shard.window_end) == (fetch.window_start, fetch.window_end)
    ]
    return found or [fetch.document_id]


def source_events(period: Period) -> dict[str, dict[datetime, Events]]:
    """By source, the hours of a period in which a prompt counter restarted or a gap ended."""
    found: dict[str, dict[datetime, Events]] = {}
    rows = _disturbed(period).values_list(
        "series__target__source__name", "hour", "restarts", "facts"
    )
    for name, hour, restarts, facts in rows:
        events = found.setdefault(name, {}).setdefault(hour, Events())
        events.restarts += restarts
        events.gaps += len(facts.get("gaps", ()))
    return found


def _disturbed(period: Period) -> QuerySet[TokenHour]:
    """The newest rows of prompt counters that show a restart or the end of a gap."""
    newer = TokenHour.objects.filter(
        series=OuterRef("series"), hour=OuterRef("hour"), revision__gt=OuterRef("revision")
    )
    return (
        TokenHour.objects.filter(
            Q(restarts__gt=0) | Q(facts__has_key="gaps"),
            hour__gte=period.start,
            hour__lt=period.end,
        )
        .filter(COUNTED)
        .exclude(Exists(newer))
    )


def engines_of(name: str, hour: datetime) -> list[dict[str, Any]]:
    """A source's prompt counters in one hour, the disturbed ones first, as plain values; those too
    that nobody read in it though they were there before, or were born in it."""
    told = [_engine(known, known.rows[0] if known.rows else None) | _bounds(part)
            for known, part in _counted(name, hour)]  # fmt: skip
    return sorted(
        told,
        key=lambda row: (not (row["restarts"] or row["gaps"] or not row["readings"]), row["name"],
                         row["instance"]),
    )  # fmt: skip


def _counted(name: str, hour: datetime) -> list[tuple[Known, SeriesPeriod]]:
    """What an hour is worth to each prompt counter of a source."""
    source = Source.objects.filter(name=name).values_list("pk", flat=True).first()
    if source is None:
        return []
    period = Period(hour, hour + timedelta(hours=1))
    found = series_of_source(source, ("prompt", "delivered_prompt"), period)
    return [(known, part) for known, part in found if _is_counted(known.series)]


def _engine(known: Known, row: Row | None) -> dict[str, Any]:
    """One counter in an hour as plain values; `row` is None where nobody read it in it."""
    plain = {"name": _engine_name(known.series), "instance": known.series.target.instance}
    if row is None:
        counts = dict.fromkeys(("readings", "restarts", "hidden_resets", "opening_tokens"), 0)
        return plain | {"series": None, "tokens": None, "gaps": []} | counts
    gaps = [
        {"from": instant_of(since), "to": instant_of(until), "seconds": (until - since) // 1000}
        for since, until, *_ in row.facts.get("gaps", ())
    ]
    counts = {
        name: getattr(row, name)
        for name in ("tokens", "readings", "restarts", "hidden_resets", "opening_tokens")
    }
    return plain | {"series": known.series.pk, "gaps": gaps} | counts


def _is_counted(series: Series) -> bool:
    return series.role == "prompt" or (
        series.role == "delivered_prompt" and series.metric in DELIVERED_ALONE
    )


def _bounds(part: SeriesPeriod) -> dict[str, Any]:
    """Lower and upper bound of an hour (method §2.6); None where it is exact, or not known."""
    if part.exact():
        return {"lower": None, "upper": None}
    return {"lower": part.lower(), "upper": part.own_upper()}


def _engine_name(series: Series) -> str:
    labels: dict[str, str] = series.labels
    names = [labels.get("pod") or series.target.instance, labels.get("model_name", "")]
    names.append(f"engine {labels['engine']}" if labels.get("engine") else "")
    return ", ".join(filter(None, names)) or str(series)
