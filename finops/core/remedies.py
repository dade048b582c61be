"""What helps an engine that did not start, with numbers, and what is advised and does not help.

Method §8.6: "No available memory for the cache blocks" is cured by raising the share of memory or
by needing less; "Free memory on device … less than desired" by lowering it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from .engine_start import (
    GIB,
    EngineStart,
    Failure,
    Remedy,
    Worker,
    charges_others,
    default_utilization,
    gib,
)

HIGHEST: Final = Decimal("0.98")
"""Above it engines are known to run out of memory outside their budget."""
STEP: Final = Decimal("0.01")
BLOCK: Final = 16
MOST_TIMES: Final = 16
_HALF_UNIT: Final = GIB // 200
"""Engines print GiB with two decimals: a figure may be so much more or less."""

_LOWER = "lower-utilization"
_NOT_LOWER: Final = Remedy(
    _LOWER,
    None,
    "Often advised and wrong here: a smaller share of memory leaves less for the cache, not more.",
)


def advise(engine: EngineStart) -> None:
    """Fills in what a failure lacks: bytes short, a sentence, remedies (contract `explain-log`)."""
    failure = engine.failure
    if failure is None:
        return
    if failure.needed_bytes is not None and failure.available_bytes is not None:
        failure.short_bytes = max(0, failure.needed_bytes - failure.available_bytes)
    _ADVICE.get(failure.kind, _unknown)(engine, failure, _worker(engine))
    failure.remedies.sort(key=lambda one: not one.suffices)


def _worker(engine: EngineStart) -> Worker:
    """The worker with the least room, which decides."""
    return min(engine.workers, key=lambda one: one.kv_bytes or 0, default=Worker())


def _setting(engine: EngineStart, failure: Failure) -> Decimal | None:
    text = failure.utilization or engine.utilization
    return Decimal(text) if text else default_utilization(engine.engine_version)


def _up(share: Decimal) -> Decimal:
    return share.quantize(STEP, ROUND_CEILING)


def _down(share: Decimal) -> Decimal:
    return share.quantize(STEP, ROUND_FLOOR)


# -- no room for the cache at all ------------------------------------------------------------------


def _no_space(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    taken, budget = worker.taken_bytes(), worker.budget_bytes
    if taken is None and budget is not None and worker.kv_bytes is not None:
        taken = budget - worker.kv_bytes
    if taken is not None and budget is not None:
        failure.needed_bytes, failure.available_bytes = taken, budget
        failure.short_bytes = max(0, taken - budget)
    elif worker.kv_bytes is not None and worker.kv_bytes <= 0:
        failure.available_bytes, failure.short_bytes = worker.kv_bytes, -worker.kv_bytes
    failure.summary = _no_space_sentence(failure, engine)
    failure.remedies = [
        _raise_over(taken, worker, _setting(engine, failure)),
        *_need_less(engine, worker),
        *_others(engine),
    ]
    failure.wrong_remedies = [_NOT_LOWER]


def _no_space_sentence(failure: Failure, engine: EngineStart) -> str:
    text = "Weights and working memory fill the whole share of the GPU that the engine may use; "
    text += "nothing is left for the cache"
    if failure.short_bytes:
        text += f": {gib(failure.short_bytes)} are missing before the first block"
    return text + "."


def _raise_over(taken: int | None, worker: Worker, setting: Decimal | None) -> Remedy:
    if taken is None or not worker.total_bytes:
        return Remedy("raise-utilization", None, "Gives the engine more of the card, and all of "
                      "that goes to the cache. The log does not say how much is needed.")  # fmt: skip
    lowest = _up(Decimal(taken + 1) / worker.total_bytes)
    if lowest > HIGHEST:
        return Remedy("raise-utilization", None, f"Would have to reach {lowest}, more than a card "
                      "can give safely: raising it alone does not help here.", suffices=False)  # fmt: skip
    now = f" from {setting}" if setting is not None else ""
    return Remedy("raise-utilization", str(lowest), f"The lowest share{now} at which any cache is "
                  f"left: {gib(taken)} of {gib(worker.total_bytes)} are taken already.")  # fmt: skip


def _need_less(engine: EngineStart, worker: Worker) -> list[Remedy]:
    found = []
    if worker.activation_peak_bytes:
        peak = gib(worker.activation_peak_bytes)
        found.append(Remedy("lower-max-num-batched-tokens", None, f"The trial run's peak of {peak} "
                            "comes out of the budget; fewer tokens or requests in a step lower "
                            "it."))  # fmt: skip
    if engine.quantization in (None, "None"):
        weights = f" of {gib(worker.weights_bytes)}" if worker.weights_bytes else ""
        found.append(Remedy("quantize-weights", None, f"Weights{weights} in 8 or 4 bits take a "
                            "half or a quarter."))  # fmt: skip
    gpus = (engine.tensor_parallel or 1) * 2
    share = f" to about {gib(worker.weights_bytes // 2)}" if worker.weights_bytes else ""
    found.append(Remedy("more-gpus", str(gpus), f"Twice the GPUs halve the weights on each{share}"
                        "; the rest of each card is free for the cache."))  # fmt: skip
    return found


def _others(engine: EngineStart) -> list[Remedy]:
    if not charges_others(engine.engine_version):
        return []
    return [Remedy("free-device", None, f"vLLM {engine.engine_version} counts memory of other "
                   "processes on the GPU against this engine's share; two engines need shares that "
                   "add up to what both take, or a newer version.")]  # fmt: skip


# -- less than one longest request -----------------------------------------------------------------


def _too_small(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    if failure.available_bytes is None:
        failure.available_bytes = worker.kv_bytes
    _bytes_from_tokens(failure)
    longest = _longest(failure)
    failure.summary = _too_small_sentence(failure, _there(engine, failure))
    failure.remedies = [
        Remedy("lower-max-model-len", None if longest is None else str(longest),
               "The longest request that fits into the cache there is; it is not a reservation, "
               "one such request must be able to run."),
        *_more_cache(engine, failure, worker),
    ]  # fmt: skip
    if engine.kv_dtype in (None, "auto", "bfloat16", "float16"):
        failure.remedies.append(_quantize_kv(engine, failure))
    failure.remedies.append(_more_gpus(engine, failure, worker))
    failure.wrong_remedies = [_NOT_LOWER]


def _bytes_from_tokens(failure: Failure) -> None:
    """Old engines say tokens only: bytes follow where the cache's size is printed."""
    available, tokens, length = failure.available_bytes, failure.kv_tokens, failure.max_model_len
    if failure.needed_bytes is None and available and tokens and length:
        failure.needed_bytes = -(-available * length // tokens)
        failure.short_bytes = failure.needed_bytes - available


def _too_small_sentence(failure: Failure, there: int | None) -> str:
    text = "One request of the longest allowed length does not fit into the cache"
    if failure.kv_tokens is not None and failure.max_model_len is not None:
        lacking = failure.max_model_len - failure.kv_tokens
        text += f": it holds {failure.kv_tokens:,} of {failure.max_model_len:,} tokens, {lacking:,}"
        text += " short"
    if failure.needed_bytes is not None and there is not None:
        text += f" ({gib(failure.needed_bytes)} needed, {gib(there)} there)"
    return text + "."


def _longest(failure: Failure) -> int | None:
    """The engine's own estimate, the tokens of the cache, or what the bytes hold at worst."""
    if failure.estimated_max_model_len is not None:
        return failure.estimated_max_model_len
    if failure.kv_tokens is not None:
        return failure.kv_tokens
    needed, available, length = failure.needed_bytes, failure.available_bytes, failure.max_model_len
    if not needed or needed < 0 or available is None or not length:
        return None
    tokens = max(0, available - _HALF_UNIT) * length // (needed + _HALF_UNIT)
    return tokens // BLOCK * BLOCK or None


def _more_cache(engine: EngineStart, failure: Failure, worker: Worker) -> list[Remedy]:
    short = failure.short_bytes
    if engine.kv_cache_memory_bytes is not None:
        to = None if failure.needed_bytes is None else str(failure.needed_bytes + _HALF_UNIT)
        return [Remedy("raise-kv-cache-memory", to, "The cache's size was given in bytes "
                       "(kv_cache_memory_bytes); gpu_memory_utilization has no effect "
                       "then.")]  # fmt: skip
    setting, total = _setting(engine, failure), worker.total_bytes
    if not short or setting is None or not total:
        return [Remedy("raise-utilization", None, "All that is added goes to the cache. The log "
                       "does not say how large the card is.")]  # fmt: skip
    budget = worker.budget_bytes or int(setting * total)
    lowest = _up(Decimal(budget + short) / total)
    if lowest > HIGHEST:
        return [Remedy("raise-utilization", None, f"Would have to reach {lowest}, more than a card "
                       "can give safely: it does not suffice alone.", suffices=False)]  # fmt: skip
    return [Remedy("raise-utilization", str(lowest), f"The lowest share from {setting} at which one "
                   f"longest request fits: {gib(short)} more of {gib(total)}.")]  # fmt: skip


def _there(engine: EngineStart, failure: Failure) -> int | None:
    """The cache there is: to the byte where its size was given in bytes, else as printed."""
    given, printed = engine.kv_cache_memory_bytes, failure.available_bytes
    if given is not None and (printed is None or abs(printed - given) <= _HALF_UNIT):
        return given
    return printed


def _quantize_kv(engine: EngineStart, failure: Failure) -> Remedy:
    needed, available = failure.needed_bytes, _there(engine, failure)
    why, fits = "Keys and values in 8 bits take half the bytes a token", True
    if needed is not None and available is not None:
        half = -(-needed // 2)
        fits = half <= available
        why += f": {gib(half)}, which " + ("fits" if fits else "is still too much")
    return Remedy("quantize-kv", "fp8", why + ".", suffices=fits)


def _more_gpus(engine: EngineStart, failure: Failure, worker: Worker) -> Remedy:
    now = engine.tensor_parallel or 1
    needed, available = failure.needed_bytes, _there(engine, failure)
    if needed is None or available is None:
        return Remedy("more-gpus", str(now * 2), "Twice the GPUs halve the cache of a token on each "
                      "and the weights too, where there are enough KV heads.")  # fmt: skip
    weights, times = worker.weights_bytes or 0, 2
    while times <= MOST_TIMES and needed > times * (available + weights - weights // times):
        times *= 2
    if times > MOST_TIMES:
        return Remedy(
            "more-gpus",
            None,
            f"Not even {MOST_TIMES} times the GPUs would hold it.",
            suffices=False,
        )
    return Remedy("more-gpus", str(now * times), f"Divides the {gib(needed)} of a longest request "
                  f"by {times} and frees weights on each GPU, where there are enough KV "
                  "heads.")  # fmt: skip


# -- the device is in use, or was disturbed --------------------------------------------------------


def _busy(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    free, total, short = failure.available_bytes, failure.total_bytes, failure.short_bytes
    failure.summary = "Other processes hold memory of the GPU that the engine was told to take"
    if short is not None and free is not None:
        failure.summary += f": {gib(free)} are free, {gib(short)} too little"
    failure.summary += "."
    failure.remedies = [
        Remedy("free-device", None if short is None else str(short),
               "So many bytes must be freed on the GPU by whoever else uses it."),
    ]  # fmt: skip
    if free is not None and total:
        highest = _down(Decimal(free) / total)
        failure.remedies.append(
            Remedy(_LOWER, str(highest), "The highest share that is free now; here lowering is the "
                   "cure, as long as weights and one longest request still fit.")
        )  # fmt: skip
    failure.wrong_remedies = [
        Remedy("raise-utilization", None, "Asks for still more of a GPU that is in use.")
    ]


def _disturbed(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    failure.summary = (
        "Another process freed memory of the GPU while the engine measured its own; what it "
        "measured is worth nothing."
    )
    before, after = failure.free_before_bytes, failure.free_after_bytes
    if before is not None and after is not None:
        # What the engine took meanwhile comes on top: so much at least was released.
        failure.short_bytes = max(0, after - before)
        failure.summary += (
            f" {gib(before)} were free at first and {gib(after)} afterwards: the measure is short "
            f"by {gib(failure.short_bytes)}, which others released, and by what the engine itself "
            "took meanwhile."
        )
    failure.remedies = [
        Remedy("start-again", None, "Start when nothing else starts or stops on this GPU."),
        Remedy("free-device", None, "Give the engine a GPU of its own."),
    ]
    failure.wrong_remedies = [
        Remedy("raise-utilization", None, "The share was not the cause."),
        Remedy(_LOWER, None, "The share was not the cause."),
    ]


def _out_of_memory(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    loaded = worker.kv_bytes is not None or worker.kv_tokens is not None
    tried = "" if failure.needed_bytes is None else f" {gib(failure.needed_bytes)}"
    failure.summary = f"The GPU had no{tried} left"
    if loaded:
        failure.summary += " after the cache was made: outside of what the engine budgets for."
        failure.remedies = _outside_budget(engine, failure, worker)
        failure.wrong_remedies = [
            Remedy("raise-utilization", None, "Leaves still less outside the engine's budget.")
        ]
        return
    failure.summary += " while the model was loaded: the weights do not fit."
    failure.remedies = _need_less(engine, worker)
    failure.wrong_remedies = [
        Remedy("raise-utilization", None, "The share bounds the cache, not the weights."),
        Remedy(_LOWER, None, "The share bounds the cache, not the weights."),
    ]


def _outside_budget(engine: EngineStart, failure: Failure, worker: Worker) -> list[Remedy]:
    setting, total = _setting(engine, failure), worker.total_bytes or failure.total_bytes
    to = None
    if setting is not None and total and failure.short_bytes:
        to = str(_down(setting - Decimal(failure.short_bytes) / total))
    return [
        Remedy(_LOWER, to, "Leaves more for CUDA graphs, fragmentation and other processes, which "
               "are outside the budget; here lowering is the cure."),
        Remedy("lower-max-num-seqs", None, "Fewer requests in a step need less working memory and "
               "fewer CUDA graphs."),
    ]  # fmt: skip


def _unknown(engine: EngineStart, failure: Failure, worker: Worker) -> None:
    failure.summary = (
        "The engine did not start, and the log names no cause about memory that is known here."
    )


_ADVICE: Final[dict[str, Callable[[EngineStart, Failure, Worker], None]]] = {
    "no-kv-space": _no_space,
    "kv-too-small": _too_small,
    "device-busy": _busy,
    "profiling-disturbed": _disturbed,
    "out-of-memory": _out_of_memory,
}
