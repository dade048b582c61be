"""What is said of engines by its own writers, read by the second computation (method §8.7, §9).

One engine with any counts, settings and logs: its figures are computed twice, its sentences are
confirmed, and any number in them that is changed is found.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from finops.core import memory, representative
from finops.core.guidance import guidance
from finops.core.guidance_seen import NEEDS, Seen
from finops.core.ladder import ladder
from finops.core.lengths import Histogram
from finops.core.money import plain
from finops.core.period import instant_of
from finops.core.representative import Load
from finops.core.rightsizing import Advice, Window, advise, money_sentence, share_in, summed
from finops.ledger.queries.evidence import bytes_of_a_block
from reports.evidence import verify
from tests.evidence.test_sentences import CURRENCIES, QUOTIENTS, confirmed, every_change_is_found

HOUR, DAY = 3_600_000, 86_400_000
START = 1_794_787_200_000  # Monday, 2026-11-16
WHOLE = START, START + 7 * DAY
SHARES = st.sampled_from(
    ["0.9", "0.90", "0.875", "0.92", ".5", "1", "0.3333333333333333", "0.30000000000000004",
     "0.07", "", "None", "NaN", "9e-1", "0.9 "]
)  # fmt: skip
FEW = st.none() | st.integers(0, 3) | st.integers(0, 5000)
BYTES = (
    st.none() | st.integers(0, 2) | st.integers(1, 200).map(lambda n: n * 2**29)
    | st.integers(0, 2**38) | st.integers(0, 2**27)
)  # fmt: skip


@st.composite
def hours(draw: st.DrawFn, setting: str) -> list[dict[str, Any]]:
    """A week of one engine, told in a few rows: they stand for as many hours as they last."""
    size = draw(st.sampled_from([None, 1, 16, 400]))
    blocks = draw(st.sampled_from([None, 0, 1, 2, 1001, 15_000, 27_471, 123_456]))
    pool = None
    if blocks is not None and size is not None and draw(st.booleans()):
        pool = blocks * size + draw(st.sampled_from([0, 0, 1, 5]))
    longest = draw(st.sampled_from([None, 1, 4096, 8192, 131_072]))
    rows = []
    for number in range(draw(st.integers(1, 3))):
        observed = draw(st.sampled_from([0, HOUR, 3 * DAY, 7 * DAY]))
        level = draw(st.integers(0, 200))
        busy = draw(st.none() | st.integers(0, 3))
        peak = None if blocks is None or busy is None else draw(st.integers(0, max(0, blocks - 1)))
        changed = st.integers(0, 2 * (blocks or 0) * observed) if blocks and observed else st.none()
        rows.append({
            "hour": START + number * HOUR, "setting": setting, "blocks": blocks,
            "block_size": size, "pool_tokens": pool, "max_model_len": longest,
            "observed_ms": observed, "stale_ms": draw(st.sampled_from([0, 0, HOUR])),
            "active_block_ms": None if blocks is None else blocks * observed * level // 200,
            "reserved_block_ms": draw(st.none() | changed),
            "levels_ms": {str(level): observed} if observed else {},
            "peak_blocks": peak, "peak_ms": None if peak is None else START + number * HOUR + 7,
            "peak_running": draw(FEW), "peak_waiting": draw(FEW), "first_ms": None,
        })  # fmt: skip
        rows[-1]["there"] = START + number * HOUR, START + (number + 1) * HOUR
    return rows


@st.composite
def sound_hours(draw: st.DrawFn, setting: str) -> list[dict[str, Any]]:
    """A week that was seen whole, with all that a proposal follows from."""
    blocks, level = draw(st.sampled_from([15_000, 27_471, 123_456])), draw(st.integers(0, 200))
    return [{
        "hour": START, "setting": setting, "blocks": blocks, "block_size": 16,
        "pool_tokens": blocks * 16, "max_model_len": 4096, "observed_ms": 7 * DAY, "stale_ms": 0,
        "active_block_ms": blocks * 7 * DAY * level // 200, "levels_ms": {str(level): 7 * DAY},
        "reserved_block_ms": None,
        "peak_blocks": draw(st.integers(1, blocks - 1)), "peak_ms": START + 7,
        "peak_running": draw(st.integers(1, 5000)), "peak_waiting": draw(FEW), "first_ms": None,
        "there": (START, WHOLE[1]),
    }]  # fmt: skip


@st.composite
def lengths(draw: st.DrawFn) -> list[tuple[int | None, int]]:
    edges = sorted(draw(st.sets(st.sampled_from([1, 20, 256, 1000, 2048, 5000, 8192, 100_000]))))
    counts = st.integers(0, 3) | st.integers(0, 10**7)
    return [(edge, draw(counts)) for edge in (*edges, None)]


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    """What logs and readings tell of the engine, as the pack's tables have it."""
    names = ("total", "kv", "weights", "non_torch", "activation_peak", "weights_and_non_torch",
             "budget", "free_at_start")  # fmt: skip
    worker = {f"{name}_bytes": draw(BYTES) for name in names}
    if draw(st.booleans()):
        worker |= {"total_bytes": 80 * 2**30, "kv_bytes": draw(st.integers(1, 40)) * 2**30}
    worker = {name: value for name, value in worker.items() if value is not None}
    gpus = draw(st.integers(1, 9))
    queries = draw(FEW)
    return {
        "log_setting": draw(SHARES), "gauge_kv_bytes": draw(BYTES),
        "log_kv_bytes": worker.get("kv_bytes"), "log_max_model_len": draw(FEW), "workers": [worker],
        "total_bytes": worker.get("total_bytes") or draw(st.sampled_from([None, 80 * 2**30])),
        "sized_by_hand": draw(st.sampled_from(["0", "0", "0", "0", "1"])), "gpus": gpus,
        "engines_on_card": draw(st.none() | st.integers(1, 3)),
        "log_max_num_seqs": draw(st.none() | st.integers(1, 2048)),
        "log_max_num_batched_tokens": draw(st.sampled_from([None, 1, 3000, 6144, 8192, 1_000_000])),
        "log_tensor_parallel": draw(st.sampled_from([None, 1, gpus])),
        "alone_non_torch_bytes": draw(BYTES), "prefix_queries": queries,
        "prefix_hits": draw(FEW), "earlier_peak_running": draw(FEW),
        "earlier_days": draw(st.integers(1, 28)),
    }  # fmt: skip


def window_of(
    rows: list[dict[str, Any]], one: Any, engine: Any, workload: Any, pushed: Any
) -> Window:
    """As the ledger puts it together (finops/ledger/queries/rightsizing.py)."""
    last, each, pool = rows[-1], workload["kv_bytes_per_token"], rows[-1]["pool_tokens"]
    size = one["gauge_kv_bytes"] or (pool and each and pool * each) or one["log_kv_bytes"]
    block_size = last["block_size"]
    if pool is not None and last["blocks"]:
        block_size = round(Decimal(pool) / last["blocks"]) or block_size
    setting = share_in(last["setting"])
    return Window(
        levels_ms=summed(row["levels_ms"] for row in rows),
        window_ms=WHOLE[1] - WHOLE[0],
        seen_ms=sum(row["observed_ms"] + row["stale_ms"] for row in rows),
        blocks=last["blocks"], block_size=block_size,
        max_model_len=last["max_model_len"] or workload["max_model_len"] or one["log_max_model_len"],
        peak_blocks=most(rows, "peak_blocks"), peak_running=most(rows, "peak_running"),
        peak_waiting=most(rows, "peak_waiting"), preemptions=pushed,
        utilization=share_in(one["log_setting"]) if setting is None else setting,
        total_bytes=one["total_bytes"], block_bytes=bytes_of_a_block(size, last["blocks"]),
        sized_by_hand=one["sized_by_hand"] == "1",
    )  # fmt: skip


def most(rows: list[dict[str, Any]], name: str) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def hours_with(rows: list[dict[str, Any]], *names: str) -> set[int]:
    return {row["hour"] // HOUR for row in rows if any(row[name] for name in names)}


def seen_of(
    rows: Any, one: Any, window: Window, advice: Advice, told_lengths: Any, dtype: Any
) -> Seen:
    worker, both = one["workers"][0], one["workers"][0].get("weights_and_non_torch_bytes")
    weights, other = worker.get("weights_bytes"), worker.get("non_torch_bytes")
    if other is None and both is not None and weights is not None and both >= weights:
        other = both - weights
    held = None
    if window.peak_running and window.peak_blocks and window.blocks:
        held = (window.blocks - 1) * window.peak_running // window.peak_blocks
    return Seen(
        verdict=advice.verdict, p99=advice.p99, peak_running=window.peak_running,
        peak_waiting=window.peak_waiting, preemptions=window.preemptions, held_at_once=held,
        max_num_seqs=one["log_max_num_seqs"], max_model_len=window.max_model_len,
        max_num_batched_tokens=one["log_max_num_batched_tokens"],
        steps=told_lengths["steps"], prompts=told_lengths["prompts"], answers=told_lengths["answers"],
        tensor_parallel=one["log_tensor_parallel"], total_bytes=worker.get("total_bytes"),
        budget_bytes=worker.get("budget_bytes"), free_at_start_bytes=worker.get("free_at_start_bytes"),
        activation_peak_bytes=worker.get("activation_peak_bytes"), non_torch_bytes=other,
        alone_non_torch_bytes=one["alone_non_torch_bytes"], kv_dtype=dtype,
        pool_tokens=rows[-1]["pool_tokens"], prefix_caching=True,
        prefix_queries=one["prefix_queries"], prefix_hits=one["prefix_hits"],
    )  # fmt: skip


THREE_LENGTHS = st.fixed_dictionaries({n: lengths() for n in ("prompts", "answers", "steps")})
WORKLOAD = st.fixed_dictionaries({
    "kv_bytes_per_token": st.sampled_from([None, 131_072, 70_001]),
    "max_model_len": st.sampled_from([None, 4096]),
})  # fmt: skip


@settings(max_examples=250, deadline=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
@given(SHARES.flatmap(hours) | SHARES.flatmap(sound_hours), told(), WORKLOAD, FEW, THREE_LENGTHS, QUOTIENTS, CURRENCIES,
       st.sampled_from([None, "auto", "fp8", "fp8_e4m3", "int8"]))  # fmt: skip
def test_right_sizing(rows, one, workload, pushed, histograms, cost, currency, dtype) -> None:
    assume(one["workers"][0].get("total_bytes") != 0)
    both_say_the_same(rows, one, workload, pushed, histograms, cost, currency, dtype)


def both_say_the_same(
    rows: list[dict[str, Any]], one: dict[str, Any], workload: dict[str, Any], pushed: int | None,
    histograms: dict[str, list[tuple[int | None, int]]], cost: Decimal, currency: str,
    dtype: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The sentences on one engine, each confirmed and guarded."""
    with localcontext(verify.EXACT):
        each = {"each": workload["kv_bytes_per_token"]}
        engine = verify.Sizing(rows, one | each, workload)
        value = engine.advice(pushed, WHOLE)
        engine.lengths = histograms
        known, knobs = verify.sentences(engine, value, cost), verify.advice(engine, value)
    window = window_of(rows, one, engine, workload, pushed)
    advice = advise(window)
    assert advice.verdict == value["verdict"]
    proposed = advice.proposal and {
        name: one for name, one in advice.proposal.as_json().items() if name != "fits"
    }
    same = verify.Checks()
    same.all_of("", {"proposal": proposed}, {"proposal": value["proposal"]})
    assert same.wrong == []
    load = load_of(rows, one, window, histograms)
    texts = {"why": advice.why, "no_proposal": advice.no_proposal,
             "next_step": ladder([], window, advice).why, "load": representative.sentence(load)}  # fmt: skip
    if advice.proposal is not None and advice.proposal.change_bytes < 0:
        assert window.total_bytes
        texts["money"] = money_sentence(
            freed_bytes=-advice.proposal.change_bytes, total_bytes=window.total_bytes,
            gpus=one["gpus"], engines_on_card=one["engines_on_card"], cost=cost, currency=currency,
        )  # fmt: skip
    for name, text in texts.items():
        assert confirmed(text, known[name], currency), (name, text)
        assert not text or every_change_is_found(text, known[name], currency), (name, text)
    told_lengths = {name: Histogram(tuple(rows)) for name, rows in histograms.items()}
    for tip in guidance(seen_of(rows, one, window, advice, told_lengths, dtype)):
        if tip.verdict != NEEDS:
            assert confirmed(tip.says, knobs[tip.knob]), tip.says
            assert every_change_is_found(tip.says, knobs[tip.knob]), tip.says
            texts[tip.knob] = tip.says
    return texts


QUIET = {
    "hour": START, "blocks": 27_471, "block_size": 16, "pool_tokens": 27_471 * 16,
    "max_model_len": 8192, "observed_ms": 7 * DAY, "stale_ms": 0, "levels_ms": {"40": 7 * DAY},
    "peak_ms": START + 7, "peak_running": 4, "peak_waiting": 0,
}  # fmt: skip
CARD = {
    "log_setting": "0.9", "gauge_kv_bytes": None, "log_max_model_len": None, "gpus": 1,
    "log_kv_bytes": 27_471 * 2**21, "total_bytes": 80 * 2**30, "sized_by_hand": "0",
    "engines_on_card": 1, "log_max_num_seqs": 256, "log_max_num_batched_tokens": 6144,
    "log_tensor_parallel": 1, "alone_non_torch_bytes": None, "prefix_queries": None,
    "prefix_hits": None, "earlier_peak_running": 9, "earlier_days": 28,
    "workers": [{"total_bytes": 80 * 2**30, "activation_peak_bytes": 2_359_296}],
}  # fmt: skip
STEPS = {"prompts": [(20, 0), (None, 0)], "answers": [(20, 0), (None, 0)],
         "steps": [(4096, 5), (None, 0)]}  # fmt: skip
NOTHING = {"kv_bytes_per_token": None, "max_model_len": None}


@pytest.mark.parametrize("setting", ["0.9", "0.875", "0.925", "0.3333333333333333", "1", ".5"])
@pytest.mark.parametrize("peak", [500, 9000, 16_000])
def test_proposals_from_settings_of_any_length(setting: str, peak: int) -> None:
    """A third of a bill ends half a cent after the last one shown: its part of the card too."""
    for dime in range(1001, 1021, 2):
        cost = verify.quotient(Decimal(dime) / 10, 3)
        rows = [QUIET | {"setting": setting, "peak_blocks": peak}]
        texts = both_say_the_same(rows, CARD, NOTHING, 0, STEPS, cost, "USD", "auto")
    step = plain(Decimal(setting) - Decimal("0.05"))
    if texts["next_step"].startswith("One step"):
        assert f"One step down, to {step};" in texts["next_step"]
    # A third of 2.25 MiB is 0.75 MiB.
    assert "0.8 MiB of it would go" in texts["--max-num-batched-tokens"]


EDGES = [{"free_at_start_bytes": 0, "budget_bytes": 72 * 2**30}, {"budget_bytes": 0},
         {"non_torch_bytes": 0}, {"weights_bytes": 2**30, "weights_and_non_torch_bytes": 2**30},
         {"free_at_start_bytes": 81 * 2**30}]  # fmt: skip


@pytest.mark.parametrize("edge", EDGES)
def test_figures_of_zero_are_figures(edge: dict[str, int]) -> None:
    worker = {"total_bytes": 80 * 2**30, "free_at_start_bytes": 79 * 2**30,
              "non_torch_bytes": 2**30} | edge  # fmt: skip
    if "weights_bytes" in edge:
        del worker["non_torch_bytes"]
    one = CARD | {"workers": [worker], "log_tensor_parallel": 2, "alone_non_torch_bytes": 2**29}
    rows = [QUIET | {"setting": "0.9", "peak_blocks": 500}]
    for alone in (None, 0, 2**29, 2**31):
        texts = both_say_the_same(
            rows,
            one | {"alone_non_torch_bytes": alone},
            NOTHING,
            0,
            STEPS,
            Decimal(5),
            "JPY",
            "fp8",
        )
        assert {"tensor-parallel buffers", "memory taken before sizing"} <= texts.keys()


def load_of(rows: Any, one: Any, window: Window, histograms: Any) -> Load:
    return Load(
        hours=hours_with(rows, "observed_ms", "stale_ms"),
        busy_hours=hours_with(rows, "peak_running"),
        peak_running=window.peak_running, prompts=Histogram(tuple(histograms["prompts"])),
        earlier_peak_running=one["earlier_peak_running"], earlier_days=one["earlier_days"],
    )  # fmt: skip


def row_of(values: dict[str, Any]) -> memory.CacheRow:
    known = {name.name: values[name.name] for name in fields(memory.CacheRow)}
    amounts = {
        name: None if values[name] is None else Decimal(values[name])
        for name in ("active_block_ms", "reserved_block_ms")
    }
    at: datetime = instant_of(values["hour"])
    return memory.CacheRow(**known | {"hour": at} | amounts)


def hour(number: int, blocks: int, active: int) -> dict[str, Any]:
    return {
        "hour": START + number * HOUR, "blocks": blocks, "block_size": 16, "pool_tokens": None,
        "max_model_len": 4096, "observed_ms": HOUR, "active_block_ms": active * HOUR,
        "reserved_block_ms": None, "peak_blocks": None, "peak_ms": None, "peak_running": 1000, "stale_ms": 0, "first_ms": None,
        "there": (START + number * HOUR, START + (number + 1) * HOUR),
    }  # fmt: skip


# 70 blocks of 20,000 in three hours are 0.35 %, half way between two numbers, by means that no
# decimals tell whole.
HALF_WAY = [hour(0, 10_000, 70), hour(1, 5000, 0), hour(2, 5000, 0)]


@settings(deadline=None)
@given(hours("0.9"), WORKLOAD)
@example(HALF_WAY, {"kv_bytes_per_token": None, "max_model_len": None})
def test_what_a_reservation_bought(rows, workload) -> None:
    figures = memory.kv_figures(
        [row_of(row) for row in rows], workload["kv_bytes_per_token"], workload["max_model_len"]
    )
    assert figures is not None
    with localcontext(verify.EXACT):
        found = verify._engine(rows, workload, workload["kv_bytes_per_token"] or None)
        known = verify.reservation(found)
        check = verify.Checks()
        for name in ("reserved_tokens", "reserved_bytes", "reserved_tokens_mean", "peak_running",
                     "reserved_bytes_mean", "active_tokens_mean", "active_bytes_mean",
                     "unreferenced_bytes_mean", "peak_active_tokens", "contiguous_slots",
                     "max_model_len"):  # fmt: skip
            ours = getattr(figures, name)
            check(name, plain(ours) if isinstance(ours, Decimal) else ours, found[name])
    assert check.wrong == []
    text = memory.sentence(figures)
    assert confirmed(text, known), text
    assert every_change_is_found(text, known), text
