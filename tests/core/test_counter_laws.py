"""Laws of the token ledger against a simulator that knows every token (method §2).

The simulator counts tokens second by second for each incarnation and reads the counter as a
scraper would; it shares no code with the product. Engines are always busy at a whole number of
tokens a second or idle, so the bound's assumption (no engine ran faster in the dark) holds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.core.counter import derive
from finops.core.counter_values import Carry, Context, HourReadings, HourRow, Readings
from finops.core.dark import Ups, dark_of, dark_of_end
from finops.core.series import Row, SeriesRows
from finops.core.tokens import SeriesPeriod

BASE_S = 1_795_962_000 // 86_400 * 86_400
HOUR_S = 3600


@dataclass
class Life:
    """One process: born, ended (or not), tokens counted up to each second."""

    born: int
    ended: int | None
    counted: list[int]

    def value(self, second: int) -> int:
        last = len(self.counted) - 1
        return self.counted[max(0, min(last, second - self.born))]


@dataclass
class World:
    """What happened, and what a scraper saw."""

    lives: list[Life]
    scrapes: list[tuple[int, int, int | None]]  # second, value, born (the mark)
    ups: list[tuple[int, int]] = field(default_factory=list)
    step: int = 15

    def truth(self, until: int) -> int:
        """Every token any engine counted."""
        return sum(life.value(until) for life in self.lives)

    def seen(self) -> int:
        """Every token that a last reading of a life shows."""
        total = 0
        for life in self.lives:
            mine = [value for _, value, born in self.scrapes if born == life.born]
            total += max(mine, default=0)
        return total


def world(seed: int, *, with_up_zero: bool = True) -> World:
    rng = random.Random(seed)
    start, length = BASE_S + rng.randrange(0, 20) * 600, rng.randrange(2, 9) * HOUR_S
    step = rng.choice([5, 15, 30, 60])
    lives: list[Life] = []
    now = start + rng.randrange(0, 120)
    while now < start + length:
        ended = now + rng.randrange(60, 3 * HOUR_S)
        alive = min(ended, start + length) - now
        rate, counted, busy = rng.randrange(1, 900), [0], True
        for _ in range(alive):
            if rng.random() < 0.01:
                busy = not busy
            counted.append(counted[-1] + (rate if busy else 0))
        lives.append(Life(now, ended if ended < start + length else None, counted))
        now = ended + rng.randrange(5, 400)
    dark = sorted(rng.sample(range(length), 2)) if rng.random() < 0.6 else [length, length]
    if dark[1] - dark[0] > 2 * HOUR_S:
        dark[1] = dark[0] + 2 * HOUR_S
    scrapes, ups = [], []
    for second in range(start, start + length, step):
        if dark[0] <= second - start < dark[1]:
            continue
        life = next(
            (one for one in lives if one.born <= second and (one.ended or 1 << 40) > second), None
        )
        if life:
            scrapes.append((second, life.value(second), life.born))
            ups.append((second, 1))
        elif with_up_zero:
            ups.append((second, 0))
    return World(lives, scrapes, ups, step)


def hours_of(w: World, *, marked: bool = True) -> list[HourReadings]:
    grouped: dict[int, list[tuple[int, int, int | None]]] = {}
    for second, value, born in w.scrapes:
        grouped.setdefault(second // HOUR_S * HOUR_S * 1000, []).append((second, value, born))
    return [
        HourReadings(
            hour_ms,
            {
                "": Readings(
                    [second * 1000 for second, _, _ in seen],
                    [value for _, value, _ in seen],
                    [("created", born * 1_000_000) for _, _, born in seen] if marked else None,
                )
            },
        )
        for hour_ms, seen in sorted(grouped.items())
    ]


def context_of(w: World) -> Context:
    return Context(
        (w.ups[0][0] if w.ups else BASE_S) * 1000 - 600_000, [s * 1000 for s, _ in w.ups]
    )


def derived(w: World, *, marked: bool = True) -> list[HourRow]:
    rows, learned = derive(hours_of(w, marked=marked), Carry(), context_of(w))
    assert not learned
    return rows


def series_rows(w: World, rows: list[HourRow], until: int) -> SeriesRows:
    ups = Ups([s * 1000 for s, _ in w.ups], [v for _, v in w.ups])
    built = []
    for row in rows:
        darks = [
            dark_of(
                from_ms=r.from_ms,
                to_ms=r.to_ms,
                mark_us=r.mark_us,
                value=r.value,
                ups=ups,
            )
            for r in row.restarts
        ]
        facts = {
            "gaps": [(g.from_ms, g.to_ms, g.usual_ms, g.tokens) for g in row.gaps],
            "restarts": [
                {"from": r.from_ms, "to": r.to_ms, "dark": d.ms, "shown": d.shown}
                for r, d in zip(row.restarts, darks, strict=True)
            ],
            "openings": row.openings,
            "unmarked": row.unmarked,
        }
        built.append(
            Row(
                row.hour_ms, row.tokens, row.readings, len(row.restarts), 0, 0,
                row.rate_tokens, row.rate_ms, row.usual_ms, row.first_ms, row.last_ms, facts,
            )
        )  # fmt: skip
    last_ms, usual = rows[-1].last_ms, rows[-1].usual_ms
    return SeriesRows(
        rows=built,
        born_ms=rows[0].first_ms,
        last_ms=last_ms,
        usual_ms=usual,
        source_last_ms=until * 1000,
        dark_of_end=lambda: dark_of_end(last_ms, usual, ups),
    )


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**9))
def test_with_marks_every_token_that_a_reading_shows_is_booked_once(seed: int) -> None:
    w = world(seed)
    if not w.scrapes:
        return
    rows = derived(w)
    # What a counter showed that nobody read from its birth on is told, and placed nowhere (§2.3).
    unplaced = sum(value for row in rows for _, value in row.openings)
    assert sum(row.tokens for row in rows) + unplaced == w.seen()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.booleans())
def test_the_truth_lies_inside_the_bounds(seed: int, up_zero: bool) -> None:
    w = world(seed, with_up_zero=up_zero)
    if len(w.scrapes) < 3:
        return
    rows = derived(w)
    first, last = w.scrapes[0][0], w.scrapes[-1][0]
    start, end = first // HOUR_S * HOUR_S, (last // HOUR_S + 1) * HOUR_S
    (part,) = series_rows(w, rows, last).parts(start * 1000, end * 1000, lambda ms: None).values()
    # What no reading saw at all is left out by the method: lives without a reading, and before
    # an `up` = 0 nobody can know of a further incarnation.
    seen = {born for _, _, born in w.scrapes}
    # An unplaced opening stands beside the bounds, with its size.
    unplaced = sum(value for row in rows for _, value in row.openings)
    truth = sum(life.value(last) for life in w.lives if life.born in seen) - unplaced
    if part.rate.tokens and _fastest_life_was_measured(w):
        assert part.lower() <= truth <= part.upper()
    if part.exact():
        assert part.booked == truth


def _fastest_life_was_measured(w: World) -> bool:
    """Whether some step between two readings ran at the highest rate of any life."""
    highest = max(
        (b - a for life in w.lives for a, b in zip(life.counted, life.counted[1:], strict=False)),
        default=0,
    )
    best = 0.0
    for (t0, v0, m0), (t1, v1, m1) in zip(w.scrapes, w.scrapes[1:], strict=False):
        if m0 == m1:
            best = max(best, (v1 - v0) / (t1 - t0))
    return best >= highest


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.booleans())
def test_days_taken_one_by_one_give_the_same_rows(seed: int, marked: bool) -> None:
    w = world(seed)
    hours = hours_of(w, marked=marked)
    whole, _ = derive(hours, Carry(), context_of(w))
    carry, pieces = Carry(), []
    days = sorted({hour.hour_ms // 86_400_000 for hour in hours})
    for day in days:
        of_day = [hour for hour in hours if hour.hour_ms // 86_400_000 == day]
        carry = Carry.from_json(carry.as_json())
        rows, _ = derive(of_day, carry, context_of(w))
        pieces.extend(rows)
    assert pieces == whole


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_a_replica_more_changes_nothing_where_marks_tell(seed: int) -> None:
    """HA pairs with marks are united: the sum never exceeds what the lives counted, and never
    falls below what one replica alone shows."""
    w = world(seed)
    if not w.scrapes:
        return
    alone = sum(row.tokens for row in derived(w))
    hours = hours_of(w)
    for hour in hours:
        one = hour.replicas[""]
        shifted = [
            (t + 2000, life.value(t // 1000 + 2), ("created", life.born * 1_000_000))
            for t in one.times_ms
            for life in w.lives
            if life.born <= t // 1000 + 2
            and (life.ended or 1 << 40) > t // 1000 + 2
            and (t + 2000) // 3_600_000 == t // 3_600_000
        ]
        hour.replicas = {"a": one}
        if shifted:
            times, values, marks = map(list, zip(*shifted, strict=True))
            hour.replicas["b"] = Readings(times, values, marks)
    rows, _ = derive(hours, Carry(), context_of(w))
    total = sum(row.tokens for row in rows)
    assert alone <= total <= w.truth(w.scrapes[-1][0] + 2)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_the_quick_way_gives_the_careful_way_s_rows(seed: int) -> None:
    """A second, empty-handed replica name forces the careful way."""
    w = world(seed)
    quick = derived(w)
    careful, _ = derive(
        [
            HourReadings(
                hour.hour_ms,
                {
                    name: Readings(r.times_ms, r.values, list(_marks(r)))
                    for name, r in hour.replicas.items()
                },
            )
            for hour in hours_of(w)
        ],
        Carry(),
        context_of(w),
    )
    constant, _ = derive([_constant(hour) for hour in hours_of(w)], Carry(), context_of(w))
    assert careful == quick
    assert constant == quick


def _marks(readings: Readings) -> list[object]:
    assert isinstance(readings.marks, list)
    return readings.marks


def _constant(hour: HourReadings) -> HourReadings:
    for readings in hour.replicas.values():
        marks = set(_marks(readings))
        if len(marks) == 1:
            readings.marks = marks.pop()
    return hour


@pytest.mark.parametrize(
    ("readings", "tokens", "hidden", "openings"),
    [
        # A restart that climbs past the old value between two readings: only the mark tells.
        ([(0, 100, -20), (15, 300, 5)], 400, 1, 0),
        # A fall with a mark: the restart everybody sees.
        ([(0, 100, -20), (15, 30, 5)], 130, 0, 0),
        # A mark before the previous reading is another process behind the same address.
        ([(0, 100, -20), (15, 300, -400), (30, 150, -20)], 150, 0, 1),
        # Born more than a day before the first reading: an unplaced opening.
        ([(0, 100, -90_000), (15, 140, -90_000)], 40, 0, 1),
    ],
)
def test_marks_tell_incarnations_apart(
    readings: list[tuple[int, int, int]], tokens: int, hidden: int, openings: int
) -> None:
    times = [(BASE_S + at) * 1000 for at, _, _ in readings]
    hour = HourReadings(
        BASE_S * 1000,
        {
            "": Readings(
                times,
                [value for _, value, _ in readings],
                [("created", (BASE_S + mark) * 1_000_000) for _, _, mark in readings],
            )
        },
    )
    (row,), _ = derive([hour], Carry(), Context((BASE_S - 100_000) * 1000))
    assert row.tokens == tokens
    assert sum(restart.hidden for restart in row.restarts) == hidden
    assert len(row.openings) == openings


def test_without_marks_a_fall_is_the_restart_and_up_proves_the_birth() -> None:
    hour = HourReadings(
        BASE_S * 1000,
        {"": Readings([(BASE_S + s) * 1000 for s in (15, 30, 45)], [70, 90, 20])},
    )
    (proven,), _ = derive([hour], Carry(), Context(0, [BASE_S * 1000]))
    (unproven,), _ = derive([hour], Carry(), Context(0))
    assert (proven.tokens, len(proven.restarts), proven.openings) == (110, 1, [])
    assert (unproven.tokens, [value for _, value in unproven.openings]) == (40, [70])


def test_a_first_mark_that_comes_later_is_taken_back_to_the_first_reading() -> None:
    mark = ("created", (BASE_S + 5) * 1_000_000)
    hour = HourReadings(
        BASE_S * 1000,
        {"": Readings([(BASE_S + s) * 1000 for s in (15, 30)], [70, 90], [None, mark])},
    )
    _, learned = derive([hour], Carry(), Context(BASE_S * 1000))
    assert learned == {(BASE_S + 15) * 1000: mark}
    (row,), again = derive([hour], Carry(), Context(BASE_S * 1000, (), learned))
    assert (row.tokens, row.openings, again) == (90, [], {})


def test_a_mark_not_seen_for_long_on_an_alternating_address_has_ended() -> None:
    """Two processes alternate every 15 s; one is last read at 60 s, the source goes on for long:
    more than 2.5 × 15 s × 2 marks (75 s) later it has ended, dark for one usual interval."""
    alternating = {"alternations": 3}
    row = Row(
        BASE_S * 1000, 500, 9, 0, 0, 0, 10, 1000, 15_000, 0, BASE_S * 1000 + 140_000, alternating
    )

    def rows(source_last_s: int) -> SeriesRows:
        return SeriesRows(
            rows=[row],
            born_ms=BASE_S * 1000,
            last_ms=(BASE_S + 140) * 1000,
            usual_ms=15_000,
            source_last_ms=(BASE_S + source_last_s) * 1000,
            last_of_marks=lambda: [(BASE_S + 60) * 1000, (BASE_S + 140) * 1000],
        )

    def part(source_last_s: int) -> SeriesPeriod:
        end = (BASE_S + HOUR_S) * 1000
        (found,) = rows(source_last_s).parts(BASE_S * 1000, end, lambda ms: None).values()
        return found

    assert part(135).ends == 0
    ended = part(136)
    assert ended.ends == 1
    # 10 tokens a second for the 15 s of one usual interval stand above the booked ones.
    assert ended.upper() == 500 + 150
    assert not ended.exact()
