"""Guidance on an engine's other settings, each from evidence with its numbers and source (method §9).

An engine is judged at its busiest, never at idle: peaks and high percentiles decide, stale time is
left out. Where something is missing the guidance says what would tell it, and proposes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final

from .engine_start import gib
from .kv import FULL_BYTES
from .lengths import Between, Histogram
from .money import divide, plain, round_half_even
from .rightsizing import AT_RISK, NOT_ENOUGH, OVER_RESERVED, PEAK_MARGIN, TIGHT

KEEP, LOWER, RAISE, TRY = "keep", "could be lower", "could be higher", "worth a trial"
NEEDS: Final = "not enough evidence"
SEQUENCES, STEP_TOKENS = "--max-num-seqs", "--max-num-batched-tokens"
PARALLEL, CONTEXT = "tensor-parallel buffers", "memory taken before sizing"
KV_DTYPE, PREFIXES, LONGEST = "--kv-cache-dtype", "--enable-prefix-caching", "--max-model-len"
LOG_ARGS: Final = "a start-up log with its line of arguments (non-default args)"
LEAST_HITS: Final = Decimal("0.01")
WORDS: Final = {
    SEQUENCES: "Requests at once",
    STEP_TOKENS: "Tokens of a step",
    PARALLEL: "Communication buffers",
    CONTEXT: "Memory taken before sizing",
    KV_DTYPE: "Bits of the cache",
    PREFIXES: "Reuse of prompts",
    LONGEST: "Longest request",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What logs and readings tell of one engine over a window; None where nothing tells it.

    Bytes are of one GPU. `verdict` and `p99` are those of right-sizing; `steps` are the tokens of
    the engine's steps, `prompts` and `answers` the lengths of the requests that finished.
    """

    verdict: str
    p99: Decimal | None = None
    peak_running: int | None = None
    peak_waiting: int | None = None
    preemptions: int | None = None
    held_at_once: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    steps: Histogram = field(default_factory=Histogram)
    prompts: Histogram = field(default_factory=Histogram)
    answers: Histogram = field(default_factory=Histogram)
    tensor_parallel: int | None = None
    total_bytes: int | None = None
    budget_bytes: int | None = None
    free_at_start_bytes: int | None = None
    activation_peak_bytes: int | None = None
    non_torch_bytes: int | None = None
    alone_non_torch_bytes: int | None = None
    driver_bytes: int | None = None
    kv_dtype: str | None = None
    pool_tokens: int | None = None
    prefix_caching: bool | None = None
    prefix_queries: int | None = None
    prefix_hits: int | None = None
    log: str | None = None
    """How the start-up log is named, for the sources."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """One setting: what is advised, in a sentence with its numbers, and where these are from."""

    knob: str
    verdict: str
    says: str
    numbers: Mapping[str, Any]
    sources: tuple[str, ...]
    needs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "knob": self.knob,
            "verdict": self.verdict,
            "says": self.says,
            "numbers": dict(self.numbers),
            "sources": list(self.sources),
            "needs": list(self.needs),
        }


def guidance(seen: Seen) -> list[Guidance]:
    """What the evidence says of every setting, in the order of the method."""
    load = _load_missing(seen)
    return [
        _sequences(seen, load),
        _step_tokens(seen, load),
        _parallel(seen),
        _context(seen),
        _kv_dtype(seen, load),
        _prefixes(seen, load),
        _longest(seen, load),
    ]


def _load_missing(seen: Seen) -> list[str]:
    """What is missing for a judgement at peak load; empty when nothing is."""
    if seen.verdict == NOT_ENOUGH:
        return ["seven days of the present setting, covered to 95 %"]
    if not seen.peak_running:
        return ["readings under load: no request ran in the window, or the engine does not tell"]
    return []


def _missing(knob: str, needs: list[str], numbers: Mapping[str, Any] | None = None) -> Guidance:
    told = {name: value for name, value in (numbers or {}).items() if value is not None}
    return Guidance(
        knob, NEEDS, f"Not enough evidence: need {'; '.join(needs)}.", told, (), tuple(needs)
    )


def _sources(seen: Seen, *metrics: str, log: bool = False) -> tuple[str, ...]:
    return (*((seen.log,) if log and seen.log else ()), *metrics)


# -- requests and tokens of a step -----------------------------------------------------------------


def _sequences(seen: Seen, load: list[str]) -> Guidance:
    needs = [*load, *([LOG_ARGS] if seen.max_num_seqs is None else [])]
    numbers = {
        "max_num_seqs": seen.max_num_seqs,
        "peak_running": seen.peak_running,
        "peak_waiting": seen.peak_waiting,
        "preemptions": seen.preemptions,
        "held_at_once": seen.held_at_once,
        "activation_peak_bytes": seen.activation_peak_bytes,
    }
    if needs or seen.max_num_seqs is None or seen.peak_running is None:
        return _missing(SEQUENCES, needs, numbers)
    verdict, says = _of_sequences(seen, seen.max_num_seqs, seen.peak_running)
    sources = _sources(seen, "num_requests_running", "num_requests_waiting", "num_preemptions",
                       log=True)  # fmt: skip
    return Guidance(SEQUENCES, verdict, says, numbers, sources)


def _of_sequences(seen: Seen, limit: int, running: int) -> tuple[str, str]:
    if seen.preemptions and seen.held_at_once and seen.held_at_once < limit:
        return LOWER, (
            f"{seen.preemptions:,} requests were pushed out: {limit:,} may run at once, and the "
            f"cache holds {seen.held_at_once:,} of the length seen at the peak. With "
            f"{seen.held_at_once:,} they wait their turn and nothing is computed twice."
        )
    if running >= limit:
        if seen.peak_waiting and seen.verdict not in (AT_RISK, TIGHT):
            return RAISE, (
                f"The limit of {limit:,} was reached and {seen.peak_waiting:,} waited while the "
                "cache had room: the limit, not memory, kept them waiting."
            )
        return KEEP, (
            f"The limit of {limit:,} was reached at the peak: it bounds what the cache must hold."
        )
    enough = _round_up(running * PEAK_MARGIN, 8)
    if enough * 2 <= limit:
        return LOWER, (
            f"At most {running:,} of {limit:,} allowed requests ran at one time; {enough:,} would hold "
            f"the peak and a fifth. {_freed(seen)}"
        )
    return KEEP, f"At most {running:,} of {limit:,} allowed requests ran at one time."


def _round_up(value: Decimal, unit: int) -> int:
    return -(-int(value.to_integral_value(rounding="ROUND_CEILING")) // unit) * unit


def _freed(seen: Seen) -> str:
    """What a smaller step or fewer requests may free: at most the activation peak."""
    if seen.activation_peak_bytes is None:
        return (
            "What that frees is not known: the log prints no activation peak; the next start will."
        )
    return (
        f"Of the activation peak the log prints ({gib(seen.activation_peak_bytes)}) a part goes to "
        "the cache then; how much, the log of the next start tells."
    )


def _step_tokens(seen: Seen, load: list[str]) -> Guidance:
    needs = list(load)
    if seen.max_num_batched_tokens is None:
        needs.append("a start-up log that names max_num_batched_tokens")
    if not seen.steps.count:
        needs.append("the histogram of tokens a step (vllm:iteration_tokens_total)")
    most = seen.steps.longest
    p99 = seen.steps.quantile(Decimal("0.99"))
    numbers = {
        "max_num_batched_tokens": seen.max_num_batched_tokens,
        "steps": seen.steps.count or None,
        "largest_step": most.as_json() if most else None,
        "p99_step": p99.as_json() if p99 else None,
        "activation_peak_bytes": seen.activation_peak_bytes,
    }
    limit = seen.max_num_batched_tokens
    if needs or limit is None or most is None or p99 is None:
        return _missing(STEP_TOKENS, needs, numbers)
    verdict, says = _of_steps(seen, limit, most, p99)
    return Guidance(
        STEP_TOKENS, verdict, says, numbers, _sources(seen, "iteration_tokens_total", log=True)
    )


def _of_steps(seen: Seen, limit: int, most: Between, p99: Between) -> tuple[str, str]:
    text = f"99 % of {seen.steps.count:,} steps had at most {_edge(p99)} tokens, the largest "
    text += f"{most.words()}; {limit:,} are allowed"
    if most.most is not None and most.most < limit:
        part = ""
        if seen.activation_peak_bytes is not None:
            free = seen.activation_peak_bytes * (limit - most.most) // limit
            part = (
                f" Were the activation peak ({gib(seen.activation_peak_bytes)}) all of the step's "
                f"tokens, {gib(free)} of it would go to the cache: at most that."
            )
        return LOWER, f"{text}. {most.most:,} would cut no step that was seen.{part}"
    surely, perhaps = seen.steps.over(limit // 2)
    if surely * 100 >= seen.steps.count:
        return KEEP, (
            f"{text}. {surely:,} steps or more used over half of it: prompts fill it at the peak."
        )
    return KEEP, f"{text}. {perhaps:,} steps at most used over half of it, for the longest prompts."


def _edge(one: Between) -> str:
    return f"over {one.over:,}" if one.most is None else f"{one.most:,}"


# -- memory beside the cache -----------------------------------------------------------------------


def _parallel(seen: Seen) -> Guidance:
    size, held = seen.tensor_parallel, seen.non_torch_bytes
    numbers = {
        "tensor_parallel": size,
        "non_torch_bytes": held,
        "non_torch_on_one_gpu_bytes": seen.alone_non_torch_bytes,
    }
    if size is None:
        return _missing(PARALLEL, ["a start-up log (tensor_parallel_size)"], numbers)
    if size == 1:
        return Guidance(PARALLEL, KEEP, "One GPU an engine: there are none.", numbers,
                        _sources(seen, log=True))  # fmt: skip
    if held is None:
        return _missing(PARALLEL, ["a start-up log that prints non-torch memory (vLLM 0.6.5 to "
                                   "0.26, or weights and consumed memory from 0.27)"], numbers)  # fmt: skip
    text = (
        f"Outside torch each of the {size} GPUs holds {gib(held)} (CUDA context, NCCL, all-reduce "
        "buffers)"
    )
    other = seen.alone_non_torch_bytes
    if other is None:
        text += "; what of it is communication is not told apart without a start on one GPU."
    else:
        text += (
            f"; a start of this version on one GPU held {gib(other)}: {gib(max(0, held - other))} "
            "are communication between the GPUs."
        )
    return Guidance(
        PARALLEL, KEEP,
        text + " It is in the engine's share of memory: a higher setting does not raise it, a lower "
        "one does not shrink it.", numbers, _sources(seen, log=True),
    )  # fmt: skip


def _context(seen: Seen) -> Guidance:
    total, free, budget = seen.total_bytes, seen.free_at_start_bytes, seen.budget_bytes
    numbers: dict[str, Any] = {
        "total_bytes": total,
        "free_at_start_bytes": free,
        "budget_bytes": budget,
        "driver_bytes": seen.driver_bytes,
    }
    if total is None or free is None:
        return _missing(
            CONTEXT,
            ["the log line “Free memory on device … on startup” (vLLM 0.10.2, and from 0.26; "
             "between them with VLLM_LOGGING_LEVEL=DEBUG)"], numbers,
        )  # fmt: skip
    highest = divide(Decimal(free), Decimal(total)).quantize(Decimal("0.01"), ROUND_FLOOR)
    numbers |= {"highest_setting": plain(highest)}
    text = (
        f"Before the engine sized its cache {gib(total - free)} of {gib(total)} were taken (its own "
        f"CUDA context, and other programs on the card). The highest setting that starts is "
        f"{plain(highest)}"
    )
    sources = _sources(seen, log=True)
    if budget is None:
        return Guidance(CONTEXT, KEEP, text + ".", numbers, sources)
    if budget > free:
        return Guidance(CONTEXT, LOWER, f"{text}: the present one asks for {gib(budget - free)} more "
                        "than is free.", numbers, sources)  # fmt: skip
    return Guidance(CONTEXT, KEEP, f"{text}; the present one leaves {gib(free - budget)} of what was "
                    "free untouched.", numbers, sources)  # fmt: skip


# -- the cache itself ------------------------------------------------------------------------------


def _kv_dtype(seen: Seen, load: list[str]) -> Guidance:
    numbers = {
        "kv_dtype": seen.kv_dtype,
        "pool_tokens": seen.pool_tokens,
        "p99": None if seen.p99 is None else plain(round_half_even(seen.p99, 4)),
    }
    needs = list(load)
    if seen.kv_dtype is None:
        needs.append("the cache's type (label cache_dtype, or the start-up log)")
    if needs or seen.kv_dtype is None or seen.p99 is None:
        return _missing(KV_DTYPE, needs or ["readings of the cache's use"], numbers)
    sources = _sources(seen, "cache_config_info", "kv_cache_usage_perc")
    size = FULL_BYTES.get(seen.kv_dtype)
    if size is not None and size <= 1:
        return Guidance(KV_DTYPE, KEEP, f"The cache is kept in {seen.kv_dtype} already.", numbers,
                        sources)  # fmt: skip
    use = f"at most {_percent(seen.p99)} of the cache was in use for 99 % of the time"
    if seen.verdict not in (AT_RISK, TIGHT):
        return Guidance(KV_DTYPE, KEEP, f"There is room in 16 bits: {use}. Fewer bits would change "
                        "answers and buy nothing.", numbers, sources)  # fmt: skip
    half = round_half_even(seen.p99 / 2, 4)
    more = "" if seen.pool_tokens is None else f" ({seen.pool_tokens * 2:,} tokens)"
    return Guidance(
        KV_DTYPE, TRY,
        f"Now {use}. In 8 bits the same memory holds twice the tokens{more}: {_percent(half)}. "
        "Answers change slightly; measure their quality before.",
        numbers | {"p99_in_8_bits": plain(half)}, sources,
    )  # fmt: skip


def _prefixes(seen: Seen, load: list[str]) -> Guidance:
    queries, hits = seen.prefix_queries, seen.prefix_hits
    share = divide(Decimal(hits), Decimal(queries)) if hits is not None and queries else None
    numbers = {
        "prefix_caching": seen.prefix_caching,
        "prefix_queries": queries,
        "prefix_hits": hits,
        "hit_share": None if share is None else plain(round_half_even(share, 4)),
    }
    sources = _sources(seen, "cache_config_info", "prefix_cache_hits", "prefix_cache_queries")
    if seen.prefix_caching is None:
        return _missing(PREFIXES, ["the label enable_prefix_caching, or the start-up log"], numbers)
    if not seen.prefix_caching:
        return Guidance(
            PREFIXES, TRY,
            "It is off, so nothing tells how often prompts begin alike. It takes no memory of its "
            "own: a trial for a day shows the share of prompt tokens that are not computed again.",
            numbers, sources,
        )  # fmt: skip
    if share is None or queries is None or hits is None:
        needs = [*load, "prefix_cache_queries and prefix_cache_hits of the engine"]
        return _missing(PREFIXES, needs, numbers)
    if share < LEAST_HITS:
        return Guidance(PREFIXES, KEEP, f"Of {queries:,} prompt tokens looked up {hits:,} were found "
                        f"({_percent(share)}): it brings little, and costs no memory.", numbers,
                        sources)  # fmt: skip
    text = (
        f"Of {queries:,} prompt tokens looked up {hits:,} were found ({_percent(share)}) and not "
        "computed again. They lie in the part of the cache that no live request references"
    )
    if seen.verdict == OVER_RESERVED:
        text += ": a smaller cache keeps fewer of them. Watch this share after each step down"
    return Guidance(PREFIXES, KEEP, text + ".", numbers, sources)


def _longest(seen: Seen, load: list[str]) -> Guidance:
    prompt, answer = seen.prompts.longest, seen.answers.longest
    p99 = seen.prompts.quantile(Decimal("0.99"))
    numbers = {
        "max_model_len": seen.max_model_len,
        "requests": seen.prompts.count or None,
        "longest_prompt": prompt.as_json() if prompt else None,
        "longest_answer": answer.as_json() if answer else None,
        "p99_prompt": p99.as_json() if p99 else None,
    }
    needs = list(load)
    if seen.max_model_len is None:
        needs.append("the longest request allowed (start-up log, or workload --max-model-len)")
    if prompt is None or answer is None:
        needs.append("histograms of request lengths (request_prompt_tokens, "
                     "request_generation_tokens)")  # fmt: skip
    limit = seen.max_model_len
    if needs or limit is None or prompt is None or answer is None or p99 is None:
        return _missing(LONGEST, needs, numbers)
    sources = _sources(seen, "request_prompt_tokens", "request_generation_tokens", log=True)
    text = (
        f"Of {seen.prompts.count:,} finished requests the longest prompt had {prompt.words()}, the "
        f"longest answer {answer.words()}; 99 % of prompts had at most {_edge(p99)}. {limit:,} are "
        "allowed"
    )
    if prompt.most is None or answer.most is None or prompt.most + answer.most > limit // 2:
        return Guidance(LONGEST, KEEP, text + ".", numbers, sources)
    enough = prompt.most + answer.most
    return Guidance(
        LONGEST, LOWER,
        f"{text}: {enough:,} would hold every one of them. That frees no memory by itself (blocks "
        "are taken as tokens come); it lowers the least that the cache must hold, and so the lowest "
        "setting that starts. Requests that clients broke off are not in these lengths.",
        numbers | {"enough": enough}, sources,
    )  # fmt: skip


def _percent(share: Decimal) -> str:
    return f"{plain(round_half_even(share * 100, 1))} %"
