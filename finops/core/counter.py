"""From raw readings of one token counter to tokens per hour, exact (method §2.1–2.5).

Values in, values out: readings of one series by UTC hour and replica go in, one `HourRow` for each
hour comes out, and the counters as they stand afterwards (`Carry`) so that the next call can go on.
A call must begin at the start of a UTC day, because the usual interval is that day's lower median.

Times are whole milliseconds, values whole tokens, marks whole microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter, le, sub

from .counter_values import (
    BIRTH_WITHIN_MS,
    DAY_MS,
    REMEMBERED_COUNTERS,
    SKEW_MS,
    Carry,
    Context,
    Counter,
    Gap,
    HourReadings,
    HourRow,
    Last,
    Mark,
    Readings,
    Restart,
    is_ahead,
    is_gap,
    proves_birth,
)
from .usual import set_usual


def derive(
    hours: Iterable[HourReadings], carry: Carry, context: Context
) -> tuple[list[HourRow], dict[int, Mark]]:
    """The rows of a series' hours, in time order, from the state before a UTC day.

    `carry` is changed to the state after the last hour; each row keeps the state after itself.
    The second value holds marks that were learned for counters begun without one, by the time of
    their first reading: call again with them as `Context.first_marks` from that day on, so that
    the first mark is taken back to the counter's first reading (method §2.1).
    """
    rows: list[HourRow] = []
    learned: dict[int, Mark] = {}
    for number, day in groupby(hours, key=lambda hour: hour.hour_ms // DAY_MS):
        of_day = list(day)
        if carry.day != number:
            set_usual(of_day, carry)
            carry.day = number
        for hour in of_day:
            rows.append(_Hour(hour, carry, context, learned).row())
    return rows, learned


class _Hour:
    """The booking of one hour; it changes the carry it is given."""

    def __init__(
        self, hour: HourReadings, carry: Carry, context: Context, learned: dict[int, Mark]
    ) -> None:
        self.hour, self.carry, self.context, self.learned = hour, carry, context, learned
        self.out = HourRow(hour.hour_ms)
        self.usual = max(carry.usual_ms.values(), default=None)

    def row(self) -> HourRow:
        """Books the hour and gives its row."""
        marked = self._is_marked()
        self.out.unmarked = not marked
        for name, readings in self.hour.replicas.items():
            self.carry.steps[name].add(readings.times_ms)
        if not self._booked_at_once():
            if marked:
                self._book_united()
            else:
                self._book_one_replica()
        for name, readings in self.hour.replicas.items():
            self._remember(name, readings)
        self.out.usual_ms = self.usual
        self.out.carry = self.carry.as_json()
        return self.out

    # -- which readings count ------------------------------------------------------------------

    def _is_marked(self) -> bool:
        carry = self.carry
        if carry.current and carry.counters[carry.current].marks:
            return True
        return any(
            any(r.marks) if isinstance(r.marks, list) else r.marks is not None
            for r in self.hour.replicas.values()
        )

    def _booked_at_once(self) -> bool:
        """The plain hour: one replica, one known mark or none at all, values that never fall.

        Gives the same row as the careful way, quicker; a law in the tests says so.
        """
        if len(self.hour.replicas) != 1:
            return False
        (name, readings), carry = next(iter(self.hour.replicas.items())), self.carry
        last = carry.replicas.get(name)
        if last is None or last.counter != carry.current or set(carry.replicas) != {name}:
            return False
        counter, mark = carry.counters[carry.current], readings.marks
        if isinstance(mark, list) or (mark is None) != (not counter.marks):
            return False
        if isinstance(mark, tuple) and counter.marks.get(mark[0]) != mark[1]:
            return False
        values, times = readings.values, readings.times_ms
        if values[0] < last.value or not all(map(le, values, values[1:])):
            return False
        self._book_rising(name, readings, counter)
        return len(times) > 0

    def _book_rising(self, name: str, readings: Readings, counter: Counter) -> None:
        times, values, carry, out = readings.times_ms, readings.values, self.carry, self.out
        out.tokens = max(0, values[-1] - counter.high)
        out.readings, out.first_ms, out.last_ms = len(times), times[0], times[-1]
        self._find_gaps(times, values, counter.high)
        self._find_rate(times, values, carry.replicas[name])
        counter.high = max(counter.high, values[-1])
        counter.last_ms = carry.last_ms = times[-1]
        carry.replicas[name] = Last(times[-1], values[-1], carry.current)

    def _find_gaps(self, times: Sequence[int], values: Sequence[int], high: int) -> None:
        usual, before = self.usual, self.carry.last_ms
        if usual is None or before is None:
            return
        steps = list(map(sub, times, [before, *times[:-1]]))
        if not is_gap(max(steps), usual):
            return
        for index, step in enumerate(steps):
            if is_gap(step, usual):
                floor = max(high, values[index - 1]) if index else high
                booked = max(0, values[index] - floor)
                self.out.gaps.append(Gap(times[index] - step, times[index], usual, booked))

    def _find_rate(self, times: Sequence[int], values: Sequence[int], last: Last) -> None:
        steps = list(map(sub, times, [last.time_ms, *times[:-1]]))
        if min(steps) == max(steps) > 0:
            rise = max(map(sub, values, [last.value, *values[:-1]]))
            if rise > 0:
                self.out.rate_tokens, self.out.rate_ms = rise, steps[0]
            return
        best, best_ms = 0, 1
        before_ms, before = last.time_ms, last.value
        for time_ms, value in zip(times, values, strict=True):
            rise, step = value - before, time_ms - before_ms
            if rise * best_ms > best * step and step > 0:
                best, best_ms = rise, step
            before_ms, before = time_ms, value
        self.out.rate_tokens, self.out.rate_ms = best, best_ms

    # -- the careful way -----------------------------------------------------------------------

    def _book_united(self) -> None:
        """Replicas with marks are united in time order (method §2.2)."""
        for time_ms, value, name, mark in self._in_time_order():
            self._book(time_ms, value, name, mark)

    def _in_time_order(self) -> Iterator[tuple[int, int, str, Mark | None]]:
        merged = [
            (time_ms, value, name, readings.mark_at(index))
            for name, readings in self.hour.replicas.items()
            for index, (time_ms, value) in enumerate(
                zip(readings.times_ms, readings.values, strict=True)
            )
        ]
        merged.sort(key=itemgetter(0, 1, 2))
        return iter(merged)

    def _book_one_replica(self) -> None:
        """Without marks the replica with more readings in the hour is taken, ties by name."""
        name, taken = min(
            self.hour.replicas.items(), key=lambda item: (-len(item[1].times_ms), item[0])
        )
        for time_ms, value in zip(taken.times_ms, taken.values, strict=True):
            self._book(time_ms, value, name, None)

    def _book(self, time_ms: int, value: int, name: str, mark: Mark | None) -> None:
        carry, out = self.carry, self.out
        mark = mark or self._mark_learned_later(time_ms)
        booked = self._delta(time_ms, value, name, mark)
        counter = carry.counters[carry.current]
        counter.high = max(counter.high, value)
        counter.last_ms = time_ms
        usual, before = self.usual, carry.last_ms
        if usual is not None and before is not None and is_gap(time_ms - before, usual):
            out.gaps.append(Gap(before, time_ms, usual, booked))
        out.tokens += booked
        out.readings += 1
        out.first_ms = out.first_ms or time_ms
        out.last_ms = time_ms
        self._note_rate(time_ms, value, name)
        carry.last_ms = max(time_ms, carry.last_ms or time_ms)
        carry.replicas[name] = Last(time_ms, value, carry.current)

    def _mark_learned_later(self, time_ms: int) -> Mark | None:
        return self.context.first_marks.get(time_ms) if self.context.first_marks else None

    def _note_rate(self, time_ms: int, value: int, name: str) -> None:
        last, out = self.carry.replicas.get(name), self.out
        if last is None or last.counter != self.carry.current:
            return
        rise, step = value - last.value, time_ms - last.time_ms
        if step > 0 and rise * out.rate_ms > out.rate_tokens * step:
            out.rate_tokens, out.rate_ms = rise, step

    def _delta(self, time_ms: int, value: int, name: str, mark: Mark | None) -> int:
        """What a reading books, after its counter has been found or begun."""
        carry = self.carry
        if not carry.current:
            return self._first_of_series(time_ms, value, mark)
        counter = carry.counters[carry.current]
        if mark is None:
            return self._unmarked(time_ms, value, name, counter)
        known = counter.marks.get(mark[0])
        if known == mark[1]:
            return max(0, value - counter.high)
        if known is None:
            return self._first_mark_of_kind(time_ms, value, mark, counter)
        return self._other_mark(time_ms, value, mark)

    def _unmarked(self, time_ms: int, value: int, name: str, counter: Counter) -> int:
        """Without a mark a fall within one replica's own readings is the restart (§2.1)."""
        carry, last = self.carry, self.carry.replicas.get(name)
        fell = last is not None and value < last.value
        if not fell or last is None:
            return max(0, value - counter.high)
        shown_ms = max(counter.first_ms, carry.fall_ms or 0)
        if shown_ms > last.time_ms:
            return max(0, value - counter.high)  # another replica's readings showed it already
        carry.fall_ms = time_ms
        return self._restart(time_ms, value, None)

    def _first_mark_of_kind(self, time_ms: int, value: int, mark: Mark, counter: Counter) -> int:
        mark_ms, last_ms = mark[1] // 1000, self.carry.last_ms or 0
        after = mark_ms > last_ms and not is_ahead(mark_ms, time_ms)
        if after or (value < counter.high and mark_ms > last_ms - SKEW_MS):
            return self._restart(time_ms, value, mark)
        if not counter.marks:
            self.learned[counter.first_ms] = mark
        counter.marks[mark[0]] = mark[1]
        return max(0, value - counter.high)

    def _other_mark(self, time_ms: int, value: int, mark: Mark) -> int:
        carry = self.carry
        for number, counter in carry.counters.items():
            if counter.marks.get(mark[0]) == mark[1]:
                carry.current = number
                self.out.alternations += 1
                return max(0, value - counter.high)
        if mark[1] // 1000 > (carry.last_ms or 0) - SKEW_MS:
            return self._restart(time_ms, value, mark)
        self.out.alternations += 1
        self._begin(time_ms, mark)
        self.out.openings.append((time_ms, value))
        return 0

    def _restart(self, time_ms: int, value: int, mark: Mark | None) -> int:
        carry = self.carry
        ended = carry.counters[carry.current]
        last_ms = carry.last_ms if carry.last_ms is not None else time_ms
        mark_us = mark[1] if mark else None
        hidden = mark is not None and value >= ended.high
        if mark is None or is_ahead(mark[1] // 1000, time_ms):
            # Only a fall shows that all of it was counted since.
            since_ms, is_proven = max(last_ms, self._last_up(time_ms)), not hidden
        else:
            since_ms, is_proven = mark[1] // 1000, True
        booked = value if is_proven and time_ms - since_ms <= BIRTH_WITHIN_MS else 0
        self.out.restarts.append(Restart(last_ms, time_ms, mark_us, booked, hidden))
        self._begin(time_ms, mark)
        if booked < value:
            self.out.openings.append((time_ms, value))
        else:
            self.out.births.append((time_ms, mark_us))
        return booked

    def _last_up(self, before_ms: int) -> int:
        """The target's last `up` reading before an instant; without a mark it bounds the birth."""
        ups = self.context.ups_ms
        index = bisect_left(ups, before_ms)
        return ups[index - 1] if index else 0

    def _begin(self, time_ms: int, mark: Mark | None) -> None:
        carry, marks = self.carry, {mark[0]: mark[1]} if mark else {}
        carry.current = max(carry.counters, default=0) + 1
        carry.counters[carry.current] = Counter(marks, 0, time_ms, time_ms)
        while len(carry.counters) > REMEMBERED_COUNTERS:
            del carry.counters[min(carry.counters)]

    def _first_of_series(self, time_ms: int, value: int, mark: Mark | None) -> int:
        self._begin(time_ms, mark)
        if self._birth_is_proven(time_ms, mark):
            self.out.births.append((time_ms, mark[1] if mark else None))
            return value
        self.out.openings.append((time_ms, value))
        return 0

    def _birth_is_proven(self, time_ms: int, mark: Mark | None) -> bool:
        """Method §2.4."""
        if mark is None:
            return any(time_ms - BIRTH_WITHIN_MS <= up < time_ms for up in self.context.ups_ms)
        return proves_birth(mark[1] // 1000, time_ms, self.context.earliest_ms)

    def _remember(self, name: str, readings: Readings) -> None:
        """A replica that was not taken keeps its own last reading, and shows its own rate.

        A fall that only it saw, after the last reading taken, is left for the hour in which it is
        taken itself: its last reading stays before the fall.
        """
        carry = self.carry
        last = carry.replicas.get(name)
        if last is not None and last.time_ms >= readings.times_ms[-1]:
            return
        for time_ms, value in zip(readings.times_ms, readings.values, strict=True):
            last = carry.replicas.get(name)
            if last is not None and last.time_ms >= time_ms:
                continue
            if last is not None and value < last.value and time_ms > self.out.last_ms:
                return
            self._note_rate(time_ms, value, name)
            carry.replicas[name] = Last(time_ms, value, carry.current)
