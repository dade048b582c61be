"""Engines and GPUs of a period, with the logs that tell of them, joined by namespace and pod (§8).

Exporters that know no pods are joined by host, where that leaves no doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from finops.core.allocation import OUT_OF_SCOPE, WORKLOAD
from finops.core.memory import CacheRow
from finops.core.money import whole_or_none
from finops.core.period import Period
from finops.ledger.models import CacheHour, DeviceHour, EngineStart, Series, Workload
from finops.sources.engines import role_of

from .allocation import assign_series
from .as_of import known_by
from .engines_twice import tell_once
from .evidence import Evidence, KvBytes, names_shown
from .memory_engines import Device, EngineMemory
from .presence import HOUR, begun_by, placed

CACHE_FIELDS = (
    "hour", "blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
    "active_block_ms", "peak_blocks", "peak_ms", "peak_running", "stale_ms", "reserved_block_ms",
)  # fmt: skip


_Place = tuple[int, str]
"""A source and a host in it: two sources may each have a host of one name. Where one source alone
tells of a host's GPUs, and one alone of its engines, it is one host, whichever sources they are."""


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
