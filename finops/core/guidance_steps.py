"""Guidance on how much an engine does at once: requests, and tokens of a step (method §9)."""

from __future__ import annotations

from decimal import Decimal

from .engine_start import gib
from .guidance_seen import (
    KEEP,
    LOG_ARGS,
    LOWER,
    RAISE,
    SEQUENCES,
    STEP_TOKENS,
    Guidance,
    Seen,
    edge,
    missing,
    sources_of,
)
from .lengths import Between
from .rightsizing import AT_RISK, PEAK_MARGIN, TIGHT


def sequences(seen: Seen, load: list[str]) -> Guidance:
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
        return missing(SEQUENCES, needs, numbers)
    verdict, says = _of_sequences(seen, seen.max_num_seqs, seen.peak_running)
    sources = sources_of(seen, "num_requests_running", "num_requests_waiting", "num_preemptions",
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


def step_tokens(seen: Seen, load: list[str]) -> Guidance:
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
        return missing(STEP_TOKENS, needs, numbers)
    verdict, says = _of_steps(seen, limit, most, p99)
    return Guidance(
        STEP_TOKENS, verdict, says, numbers, sources_of(seen, "iteration_tokens_total", log=True)
    )


def _of_steps(seen: Seen, limit: int, most: Between, p99: Between) -> tuple[str, str]:
    text = f"99 % of {seen.steps.count:,} steps had at most {edge(p99)} tokens, the largest "
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
