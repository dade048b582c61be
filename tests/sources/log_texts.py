"""Log lines as vLLM prints them, filled with the numbers of public threads."""

from __future__ import annotations


def profile(total, share, budget, weights, non_torch, peak, kv, prefix="", *, seconds="6.54"):
    """V0 from 0.6.5: one message over several lines."""
    stamp = f"{prefix}INFO 12-20 03:14:11 worker.py:241] "
    return "\n".join([
        f"{stamp}Memory profiling takes {seconds} seconds",
        f"{stamp}the current vLLM instance can use total_gpu_memory ({total}GiB) x "
        f"gpu_memory_utilization ({share}) = {budget}GiB",
        f"{stamp}model weights take {weights}GiB; non_torch_memory takes {non_torch}GiB; PyTorch "
        f"activation peak memory takes {peak}GiB; the rest of the memory reserved for KV Cache is "
        f"{kv}GiB.",
    ])  # fmt: skip


def blocks(count, cpu=512, length=None, times=None, device="GPU"):
    """V0: blocks, and from 0.6.2 what they allow."""
    text = f"INFO 12-20 03:14:12 executor.py:76] # {device} blocks: {count}, # CPU blocks: {cpu}"
    if length is not None:
        text += (
            f"\nINFO 12-20 03:14:12 executor.py:80] Maximum concurrency for {length} tokens per "
            f"request: {times}x"
        )
    return text


def starting(version, v1=False, **settings):
    """The line with the configuration."""
    inner = ", ".join(f"{name}={value}" for name, value in settings.items())
    kind = "a V1 LLM engine" if v1 else "an LLM engine"
    return f"INFO 12-20 03:13:58 llm_engine.py:249] Initializing {kind} (v{version}) with config: {inner}"


def too_long_in_tokens(length, tokens):
    """V0's error."""
    return (
        f"ValueError: The model's max seq len ({length}) is larger than the maximum number of "
        f"tokens that can be stored in KV cache ({tokens}). Try increasing `gpu_memory_utilization` "
        "or decreasing `max_model_len` when initializing the engine."
    )


def too_long_in_bytes(length, needed, available, estimate=None, word="models's"):
    """V1's error."""
    guess = ""
    if estimate is not None:
        guess = f"Based on the available memory, the estimated maximum model length is {estimate}. "
    return (
        f"ValueError: To serve at least one request with the {word} max seq len ({length}), "
        f"({needed} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({available} GiB). {guess}Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine."
    )


def busy(free, total, share, wanted, device=""):
    """Refused because others hold memory, from 0.9.1."""
    return (
        f"ValueError: Free memory on device{device} ({free}/{total} GiB) on startup is less than "
        f"desired GPU memory utilization ({share}, {wanted} GiB). Decrease GPU memory utilization "
        "or reduce GPU memory used by other processes."
    )


NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
    "when initializing the engine."
)
