"""The memory table by GPU, engine or workload over a period (method §8.5, §8.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from finops.core.allocation import WORKLOAD
from finops.core.memory import CacheRow, KvFigures, kv_figures, sentence
from finops.core.memory_table import Means, Table, added, table_of
from finops.core.money import divide, plain, round_half_even
from finops.core.period import Period, instant_of, rfc3339
from finops.ledger.models import CacheHour, DeviceHour, EngineStart, Series, Workload

from .allocation import assign_series
from .evidence import Evidence, KvBytes
from .reading import read

BY = ("gpu", "engine", "workload")
CACHE_FIELDS = (
    "hour", "blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
    "active_block_ms", "peak_blocks", "peak_ms", "peak_running", "stale_ms",
)  # fmt: skip
SHARED = "several pods hold this GPU at once (time-slicing or MPS): one may starve the other"
SLICED = "a MIG instance: figures are those of the slice where the exporter tells them"
NO_DEVICE = "no GPU metrics for this engine: device total not measured"
NO_LOG = "no start-up log of this start: weights, graphs and non-torch memory not measured"
STALE = "gauges stood still while no tokens moved, or the engine slept: left out of averages"


@dataclass(slots=True)
class EngineMemory:
    """One engine over the period: its hours, the start it had, and the GPUs it was on."""

    series: Series
    slug: str | None
    start: EngineStart | None
    kv: KvBytes | None
    stated_longest: int | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    rows: list[CacheRow] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Pod or address, and the engine's number where it has one."""
        name = self.series.labels.get("pod") or self.series.target.instance
        return f"{name} engine {self.series.engine}" if self.series.engine else name

    @property
    def tenant(self) -> tuple[str, str]:
        """Namespace and pod, as the exporters of GPUs name them."""
        labels = self.series.labels
        pod = labels.get("exported_pod") or labels.get("pod", "")
        return labels.get("exported_namespace") or labels.get("namespace", ""), pod

    @property
    def gpus(self) -> int:
        """GPUs of the engine: as seen, else by its log, else one."""
        told = self.start.figures if self.start else {}
        parallel = (told.get("tensor_parallel") or 1) * (told.get("pipeline_parallel") or 1)
        return len(self.devices) or int(max(parallel, len(told.get("workers") or ())))

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
        """What the log tells of the worker on one of the engine's GPUs, by rank."""
        workers = (self.start.figures.get("workers") if self.start else None) or [{}]
        found: Mapping[str, Any] = workers[min(number, len(workers) - 1)]
        return found

    def reserved_bytes(self, row: CacheRow, number: int) -> int | None:
        """The cache on one GPU: tokens × bytes of a token, else as the log prints it (§8.3)."""
        if self.kv is not None and row.pool_tokens is not None:
            return row.pool_tokens * self.kv.bytes_per_token
        size = self.worker(number).get("kv_bytes")
        given = self.configuration.get("kv_cache_memory_bytes", "")
        if size is None and given.isdigit():
            return int(given)
        return None if size is None else int(size)


@dataclass(slots=True)
class Device:
    """One GPU over the period."""

    name: str
    rows: list[DeviceHour] = field(default_factory=list)
    engines: list[tuple[EngineMemory, int]] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        """Whether several pods held it at one instant."""
        return any(row.shared for row in self.rows)

    @property
    def sliced(self) -> bool:
        """Whether it is a MIG instance."""
        return "/" in self.name or any(row.labels.get("GPU_I_PROFILE") for row in self.rows)


@dataclass(slots=True)
class Fleet:
    """Engines and GPUs of a period, joined by namespace and pod."""

    period: Period
    engines: list[EngineMemory]
    devices: dict[str, Device]


def fleet(period: Period, as_of: datetime | None = None) -> Fleet:
    """Reads a period's engines and GPUs once."""
    evidence = Evidence(as_of)
    known = {w.slug: w for w in Workload.objects.all()}
    kv = {slug: evidence.kv_bytes(w) for slug, w in known.items()}
    engines = _engines(period, evidence, known, kv)
    devices = _devices(period)
    for engine in engines:
        mine = [d for d in devices.values() if _holds(d, engine.tenant)]
        mine.sort(key=lambda d: (_index(d), d.name))
        engine.devices = [d.name for d in mine]
        for number, device in enumerate(mine):
            device.engines.append((engine, number))
    return Fleet(period, engines, devices)


def _holds(device: Device, tenant: tuple[str, str]) -> bool:
    return bool(tenant[1]) and any(list(tenant) in row.tenants for row in device.rows)


def _index(device: Device) -> int:
    labels = device.rows[-1].labels
    text = labels.get("gpu") or labels.get("gpu_id") or ""
    return int(text) if text.isdigit() else 0


def _engines(
    period: Period,
    evidence: Evidence,
    known: Mapping[str, Workload],
    kv: Mapping[str, KvBytes | None],
) -> list[EngineMemory]:
    assign = assign_series()
    hours = CacheHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    rows: dict[int, list[CacheRow]] = {}
    settings: dict[int, Mapping[str, str]] = {}
    named = newest.values_list("series_id", "configuration", *CACHE_FIELDS)
    for series_id, configuration, *values in named:
        settings[series_id] = configuration
        rows.setdefault(series_id, []).append(CacheRow(*values))
    series = Series.objects.filter(pk__in=rows).select_related("target__source")
    found = []
    for one in series:
        last = rows[one.pk][-1]
        labels = one.labels | {"source": one.target.source.name, "__name__": one.metric}
        place = assign(labels, last.hour)
        slug = place.target if place.kind == WORKLOAD else None
        start = evidence.start_of(
            one.labels, period.end, slug=slug, model=known[slug].model if slug else None,
            pool_tokens=last.pool_tokens, engine=one.engine,
        )  # fmt: skip
        mine = kv.get(slug) if slug else None
        longest = known[slug].max_model_len if slug else None
        found.append(EngineMemory(one, slug, start, mine, longest, settings[one.pk], rows[one.pk]))
    return sorted(found, key=lambda e: (e.slug or "", e.name))


def _devices(period: Period) -> dict[str, Device]:
    """GPUs by UUID; where two exporters tell of one, the first by name counts."""
    hours = DeviceHour.objects.filter(hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("device", "target_id", "hour", "-revision").distinct(
        "device", "target_id", "hour"
    )
    found: dict[str, Device] = {}
    first: dict[str, int] = {}
    for row in newest:
        if first.setdefault(row.device, row.target_id) == row.target_id:
            found.setdefault(row.device, Device(row.device)).rows.append(row)
    return found


# -- tables ----------------------------------------------------------------------------------------


def device_table(device: Device, engines: Iterable[tuple[EngineMemory, int]]) -> Table:
    """The table of one GPU with these engines on it."""
    means = Means()
    for row in device.rows:
        held = row.observed_ms
        means.add("total", row.total_bytes, held)
        for name, total in (("used", row.used_byte_ms), ("free", row.free_byte_ms),
                            ("driver", row.reserved_byte_ms)):  # fmt: skip
            means.add(name, total / held if total is not None and held else None, held)
    parts = [engine_table(engine, number) for engine, number in engines]
    return _with_engines(table_of(means), parts)


def _with_engines(device: Table, engines: list[Table]) -> Table:
    """A GPU's own figures and those of the engines on it, together."""
    both = added(engines) if engines else Table(None, {}, {})
    parts = {name: device.parts.get(name) for name in ("driver", "free")}
    names = ("weights", "kv_active", "kv_unreferenced", "graphs", "non_torch")
    parts |= {name: both.parts.get(name) for name in names}
    beside = {"used": device.beside.get("used")}
    beside |= {name: both.beside.get(name) for name in ("kv_reserved", "activation_peak")}
    return Table(device.total, parts, beside)


def engine_table(engine: EngineMemory, number: int) -> Table:
    """What one engine takes of one GPU."""
    means = Means()
    for row in engine.rows:
        reserved = engine.reserved_bytes(row, number)
        held = row.observed_ms + row.stale_ms
        means.add("kv_reserved", reserved, held)
        if reserved is None or not row.blocks or row.active_block_ms is None:
            continue
        # Use is a share of the blocks: right for pools of several kinds of layers as well.
        active = row.active_block_ms * reserved / row.blocks
        if row.observed_ms:
            means.add("kv_active", active / row.observed_ms, row.observed_ms)
            rest = reserved - active / row.observed_ms
            means.add("kv_unreferenced", rest, row.observed_ms)
    told = engine.worker(number)
    for name in ("weights", "graphs", "non_torch", "activation_peak"):
        means.add(name, told.get(f"{name}_bytes"), 1)
    return _rounded(table_of(means))


def _rounded(table: Table) -> Table:
    """Unreferenced is what active leaves of reserved, so that the rounded parts add up."""
    reserved, active = table.beside.get("kv_reserved"), table.parts.get("kv_active")
    if reserved is None or active is None:
        return table
    return Table(table.total, {**table.parts, "kv_unreferenced": reserved - active}, table.beside)


# -- rows ------------------------------------------------------------------------------------------


def memory_rows(period: Period, by: str | None = None) -> list[dict[str, Any]]:
    """The table by `gpu`, `engine` or `workload`, or of the fleet in one row; plain values."""
    known = fleet(period)
    if by == "gpu":
        return [_gpu_row(d) for _, d in sorted(known.devices.items())]
    if by == "engine":
        return [_group_row(e.name, [e], known, {"workload": e.slug}) for e in known.engines]
    groups: dict[str, list[EngineMemory]] = {}
    for engine in known.engines:
        key = (engine.slug or "no workload") if by == "workload" else "fleet"
        groups.setdefault(key, []).append(engine)
    if by is None and not groups and known.devices:
        groups["fleet"] = []
    rows = [_group_row(key, mine, known, {}) for key, mine in sorted(groups.items())]
    return _with_costs(rows, period) if by == "workload" else rows


def _with_costs(rows: list[dict[str, Any]], period: Period) -> list[dict[str, Any]]:
    """Headroom cost: effective cost × the share of device memory that is KV unreferenced; for
    information, part of the workload's cost already (method §8.8)."""
    reading = read(period)
    for row in rows:
        cost = reading.whole.cost(row["key"], reading.currency)
        rest, total = row["kv_unreferenced_bytes"], row["total_bytes"]
        known = bool(cost) and rest is not None and bool(total)
        amount = round_half_even(divide(cost * rest, Decimal(total)), 4) if known else None
        row["headroom_cost"] = None if amount is None else plain(amount)
        row["currency"] = reading.currency if known else None
    return rows


def _gpu_row(device: Device) -> dict[str, Any]:
    table = device_table(device, device.engines)
    row = device.rows[-1]
    flags = [text for holds, text in ((device.shared, SHARED), (device.sliced, SLICED)) if holds]
    tenants = sorted({tuple(one) for each in device.rows for one in each.tenants})
    labels = dict(row.labels) | {"tenants": [f"{space}/{pod}" for space, pod in tenants]}
    value = {"key": device.name, "labels": labels, "gpus": 1} | table.as_json()
    return (
        value | _peak_of_devices([device]) | _engine_values([e for e, _ in device.engines], flags)
    )


def _group_row(
    key: str, engines: list[EngineMemory], known: Fleet, labels: dict[str, Any]
) -> dict[str, Any]:
    """Engines together with the GPUs they are on; a GPU is counted once."""
    names = {name for engine in engines for name in engine.devices}
    if key == "fleet":
        names |= known.devices.keys()
    devices = [known.devices[name] for name in sorted(names)]
    tables = []
    for device in devices:
        mine = [(engine, n) for engine, n in device.engines if engine in engines]
        tables.append(device_table(device, mine))
    for engine in engines:
        if not engine.devices:
            tables += [engine_table(engine, number) for number in range(engine.gpus)]
    flags = [SHARED] if any(device.shared for device in devices) else []
    if any(not engine.devices for engine in engines):
        flags.append(NO_DEVICE)
    gpus = len(devices) + sum(engine.gpus for engine in engines if not engine.devices)
    value = {"key": key, "labels": labels, "gpus": gpus} | added(tables).as_json()
    return value | _peak_of_devices(devices) | _engine_values(engines, flags)


def _peak_of_devices(devices: list[Device]) -> dict[str, Any]:
    """The highest use any of the GPUs showed: what nvidia-smi would have said then."""
    peaks = [(r.peak_used_bytes, r.peak_ms) for d in devices for r in d.rows if r.peak_used_bytes]
    best = max(peaks, key=lambda one: one[0] or 0, default=(None, None))
    at = None if best[1] is None else rfc3339(instant_of(best[1]))
    return {"peak_used_bytes": best[0], "peak_used_at": at}


def _engine_values(engines: list[EngineMemory], flags: list[str]) -> dict[str, Any]:
    """What the reservation bought, the peak, and where the figures come from."""
    figures = [(engine, found) for engine in engines if (found := engine.figures())]
    stale = sum(found.stale_ms for _, found in figures)
    if any(engine.start is None for engine in engines):
        flags = [*flags, NO_LOG]
    if stale:
        flags = [*flags, STALE]
    return {
        "engines": [
            {
                "engine": engine.name,
                "workload": engine.slug,
                "reserved_tokens": found.reserved_tokens,
                "active_tokens_mean": _whole(found.active_tokens_mean),
                "peak_active_tokens": found.peak_active_tokens,
                "peak_at": None if found.peak_at is None else rfc3339(found.peak_at),
                "peak_kv_active_bytes": _peak_bytes(engine),
                "peak_running": found.peak_running,
                "contiguous_slots": found.contiguous_slots,
                "max_model_len": found.max_model_len,
                "observed_seconds": found.observed_ms // 1000,
                "stale_seconds": found.stale_ms // 1000,
                "kv_bytes_from": engine.kv.source if engine.kv else _log_of(engine),
                "log": engine.start.document_id if engine.start else None,
                "sentence": sentence(found),
            }
            for engine, found in figures
        ],
        "stale_seconds": stale // 1000,
        "flags": flags,
    }


def _log_of(engine: EngineMemory) -> str | None:
    known = engine.start is not None and engine.worker(0).get("kv_bytes") is not None
    return f"start-up log {engine.start.document_id[:12]}" if known and engine.start else None


def _peak_bytes(engine: EngineMemory) -> int | None:
    """The cache's bytes in use on one GPU at the busiest instant."""
    best = max((r for r in engine.rows if r.peak_blocks is not None and r.blocks),
               key=lambda r: r.peak_blocks or 0, default=None)  # fmt: skip
    reserved = engine.reserved_bytes(best, 0) if best else None
    if best is None or reserved is None or not best.blocks:
        return None
    return reserved * (best.peak_blocks or 0) // best.blocks


def _whole(value: Decimal | None) -> int | None:
    return None if value is None else int(value.to_integral_value(ROUND_HALF_EVEN))
