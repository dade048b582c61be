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
from decimal import Decimal
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.core.period import Period
from finops.core.tokens import Tokens
from finops.ledger.models import Series, Source, TokenHour
from finops.ledger.operations.readings import recheck
from finops.ledger.queries import explain
from finops.ledger.queries.series import series_of as listed
from finops.ledger.queries.source_hours import engines_of
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


def by_pod(source: Source, start: int, end: int, pods: list[Pod]) -> dict[str, Tokens]:
    """Each pod's tokens, with its highest rate declared: some hours alone may not show it."""
    period = Period(instant(start), instant(end))
    caps = {one.instance: one.highest_rate() for one in pods}
    found = TokenLedger(period).by(
        lambda labels, _: labels["instance"] if labels["source"] == source.name else "",
        period,
        caps,
    )
    return {one.instance: found.get(one.instance, Tokens()) for one in pods}


def unplaced(source: Source, start: int, end: int, instance: str = "") -> int:
    current = [
        row
        for (pod, metric, hour), row in rows(source).items()
        if metric == COUNTER and instant(start) <= hour < instant(end)
        if not instance or pod == instance
    ]
    return sum(row["opening_tokens"] for row in current)


def longest_unsaid(source: Source, one: Pod) -> int:
    """The seconds that may pass at an edge without a reading and without being a gap (§2.5)."""
    mine = [row for (pod, metric, _), row in rows(source).items()
            if metric == COUNTER and pod == one.instance]  # fmt: skip
    usual_ms = max((row["usual_ms"] or 0 for row in mine), default=0)
    return 5 * max(usual_ms // 1000, one.world.step) // 2 + abs(one.skew_s)


@few
@given(st.integers(0, 10**9))
def test_the_truth_of_a_fleet_lies_inside_its_bounds(seed: int) -> None:
    """Of the whole span, and of each pod in some hours: there to the cut-off that the method states at
    each edge (§2.3), be it an edge that nobody read (§2.6). What calls itself exact is it."""
    rng = random.Random(seed)
    pods, _, source = fleet(rng)
    start, end = BASE_S - HOUR_S, BASE_S + SPAN_S
    found = tokens_of(source, start, end)
    truth = sum(one.tokens_until(end) for one in pods) - unplaced(source, start, end)
    assert found.prompt_lower <= truth <= found.prompt_upper
    if found.exact:
        assert found.prompt == truth
    for _ in range(6):
        hours = sorted(rng.sample(range(-1, SPAN_S // HOUR_S + 1), 2))
        start, end = (BASE_S + HOUR_S * hour for hour in hours)
        told = by_pod(source, start, end, pods)
        for one in pods:
            counted = one.tokens_until(end - 1) - one.tokens_until(start - 1)
            truth = counted - unplaced(source, start, end, one.instance)
            cut_off = one.highest_rate() * 2 * longest_unsaid(source, one)
            mine = told[one.instance]
            assert (mine.prompt_lower or 0) - cut_off <= truth <= (mine.prompt_upper or 0) + cut_off
            if mine.exact:
                assert abs(mine.prompt - truth) <= cut_off


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


# -- a span that nobody read, by hand --------------------------------------------------------------

NINE = BASE_S + 9 * HOUR_S
UNREAD = range(NINE + 1800, NINE + 9000)  # from 09:30 to 11:30
Pairs = list[tuple[int, int]]


def told_of(new: Pairs, born: Pairs, ups: Pairs) -> tuple[Source, list[Tokens]]:
    """What the hours from 09:00, 10:00 and 11:00, and all three, are worth to a pod, beside another
    that is read whenever the source is."""
    steady = [(at, 1) for at in range(NINE - 600, NINE + 4 * HOUR_S, 60) if at not in UNREAD]
    labels, source = {"instance": "new:1"}, a_source()
    series = [
        *column(UP, {"instance": "steady:1"}, steady, 0, 1 << 40),
        *column(COUNTER, labels, new, 0, 1 << 40),
        *column(STARTED, labels, born, 0, 1 << 40),
        *column(UP, labels, ups, 0, 1 << 40),
    ]
    post(source, series)
    edges = [NINE + HOUR_S * hour for hour in range(4)]
    spans = [*pairwise(edges), (edges[0], edges[-1])]
    return source, [tokens_of(source, *span) or Tokens() for span in spans]


def bounds(tokens: Tokens) -> tuple[int | None, int | None, int | None, bool]:
    return tokens.prompt, tokens.prompt_lower, tokens.prompt_upper, tokens.exact


def after(first: int, each: int) -> Pairs:
    """From 11:30 on every minute, until 12:30."""
    return [(UNREAD.stop + 60 * n, first + each * n) for n in range(60)]


MARKED = [(at, NINE + 4200) for at, _ in after(0, 0)]  # born at 10:10
ALL = 4800 + 29 * 600


@pytest.mark.parametrize(
    ("born", "ups", "ten", "eleven"),
    [
        # Born at 10:10, first read at 11:30 with 4,800: any of them may be of the hour from 10:00.
        (MARKED, [], (None, 0, 4800, False), (ALL, ALL - 4800, ALL, False)),
        # A scrape at 11:29 had no answer: the process was there and may have counted.
        (MARKED, [(UNREAD.stop - 60, 0)], (None, 0, 4800, False), (ALL, ALL - 4800, ALL, False)),
        # A scrape at 11:29 was answered without the counter: it was born after that.
        (MARKED, [(UNREAD.stop - 60, 1)], (None, None, None, False), (ALL, ALL, ALL, True)),
        # Without a mark the last `up` reading tells since when it may have counted, here 10:30 …
        ([], [(NINE + 5400, 1)], (None, 0, 4800, False), (ALL, ALL - 4800, ALL, False)),
        # … and here 11:20, when nobody answered.
        ([], [(NINE + 8400, 0)], (None, None, None, False), (ALL, ALL, ALL, True)),
    ],
)
def test_a_birth_that_nobody_read_may_lie_on_either_side_of_an_edge(
    born: Pairs, ups: Pairs, ten: tuple[object, ...], eleven: tuple[object, ...]
) -> None:
    _, (first, second, third, whole) = told_of(after(4800, 600), born, ups)
    assert bounds(first) == (None, None, None, False)
    assert bounds(second) == ten
    assert bounds(third) == eleven
    assert bounds(whole) == (ALL, ALL, ALL, True)
    assert whole.unread_edges == 0 and third.unread_edges == (not third.exact)
    assert second.coverage == Decimal("0.0000")  # a period without readings
    # Of the hour from 11:00 a half was not read; of a life without a mark nobody knows its length.
    assert third.coverage == Decimal("0.5000" if born and not third.exact else "1.0000")


def test_a_birth_that_nobody_read_and_that_had_counted_nothing_leaves_hours_exact() -> None:
    _, (first, second, third, whole) = told_of(after(0, 600), MARKED, [])
    assert bounds(first) == bounds(second) == (None, None, None, False)
    assert bounds(third) == bounds(whole) == (29 * 600, 29 * 600, 29 * 600, True)


def test_how_much_an_idle_engine_lost_at_its_end_is_not_known_of_it_alone() -> None:
    """Read until 12:00 and never again, while the source goes on: it ended, and did nothing before."""
    source, _ = told_of(after(4800, 0)[:31], MARKED[:31], [])
    series = Series.objects.get(target__source=source, role="prompt")
    told = explain.bounds(series, instant(NINE + 3 * HOUR_S))
    assert (told["lower"], told["upper"], told["exact"]) == (0, None, False)
    assert told["why"] == [
        "tokens may have been lost between a last reading and a restart or an end"
    ]


def test_a_restart_that_nobody_read_counts_for_the_hours_it_may_have_cost() -> None:
    """Read until 09:29 with 10 tokens a second, born again at 10:10, read from 11:30 on, where the
    fastest minute shows 10 a second too. What the first life counted after 09:29 is lost: until 10:00
    of the first hour, until 10:10 of the second."""
    before = [(at, 10 * (at - NINE)) for at in range(NINE + 60, UNREAD.start, 60)]
    marks = [(at, NINE) for at, _ in before] + MARKED
    _, (first, second, third, whole) = told_of(before + after(4800, 600), marks, [])
    seen = before[-1][1]
    dark_s = UNREAD.start - before[-1][0] + 1800
    assert bounds(first) == (seen, seen, seen + 10 * dark_s + 4800, False)
    assert bounds(second) == (None, 0, 10 * 600 + 4800, False)
    assert bounds(third) == (ALL, ALL - 4800, ALL + 10 * (dark_s + 600), False)
    assert bounds(whole) == (seen + ALL, seen + ALL, seen + ALL + 10 * (dark_s + 600), False)


def test_an_hour_says_why_it_is_not_exact() -> None:
    source, _ = told_of(after(4800, 600), MARKED, [])
    series = Series.objects.get(target__source=source, role="prompt")
    told = explain.bounds(series, instant(NINE + 2 * HOUR_S))
    assert (told["lower"], told["upper"], told["exact"]) == (ALL - 4800, ALL, False)
    assert told["why"] == [
        "4,800 tokens came with the first reading after a time that nobody read, in which the hour "
        "began: they may belong before it"
    ]
    ten, eleven = (engines_of(source.name, instant(NINE + HOUR_S * hour)) for hour in (1, 2))
    assert [(row["name"], row["readings"], row["lower"], row["upper"]) for row in (*ten, *eleven)] == [
        ("new:1", 0, 0, 4800), ("new:1", 30, ALL - 4800, ALL)
    ]  # fmt: skip
    period = Period(instant(NINE + 2 * HOUR_S), instant(NINE + 3 * HOUR_S))
    (row,) = (row for row in listed(period) if row.source == source.name)
    assert (row.tokens, row.lower, row.upper, row.exact) == (ALL, ALL - 4800, ALL, False)
