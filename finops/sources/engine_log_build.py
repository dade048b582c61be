"""Putting one engine's start together from the lines of its log."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from finops.core.engine_start import (
    GIB,
    EngineStart,
    Failure,
    Identity,
    Printed,
    Worker,
    identity,
)
from finops.core.money import plain, round_half_even
from finops.core.remedies import advise
from finops.sources.engine_log_lines import SIZED_IN_BYTES

# Rank as told, pipeline and tensor rank, process of a worker that tells neither.
Key = tuple[int | None, int | None, int | None, str | None]
BLOCK_SIZES: Final = (16, 8, 32, 64, 128, 1)
WHOLE: Final = (
    "max_model_len", "tensor_parallel", "pipeline_parallel",
    "kv_cache_memory_bytes", "num_gpu_blocks_override", "max_num_seqs", "max_num_batched_tokens",
)  # fmt: skip
TEXTS: Final = ("engine_version", "model", "kv_dtype", "quantization")
YES_OR_NO: Final = ("prefix_caching", "custom_all_reduce_off", "enforce_eager")
PARTS: Final = ("weights", "non_torch", "activation_peak")
NEWER_PARTS: Final = ("weights_and_non_torch", "activation_peak")


class WorkerFigures:
    """The figures one process printed."""

    def __init__(self) -> None:
        self.printed: dict[str, Printed] = {}
        self.utilization: str | None = None
        self.exact_kv: int | None = None

    def add(self, figures: Mapping[str, str]) -> None:
        """Takes what one line tells; a later line overrules, as it tells what came of it."""
        for name, text in figures.items():
            if name == "utilization":
                self.utilization = text
            elif name == "kv_exact":
                self.exact_kv = int(text)
                self.printed["kv"] = Printed(round_half_even(Decimal(text) / GIB, 2))
            else:
                self.printed[name] = Printed(Decimal(text))

    def bytes_of(self, name: str) -> int | None:
        """The bytes of a figure; None where it was not printed."""
        found = self.printed.get(name)
        return None if found is None else found.bytes

    def identity(self) -> Identity | None:
        """Whether budget − parts = KV cache; None where the log does not print all of them."""
        for names in (NEWER_PARTS, PARTS):
            if all(name in self.printed for name in ("budget", "kv", *names)):
                parts = [self.printed[name] for name in names]
                return identity(self.printed["budget"], parts, self.printed["kv"])
        return None

    def worker(self, rank: int | None) -> Worker:
        """The worker's memory in bytes."""
        graphs = self.bytes_of("graphs")
        kv = self.exact_kv if self.exact_kv is not None else self.bytes_of("kv")
        return Worker(
            rank=rank,
            total_bytes=self.bytes_of("total"),
            budget_bytes=self.bytes_of("budget"),
            free_at_start_bytes=self.bytes_of("free_at_start"),
            weights_bytes=self.bytes_of("weights"),
            non_torch_bytes=self.bytes_of("non_torch"),
            weights_and_non_torch_bytes=self.bytes_of("weights_and_non_torch"),
            activation_peak_bytes=self.bytes_of("activation_peak"),
            graphs_bytes=self.bytes_of("graphs_estimate") if graphs is None else graphs,
            kv_bytes=kv,
        )


class Building:
    """One engine's start while its log is read."""

    def __init__(self, header: Mapping[str, str], line: int) -> None:
        self.start = EngineStart(line=line)
        self.is_initialised = False
        self._workers: dict[Key, WorkerFigures] = {}
        self._engine: dict[str, str] = {}
        self.set(header)

    def set(self, found: Mapping[str, str]) -> None:
        """Settings, and figures printed once for the engine."""
        for name, text in found.items():
            if name == "data_parallel":
                # Inside one of the engines it reads 1.
                self.start.data_parallel = max(self.start.data_parallel or 1, int(text))
            elif name in WHOLE:
                setattr(self.start, name, int(text))
            elif name in TEXTS:
                setattr(self.start, name, text)
            elif name in YES_OR_NO:
                setattr(self.start, name, text == "True")
            elif name == "served_name":
                if text not in self.start.served_names:
                    self.start.served_names.append(text)
            elif name == "utilization":
                self.start.utilization = _share(text)
            elif name == "kv_tokens" and name in self._engine:
                # Old versions print it for every worker; the least decides.
                self._engine[name] = min(text, self._engine[name], key=int)
            else:
                self._engine[name] = text

    def worker(self, key: Key) -> WorkerFigures:
        """The figures of one process."""
        return self._workers.setdefault(key, WorkerFigures())

    def take_workers(self) -> list[WorkerFigures]:
        """The workers, taken out."""
        found, self._workers = list(self._workers.values()), {}
        return found

    def adopt(self, figures: WorkerFigures) -> None:
        """A worker whose rank is not told."""
        self._workers[None, None, None, f"stranger {len(self._workers)}"] = figures

    def note(self, text: str) -> None:
        """Something a reader must know, once."""
        if text not in self.start.notes:
            self.start.notes.append(text)

    def fail(self, failure: Failure) -> None:
        """The first cause stands; a mere "failed to start" gives way to it."""
        known = self.start.failure
        if known is None or (known.kind == "unknown" and failure.kind != "unknown"):
            self.start.failure = failure

    def has_figures(self) -> bool:
        """Whether the start told figures or failed: another start may follow."""
        return bool(self._workers or "kv_tokens" in self._engine or self.start.failure)

    def tells(self) -> bool:
        """Whether anything was told of the engine."""
        told = self.is_initialised or self.has_figures() or "kv_blocks" in self._engine
        return told or bool(self.start.notes)

    def finish(self) -> EngineStart:
        """The start, with what follows from its lines."""
        start = self.start
        for key in sorted(self._workers, key=self._order):
            figures = self._workers[key]
            start.workers.append(figures.worker(self._rank(key)))
            if figures.utilization is not None:
                start.utilization = _share(figures.utilization)
            found = figures.identity()
            if found is not None and (start.identity is None or start.identity.holds):
                start.identity = found
        if not start.workers and start.failure is not None and start.failure.total_bytes:
            start.workers.append(self._from_failure(start.failure))
        if not start.workers and self._engine.keys() & {"kv_tokens", "kv_blocks"}:
            start.workers.append(Worker())
        if start.workers:
            self._once(start.workers[0])
        self._exact_bytes()
        self._explain()
        advise(start)
        return start

    def _from_failure(self, failure: Failure) -> Worker:
        worker = Worker(total_bytes=failure.total_bytes)
        if failure.kind == "device-busy":
            worker.budget_bytes = failure.needed_bytes
            worker.free_at_start_bytes = failure.available_bytes
            self.start.utilization = self.start.utilization or failure.utilization
        return worker

    def _order(self, key: Key) -> tuple[bool, int, str]:
        rank = self._rank(key)
        # The driver of old engines prints without a name: it comes first.
        return (rank is None and key[3] is not None, -1 if rank is None else rank, key[3] or "")

    def _rank(self, key: Key) -> int | None:
        rank, pipeline, tensor, _ = key
        if pipeline is None or tensor is None:
            return rank
        tensor_parallel = self.start.tensor_parallel or 1 + max(k[2] or 0 for k in self._workers)
        return pipeline * tensor_parallel + tensor

    def _once(self, first: Worker) -> None:
        """Figures that are printed once for an engine stand on its first worker."""
        told = self._engine
        first.kv_blocks = int(told["kv_blocks"]) if "kv_blocks" in told else None
        first.kv_tokens = int(told["kv_tokens"]) if "kv_tokens" in told else None
        first.block_size = int(told["block_size"]) if "block_size" in told else None
        first.max_concurrency = told.get("max_concurrency")
        failure = self.start.failure
        if failure is not None and first.kv_tokens is None:
            first.kv_tokens = failure.kv_tokens
        if first.kv_blocks and first.block_size is None:
            first.block_size = self._block_size(first)
        if first.kv_blocks and first.block_size and first.kv_tokens is None:
            first.kv_tokens = first.kv_blocks * first.block_size
        if first.kv_tokens and first.kv_blocks is None and failure and failure.kv_tokens:
            size = first.block_size or 16
            if first.kv_tokens % size == 0:
                first.kv_blocks, first.block_size = first.kv_tokens // size, size

    def _block_size(self, first: Worker) -> int | None:
        """Old engines print blocks and concurrency: the block size is the one that fits both."""
        if first.kv_tokens and first.kv_blocks:
            return first.kv_tokens // first.kv_blocks
        length, told = self.start.max_model_len, first.max_concurrency
        if not length or told is None or not first.kv_blocks:
            return None
        for size in BLOCK_SIZES:
            times = Decimal(first.kv_blocks * size) / length
            if abs(times - Decimal(told)) <= Decimal("0.005"):
                return size
        return None

    def _exact_bytes(self) -> None:
        """A cache whose size was given in bytes has that size, where the print agrees."""
        given = self.start.kv_cache_memory_bytes
        if given is None:
            return
        for worker in self.start.workers:
            if worker.kv_bytes is not None and abs(worker.kv_bytes - given) <= GIB // 200:
                worker.kv_bytes = given

    def _is_hybrid(self) -> bool:
        """Whether tokens and concurrency contradict each other: several kinds of layers share the
        pool then, and blocks × block size are not its tokens (method §8.3)."""
        length = self.start.max_model_len
        first = self.start.workers[0] if self.start.workers else Worker()
        if not length or first.kv_tokens is None or first.max_concurrency is None:
            return False
        times = Decimal(first.kv_tokens) / length
        return abs(times - Decimal(first.max_concurrency)) > max(Decimal("0.02"), times / 100)

    def _explain(self) -> None:
        start = self.start
        if self._is_hybrid():
            self.note("Tokens and concurrency do not agree: several kinds of layers share the "
                      "pool. Its size in bytes counts, not blocks × block size.")  # fmt: skip
        if start.kv_cache_memory_bytes is not None:
            self.note(SIZED_IN_BYTES)
        if start.num_gpu_blocks_override is not None:
            self.note("The number of blocks was given by hand; the cache is not sized by memory.")
        if start.identity is not None and not start.identity.holds:
            self.note("The log's own figures do not add up: budget − parts is not the KV cache.")


def _share(text: str) -> str:
    return plain(Decimal(text).normalize())
