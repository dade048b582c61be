"""The sums of the memory table: a GPU, or engines with the GPUs they are on, over a period or in one hour
(method §8.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from finops.core.holders import other_byte_ms
from finops.core.memory import CacheRow
from finops.core.memory_table import BESIDE, PARTS, Exact, Means, Table, table_of, together
from finops.core.money import EXACT, divide
from finops.core.presence import Span, at_once, length_ms
from finops.ledger.models import DeviceHour

from .engines_twice import once
from .memory_engines import Device, EngineMemory

MEASURED = frozenset({"total", "used", "free", "driver", "other"})


def device_table(device: Device) -> Table:
    """The table of one GPU with the engines on it, over the period."""
    return table_of(_device(device, device.engines, None, whole=True).parts)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A GPU, or an engine's part of one, with when it was there."""

    parts: Exact
    spans: Sequence[Span]


def _device(
    device: Device,
    engines: Sequence[tuple[EngineMemory, int]],
    hour: datetime | None,
    *,
    whole: bool,
) -> _Piece:
    """One GPU; unless `whole`, just the time in which one of these engines was on it. What may be
    one engine counts once."""
    counting = {id(engine) for engine in once(engine for engine, _ in engines)}
    engines = [(engine, number) for engine, number in engines if id(engine) in counting]
    spans = held_spans(device, (engine for engine, _ in engines), hour, whole=whole)
    rows = device.rows_of(hour)
    if not whole:
        seen = {instant for engine, _ in engines for instant in engine.by_hour}
        rows = [row for row in rows if row.hour in seen]
    pieces = [
        (_engine(engine, number, hour), length_ms(engine.there(hour)))
        for engine, number in engines
        if engine.rows_of(hour)
    ]
    on_it = together(pieces, length_ms(spans))
    return _Piece(_with_engines(_measured(device, rows), on_it), spans)


def held_spans(
    device: Device, engines: Iterable[EngineMemory], hour: datetime | None = None, *, whole: bool
) -> list[Span]:
    """When a GPU counts to engines: while one of them is on it; `whole`, while it was measured."""
    theirs = [span for engine in engines for span in engine.there(hour)]
    return [*device.there(hour), *theirs] if whole else theirs


def _measured(device: Device, rows: Iterable[DeviceHour]) -> Exact:
    """What a GPU's exporter told over some hours."""
    means = Means()
    for row in rows:
        held = row.observed_ms
        means.add("total", row.total_bytes, held)
        for name, total in (("used", row.used_byte_ms), ("free", row.free_byte_ms),
                            ("driver", row.reserved_byte_ms)):  # fmt: skip
            means.add_sum(name, total, held)
        means.add_sum("other", _other(device, row), held)
    return means.exact()


def _other(device: Device, row: DeviceHour) -> Decimal | int | None:
    """What programs that are no engine known here held of the GPU in an hour, in byte-milliseconds.

    All that is in use where pods are told and none of them is an engine's.
    """
    engines = once(engine for engine, _ in device.engines)
    now = at_once([(1, engine.there(row.hour)) for engine in engines]) or len(engines)
    told = other_byte_ms(row.holders, {"/".join(one.tenant) for one in engines}, now)
    if told is None and row.tenants and not engines:
        return row.used_byte_ms
    return told


def group_table(
    engines: list[EngineMemory],
    devices: list[Device],
    hour: datetime | None = None,
    *,
    whole_devices: bool = False,
) -> Table:
    """Engines together with the GPUs they are on, each for the share of the time it was there; a
    GPU is counted once, and so is what may be one engine. With `whole_devices` GPUs count for all
    the time they were measured."""
    engines = once(engines)
    pieces, chosen = [], {id(engine) for engine in engines}
    for device in devices:
        mine = [(engine, n) for engine, n in device.engines if id(engine) in chosen]
        pieces.append(_device(device, mine, hour, whole=whole_devices))
    for engine in engines:
        if not engine.devices and engine.rows_of(hour):
            parts = [_engine(engine, number, hour) for number in range(engine.gpus)]
            pieces += [_Piece(one, engine.there(hour)) for one in parts]
    whole = length_ms(span for piece in pieces for span in piece.spans)
    return table_of(together([(p.parts, length_ms(p.spans)) for p in pieces], whole))


def hours_of(engines: Iterable[EngineMemory]) -> list[datetime]:
    """The hours in which any of the engines was seen."""
    return sorted({row.hour for engine in engines for row in engine.rows})


def _with_engines(device: Exact, engines: Exact) -> Exact:
    """A GPU's own figures and those of the engines on it, together."""
    return {name: (device if name in MEASURED else engines).get(name) for name in (*PARTS, *BESIDE)}


def _engine(engine: EngineMemory, number: int, hour: datetime | None = None) -> Exact:
    """What one engine takes of one GPU while it is there, over the period or in one hour."""
    means = Means()
    for row in engine.rows_of(hour):
        size = engine.reserved_bytes(row, number)
        held = row.observed_ms + row.stale_ms
        if size is None or not row.blocks or row.active_block_ms is None:
            means.add("kv_reserved", size, held)
            continue
        reserved = _reserved(row, size)
        means.add_sum("kv_reserved", EXACT.multiply(reserved, Decimal(held)), held)
        # Use is a share of the blocks: right for pools of several kinds of layers as well.
        whole = EXACT.multiply(Decimal(row.active_block_ms), Decimal(size))
        active = divide(whole, Decimal(row.blocks))
        means.add_sum("kv_active", active, row.observed_ms)
        rest = EXACT.subtract(EXACT.multiply(reserved, Decimal(row.observed_ms)), active)
        means.add_sum("kv_unreferenced", rest, row.observed_ms)
    told = engine.worker(number)
    for name in ("weights", "graphs", "non_torch", "activation_peak"):
        means.add(name, told.get(f"{name}_bytes"), 1)
    return means.exact()


def _reserved(row: CacheRow, size: int) -> Decimal:
    """Bytes reserved in an hour, of a pool of `size` bytes at its end: where the pool changed, their mean
    over the time observed."""
    if row.reserved_block_ms is None or not row.blocks or not row.observed_ms:
        return Decimal(size)
    whole = EXACT.multiply(Decimal(row.reserved_block_ms), Decimal(size))
    return divide(whole, Decimal(row.blocks * row.observed_ms))
