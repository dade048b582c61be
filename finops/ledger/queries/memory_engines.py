"""An engine and a GPU over a period: when each was there, and what logs and gauges tell of it (§8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from finops.core.kv_agreement import Agreement
from finops.core.memory import CacheRow, KvFigures, kv_figures, presence
from finops.core.money import whole_or_none
from finops.core.period import milliseconds
from finops.core.presence import Span, at_once, spans_of
from finops.core.slices import is_partition
from finops.ledger.models import DeviceHour, EngineStart, Series

from .engines_twice import once, readers
from .evidence import KvBytes


@dataclass(slots=True)
class EngineMemory:
    """One engine over the period: its hours, the start it had, and the GPUs it was on.

    `told_again` are others that may be this engine, read by another job or source; `counted_as` is
    the one of them that counts where they are added up, None where this one does; `set_aside` are
    those that a rule put out of scope and that count no more; `begun` is when its last process had been
    started at the latest.
    """

    series: Series
    slug: str | None
    start: EngineStart | None
    kv: KvBytes | None
    stated_longest: int | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    rows: list[CacheRow] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    by_hour: dict[datetime, CacheRow] = field(default_factory=dict)
    spans: dict[int, Span] = field(default_factory=dict)
    agreement: Agreement | None = None
    out_of_scope: bool = False
    told_again: list[EngineMemory] = field(default_factory=list)
    set_aside: list[EngineMemory] = field(default_factory=list)
    counted_as: EngineMemory | None = None
    begun: datetime | None = None
    spare_gpus: int = 0

    def __post_init__(self) -> None:
        self.by_hour = {row.hour: row for row in self.rows}
        self.spans = presence(self.rows)

    def there(self, hour: datetime | None) -> list[Span]:
        """When the engine was there, in one hour or in the whole period for None."""
        return _within(self.spans, hour)

    def rows_of(self, hour: datetime | None) -> list[CacheRow]:
        """The rows of one hour, of the whole period for None."""
        if hour is None:
            return self.rows
        return [self.by_hour[hour]] if hour in self.by_hour else []

    @property
    def name(self) -> str:
        """Pod or address, and the engine's number where it has one."""
        name = self.series.labels.get("pod") or self.series.target.instance
        return f"{name} engine {self.series.engine}" if self.series.engine else name

    @property
    def reader(self) -> tuple[str, str]:
        """The source that told of it, and the scrape job there."""
        return self.series.target.source.name, self.series.target.job

    @property
    def read_ms(self) -> int:
        """How long it was read in the period, stale gauges included."""
        return sum(row.observed_ms + row.stale_ms for row in self.rows)

    @property
    def counts(self) -> bool:
        """Whether it counts among the engines of its workload."""
        return self.counted_as is None or self.counted_as.slug != self.slug

    @property
    def told_by(self) -> str | None:
        """Who tells of it, in words, where another may tell of the same engine and no rule decided."""
        return readers(self, ()) if self.told_again else None

    @property
    def tenant(self) -> tuple[str, str]:
        """Namespace and pod, as the exporters of GPUs name them."""
        labels = self.series.labels
        pod = labels.get("exported_pod") or labels.get("pod", "")
        return labels.get("exported_namespace") or labels.get("namespace", ""), pod

    @property
    def gpus_known(self) -> bool:
        """Whether GPU metrics or the log tell how many GPUs the engine has."""
        return bool(self.devices) or self.start is not None

    @property
    def gpus(self) -> int:
        """GPUs of the engine: as seen, else by its log, else one."""
        return len(self.devices) or self.gpus_by_log

    @property
    def gpus_by_log(self) -> int:
        """How many GPUs its log tells; one without a log."""
        told = self.start.figures if self.start else {}
        parallel = (told.get("tensor_parallel") or 1) * (told.get("pipeline_parallel") or 1)
        return int(max(parallel, len(told.get("workers") or ())))

    @property
    def gpus_told(self) -> int | None:
        """How many GPUs its log says it is spread over; None where no log says so."""
        told = self.start.figures if self.start else {}
        return self.gpus_by_log if told.get("tensor_parallel") else None

    @property
    def longest(self) -> int | None:
        """The longest request: as people stated it of the workload, else by the log."""
        told = self.start.figures.get("max_model_len") if self.start else None
        return self.stated_longest or told

    def figures(self) -> KvFigures | None:
        """Tokens and bytes of the cache."""
        size = self.kv.bytes_per_token if self.kv else None
        return kv_figures(self.rows, size, self.longest)

    def worker(self, number: int) -> Mapping[str, Any]:
        """What the log tells of the worker on one of the engine's GPUs, by rank; without a log
        what the engine's own gauges tell."""
        workers = self.workers
        return workers[min(number, len(workers) - 1)]

    @property
    def workers(self) -> Sequence[Mapping[str, Any]]:
        """What the log tells of each worker, by rank; without a log one, by the engine's gauges."""
        told = self.start.figures.get("workers") if self.start else None
        return [_apart(one) for one in told] if told else [self._gauges()]

    def _gauges(self) -> dict[str, int]:
        names = ("weights_bytes", "kv_bytes", "graphs_bytes")
        return {n: int(self.configuration[n]) for n in names if n in self.configuration}

    @property
    def is_told(self) -> bool:
        """Whether a log or the engine's own gauges tell its weights."""
        return self.start is not None or bool(self._gauges())

    def reserved_bytes(self, row: CacheRow, number: int) -> int | None:
        """The cache on one GPU: tokens × bytes of a token, else as the log prints it (§8.3)."""
        if "kv_bytes" in self.configuration:
            return int(self.configuration["kv_bytes"])
        if self.kv is not None and row.pool_tokens is not None:
            return row.pool_tokens * self.kv.bytes_per_token
        size = self.worker(number).get("kv_bytes")
        if size is None:
            return whole_or_none(self.configuration.get("kv_cache_memory_bytes", ""))
        return int(size)


@dataclass(slots=True)
class Device:
    """One GPU over the period, and whose exporter tells of it (`dcgm`, `nvidia-smi`, `amd`)."""

    name: str
    exporter: str = ""
    rows: list[DeviceHour] = field(default_factory=list)
    engines: list[tuple[EngineMemory, int]] = field(default_factory=list)
    by_hour: dict[datetime, DeviceHour] = field(default_factory=dict)
    spans: dict[int, Span] = field(default_factory=dict)

    def close(self) -> None:
        """Once all its rows are known."""
        self.by_hour = {row.hour: row for row in self.rows}
        hours = [(milliseconds(row.hour), row.observed_ms, None) for row in self.rows]
        self.spans = spans_of(hours)

    def there(self, hour: datetime | None) -> list[Span]:
        """When it was measured, in one hour or in the whole period for None."""
        return _within(self.spans, hour)

    @property
    def engines_at_once(self) -> int:
        """The most engines that were on it at one time: those that follow each other are one."""
        engines = once(engine for engine, _ in self.engines)
        return at_once([(1, engine.spans.values()) for engine in engines])

    def rows_of(self, hour: datetime | None) -> list[DeviceHour]:
        """The rows of one hour, of the whole period for None."""
        if hour is None:
            return self.rows
        return [self.by_hour[hour]] if hour in self.by_hour else []

    @property
    def tenants(self) -> set[tuple[str, str]]:
        """Namespaces and pods that held it in the period."""
        return {(space, pod) for row in self.rows for space, pod in row.tenants}

    @property
    def shared(self) -> bool:
        """Whether several pods held it at one instant."""
        return any(row.shared for row in self.rows)

    @property
    def sliced(self) -> bool:
        """Whether it is a MIG instance."""
        told = "/" in self.name or any(row.labels.get("GPU_I_PROFILE") for row in self.rows)
        return told and not self.partitioned

    @property
    def partitioned(self) -> bool:
        """Whether it is a compute partition of an AMD card."""
        return any(is_partition(row.labels) for row in self.rows)


def _apart(worker: Mapping[str, Any]) -> Mapping[str, Any]:
    """A worker's figures with non-torch memory by itself: from vLLM 0.27 a log prints it as one with
    the weights, and the weights alone on another line."""
    both, weights = worker.get("weights_and_non_torch_bytes"), worker.get("weights_bytes")
    if worker.get("non_torch_bytes") is not None or both is None or weights is None:
        return worker
    return {**worker, "non_torch_bytes": both - weights} if both >= weights else worker


def _within(spans: Mapping[int, Span], hour: datetime | None) -> list[Span]:
    if hour is None:
        return list(spans.values())
    span = spans.get(milliseconds(hour))
    return [] if span is None else [span]
