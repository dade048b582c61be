"""What is seen of an engine, and what is advised on one of its settings by it (method §9).

Where something is missing the guidance says what would tell it, and proposes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from .lengths import Between, Histogram
from .money import plain, round_half_even
from .rightsizing import NOT_ENOUGH

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


def load_missing(seen: Seen) -> list[str]:
    """What is missing for a judgement at peak load; empty when nothing is."""
    if seen.verdict == NOT_ENOUGH:
        return ["seven days of the present setting, covered to 95 %"]
    if not seen.peak_running:
        return ["readings under load: no request ran in the window, or the engine does not tell"]
    return []


def missing(knob: str, needs: list[str], numbers: Mapping[str, Any] | None = None) -> Guidance:
    told = {name: value for name, value in (numbers or {}).items() if value is not None}
    return Guidance(
        knob, NEEDS, f"Not enough evidence: need {'; '.join(needs)}.", told, (), tuple(needs)
    )


def sources_of(seen: Seen, *metrics: str, log: bool = False) -> tuple[str, ...]:
    return (*((seen.log,) if log and seen.log else ()), *metrics)


def edge(one: Between) -> str:
    return f"over {one.over:,}" if one.most is None else f"{one.most:,}"


def percent(share: Decimal) -> str:
    return f"{plain(round_half_even(share * 100, 1))} %"
