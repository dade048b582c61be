"""Memory hours from the readings at hand are those read from the ledger (method §8)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from random import Random
from typing import Any

import pytest
from django.db import transaction

from finops.ledger.models import CacheHour, DeviceHour, Document, Source
from finops.ledger.operations.at_hand import AtHand
from finops.ledger.operations.readings import post_readings
from finops.sources.records import SeriesReadings

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
AT = datetime(2026, 12, 24, tzinfo=UTC)
START = datetime(2026, 11, 16, 20, tzinfo=UTC)  # four hours before a midnight
HOUR_MS = 3_600_000

Readings = dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]]


def engine(pod: str, chance: Random, times: Sequence[int]) -> Readings:
    """An engine and its GPU, read at these instants; of some now and then a gauge is missed, tokens
    stand still, and the engine is set up anew."""
    kept = 1.0 if int(pod[-1:] if pod[-1:].isdigit() else 0) % 2 else 0.99
    target = {"job": "vllm", "instance": f"{pod}:8000", "pod": pod}
    gpu = {"job": "dcgm", "instance": f"{pod}:9400", "UUID": f"GPU-{pod}", "gpu": "0", "pod": pod}
    pools = [target | {"block_size": "16", "num_gpu_blocks": n} for n in ("1001", "2001")]
    found: Readings = {}

    def told(name: str, labels: dict[str, str], time_ms: int, value: float) -> None:
        if chance.random() < kept:
            found.setdefault((name, tuple(sorted(labels.items()))), []).append((time_ms, value))

    tokens, still, change = 0, 0, chance.choice([times[0], times[len(times) // 2], times[-1]])
    for time_ms in times:
        still = max(0, still - 1) if still else chance.choice([0] * 60 + [30])
        tokens += 0 if still else 90
        told("vllm:prompt_tokens_total", target, time_ms, tokens)
        told("vllm:kv_cache_usage_perc", target, time_ms, chance.choice([0.0, 0.25, 0.5, 0.91]))
        told("vllm:num_requests_running", target, time_ms, chance.randrange(60))
        told("vllm:cache_config_info", pools[time_ms > change], time_ms, 1)
        used = chance.randrange(70_000, 70_400)
        told("DCGM_FI_DEV_FB_USED", gpu, time_ms, used)
        told("DCGM_FI_DEV_FB_FREE", gpu, time_ms, 81_000 - used)
    return found


def instants(chance: Random, hours: int) -> list[int]:
    """Scrapes of an engine: its own interval, which may change, a late beginning, a gap."""
    first = round(START.timestamp() * 1000) + chance.choice(
        [0, 7_000, HOUR_MS - 3_000, 3 * HOUR_MS]
    )
    end = round(START.timestamp() * 1000) + hours * HOUR_MS
    step, found = chance.choice([30_000, 60_000]), [first]
    while found[-1] < end:
        odd = chance.random()
        if odd < 0.002:
            step = chance.choice([30_000, 60_000, 61_000])
        gap = chance.choice([3, 70, 200]) if odd > 0.998 else 1
        found.append(found[-1] + gap * step + chance.choice([0, 0, 0, 1]))
    return [one for one in found if one < end]


def windows_of(
    readings: Sequence[Readings], hours: int, each: int
) -> Iterator[list[SeriesReadings]]:
    for hour in range(0, hours, each):
        low = round((START + timedelta(hours=hour)).timestamp() * 1000)
        high = low + each * HOUR_MS
        found = []
        for (name, labels), samples in chain.from_iterable(one.items() for one in readings):
            mine = [(time_ms, value) for time_ms, value in samples if low <= time_ms < high]
            if mine:
                times, values = zip(*mine, strict=True)
                found.append(SeriesReadings(name, labels, array("q", times), array("d", values)))
        if found:
            yield found


def post(source: Source, number: int, found: list[SeriesReadings], at_hand: AtHand | None) -> None:
    """One window, as collecting posts it."""
    document = Document(
        sha256=f"{source.pk:032x}{number:032x}", size_bytes=1, name=f"{number}", origin="store",
        format="headroom-samples", version="HRS2", rows_read=1, received_at=AT, received_by="ada",
    )  # fmt: skip
    with transaction.atomic():
        post_readings(document, source, found, at=AT, at_hand=at_hand)
        document.save(force_insert=True)
    if at_hand is not None:
        last = max(one.times_ms[-1] for one in found)
        at_hand.end_window((last // HOUR_MS + 1) * HOUR_MS)


def known(source: Source) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The newest rows of a source's caches and devices."""
    caches = CacheHour.objects.filter(series__target__source=source).order_by("revision")
    devices = DeviceHour.objects.filter(target__source=source).order_by("revision")
    leave_out = {"id", "revision", "posted_at", "series_id", "target_id"}
    return tuple(
        {
            key(row): {
                f.attname: getattr(row, f.attname)
                for f in row._meta.concrete_fields
                if f.attname not in leave_out
            }
            for row in rows
        }
        for rows, key in (
            (caches, lambda row: (row.series.labels["pod"], row.hour)),
            (devices, lambda row: (row.device, row.hour)),
        )
    )  # type: ignore[return-value]


def differing(one: Source, other: Source) -> list[Any]:
    """The fields in which the rows of two sources differ."""
    found = []
    for mine, others in zip(known(one), known(other), strict=True):
        for key in sorted(mine.keys() | others.keys()):
            left, right = mine.get(key, {}), others.get(key, {})
            for name in left.keys() | right.keys():
                if left.get(name) != right.get(name):
                    found.append((key[0], f"{key[1]:%d.%H}", name, left.get(name), right.get(name)))
    return found


def a_source(name: str) -> Source:
    return Source.objects.create(name=name, url=f"http://{name}", created_at=AT, created_by="ada")


@pytest.mark.parametrize(("seed", "each"), [(1, 1), (2, 1), (3, 2), (4, 6)])
def test_window_after_window_gives_what_the_whole_gives(
    seed: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, hours = Random(seed), 12
    readings = [engine(f"e{n}", chance, instants(chance, hours)) for n in range(8)]
    by_hand, whole = a_source(f"hand{seed}"), a_source(f"whole{seed}")
    at_hand, taken = AtHand(), 0
    ready = AtHand.ready

    def counting(self: AtHand, since: Any) -> Any:
        nonlocal taken
        found = ready(self, since)
        taken += sum(map(len, found.values()))
        return found

    monkeypatch.setattr(AtHand, "ready", counting)
    for number, found in enumerate(windows_of(readings, hours, each)):
        post(by_hand, number, found, at_hand)
    (everything,) = windows_of(readings, hours, hours)
    post(whole, 0, everything, None)
    assert differing(by_hand, whole) == []
    # Each of the engines and of their GPUs is a target, in each window: more than half are taken.
    assert taken > len(readings) * hours // each


def test_every_shard_of_a_window_finds_what_it_needs_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the third day, too: the window after midnight needs an hour of the day before yesterday."""
    first = round(START.timestamp() * 1000)
    times = range(first, first + 32 * HOUR_MS, 60_000)
    shards = [[engine(f"e{n}1", Random(n), times)] for n in range(2)]
    at_hand, source, taken = AtHand(), a_source("shards"), list[int]()
    ready = AtHand.ready

    def counting(self: AtHand, since: Any) -> Any:
        found = ready(self, since)
        taken.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(AtHand, "ready", counting)
    number = count()
    for window in zip(*(windows_of(shard, 32, 4) for shard in shards), strict=True):
        for found in window:
            post(source, next(number), found, at_hand)
    # Eight windows in two shards, of an engine and its GPU each.
    assert len(taken) == 16 and min(taken) == 2


@pytest.mark.parametrize("hand", [True, False])
def test_tokens_that_stood_still_over_a_gap_are_stale_after_it(hand: bool) -> None:
    """Use without tokens is stale however long nothing was read in between (method §8.9)."""
    first = round(START.timestamp() * 1000)
    times = [first + k * 60_000 for k in (*range(60), *range(600, 660))]
    target = (("instance", "still:8000"), ("job", "vllm"), ("pod", "still"))
    readings: Readings = {
        ("vllm:prompt_tokens_total", target): [
            (t, float(min(t, times[30]) - first)) for t in times
        ],
        ("vllm:kv_cache_usage_perc", target): [(t, 0.5) for t in times],
    }
    source, at_hand = a_source("still"), AtHand() if hand else None
    for number, found in enumerate(windows_of([readings], 11, 1)):
        post(source, number, found, at_hand)
    rows = {row.hour: row for row in CacheHour.objects.filter(series__target__source=source)}
    early, late = rows[START], rows[START + timedelta(hours=10)]
    # The last tokens came at minute 30: from minute 36 on, and after the gap from the beginning.
    assert (early.observed_ms, early.stale_ms) == (36 * 60_000, 24 * 60_000)
    assert (late.observed_ms, late.stale_ms) == (0, HOUR_MS)


def test_readings_of_another_document_are_not_overlooked() -> None:
    chance = Random(7)
    times = range(round(START.timestamp() * 1000), round(START.timestamp() * 1000) + 3 * HOUR_MS, 60_000)  # fmt: skip
    readings = engine("late", chance, list(times))
    at_hand, source, plain = AtHand(), a_source("late"), a_source("late-back")
    first, second, third = windows_of([readings], 3, 1)
    for number, (found, hand) in enumerate([(first, at_hand), (second, None), (third, at_hand)]):
        post(source, number, found, hand)
        post(plain, number, found, None)
    assert differing(source, plain) == []


def test_gauges_that_come_late_find_their_counters() -> None:
    """Without gauges a run lets its counters go; with the first one they are read from the ledger."""
    first = round(START.timestamp() * 1000)
    times = [first + k * 60_000 for k in range(4 * 60)]
    target = (("instance", "bare:8000"), ("job", "vllm"), ("pod", "bare"))
    readings: Readings = {
        # The last tokens come in the minute before the gauge: its first minutes are not stale.
        ("vllm:prompt_tokens_total", target): [
            (t, float(min(t, times[119]) - first)) for t in times
        ],
        ("vllm:kv_cache_usage_perc", target): [(t, 0.5) for t in times[120:]],
    }
    by_hand, alone, at_hand = a_source("bare"), a_source("bare-alone"), AtHand()
    for number, found in enumerate(windows_of([readings], 4, 1)):
        post(by_hand, number, found, at_hand)
        post(alone, number, found, None)
    assert differing(by_hand, alone) == []
    rows = CacheHour.objects.filter(series__target__source=by_hand).order_by("hour", "-revision")
    # Five minutes after the last tokens use is stale (method §8.9), to the end.
    assert rows[0].observed_ms == 5 * 60_000
    assert rows[0].stale_ms == 55 * 60_000


def test_what_was_not_posted_is_forgotten() -> None:
    source, chance = a_source("torn"), Random(9)
    times = range(round(START.timestamp() * 1000), round(START.timestamp() * 1000) + 2 * HOUR_MS, 60_000)  # fmt: skip
    readings = engine("torn", chance, list(times))
    at_hand = AtHand()
    first, second = windows_of([readings], 2, 1)
    post(source, 0, first, at_hand)
    at_hand.forget()
    post(source, 1, second, at_hand)
    whole = a_source("whole")
    for number, found in enumerate((first, second)):
        post(whole, number, found, None)
    assert differing(source, whole) == []
