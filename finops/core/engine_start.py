"""What one start of an engine tells in its log: memory by worker, identity, failure (method §8.2).

Logs print GiB (older ones write "GB" and mean GiB). A printed figure keeps its decimals, so that
sums can be judged by what rounding allows; bytes are the figure × 2^30 to the nearest byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from .money import add, plain, round_half_even, scale_of

GIB: Final = 1 << 30
VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Printed:
    """A figure in GiB as a log prints it."""

    gib: Decimal

    @property
    def bytes(self) -> int:
        """Bytes, rounded to the nearest."""
        return int(round_half_even(self.gib * GIB, 0))


@dataclass(frozen=True, slots=True)
class Identity:
    """Whether a log's own figures add up: budget − parts − KV cache (method §8.5)."""

    holds: bool
    difference_bytes: int
    tolerance_bytes: int


def identity(budget: Printed, parts: Iterable[Printed], kv: Printed) -> Identity:
    """Holds when |difference| ≤ ½ unit of the last printed digit × the number of figures."""
    taken = [*parts, kv]
    difference = add([budget.gib, *(-one.gib for one in taken)])
    figures = [budget, *taken]
    # All are printed by one statement, which drops closing zeros: the finest place is the unit's.
    unit = Decimal(1).scaleb(-max(scale_of(one.gib) for one in figures))
    tolerance = unit * len(figures) / 2
    return Identity(
        abs(difference) <= tolerance, Printed(difference).bytes, Printed(tolerance).bytes
    )


@dataclass(slots=True)
class Worker:
    """One worker's memory on its GPU, in bytes; None where the log does not say.

    `weights_and_non_torch_bytes` stands where newer engines print both as one; the activation peak
    is budgeted and not held all the time.
    """

    rank: int | None = None
    total_bytes: int | None = None
    budget_bytes: int | None = None
    free_at_start_bytes: int | None = None
    weights_bytes: int | None = None
    non_torch_bytes: int | None = None
    weights_and_non_torch_bytes: int | None = None
    activation_peak_bytes: int | None = None
    graphs_bytes: int | None = None
    kv_bytes: int | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    kv_tokens: int | None = None
    max_concurrency: str | None = None

    def taken_bytes(self) -> int | None:
        """What weights, non-torch memory and the activation peak take of the budget together."""
        if self.activation_peak_bytes is None:
            return None
        if self.weights_and_non_torch_bytes is not None:
            return self.weights_and_non_torch_bytes + self.activation_peak_bytes
        if self.weights_bytes is None or self.non_torch_bytes is None:
            return None
        return self.weights_bytes + self.non_torch_bytes + self.activation_peak_bytes

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that helps, or (as a wrong one) is often advised and does not.

    `suffices` is False where the log's own figures tell that it helps and is not enough alone.
    """

    kind: str
    to: str | None
    why: str
    suffices: bool = True

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"kind": self.kind, "to": self.to, "why": self.why}


@dataclass(slots=True)
class Failure:
    """Why an engine did not start, by how many bytes, and what helps."""

    kind: str
    line: int
    text: str
    needed_bytes: int | None = None
    available_bytes: int | None = None
    max_model_len: int | None = None
    kv_tokens: int | None = None
    estimated_max_model_len: int | None = None
    total_bytes: int | None = None
    utilization: str | None = None
    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    short_bytes: int | None = None
    summary: str = ""
    remedies: list[Remedy] = field(default_factory=list)
    wrong_remedies: list[Remedy] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        names = ("kind", "summary", "needed_bytes", "available_bytes", "short_bytes")
        more = ("max_model_len", "kv_tokens", "estimated_max_model_len", "free_before_bytes",
                "free_after_bytes", "line", "text")  # fmt: skip
        value: dict[str, Any] = {name: getattr(self, name) for name in (*names, *more)}
        value["remedies"] = [one.as_json() for one in self.remedies]
        value["wrong_remedies"] = [one.as_json() for one in self.wrong_remedies]
        value["not_enough_alone"] = [one.kind for one in self.remedies if not one.suffices]
        return value


@dataclass(slots=True)
class EngineStart:
    """One start of one engine; each data-parallel rank is an engine of its own."""

    engine_version: str | None = None
    model: str | None = None
    served_names: list[str] = field(default_factory=list)
    max_model_len: int | None = None
    utilization: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    data_parallel_rank: int | None = None
    kv_dtype: str | None = None
    quantization: str | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    prefix_caching: bool | None = None
    custom_all_reduce_off: bool | None = None
    enforce_eager: bool | None = None
    started: str | None = None
    line: int = 1
    workers: list[Worker] = field(default_factory=list)
    identity: Identity | None = None
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name, in the shape that `explain-log` prints."""
        special = ("workers", "identity", "failure")
        value: dict[str, Any] = {n: getattr(self, n) for n in self.__slots__ if n not in special}
        value["workers"] = [one.as_json() for one in self.workers]
        value["identity"] = self.identity and {
            "holds": self.identity.holds,
            "difference_bytes": self.identity.difference_bytes,
            "tolerance_bytes": self.identity.tolerance_bytes,
        }
        value["failure"] = self.failure and self.failure.as_json()
        return value


def version_of(text: str | None) -> tuple[int, int, int] | None:
    """`0.10.2` as numbers; None where there is no version."""
    match = VERSION.match(text or "")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def default_utilization(version: str | None) -> Decimal | None:
    """The share of device memory an engine takes unless told otherwise: 0.9 to vLLM 0.19, 0.92
    from 0.20 (method §8.6); None when the version is not known."""
    known = version_of(version)
    if known is None:
        return None
    return Decimal("0.92") if known >= (0, 20, 0) else Decimal("0.9")


def charges_others(version: str | None) -> bool:
    """Whether this vLLM counts other processes' memory against its own budget: to 0.2.7, and in
    V1 from 0.8 to 0.9.0."""
    known = version_of(version)
    return known is not None and (known <= (0, 2, 7) or (0, 8, 0) <= known <= (0, 9, 0))


def gib(value: int) -> str:
    """Bytes for sentences: GiB with two decimals, MiB where that would say little."""
    if 0 < abs(value) < GIB // 10:
        return f"{plain(round_half_even(Decimal(value) / (1 << 20), 1))} MiB"
    return f"{plain(round_half_even(Decimal(value) / GIB, 2))} GiB"
