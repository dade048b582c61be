"""The truth lies inside the bounds, through the ledger's door: pods that are born, restart and die.

Each pod is a world of the core's simulator (`tests/core/test_counter_laws.py`), which knows every
token; here it is a target of its own, beside one that is read all the time, so that ends show. The
readings arrive as stores give them: by one replica or two, in windows that overlap, out of order,
some twice, from clocks up to five seconds apart.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.core.period import Period
from finops.ledger.models import Series, Source, TokenHour
from finops.ledger.operations.readings import recheck
from finops.ledger.queries.tokens import TokenLedger
from finops.sources.records import SeriesReadings
from tests.core.test_counter_laws import BASE_S, World, _fastest_life_was_measured, world
from tests.ledger.test_store_laws import disordered, windows
from tests.ledger.test_token_ledger_laws import a_source, post, rows

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

COUNTER, STARTED, UP = "vllm:prompt_tokens_total", "process_start_time_seconds", "up"
HOUR_S, SPAN_S = 3600, 14 * 3600
PODS = count(1)
few = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass
class Pod:
    """One address: what happened behind it, by how many replicas it was read, and its clock."""

    instance: str
    world: World
    replicas: int
    skew_s: int

    def tokens_until(self, second: int) -> int:
        """Every token that the lives which some reading saw counted up to an instant."""
        seen = {born for _, _, born in self.world.scrapes}
        lives = [life for life in self.world.lives if life.born in seen and life.born <= second]
        return sum(life.value(second) for life in lives)

    def highest_rate(self) -> int:
        steps = [zip(one.counted, one.counted[1:], strict=False) for one in self.world.lives]
        return max((b - a for each in steps for a, b in each), default=0)


def pod(rng: random.Random, dark: range) -> Pod:
    """A world that meets the bound's assumptions: no engine ran faster in the dark than it was seen
    to, and none ended while nobody read any target of the source."""
    while True:
        seed = rng.randrange(10**9)
        if any(b - a > one.step for one in [world(seed)] for (a, _), (b, _) in pairwise(one.ups)):
            continue  # this target alone was not read for a while, which its end or a restart means
        one = world(seed, with_up_zero=rng.random() < 0.5)
        one.scrapes = [seen for seen in one.scrapes if seen[0] not in dark]
        one.ups = [seen for seen in one.ups if seen[0] not in dark]
        if len(one.scrapes) < 3 or not _fastest_life_was_measured(one):
            continue
        last = one.lives[-1]
        lived_until = last.born + len(last.counted) - 1
        if one.scrapes[-1][2] == last.born and lived_until - one.scrapes[-1][0] <= one.step:
            break
    return Pod(f"pod-{next(PODS)}:8000", one, rng.choice([1, 1, 2]), rng.randrange(-5, 6))


def series_of(pods: list[Pod], dark: range, since: int, until: int) -> Iterator[SeriesReadings]:
    """The readings of a span, the steady target's among them."""
    steady = [(at, 1) for at in range(BASE_S - 600, BASE_S + SPAN_S, 60) if at not in dark]
    yield from column(UP, {"instance": "steady:1"}, steady, since, until)
    for one in pods:
        for replica in "ab"[: one.replicas]:
            labels = {"instance": one.instance, "prometheus_replica": replica}
            seen = one.world.scrapes[:: 1 if replica == "a" else 2]
            told = [(at, value) for at, value, _ in seen]
            born = [(at, (born or 0) + one.skew_s) for at, _, born in seen]
            yield from column(COUNTER, labels, told, since, until)
            yield from column(STARTED, labels, born, since, until)
        labels = {"instance": one.instance, "prometheus_replica": "a"}
        yield from column(UP, labels, one.world.ups, since, until)


def column(
    metric: str, labels: dict[str, str], pairs: list[tuple[int, int]], since: int, until: int
) -> Iterator[SeriesReadings]:
    inside = [(at, value) for at, value in pairs if since <= at < until]
    if inside:
        yield SeriesReadings(
            metric,
            tuple(sorted({"job": "vllm", **labels}.items())),
            array("q", [at * 1000 for at, _ in inside]),
            array("d", [float(value) for _, value in inside]),
        )


def fleet(rng: random.Random) -> tuple[list[Pod], range, Source]:
    """Some pods, the span in which the whole source was not read, and a source that holds what was."""
    since = BASE_S + rng.randrange(SPAN_S)
    dark = range(since, since + rng.choice([0, 0, 300, HOUR_S, 2 * HOUR_S]))
    pods = [pod(rng, dark) for _ in range(rng.choice([1, 2, 3]))]
    source = a_source()
    spans = list(windows(rng, BASE_S - 600, BASE_S + SPAN_S))
    rng.shuffle(spans)
    for since, until in spans:
        document = [disordered(rng, one) for one in series_of(pods, dark, since, until)]
        if document:
            post(source, document)
    return pods, dark, source


def instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def tokens_of(source: Source, start: int, end: int):  # type: ignore[no-untyped-def]
    period = Period(instant(start), instant(end))
    return TokenLedger(period).by(lambda labels, _: labels["source"], period).get(source.name)


def is_unread(one: Pod, second: int) -> bool:
    """Whether an instant lies in a gap of a pod's readings, or between a birth and a late first one."""
    before = [at for at, _, _ in one.world.scrapes if at <= second]
    after = [(at, born) for at, _, born in one.world.scrapes if at > second]
    if not after:
        return False
    since = max(before, default=after[0][1] or 0)
    return since <= second and after[0][0] - since > 2.5 * one.world.step


def unplaced(source: Source, start: int, end: int) -> int:
    current = [
        row
        for (_, metric, hour), row in rows(source).items()
        if metric == COUNTER and instant(start) <= hour < instant(end)
    ]
    return sum(row["opening_tokens"] for row in current)


@few
@given(st.integers(0, 10**9))
def test_the_truth_of_a_fleet_lies_inside_its_bounds(seed: int) -> None:
    """Of the whole span, and of some hours: there to the cut-off that the method states, one scrape
    interval at each edge (§2.3). An edge that nobody read at all is told apart: a restart's dark belongs
    to the period of the reading that shows it (§2.6)."""
    rng = random.Random(seed)
    pods, dark, source = fleet(rng)
    start, end = BASE_S - HOUR_S, BASE_S + SPAN_S
    found = tokens_of(source, start, end)
    truth = sum(one.tokens_until(end) for one in pods) - unplaced(source, start, end)
    assert found.prompt_lower <= truth <= found.prompt_upper
    if found.exact:
        assert found.prompt == truth
    cut_off = sum(one.highest_rate() * 2 * one.world.step for one in pods)
    for _ in range(4):
        hours = sorted(rng.sample(range(-1, SPAN_S // HOUR_S + 1), 2))
        start, end = (BASE_S + HOUR_S * hour for hour in hours)
        if any(edge in dark or is_unread(one, edge) for one in pods for edge in (start, end)):
            continue
        found = tokens_of(source, start, end)
        counted = sum(one.tokens_until(end - 1) - one.tokens_until(start - 1) for one in pods)
        truth = counted - unplaced(source, start, end)
        if found is None or found.prompt is None:
            assert truth <= cut_off
        else:
            assert found.prompt_lower - cut_off <= truth <= found.prompt_upper + cut_off


@few
@given(st.integers(0, 10**9))
def test_a_fleet_collected_once_more_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    pods, dark, source = fleet(rng)
    before, posted = rows(source), TokenHour.objects.filter(series__target__source=source).count()
    for since, until in windows(rng, BASE_S - 600, BASE_S + SPAN_S):
        if document := list(series_of(pods, dark, since, until)):
            post(source, document)
    assert rows(source) == before
    assert TokenHour.objects.filter(series__target__source=source).count() == posted
    assert recheck([one.pk for one in Series.objects.filter(target__source=source)]) == []
