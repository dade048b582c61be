"""The readings behind one ledger row, the arithmetic, and the documents they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from finops.core.counter_values import Carry
from finops.core.matching import parse_matchers
from finops.core.period import HOUR, HOUR_MS, Period, instant_of, milliseconds, rfc3339
from finops.core.tokens import SeriesPeriod
from finops.ledger.models import ReadingBlock, Series, TokenHour
from finops.sources.engines import mark_of
from finops.sources.samples import unpack_between

from .export_readings import carry_of
from .tokens import series_in

MOST_NAMED = 5


class Unknown(ValueError):
    """No such series or row; the message says what there is."""


def series_named(text: str) -> Series:
    """A series by its number, or by its metric and as many labels as tell it from the others, as
    `series` and `totals` write them; `source` may stand among them. Raises Unknown."""
    if text.isascii() and text.isdigit():
        found = list(Series.objects.filter(pk=int(text)))
    else:
        metric, _, inner = text.partition("{")
        inner = inner.strip().removesuffix("}").strip()
        try:
            wanted = parse_matchers(inner) if inner else ()
        except ValueError as error:
            raise Unknown(f"{text[:200]!r} is no series: {error}") from None
        rows = Series.objects.filter(metric=metric.strip()).select_related("target__source")
        rows = rows.order_by("pk")
        written = [row for row in rows if str(row) == text.replace(", ", ",")]
        fitting = [row for row in rows if all(one.holds(row.rule_labels) for one in wanted)]
        found = written or fitting
    if not found:
        raise Unknown(f"no series {text[:200]!r} in the ledger; `series` lists them")
    if len(found) > 1:
        told = "; ".join(f"{row.pk} of {row.target.source} {row}" for row in found[:MOST_NAMED])
        raise Unknown(f"{len(found)} series fit {text[:200]!r}; say which: {told}")
    return found[0]


def explain(series: Series, hour: datetime) -> dict[str, Any]:
    """One row of a series and hour with everything it was derived from. Raises Unknown."""
    revisions = list(TokenHour.objects.filter(series=series, hour=hour).order_by("-revision"))
    if not revisions:
        raise Unknown(f"{series} has no row for {rfc3339(hour)}")
    row = revisions[0]
    before = carry_of(row.facts, row.first_ms) or _before(series, hour)
    readings = _readings(series, hour)
    _marked(series, hour, readings)
    return {
        "series": str(series),
        "series_id": series.pk,
        "hour": hour,
        "revision": row.revision,
        "posted_at": row.posted_at,
        "tokens": row.tokens,
        "readings": readings,
        "arithmetic": _arithmetic(readings, before, row),
        "facts": row.facts,
        "before": before.as_json(),
        "documents": sorted({one["document"] for one in readings}),
        "earlier_revisions": [
            {"revision": one.revision, "tokens": one.tokens, "posted_at": one.posted_at}
            for one in revisions[1:]
        ],
    }


def bounds(series: Series, hour: datetime) -> dict[str, Any] | None:
    """How exact one hour of a token series is (method §2.6): at least, at most, and why not exact,
    in sentences; None of a series that counts no tokens."""
    part = series_in(series, Period(hour, hour + HOUR))
    if part is None:
        return None
    said = [] if part.exact() else list(_reasons(part))
    return {"lower": part.lower(), "upper": part.own_upper(), "exact": part.exact(), "why": said}


def _reasons(part: SeriesPeriod) -> Iterator[str]:
    if part.straddles_start:
        yield (
            f"{part.straddles_start:,} tokens came with the first reading after a time that nobody "
            "read, in which the hour began: they may belong before it"
        )
    if part.straddles_end:
        yield (
            f"{part.straddles_end:,} tokens came with the first reading after a time that nobody "
            "read, in which the hour ended: they may belong to it"
        )
    upper = part.own_upper()
    if part.darks:
        lost = (
            "tokens"
            if upper is None
            else f"up to {upper - part.booked - part.straddles_end:,} tokens"
        )
        yield f"{lost} may have been lost between a last reading and a restart or an end"
    if part.openings:
        yield f"{part.opening_tokens:,} tokens of unknown time are not booked"
    if part.alternations:
        yield "more than one process answered behind the address"
    if part.edge_in_gap and not part.unread_edges:
        yield "its source has told nothing since"
    if part.unmarked and part.gaps:
        yield "a gap of an engine that gives no start time may hide a restart"


def explain_gauge(series: Series, hour: datetime) -> dict[str, Any]:
    """The readings of a gauge in an hour, each with the document it stands in. Raises Unknown."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for block, times, values in _blocks(series, hour):
        for time_ms, value in zip(times, values, strict=True):
            reading = {"at": rfc3339(instant_of(time_ms)), "value": value,
                       "replica": block.replica or None, "document": block.document_id}  # fmt: skip
            found.setdefault((time_ms, block.replica), reading)
    if not found:
        raise Unknown(f"{series} has no readings in the hour from {rfc3339(hour)}")
    readings = [found[key] for key in sorted(found)]
    return {"series": str(series), "hour": hour, "readings": readings}


def _blocks(
    series: Series, hour: datetime
) -> Iterator[tuple[ReadingBlock, Sequence[int], Sequence[float]]]:
    """The blocks that hold readings of an hour, each with the times and values of it."""
    span = milliseconds(hour), milliseconds(hour) + HOUR_MS
    for block in ReadingBlock.objects.filter(series=series).touching(*span).order_by("pk"):
        yield block, *unpack_between(bytes(block.payload), *span)


def _before(series: Series, hour: datetime) -> Carry:
    row = (
        TokenHour.objects.filter(series=series, hour__lt=hour)
        .order_by("-hour", "-revision")
        .first()
    )
    return Carry.from_json(row.carry) if row else Carry()


def _readings(series: Series, hour: datetime) -> list[dict[str, Any]]:
    """Every reading of the hour once, with each document it stands in first."""
    found: dict[tuple[int, str, int], dict[str, Any]] = {}
    for block, times, values in _blocks(series, hour):
        for time_ms, value in zip(times, values, strict=True):
            found.setdefault(
                (time_ms, block.replica, int(value)),
                {
                    "at": rfc3339(instant_of(time_ms)),
                    "at_ms": time_ms,
                    "value": int(value),
                    "replica": block.replica or None,
                    "mark": None,
                    "document": block.document_id,
                },
            )
    return [found[key] for key in sorted(found)]


def _marked(series: Series, hour: datetime, readings: list[dict[str, Any]]) -> None:
    """Adds to each reading the mark of its incarnation that stood beside it."""
    name = mark_of(series.metric)
    own = {"metric": name, "labels_digest": series.labels_digest, "role": "created"}
    for filters in ({"role": "process_start"}, own):
        for one in Series.objects.filter(target=series.target_id, **filters):
            for _, times, values in _blocks(one, hour):
                at = dict(zip(times, values, strict=True))
                for reading in readings:
                    if reading["at_ms"] in at:
                        born = timedelta(microseconds=round(at[reading["at_ms"]] * 1_000_000))
                        reading["mark"] = rfc3339(instant_of(0) + born)


def _arithmetic(readings: list[dict[str, Any]], before: Carry, row: TokenHour) -> str:
    """The hour's sum in words an auditor can redo by hand: for each counter its highest reading less
    what was booked, or could not be placed, before it."""
    high = before.counters[before.current].high if before.current else None
    restarts = len(row.facts.get("restarts", ()))
    openings: dict[int, int] = dict(row.facts.get("openings", ()))
    bases = {restart["to"]: 0 for restart in row.facts.get("restarts", ())} | openings
    pieces = _pieces(readings, high or 0, bases)
    if sum(top - base for top, base in pieces) != row.tokens:
        return (
            f"{row.tokens} booked reading by reading: several processes or replicas stand side by "
            "side here, each books its own rise over what it showed before"
        )
    if openings:
        size = sum(openings.values())
        said = " + ".join(f"({top} − {base})" for top, base in pieces)
        return f"{said} = {row.tokens}; an opening of {size} stands in the exceptions, books 0"
    if not restarts:
        booked = f"highest already booked {high}" if high is not None else "birth proven, from 0"
        if "continues" in row.facts:
            booked += f", as series {row.facts['continues'][0]} under other labels"
        ((top, base),) = pieces
        return f"{top} (highest reading) − {base} ({booked}) = {row.tokens}"
    said = " + ".join(f"({top} − {base})" for top, base in pieces)
    return f"{said} = {row.tokens}, {restarts} restart(s)"


def _pieces(
    readings: list[dict[str, Any]], high: int, bases: dict[int, int]
) -> list[tuple[int, int]]:
    """For each counter of the hour its highest reading and what it stands on. `bases` are the
    instants at which a counter begins: on 0, or on a value that could not be placed."""
    pieces, base = list[tuple[int, int]](), high
    top: int | None = None
    for reading in readings:
        if reading["at_ms"] in bases:
            begins = bases.pop(reading["at_ms"])
            if top is not None:
                pieces.append((top, base))
            base, top = begins, None
        top = max(top if top is not None else base, reading["value"])
    return [*pieces, (top if top is not None else base, base)]
