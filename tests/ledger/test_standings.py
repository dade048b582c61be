"""Token hours of a run that goes on from where it stands are those of windows posted one by one."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from random import Random
from typing import Any

import pytest

from finops.ledger.models import Series, Source, TokenHour
from finops.ledger.operations import derive
from finops.ledger.operations.at_hand import AtHand
from finops.ledger.operations.derive import differences
from finops.ledger.operations.standings import Standings, Stood
from finops.sources.records import SeriesReadings

from .test_at_hand import HOUR_MS, START, Readings, a_source, post, windows_of

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
FIRST_MS = round(START.timestamp() * 1000)
STEP_MS = 60_000
HOURS = 8


def counters(pod: str, chance: Random, *, is_calm: bool = False) -> Readings:
    """An engine's counters and start: it may be born later, restart, be left unread for a while, or
    lose one counter for an hour."""
    labels = tuple(sorted({"job": "vllm", "instance": f"{pod}:8000", "pod": pod}.items()))
    steps = HOURS * HOUR_MS // STEP_MS
    born = 0 if is_calm else chance.choice([0, 0, 70])
    restart = None if is_calm else chance.choice([None, None, 61, 300])
    gap = range(0) if is_calm else chance.choice([range(0), range(0), range(200, 209)])
    lost = range(0) if is_calm else chance.choice([range(0), range(120, 180)])
    prompt, generation = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
    found: Readings = {}
    tokens, started = 17, FIRST_MS + born * STEP_MS - chance.choice([3_000, 90_000_000])
    for step in range(born, steps):
        at = FIRST_MS + step * STEP_MS + 500
        if step == restart:
            tokens, started = 3, at - 2_000
        tokens += chance.choice([0, 90, 90, 200])
        if step in gap:
            continue
        found.setdefault((prompt, labels), []).append((at, float(tokens)))
        if step not in lost:
            found.setdefault((generation, labels), []).append((at, float(2 * tokens)))
        found.setdefault(("process_start_time_seconds", labels), []).append((at, started / 1000))
    return found


def rows(source: Source) -> dict[Any, Any]:
    """All rows of a source, every revision."""
    left_out = {"id", "posted_at", "series_id"}
    return {
        (row.series.metric, row.series.labels["pod"], row.hour, row.revision): {
            field.attname: getattr(row, field.attname)
            for field in TokenHour._meta.concrete_fields
            if field.attname not in left_out
        }
        for row in TokenHour.objects.filter(series__target__source=source).select_related("series")
    }


def from_readings(source: Source) -> list[str]:
    """Where the rows differ from what the careful way makes of the readings kept."""
    return differences(
        Series.objects.filter(target__source=source).values_list("pk", flat=True).iterator()
    )


@pytest.fixture
def gone_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many counters each window went on from."""
    found: list[int] = []
    before = Standings.before

    def counting(self: Standings, first_hour_ms: int, wanted: Collection[int]) -> dict[int, Stood]:
        stood = before(self, first_hour_ms, wanted)
        found.append(len(stood))
        return stood

    monkeypatch.setattr(Standings, "before", counting)
    return found


@pytest.mark.parametrize(("seed", "each"), [(1, 1), (2, 1), (3, 2), (4, 4), (5, 1), (6, 2)])
def test_a_run_that_goes_on_gives_the_rows_of_windows_one_by_one(
    seed: int, each: int, gone_on: list[int]
) -> None:
    chance = Random(seed)
    readings = [counters(f"e{n}", chance, is_calm=n < 2) for n in range(8)]
    hand, alone, at_hand = a_source(f"hand{seed}"), a_source(f"alone{seed}"), AtHand()
    for number, found in enumerate(windows_of(readings, HOURS, each)):
        post(hand, number, found, at_hand)
    # The two that nothing befell go on every time, those of others as long as nothing did.
    assert gone_on[0] == 0
    assert min(gone_on[1:]) >= 4
    for number, found in enumerate(windows_of(readings, HOURS, each)):
        post(alone, number, found, None)
    assert rows(hand) == rows(alone)
    assert from_readings(hand) == []


def test_a_row_corrected_by_another_document_is_read_again(gone_on: list[int]) -> None:
    """A reading that came late raises an hour's last value: the next hour books only what is left."""
    readings = counters("late", Random(7), is_calm=True)
    counter, *_ = readings
    late, *_ = [samples.pop(59) for samples in readings.values()]  # the last of the first hour
    hand, alone, at_hand = a_source("hand"), a_source("alone"), AtHand()
    first, second, third, *_ = windows_of([readings], HOURS, 1)
    (extra, *_) = windows_of([{counter: [late]}], 1, 1)
    for source, of_run in ((hand, at_hand), (alone, None)):
        for number, found in enumerate((first, extra, second, third)):
            post(source, number, found, None if number == 1 else of_run)
    # Of two counters one was corrected before the second window; the other document asks as well.
    assert gone_on[: len(gone_on) // 2] == [0, 0, 1, 2]
    assert rows(hand) == rows(alone)
    assert from_readings(hand) == []


def test_later_hours_in_the_ledger_are_not_overlooked() -> None:
    """Another run was ahead: what it booked beyond the hour is corrected."""
    readings = counters("ahead", Random(8), is_calm=True)
    hand, alone, at_hand = a_source("hand"), a_source("alone"), AtHand()
    first, second, third, *_ = windows_of([readings], HOURS, 1)
    for source, of_run in ((hand, at_hand), (alone, None)):
        post(source, 0, first, of_run)
        post(source, 2, third, None)
        post(source, 1, second, of_run)
    assert rows(hand) == rows(alone)
    assert from_readings(hand) == []


def test_a_birth_is_judged_by_what_stands_in_the_ledger_not_by_what_the_run_saw() -> None:
    """Another document told of the job before: so an engine that began unseen is proven born."""
    chance = Random(9)
    calm, born = counters("calm", chance, is_calm=True), counters("born", chance, is_calm=True)
    started = FIRST_MS - 1_800_000
    for (name, _), samples in born.items():
        mark = name.startswith("process")
        samples[:] = [(t, started / 1000 if mark else v) for t, v in samples if t > FIRST_MS + HOUR_MS]  # fmt: skip
    target = next(iter(calm))[1]
    hand, alone, at_hand = a_source("hand"), a_source("alone"), AtHand()
    first, second, *_ = windows_of([calm, born], HOURS, 1)
    moved = [SeriesReadings("up", target, array("q", [FIRST_MS - HOUR_MS]), array("d", [1.0]))]
    for source, of_run in ((hand, at_hand), (alone, None)):
        post(source, 0, first, of_run)
        post(source, 1, moved, None)
        post(source, 2, second, of_run)
    assert rows(hand) == rows(alone)
    openings = TokenHour.objects.filter(series__target__source=hand, series__labels__pod="born")
    assert {row.opening_tokens for row in openings} == {0}
    assert from_readings(hand) == []


def test_a_mark_that_another_document_brought_is_not_overlooked() -> None:
    """Series made by others since the last window belong to their target all the same."""
    readings = counters("marked", Random(10), is_calm=True)
    labels = next(iter(readings))[1]
    created = [
        (t, (FIRST_MS - 5_000) / 1000) for t, _ in readings["vllm:prompt_tokens_total", labels]
    ]
    hand, alone, at_hand = a_source("hand"), a_source("alone"), AtHand()
    first, second, *_ = windows_of([readings], HOURS, 1)
    _, marks, *_ = windows_of([{("vllm:prompt_tokens_created", labels): created}], HOURS, 1)
    for source, of_run in ((hand, at_hand), (alone, None)):
        post(source, 0, first, of_run)
        post(source, 1, marks, None)
        post(source, 2, second, of_run)
    assert rows(hand) == rows(alone)
    assert from_readings(hand) == []


def test_what_was_not_posted_is_forgotten(gone_on: list[int]) -> None:
    readings = counters("torn", Random(11), is_calm=True)
    hand, at_hand = a_source("hand"), AtHand()
    first, second, *_ = windows_of([readings], HOURS, 1)
    post(hand, 0, first, at_hand)
    at_hand.forget()
    post(hand, 1, second, at_hand)
    assert gone_on == [0, 0]
    assert from_readings(hand) == []


def test_of_openings_only_those_that_may_be_births_are_counted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another document tells that the job was read earlier: what started between is born (§2.4);
    an engine that was marked a day before is not asked again."""
    day_ms = 24 * HOUR_MS
    marks = {"old": FIRST_MS - day_ms, "near": FIRST_MS - 5_000, "young": FIRST_MS + 10_000}
    readings: Readings = {}
    for pod, mark_ms in marks.items():
        labels = tuple(sorted({"job": "vllm", "instance": f"{pod}:8000", "pod": pod}.items()))
        times = [FIRST_MS + 20_000 + STEP_MS * step for step in range(90)]
        counted = [(t, 17.0 + 90 * n) for n, t in enumerate(times)]
        readings["vllm:prompt_tokens_total", labels] = counted
        readings["process_start_time_seconds", labels] = [(t, mark_ms / 1000) for t in times]
    other = (("instance", "other:8000"), ("job", "vllm"))
    earlier = [SeriesReadings("up", other, array("q", [FIRST_MS]), array("d", [1.0]))]
    (found,) = windows_of([readings], HOURS, HOURS)
    asked: set[str] = set()
    together = derive._derive_together

    def noting(targets: Any, *others: Any) -> None:
        asked.update(target.instance for target in targets)
        together(targets, *others)

    source = a_source("moved")
    post(source, 0, found, None)
    monkeypatch.setattr(derive, "_derive_together", noting)
    post(source, 1, earlier, None)
    openings = dict.fromkeys(marks, 0)
    for (_, pod, _, _), row in sorted(rows(source).items(), key=lambda item: item[0][-1]):
        if row["hour"] == START:
            openings[pod] = row["opening_tokens"]
    assert openings == {"old": 17, "near": 17, "young": 0}
    assert asked - {"other:8000"} == {"near:8000", "young:8000"}
    assert from_readings(source) == []
