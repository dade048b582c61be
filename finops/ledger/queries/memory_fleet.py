"""Engines and GPUs of a period, with the logs that tell of them, joined by namespace and pod (§8).

Exporters that know no pods are joined by host, where that leaves no doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from finops.core.allocation import OUT_OF_SCOPE, WORKLOAD
from finops.core.kv_agreement import Agreement
from finops.core.memory import CacheRow, KvFigures, kv_figures, presence
from finops.core.money import whole_or_none
from finops.core.period import Period, milliseconds
from finops.core.presence import Span, at_once, spans_of
from finops.core.slices import is_partition
from finops.ledger.models import CacheHour, DeviceHour, EngineStart, Series, Workload
from finops.sources.engines import role_of

from .allocation import assign_series
from .as_of import known_by
from .engines_twice import once, readers, tell_once
from .evidence import Evidence, KvBytes, names_shown
from .presence import HOUR, begun_by, placed

CACHE_FIELDS = (
    "hour", "blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
    "active_block_ms", "peak_blocks", "peak_ms", "peak_running", "stale_ms",
)  # fmt: skip


_Place = tuple[int, str]
"""A source and a host in it: two sources may each have a host of one name. Where one source alone
tells of a host's GPUs, and one alone of its engines, it is one host, whichever sources they are."""


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


@dataclass(slots=True)
class Fleet:
    """Engines and GPUs of a period, joined by namespace and pod, else by host. `doubles` are told by
    a job or source that a rule put out of scope, beside the engines that count."""

    period: Period
    engines: list[EngineMemory]
    devices: dict[str, Device]
    doubles: list[EngineMemory] = field(default_factory=list)


def fleet(period: Period, as_of: datetime | None = None) -> Fleet:
    """Reads a period's engines and GPUs once."""
    evidence = Evidence(as_of, names_shown(period, assign_series(as_of), as_of))
    known = {w.slug: w for w in Workload.objects.all()}
    engines = _engines(period, evidence, known, as_of)
    devices = _devices(period, as_of)
    held: dict[tuple[str, str], list[Device]] = {}
    for device in devices.values():
        device.close()
        for tenant in device.tenants:
            held.setdefault(tenant, []).append(device)
    numbers: dict[tuple[str, str], set[str]] = {}
    for engine in engines:
        numbers.setdefault(engine.tenant, set()).add(engine.series.engine)
    by_host = _by_host(engines, devices)
    for engine in engines:
        mine = list(held.get(engine.tenant, ())) if engine.tenant[1] else []
        mine.sort(key=_in_order)
        there = len(mine)
        mine = _own(mine, engine.series.engine, numbers[engine.tenant], engine.gpus_told)
        if engine.gpus_told:
            engine.spare_gpus = max(0, there - len(mine) * len(numbers[engine.tenant]))
        mine = mine or by_host.get(_place(engine), [])
        engine.devices = [d.name for d in mine]
        for number, device in enumerate(mine):
            device.engines.append((engine, number))
    known_fleet = Fleet(period, engines, devices)
    tell_once(known_fleet)
    return known_fleet


def _by_host(
    engines: list[EngineMemory], devices: Mapping[str, Device]
) -> dict[_Place, list[Device]]:
    """GPUs of hosts without pods whose engines can only be on them, by where the engines are: a
    host with one GPU, or one with one engine that has all of them. Elsewhere nothing tells which
    GPU is whose."""
    found: dict[_Place, list[Device]] = {}
    for device in devices.values():
        host = _host(device.rows[-1].labels.get("instance", ""))
        if host and not device.tenants:
            found.setdefault((device.rows[-1].target.source_id, host), []).append(device)
    for together in found.values():
        together.sort(key=_in_order)
    on: dict[_Place, list[EngineMemory]] = {}
    for engine in engines:
        on.setdefault(_place(engine), []).append(engine)
    seen = Counter(host for _, host in found)
    run = Counter(host for _, host in on)
    only = {
        host: mine
        for (_, host), mine in found.items()
        if seen[host] == run[host] == 1 and not _OWN_HOST.fullmatch(host)
    }
    return {
        place: mine
        for place, there in on.items()
        if (mine := only.get(place[1]) or found.get(place))
        and (len(mine) == 1 or (len(there) == 1 and there[0].gpus == len(mine)))
    }


_OWN_HOST = re.compile(r"localhost|127\..*|0\.0\.0\.0|\[?::1?\]?", re.IGNORECASE)
"""What each machine calls itself: of two sources these are two hosts."""


def _place(engine: EngineMemory) -> _Place:
    return engine.series.target.source_id, _host(engine.series.target.instance)


def _host(instance: str) -> str:
    """The host of an address, without its port."""
    name, _, port = instance.rpartition(":")
    return name if port.isdigit() else instance


def _own(devices: list[Device], number: str, numbers: set[str], told: int | None) -> list[Device]:
    """The GPUs of one of the data-parallel engines in a pod: vLLM deals them out in order, to each as
    many as its log tells; where no log does, or of more than there are, all in equal parts."""
    order = sorted(numbers, key=lambda one: (len(one), one))
    each = told or 0
    if not each or each * len(order) > len(devices):
        each = 0 if len(devices) % len(order) else len(devices) // len(order)
    place = order.index(number)
    return devices[place * each : (place + 1) * each] if each else devices


def _in_order(device: Device) -> tuple[int, str]:
    return place_of(device.rows[-1]), device.name


def place_of(row: DeviceHour) -> int:
    """The number of a GPU among those of its machine; 0 where the exporter tells none."""
    text = row.labels.get("gpu") or row.labels.get("gpu_id") or ""
    return whole_or_none(text) or 0


def _engines(
    period: Period,
    evidence: Evidence,
    known: Mapping[str, Workload],
    as_of: datetime | None,
) -> list[EngineMemory]:
    assign = assign_series(as_of)
    hours = CacheHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    rows: dict[int, list[CacheRow]] = {}
    settings: dict[int, Mapping[str, str]] = {}
    named = newest.values_list("series_id", "configuration", *CACHE_FIELDS)
    for series_id, configuration, *values in named:
        settings[series_id] = configuration
        rows.setdefault(series_id, []).append(CacheRow(*values))
    series = {s.pk: s for s in Series.objects.filter(pk__in=rows).select_related("target__source")}
    rows = placed(rows, series, as_of)
    begun = begun_by(rows, series, period, as_of)
    kv: dict[tuple[str, int | None], KvBytes | None] = {}
    found = []
    for one in series.values():
        last = rows[one.pk][-1]
        place = assign(one.rule_labels, last.hour)
        slug = place.target if place.kind == WORKLOAD else None
        start = evidence.start_of(
            one.labels, begun[one.pk], last.hour + HOUR, slug=slug,
            model=known[slug].model if slug else None, pool_tokens=last.pool_tokens, engine=one.engine,
        )  # fmt: skip
        mine = _kv_bytes(evidence, known[slug], start, kv) if slug else None
        longest = known[slug].max_model_len if slug else None
        engine = EngineMemory(one, slug, start, mine, longest, settings[one.pk], rows[one.pk])
        engine.out_of_scope, engine.begun = place.kind == OUT_OF_SCOPE, begun[one.pk]
        engine.agreement = evidence.agreement_of(start) if start else None
        found.append(engine)
    return sorted(found, key=lambda e: (e.slug or "", e.name, e.series.pk))


def _kv_bytes(
    evidence: Evidence,
    workload: Workload,
    start: EngineStart | None,
    known: dict[tuple[str, int | None], KvBytes | None],
) -> KvBytes | None:
    """The bytes of a token of an engine with this start; `known` keeps what was worked out."""
    key = workload.slug, start.pk if start else None
    if key not in known:
        known[key] = evidence.kv_bytes(workload, start)
    return known[key]


def device_rows(period: Period, as_of: datetime | None) -> Iterable[DeviceHour]:
    """The hours of all GPUs as every exporter tells them, the exporters of each in order."""
    hours = DeviceHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    return (
        hours.order_by("device", "target_id", "hour", "-revision")
        .distinct("device", "target_id", "hour")
        .select_related("target__source")
    )


def _devices(period: Period, as_of: datetime | None) -> dict[str, Device]:
    """GPUs by UUID; where two exporters tell of one, the first by number counts."""
    found: dict[str, Device] = {}
    first: dict[str, int] = {}
    for row in device_rows(period, as_of):
        if first.setdefault(row.device, row.target_id) == row.target_id:
            found.setdefault(row.device, Device(row.device)).rows.append(row)
    exporters = _exporters(first.values())
    for name, device in found.items():
        device.exporter = exporters.get(first[name], "")
    return _without_sliced(found)


def _exporters(targets: Iterable[int]) -> dict[int, str]:
    """Whose exporter each target is, by the name of its gauge of used memory."""
    told = Series.objects.filter(target_id__in=set(targets), role="device_used_bytes")
    named = told.order_by().values_list("target_id", "metric").distinct()
    return {target: role.engine for target, metric in named if (role := role_of(metric))}


def _without_sliced(devices: dict[str, Device]) -> dict[str, Device]:
    """A card whose MIG instances are all measured is those instances: it is not added to them."""
    slices: dict[str, list[Device]] = {}
    for name, device in devices.items():
        card, _, part = name.partition("/")
        if part:
            slices.setdefault(card, []).append(device)
    whole = {
        card
        for card, parts in slices.items()
        if all(row.total_bytes is not None for part in parts for row in part.rows)
    }
    return {name: device for name, device in devices.items() if name not in whole}
