"""How the sample's engines work: requests that come and go, and the counters at each scrape.

All whole numbers from one seeded generator. A process counts from its birth; what it counted
between its last scrape and a violent end is kept as lost in the truth and stands in no file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from finops.core.period import milliseconds
from finops.sample.calendar import FAST_STEP_MS, HOUR_MS, SLOW_STEP_MS, WEEKS, Calendar
from finops.sample.fleet import Life, Service, Target, Traffic
from finops.sample.latency import BUCKETS, Latency
from finops.sample.truth import KINDS, Loss, Restart, Truth

# Load of a working day by the hour, per thousand of the peak.
DAY = (0, 0, 0, 0, 0, 40, 150, 350, 620, 850, 960, 1000, 930, 960, 1000, 980, 900, 760, 600, 470, 340, 220, 110, 40)  # fmt: skip
THURSDAY_1970 = 3  # 1 January 1970 was a Thursday: days since Monday
LOOK_BACK = 24
PRECISION = 10**15


@dataclass
class Readings:
    """What one engine's scrapes read, column by column; `life` is the process behind a reading."""

    times_ms: list[int] = field(default_factory=list)
    life: list[int] = field(default_factory=list)
    counters: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in KINDS))
    used_blocks: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    buckets: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in BUCKETS))


@dataclass
class Scrapes:
    """One target's scrapes, and the readings of each of its engines."""

    service: Service
    target: Target
    times_ms: list[int]
    up: list[bool]
    engines: list[Readings]


def scrape_times(
    target: Target, calendar: Calendar, gaps: tuple[tuple[int, int], ...]
) -> list[int]:
    """When a target is scraped: every five minutes, from an hour before the newest week every 30 s.

    The change of pace lies outside the week, so that its edge is not read as a gap.
    """
    fast_from = milliseconds(calendar.weeks[WEEKS - 1].start) - HOUR_MS
    end = min(target.to_ms, milliseconds(calendar.horizon))
    origin = milliseconds(calendar.start) + target.phase_ms
    times = [*range(origin, fast_from, SLOW_STEP_MS)]
    times += range(fast_from + target.phase_ms, end, FAST_STEP_MS)
    return [
        t
        for t in times
        if target.from_ms <= t < end and not any(since <= t < until for since, until in gaps)
    ]


def scrape(
    service: Service,
    target: Target,
    calendar: Calendar,
    gaps: tuple[tuple[int, int], ...],
    rng: Random,
    truth: Truth,
) -> Scrapes:
    """Runs a target's processes and reads them; books what is shown and what is lost."""
    times = scrape_times(target, calendar, gaps)
    alive = _lives_at(times, target.lives)
    engines = [
        _run(service, target, times, alive, calendar, rng, truth)
        for _ in range(target.lives[0].pool.engines)
    ]
    return Scrapes(service, target, times, [index is not None for index in alive], engines)


def _lives_at(times: list[int], lives: tuple[Life, ...]) -> list[int | None]:
    """Which life answers each scrape, or none."""
    found: list[int | None] = []
    index = 0
    for time in times:
        while index < len(lives) - 1 and time >= lives[index].stop_ms:
            index += 1
        alive = lives[index].born_ms <= time < lives[index].stop_ms
        found.append(index if alive else None)
    return found


class _Engine:
    """One engine at work: its counters since birth and the requests it has not yet finished."""

    def __init__(self, traffic: Traffic, calendar: Calendar, rng: Random) -> None:
        self.traffic = traffic
        self.calendar = calendar
        self.bits = rng.getrandbits
        self.born(0)

    def born(self, time_ms: int) -> None:
        """A new process: all counters are zero."""
        self.now = time_ms
        self.values = [0] * len(KINDS)
        self.pending = [0, 0]
        self.latency = Latency(self.traffic.late_first, self.traffic.late_between)

    def level(self, time_ms: int) -> int:
        """The load at an instant, in millionths of the peak."""
        traffic, hours = self.traffic, time_ms // HOUR_MS
        day = (hours // 24 + THURSDAY_1970) % 7
        level = traffic.night_share + (1000 - traffic.night_share) * DAY[hours % 24] // 1000
        if day >= 5:
            level = level * traffic.weekend_share // 1000
        week = self.calendar.week_at(time_ms)
        level = level * (1000 + traffic.growth_a_week * week)
        return level * traffic.share_before // 1000 if week < traffic.before_week else level

    def work(self, until_ms: int, finish_all: bool) -> None:
        """Works up to an instant, in steps of five minutes at most."""
        while self.now < until_ms:
            step = min(until_ms - self.now, SLOW_STEP_MS)
            last = self.now + step == until_ms
            self._step(step, self.level(self.now), finish_all and last)
            self.now += step

    def _step(self, step_ms: int, level: int, finish_all: bool) -> None:
        traffic, bits, values = self.traffic, self.bits, self.values
        expected = traffic.milli_requests_per_second * level * step_ms * (488 + bits(10))
        requests = (expected + bits(50) * PRECISION // 2**50) // PRECISION
        prompt = requests * traffic.prompt_tokens * (745 + bits(9)) // 1000
        generation = requests * traffic.generation_tokens * (745 + bits(9)) // 1000
        values[0] += prompt
        values[1] += generation
        values[2] += prompt * traffic.cached_share * (745 + bits(9)) // 1_000_000
        self.latency.count(requests, generation, level)
        aborted = traffic.aborted_share * (488 + bits(10))
        self._finish(prompt, generation, aborted, step_ms, finish_all)

    def _finish(self, prompt: int, generation: int, aborted: int, step_ms: int, all_: bool) -> None:
        """Requests finish some seconds after they came; aborted ones are never delivered."""
        running = 0 if all_ else min(900, self.traffic.seconds_a_request * 500_000 // step_ms)
        for index, tokens in enumerate((prompt, generation)):
            kept = tokens - tokens * aborted // 1_000_000
            still = kept * running // 1000
            self.values[3 + index] += self.pending[index] + kept - still
            self.pending[index] = still

    def gauges(
        self, blocks: int, block_size: int, since_ms: int, prompt_before: int
    ) -> tuple[int, int, int]:
        """Blocks in use, requests running and waiting; a full pool preempts what it cannot hold,
        about once in five minutes each."""
        traffic = self.traffic
        if self.values[0] == prompt_before:
            return 0, 0, 0  # nobody asked anything since the last reading
        load = traffic.milli_requests_per_second * self.level(self.now) * traffic.seconds_a_request
        running = (load * (488 + self.bits(10)) // 10**9 + 500) // 1000
        elapsed_ms = min(self.now - since_ms, SLOW_STEP_MS)
        # The chance that a request which came since the last reading still runs at this one.
        still_runs = self.bits(10) * elapsed_ms < 1_024_000 * traffic.seconds_a_request
        running = max(running, int(still_runs))
        request = (traffic.prompt_tokens + traffic.generation_tokens) * (745 + self.bits(9)) // 1000
        each = -(-request // block_size)
        fitting = min(running, (blocks - 1) // each)
        waiting = running - fitting
        self.values[5] += (
            waiting * elapsed_ms + self.bits(20) * SLOW_STEP_MS // 2**20
        ) // SLOW_STEP_MS
        return fitting * each, fitting, waiting // 2


def _run(
    service: Service,
    target: Target,
    times: list[int],
    alive: list[int | None],
    calendar: Calendar,
    rng: Random,
    truth: Truth,
) -> Readings:
    engine, readings = _Engine(service.traffic, calendar, rng), Readings()
    booked = [0] * len(KINDS)
    current = -1
    for position, (time, index) in enumerate(zip(times, alive, strict=True)):
        if index is None:
            continue
        if index != current:
            _turn(service, target, readings, current, index, time, truth)
            engine.born(target.lives[index].born_ms)
            booked, current = [0] * len(KINDS), index
        following = times[position + 1] if position + 1 < len(times) else time
        life = target.lives[index]
        engine.work(time, life.ending == "drained" and following >= life.stop_ms)
        _read(engine, readings, time, index, life)
        truth.book(
            service.slug, time, tuple(v - b for v, b in zip(engine.values, booked, strict=True))
        )
        truth.readings[service.slug, time // HOUR_MS] += 1
        booked = engine.values.copy()
    if target.lives[current].ending == "killed":
        _lose(service, target.lives[current], readings, readings.times_ms[-1], truth)
    return readings


def _turn(
    service: Service,
    target: Target,
    readings: Readings,
    before: int,
    now: int,
    time_ms: int,
    truth: Truth,
) -> None:
    """One process follows another at the address: a restart, hidden if no scrape missed it."""
    if before < 0:
        return
    ended = target.lives[before]
    if ended.ending == "killed":
        _lose(service, ended, readings, time_ms, truth)
    # Between the two no scrape found the target down, so that only the mark tells of the restart.
    dark_ms = time_ms - readings.times_ms[-1]
    truth.restarts.append(
        Restart(service.slug, time_ms, _is_hidden(dark_ms, ended, target.lives[now]))
    )


def _is_hidden(dark_ms: int, ended: Life, born: Life) -> bool:
    """Whether the new process was the longer at work when it was first read: no fall is seen."""
    at_work_before = ended.stop_ms - ended.born_ms
    return dark_ms > HOUR_MS and at_work_before < HOUR_MS and born.born_ms - ended.stop_ms < HOUR_MS


def _lose(service: Service, life: Life, readings: Readings, at_ms: int, truth: Truth) -> None:
    """What the process counted after its last reading: at the mean pace of the readings before it."""
    last = len(readings.times_ms) - 1
    first = readings.life.index(readings.life[last], max(0, last - LOOK_BACK))
    span = readings.times_ms[last] - readings.times_ms[first]
    dark = life.stop_ms - readings.times_ms[last]
    counts = tuple(
        (column[last] - column[first]) * dark // span if span else 0 for column in readings.counters
    )
    truth.losses.append(Loss(service.slug, at_ms, counts))


def _read(engine: _Engine, readings: Readings, time_ms: int, life: int, process: Life) -> None:
    since_ms = readings.times_ms[-1] if readings.times_ms else process.born_ms
    same = bool(readings.life) and readings.life[-1] == life
    before = readings.counters[0][-1] if same else 0
    pool = process.pool
    used, running, waiting = engine.gauges(pool.blocks, pool.block_size, since_ms, before)
    readings.times_ms.append(time_ms)
    readings.life.append(life)
    for column, value in zip(readings.counters, engine.values, strict=True):
        column.append(value)
    for column, value in zip(readings.buckets, engine.latency.values(), strict=True):
        column.append(value)
    readings.used_blocks.append(used)
    readings.running.append(running)
    readings.waiting.append(waiting)
