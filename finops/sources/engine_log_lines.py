"""The lines of a vLLM log that tell of memory, over all versions (method §8.2).

Every rule gives the figures of one line by name. Rules of a *worker* are true of the process that
prints the line, rules of an *engine* of all its workers together, printed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# No memory and no setting has more digits; a longer run of them is not read as a figure.
GIB: Final = r"(?<![0-9.])(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)"
WHOLE: Final = r"([0-9]{1,15})(?![0-9])"
_G: Final = rf"{GIB}\s?Gi?B"
_NUMBER: Final = r"(?<![0-9,])([0-9][0-9,]{0,18})(?![0-9]|,[0-9])"


@dataclass(frozen=True, slots=True)
class LineRule:
    """One form of a line: what it tells, in the order of its groups."""

    scope: str  # worker, engine or setting
    pattern: re.Pattern[str]
    names: tuple[str, ...]


def _rule(scope: str, pattern: str, *names: str) -> LineRule:
    return LineRule(scope, re.compile(pattern), names)


_FREE_ON_DEVICE: Final = (
    rf"Free memory on device(?: [\w:]+)? \({GIB}/{GIB} GiB\) on startup\. "
    rf"Desired GPU memory utilization is \({GIB}, {GIB} GiB\)"
)
_IN_USE: Final = r"[Cc]urrent kv cache memory in use is"

RULES: Final = (
    # V0 from 0.6.5: one message over several lines.
    _rule("worker", rf"total_gpu_memory \({_G}\) x gpu_memory_utilization \({GIB}\) = {_G}",
          "total", "utilization", "budget"),
    _rule("worker", rf"model weights take {_G}; non_torch_memory takes {_G}; PyTorch activation peak"
          rf" memory takes {_G}; the rest of the memory reserved for KV Cache is {_G}",
          "weights", "non_torch", "activation_peak", "kv"),
    # One message from 0.10.2 on; its terms changed in 0.27.
    _rule("worker", _FREE_ON_DEVICE, "free_at_start", "total", "utilization", "budget"),
    _rule("worker", rf"Actual usage is {_G} for weight, {_G} for peak activation, {_G} for "
          rf"non-torch memory", "weights", "activation_peak", "non_torch"),
    _rule("worker", rf"{_G} for consumed memory \(weights \+ non-torch\)", "weights_and_non_torch"),
    _rule("worker", rf"consumed memory \(weights \+ non-torch\)[^,;]*, {_G} for peak activation",
          "activation_peak"),
    _rule("worker", rf"{_G} for CUDAGraph memory", "graphs"),
    _rule("worker", rf"{_IN_USE} {_G}", "kv"),
    _rule("worker", rf"{_IN_USE} {WHOLE} bytes", "kv_exact"),
    _rule("worker", rf"Initial free memory {_G},? reserved {_G} memory for KV Cache as specified",
          "free_at_start", "kv"),
    _rule("worker", rf"Available KV cache memory: {_G}", "kv"),
    _rule("worker", rf"Explicitly set \({GIB}/{GIB}\) GiB for KV cache", "kv", "total"),
    _rule("worker", rf"(?:Loading model weights|Model loading) took {_G}", "weights"),
    _rule("worker", rf"Estimated CUDA graph memory: {_G}", "graphs_estimate"),
    _rule("worker", rf"CUDA graph pool memory: {_G} \(actual\)", "graphs"),
    _rule("worker", rf"Graph capturing finished in \S+ secs?(?:onds)?, took {_G}", "graphs"),
    _rule("engine", rf"# (?!CPU\b)\w+ blocks: {_NUMBER}, # CPU blocks: {_NUMBER}", "kv_blocks", ""),
    _rule("engine", rf"KV cache size: {_NUMBER} tokens", "kv_tokens"),
    _rule("engine", rf"Maximum concurrency for {_NUMBER} tokens per request: "
          r"([0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?)x",
          "max_model_len", "max_concurrency"),
    _rule("engine", rf"Using max model len {_NUMBER}", "max_model_len"),
    _rule("engine", rf"Auto-fit max_model_len: reduced from {_NUMBER} to {_NUMBER}",
          "", "max_model_len"),
)  # fmt: skip

_QUOTED: Final = r"'?[:=]\s*\[?'?"
SETTINGS: Final = {
    "utilization": re.compile(
        rf"gpu_memory_utilization{_QUOTED}([0-9]{{0,9}}\.?[0-9]{{1,9}})(?![0-9.])"
    ),
    "block_size": re.compile(rf"\bblock_size{_QUOTED}{WHOLE}"),
    "kv_cache_memory_bytes": re.compile(rf"kv_cache_memory_bytes{_QUOTED}{WHOLE}"),
    "num_gpu_blocks_override": re.compile(rf"num_gpu_blocks_override{_QUOTED}{WHOLE}"),
    "max_model_len": re.compile(rf"(?:max_model_len|max_seq_len){_QUOTED}{WHOLE}"),
    "tensor_parallel": re.compile(rf"tensor_parallel_size{_QUOTED}{WHOLE}"),
    "pipeline_parallel": re.compile(rf"pipeline_parallel_size{_QUOTED}{WHOLE}"),
    "data_parallel": re.compile(rf"data_parallel_size{_QUOTED}{WHOLE}"),
    "max_num_seqs": re.compile(rf"\bmax_num_seqs{_QUOTED}{WHOLE}"),
    "max_num_batched_tokens": re.compile(rf"\bmax_num_batched_tokens{_QUOTED}{WHOLE}"),
    "prefix_caching": re.compile(rf"\benable_prefix_caching{_QUOTED}(True|False)"),
    "custom_all_reduce_off": re.compile(rf"\bdisable_custom_all_reduce{_QUOTED}(True|False)"),
    "enforce_eager": re.compile(rf"\benforce_eager{_QUOTED}(True|False)"),
    "kv_dtype": re.compile(rf"kv_cache_dtype{_QUOTED}([\w.]+)"),
    "quantization": re.compile(rf"\bquantization{_QUOTED}([\w.-]+)"),
    "served_name": re.compile(rf"served_model_name{_QUOTED}([^',\]\)]+)"),
    "model": re.compile(r"(?<![\w])'?model'?[:=]\s*'([^']+)'"),
}
SETTING_LINES: Final = (
    "non-default args", "args: Namespace", "LLM engine", "engine args", "hunked prefill is enabled",
)  # fmt: skip

INITIALISING: Final = re.compile(r"Initializing an? (?:\w+ )?LLM engine(?: \(v([^)\s]+)\))?")
LAUNCHING: Final = re.compile(r"vLLM API server version v?([\w.+-]+)|▄.*\bversion ([\w.+-]+)\s*$")
BANNER_MODEL: Final = re.compile(r"█.*\bmodel\s+(\S+)\s*$")
RANKS: Final = re.compile(rf"rank {WHOLE} in world size {WHOLE} is assigned as")
SLEPT: Final = re.compile(rf"Sleep mode freed {_G} memory, {_G} memory is still in use")
SIZED_BY_HAND: Final = re.compile(r"as specified by kv_cache_memory_bytes config")
SIZED_IN_BYTES: Final = (
    "The cache's size was given in bytes; gpu_memory_utilization had no effect on it."
)
GREW: Final = re.compile(r"Free memory grew by")

# A line that none of these words is in tells nothing of memory.
WORTH_A_LOOK: Final = re.compile(
    r"[Mm]emory|KV|blocks|max.model.len|max seq len|oncurrency|took|LLM engine|version|args|world size|"
    r"failed to start|initialization failed|max_num_batched_tokens|█"
)
CORE: Final = re.compile(
    rb"GPU blocks: |gpu_memory_utilization \(|KV cache (?:size|memory)|for the cache blocks|V1 LLM engine|an LLM engine|"
    rb"Free memory on device|memory profiling|Loading model weights took|Model loading took|"
    rb"vLLM API server version|CUDA out of memory|Sleep mode freed|Graph capturing finished"
)


def figures(line: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What a line tells: the scope, and figures by name as they are written."""
    for rule in RULES:
        match = rule.pattern.search(line)
        if match:
            found = zip(rule.names, match.groups(), strict=True)
            yield rule.scope, {name: value.replace(",", "") for name, value in found if name}


def settings(line: str) -> dict[str, str]:
    """The settings that a line of arguments or of a configuration names; None and auto left out."""
    if not any(sign in line for sign in SETTING_LINES):
        return {}
    found = {name: match[1] for name, one in SETTINGS.items() if (match := one.search(line))}
    return {name: value.strip() for name, value in found.items() if value != "None"}
