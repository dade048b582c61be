"""Guidance on memory beside the cache: communication buffers, and what was taken before (method §9)."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from typing import Any

from .engine_start import gib
from .guidance_seen import CONTEXT, KEEP, LOWER, PARALLEL, Guidance, Seen, missing, sources_of
from .money import divide, plain


def parallel(seen: Seen) -> Guidance:
    size, held = seen.tensor_parallel, seen.non_torch_bytes
    numbers = {
        "tensor_parallel": size,
        "non_torch_bytes": held,
        "non_torch_on_one_gpu_bytes": seen.alone_non_torch_bytes,
    }
    if size is None:
        return missing(PARALLEL, ["a start-up log (tensor_parallel_size)"], numbers)
    if size == 1:
        return Guidance(PARALLEL, KEEP, "One GPU an engine: there are none.", numbers,
                        sources_of(seen, log=True))  # fmt: skip
    if held is None:
        return missing(PARALLEL, ["a start-up log that prints non-torch memory (vLLM 0.6.5 to "
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
        "one does not shrink it.", numbers, sources_of(seen, log=True),
    )  # fmt: skip


def context(seen: Seen) -> Guidance:
    total, free, budget = seen.total_bytes, seen.free_at_start_bytes, seen.budget_bytes
    numbers: dict[str, Any] = {
        "total_bytes": total,
        "free_at_start_bytes": free,
        "budget_bytes": budget,
        "driver_bytes": seen.driver_bytes,
    }
    if total is None or free is None:
        return missing(
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
    sources = sources_of(seen, log=True)
    if budget is None:
        return Guidance(CONTEXT, KEEP, text + ".", numbers, sources)
    if budget > free:
        return Guidance(CONTEXT, LOWER, f"{text}: the present one asks for {gib(budget - free)} more "
                        "than is free.", numbers, sources)  # fmt: skip
    return Guidance(CONTEXT, KEEP, f"{text}; the present one leaves {gib(free - budget)} of what was "
                    "free untouched.", numbers, sources)  # fmt: skip
