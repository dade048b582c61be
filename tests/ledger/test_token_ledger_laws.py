"""Laws of the token ledger through its door: random fleets, posted whole and in shuffled pieces.

The oracle below reads method §2.1–2.4 once more, slowly and without the product's code: it holds
all readings of a series at once and asks of each what it books.
"""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from finops.ledger.models import Document, Series, Source, TokenHour
from finops.ledger.operations.derive import current_rows
from finops.ledger.operations.readings import post_readings, recheck
from finops.ledger.which import atomic
from finops.sources.records import SeriesReadings

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
BASE_S = 1_795_910_400  # a midnight, UTC
DAY_S = 86_400
COUNTER, CREATED = "vllm:prompt_tokens_total", "vllm:prompt_tokens_created"
PROCESS_START = "process_start_time_seconds"
NUMBERS = count(1)
few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass
class Reading:
    """One scrape of one target by one replica: seconds, value, and the marks beside it."""

    at: int
    value: int
    marks: dict[str, int]
    replica: str = ""


@dataclass
class Target:
    instance: str
    readings: list[Reading] = field(default_factory=list)
    ups: list[tuple[int, int]] = field(default_factory=list)


# -- fleets ------------------------------------------------------------------------------------


def fleet(rng: random.Random) -> list[Target]:
    return [target(rng, f"host-{n}:8000") for n in range(rng.choice([1, 2, 2, 3]))]


def target(rng: random.Random, instance: str) -> Target:
    step = rng.choice([60, 120, 300])
    start = BASE_S + rng.randrange(0, DAY_S)
    stop = start + step * rng.randrange(1, 220)
    habit = rng.choice(["created", "process_start", "none", "changing", "patchy", "both"])
    one = Target(instance)
    now = start - rng.choice([0, 30, 600, 2 * DAY_S])
    seen: dict[str, int] = {}
    while now < stop:
        ended = now + rng.randrange(step, 90 * step)
        rate = rng.randrange(0, 500)
        kinds = {"changing": rng.choice(["created", "process_start", "both"])}.get(habit, habit)
        for replica, shift in (("a", 0), ("b", 7))[: rng.choice([1, 1, 2])]:
            for at in range(max(start, now) + shift + 1, min(ended, stop), step):
                if replica == "b" and rng.random() < 0.3:
                    continue
                value, first = rate * (at - now), replica not in seen
                seen[replica] = at
                bare = (
                    habit == "patchy" and not first and rng.random() < 0.3 and at - now > 4 * step
                )
                marks = {} if bare else marks_of(kinds, now)
                one.readings.append(Reading(at, value, marks, replica))
                one.ups.append((at, 1))
        if rng.random() < 0.4 and ended + 5 < stop:
            one.ups.append((ended + 3, 0))
        # The next life begins after a while, now and then after more than a day.
        now = ended + rng.choice([20, 20, 400, 5000, 30 * 3600])
        if rng.random() < 0.3:
            stop += 30 * 3600 if now >= stop else 0
    gaps(rng, one, step)
    return one


def marks_of(kinds: str, born: int) -> dict[str, int]:
    wanted = {
        "created": ["created"],
        "patchy": ["created"],
        "process_start": ["process_start"],
        "both": ["created", "process_start"],
    }
    return dict.fromkeys(wanted.get(kinds, []), born)


def gaps(rng: random.Random, one: Target, step: int) -> None:
    """Takes out spans, some over an hour's, a day's or a life's edge."""
    for _ in range(rng.choice([0, 1, 1, 2])):
        if not one.readings:
            return
        since = rng.choice(one.readings).at
        until = since + rng.choice([3, 10, 40]) * step
        one.readings = [r for r in one.readings if not since <= r.at < until]
        one.ups = [(at, value) for at, value in one.ups if not since <= at < until]


# -- the oracle --------------------------------------------------------------------------------


def booked(one: Target, earliest: int) -> tuple[dict[int, int], int, int]:
    """Tokens by hour, restarts, and the sum of unplaced openings."""
    if any(reading.marks for reading in one.readings):
        return with_marks(one, earliest)
    return without_marks(one)


def with_marks(one: Target, earliest: int) -> tuple[dict[int, int], int, int]:
    hours: dict[int, int] = defaultdict(int)
    lives: list[dict[str, int]] = []
    high: list[int] = []
    current, restarts, unplaced, before, begun = -1, 0, 0, 0, 0
    own: dict[str, Reading] = {}
    readings = sorted(one.readings, key=lambda r: (r.at, r.value, r.replica))
    for index, reading in enumerate(readings):
        hour, mark = reading.at // 3600, mark_of(reading)
        hours[hour] += 0
        last = own.get(reading.replica)
        own[reading.replica] = reading
        # Without a mark a fall within one replica's own readings is a restart, unless the other one has
        # shown it. The first mark that comes later is taken back to a life's first reading.
        fell = last is not None and reading.value < last.value and last.at >= begun
        if mark is None and (current < 0 or fell):
            mark = first_mark_after(readings, index)
            if mark is None:
                known = [at for at, _ in one.ups if at < reading.at]
                proven = reading.at - max(before, *known, 0) <= DAY_S
                restarts += current >= 0
                current, begun = len(lives), reading.at
                lives.append({})
                high.append(0 if proven else reading.value)
                unplaced += 0 if proven else reading.value
        if mark is not None and (current < 0 or lives[current].get(mark[0]) != mark[1]):
            later = mark[1] > before - 5
            if current >= 0 and mark[0] not in lives[current] and not later:
                lives[current][mark[0]] = mark[1]
            else:
                restarts += current >= 0 and later
                # Of another process behind the same address only the rise is known.
                proven = later and earliest <= mark[1] and reading.at - mark[1] <= DAY_S
                lives.append(dict([mark]))
                current, begun = len(lives) - 1, reading.at
                high.append(0 if proven else reading.value)
                unplaced += 0 if proven else reading.value
        hours[hour] += max(0, reading.value - high[current])
        high[current] = max(high[current], reading.value)
        before = reading.at
    return dict(hours), restarts, unplaced


def mark_of(reading: Reading) -> tuple[str, int] | None:
    kinds = (kind for kind in ("created", "process_start") if kind in reading.marks)
    return next(((kind, reading.marks[kind]) for kind in kinds), None)


def first_mark_after(readings: Sequence[Reading], index: int) -> tuple[str, int] | None:
    """The first mark of a life that a reading without one begins; None where another life comes first."""
    own = {readings[index].replica: readings[index].value}
    for before, reading in pairwise(readings[index:]):
        mark = mark_of(reading)
        if mark is not None:
            return mark if mark[1] <= before.at else None
        if reading.value < own.get(reading.replica, 0):
            return None
        own[reading.replica] = reading.value
    return None


def without_marks(one: Target) -> tuple[dict[int, int], int, int]:
    """For one replica only; a pair without marks has a law of its own."""
    hours: dict[int, int] = defaultdict(int)
    restarts, unplaced, high = 0, 0, 0
    last: Reading | None = None
    for reading in sorted(one.readings, key=lambda r: r.at):
        fell = last is not None and reading.value < last.value
        if last is None or fell:
            restarts += fell
            known = [at for at, _ in one.ups if reading.at - DAY_S <= at < reading.at]
            high = 0 if known else reading.value
            unplaced += 0 if known else reading.value
        hours[reading.at // 3600] += max(0, reading.value - high)
        high = max(high, reading.value)
        last = reading
    return dict(hours), restarts, unplaced


# -- posting -----------------------------------------------------------------------------------


def series_of(targets: Sequence[Target], since: int, until: int) -> Iterator[SeriesReadings]:
    for one in targets:
        columns: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for r in one.readings:
            if since <= r.at < until:
                columns[COUNTER, r.replica].append((r.at, r.value))
                for kind, born in r.marks.items():
                    metric = CREATED if kind == "created" else PROCESS_START
                    columns[metric, r.replica].append((r.at, born))
        for at, value in one.ups:
            if since <= at < until:
                columns["up", "a"].append((at, value))
        for (metric, replica), pairs in columns.items():
            labels = {"instance": one.instance, "job": "vllm", "prometheus_replica": replica}
            pairs = sorted(set(pairs))
            yield SeriesReadings(
                metric,
                tuple(sorted(labels.items())),
                array("q", [at * 1000 for at, _ in pairs]),
                array("d", [float(value) for _, value in pairs]),
            )


def a_source() -> Source:
    return Source.objects.create(
        name=f"fleet-{next(NUMBERS)}", kind="files", created_at=AT, created_by="Ada"
    )


def post(source: Source, series: Sequence[SeriesReadings]) -> None:
    number = next(NUMBERS)
    document = Document.objects.create(
        sha256=f"{number:064x}", size_bytes=1, name=f"{number}.json", origin="test",
        format="prometheus-json", received_at=AT, received_by="Ada",
    )  # fmt: skip
    with atomic():
        posted = post_readings(document, source, series, at=AT)
    assert posted.refused == []


def rows(source: Source) -> dict[tuple[str, str, datetime], dict[str, Any]]:
    """The current rows of a source, without what tells when they were posted."""
    found = {}
    names = [f.attname for f in TokenHour._meta.concrete_fields]
    kept = [n for n in names if n not in ("id", "series_id", "revision", "posted_at")]
    for series in Series.objects.filter(target__source=source):
        for hour, row in current_rows(series, 0).items():
            key = (series.target.instance, series.metric, hour)
            found[key] = {name: getattr(row, name) for name in kept}
    return found


def pieces(rng: random.Random, targets: Sequence[Target]) -> list[list[SeriesReadings]]:
    """The same readings in several documents: cut by time, then by series, then shuffled."""
    times = sorted({r.at for one in targets for r in one.readings})
    cuts = sorted(rng.sample(times, min(len(times), rng.randrange(1, 4)))) if times else []
    edges = [0, *cuts, 1 << 40]
    documents: list[list[SeriesReadings]] = []
    for since, until in pairwise(edges):
        series = list(series_of(targets, since, until))
        rng.shuffle(series)
        cut = rng.randrange(0, len(series) + 1)
        documents += [part for part in (series[:cut], series[cut:]) if part]
    rng.shuffle(documents)
    return documents


# -- laws --------------------------------------------------------------------------------------


@few
@given(st.integers(0, 10**9))
def test_rows_are_the_same_whatever_pieces_they_came_in(seed: int) -> None:
    rng = random.Random(seed)
    targets = fleet(rng)
    whole, apart = a_source(), a_source()
    post(whole, list(series_of(targets, 0, 1 << 40)))
    for document in pieces(rng, targets):
        post(apart, document)
    assert rows(apart) == rows(whole)
    ids = Series.objects.filter(target__source__in=(whole, apart)).values_list("pk", flat=True)
    assert recheck(list(ids)) == []


@few
@given(st.integers(0, 10**9))
@example(9_999_999)  # a new life whose first reading after a gap has no mark
def test_each_hour_books_what_the_method_says(seed: int) -> None:
    rng = random.Random(seed)
    targets = fleet(rng)
    source = a_source()
    post(source, list(series_of(targets, 0, 1 << 40)))
    found = rows(source)
    first = [at for one in targets for at, _ in one.ups]
    first += [r.at for one in targets for r in one.readings]
    for one in targets:
        if {r.replica for r in one.readings} == {"a", "b"} and not all(
            r.marks for r in one.readings
        ):
            continue
        hours, restarts, unplaced = booked(one, min(first, default=0))
        mine = [row for (instance, _, _), row in found.items() if instance == one.instance]
        assert {row["hour"].timestamp() // 3600: row["tokens"] for row in mine} == hours
        assert sum(row["restarts"] for row in mine) == restarts
        assert sum(row["opening_tokens"] for row in mine) == unplaced


@few
@given(st.integers(0, 10**9))
def test_two_processes_behind_one_address_are_two_counters(seed: int) -> None:
    """The first is born in sight, the other was there before: of it only the rise is known."""
    rng = random.Random(seed)
    born = {"new": BASE_S + 10, "old": BASE_S - 3600}
    rate = {name: rng.randrange(1, 300) for name in born}
    one, alternations, last = Target("lb:80"), 0, "new"
    one.ups.append((BASE_S + 1, 1))
    shown: dict[str, list[int]] = {"new": [0], "old": []}
    for at in range(BASE_S + 15, BASE_S + 15 + 30 * rng.randrange(1, 300), 30):
        name = "new" if at == BASE_S + 15 else rng.choice(["new", "old"])
        value = rate[name] * (at - born[name])
        one.readings.append(Reading(at, value, {"created": born[name]}))
        shown[name].append(value)
        alternations, last = alternations + (name != last), name
    source = a_source()
    for document in pieces(rng, [one]):
        post(source, document)
    mine = rows(source).values()
    assert sum(row["tokens"] for row in mine) == sum(
        values[-1] - values[0] for values in shown.values() if values
    )
    assert sum(row["facts"].get("alternations", 0) for row in mine) == alternations
    assert sum(row["opening_tokens"] for row in mine) == (shown["old"] or [0])[0]
    assert sum(row["restarts"] for row in mine) == 0


@few
@given(st.integers(0, 10**9))
def test_a_pair_without_marks_never_counts_a_token_twice(seed: int) -> None:
    """Both replicas read the same process: booked is what the highest taken reading shows."""
    rng = random.Random(seed)
    one, rate = Target("pair:80"), rng.randrange(1, 300)
    end = BASE_S + 60 * rng.randrange(3, 300)
    one.ups.append((BASE_S - 30, 1))
    for replica, shift in (("a", 0), ("b", 11)):
        for at in range(BASE_S + shift, end, 60):
            if rng.random() < 0.8:
                one.readings.append(Reading(at, rate * (at - BASE_S), {}, replica))
    if not one.readings:
        return
    source = a_source()
    for document in pieces(rng, [one]):
        post(source, document)
    mine = rows(source).values()
    highest = max(r.value for r in one.readings)
    total = sum(row["tokens"] for row in mine)
    assert highest - rate * 11 - rate * 60 * 20 <= total <= highest
    assert sum(row["restarts"] for row in mine) == 0


def test_a_fall_that_a_marked_replica_showed_already_is_one_restart() -> None:
    one = Target("mixed:80")
    one.ups.append((BASE_S - 10, 1))
    one.readings = [
        Reading(BASE_S, 100, {"created": BASE_S - 5}, "a"),
        Reading(BASE_S + 2, 100, {}, "b"),
        Reading(BASE_S + 10, 20, {"created": BASE_S + 6}, "a"),
        Reading(BASE_S + 12, 25, {}, "b"),
    ]
    source = a_source()
    post(source, list(series_of([one], 0, 1 << 40)))
    (row,) = rows(source).values()
    assert (row["tokens"], row["restarts"]) == (100 + 25, 1)
