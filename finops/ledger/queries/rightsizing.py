"""Right-sizing each engine from its window of KV use and its decomposition (method §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Max

from finops.core.ladder import Rung, ladder
from finops.core.money import EXACT, divide, plain, round_half_even
from finops.core.period import Period, hour_of, milliseconds, rfc3339
from finops.core.rightsizing import (
    LEAST_DAYS,
    LOWER_BAND,
    UPPER_BAND,
    Advice,
    Prediction,
    Window,
    advise,
    money_sentence,
    percentile,
    predict,
    share_in,
    summed,
)
from finops.core.sizing_rows import inputs
from finops.ledger.models import CacheHour

from .as_of import known_by
from .counts import preemptions
from .engines_twice import once
from .evidence import bytes_of_a_block
from .guidance import Kind, Told, busiest, guidance_of, kind_of, load_of, told
from .ladder import rungs_by_kind
from .memory_engines import EngineMemory
from .memory_fleet import Fleet, fleet
from .reading import Reading, read

FIELDS = (
    "hour", "blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms", "stale_ms",
    "levels_ms", "peak_blocks", "peak_ms", "peak_running", "peak_waiting", "configuration",
)  # fmt: skip
NO_NUMBERS = ("", "None")


@dataclass(frozen=True, slots=True)
class _Hour:
    hour: datetime
    blocks: int | None
    block_size: int | None
    pool_tokens: int | None
    max_model_len: int | None
    observed_ms: int
    stale_ms: int
    levels_ms: Mapping[str, int]
    peak_blocks: int | None
    peak_ms: int | None
    peak_running: int | None
    peak_waiting: int | None
    configuration: Mapping[str, str]

    @property
    def tokens_of_a_block(self) -> int | None:
        """The pool's tokens over its blocks: `block_size` is not the pool's own where layers of
        several kinds share it (method §8.3)."""
        if self.pool_tokens is None or not self.blocks:
            return self.block_size
        return round(Decimal(self.pool_tokens) / self.blocks) or self.block_size

    @property
    def setting(self) -> tuple[int | None, str | None]:
        """What makes hours alike: the pool and the share of memory."""
        return self.blocks, self.configuration.get("gpu_memory_utilization")


@dataclass(frozen=True, slots=True)
class Around:
    """What is read once for all engines of a window; `setting` asks what if."""

    known: Fleet
    reading: Reading
    about: Told
    rungs: Mapping[Kind, list[Rung]]
    setting: Decimal | None


def last_window(until: datetime | None = None, days: int = LEAST_DAYS) -> Period | None:
    """The days before an instant, else before the last hour of KV use; None without any."""
    if until is None:
        last = CacheHour.objects.aggregate(last=Max("hour"))["last"]
        if last is None:
            return None
        until = last + timedelta(hours=1)
    end = hour_of(until)
    return Period(end - timedelta(days=days), end)


def rightsizing(
    period: Period, *, slug: str | None = None, setting: Decimal | None = None
) -> list[dict[str, Any]]:
    """The advice on every engine seen in a period, as plain values; `setting` asks what if."""
    return advised(fleet(period), read(period), slug=slug, setting=setting)


def advised(
    known: Fleet,
    reading: Reading,
    *,
    slug: str | None = None,
    setting: Decimal | None = None,
    as_of: datetime | None = None,
) -> list[dict[str, Any]]:
    """The same where the period's engines and money have been read already."""
    period = known.period
    counted = preemptions(period, as_of)
    hours = _hours(period, as_of)
    chosen = [engine for engine in known.engines if slug in (None, engine.slug)]
    climbed = rungs_by_kind(period, [engine.series for engine in chosen], as_of)
    around = Around(known, reading, told(period, as_of), climbed, setting)
    rows = []
    for engine in chosen:
        preempted = counted.get((engine.series.target_id, engine.series.engine))
        rows.append(_row(engine, hours[engine.series.pk], preempted, around))
    return rows


def _hours(period: Period, as_of: datetime | None) -> dict[int, list[_Hour]]:
    hours = CacheHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    newest = hours.order_by("series_id", "hour", "-revision").distinct("series_id", "hour")
    found: dict[int, list[_Hour]] = {}
    for series_id, *values in newest.values_list("series_id", *FIELDS):
        found.setdefault(series_id, []).append(_Hour(*values))
    return found


def _row(
    engine: EngineMemory,
    hours: list[_Hour],
    preempted: int | None,
    around: Around,
) -> dict[str, Any]:
    known = around.known
    present = [one for one in hours if one.setting == hours[-1].setting]
    window = _window(engine, present, known, preempted)
    advice = advise(window)
    value: dict[str, Any] = {
        "engine": engine.name,
        "workload": engine.slug,
        "told_by": engine.told_by,
        "counts": engine.counts,
        "from": rfc3339(known.period.start),
        "to": rfc3339(known.period.end),
        "coverage": plain(round_half_even(window.coverage, 4)),
        "setting": None if window.utilization is None else plain(window.utilization),
        "kv_blocks": window.blocks,
        "block_size": window.block_size,
        "max_model_len": window.max_model_len,
        "peak_running": window.peak_running,
        "peak_waiting": window.peak_waiting,
        "preemptions": window.preemptions,
        "band": [plain(LOWER_BAND), plain(UPPER_BAND)],
    }
    value |= _advice(advice, window)
    value["inputs"] = inputs(window)
    value["money"] = _money(engine, advice.proposal, window, known, around.reading)
    tried = predict(window, around.setting, advice.p99) if around.setting is not None else None
    paid = _money(engine, tried, window, known, around.reading)
    value["what_if"] = None if tried is None else tried.as_json() | {"money": paid}
    climbed = around.rungs.get(kind_of(engine.series), [])
    value["ladder"] = ladder(climbed, window, advice).as_json()
    at = busiest(present)
    value["busiest_at"] = None if at is None else rfc3339(at)
    value["load"] = load_of(engine, window, present, around.about).as_json()
    value["guidance"] = guidance_of(engine, advice, window, present, around.about)
    value["after_change"] = _after_change(engine, hours, present, known)
    return value


def _advice(advice: Advice, window: Window) -> dict[str, Any]:
    value: dict[str, Any] = {"verdict": advice.verdict, "why": advice.why}
    for name in ("p50", "p95", "p99", "peak"):
        share = getattr(advice, name)
        value[name] = None if share is None else plain(round_half_even(share, 4))
    value["proposal"] = advice.proposal and advice.proposal.as_json()
    value["no_proposal"] = advice.no_proposal
    value["steps"] = [one.as_json() for one in advice.steps]
    return value


def _window(
    engine: EngineMemory, hours: list[_Hour], known: Fleet, preempted: int | None
) -> Window:
    last = hours[-1]
    told = engine.worker(0)
    row = next((r for r in reversed(engine.rows) if r.hour == last.hour), engine.rows[-1])
    size = engine.reserved_bytes(row, 0)
    return Window(
        levels_ms=summed(one.levels_ms for one in hours),
        window_ms=milliseconds(known.period.end) - milliseconds(known.period.start),
        seen_ms=sum(one.observed_ms + one.stale_ms for one in hours),
        blocks=last.blocks,
        block_size=last.tokens_of_a_block,
        max_model_len=last.max_model_len or engine.longest,
        peak_blocks=_highest(one.peak_blocks for one in hours),
        peak_running=_highest(one.peak_running for one in hours),
        peak_waiting=_highest(one.peak_waiting for one in hours),
        preemptions=preempted,
        utilization=_utilization(engine, last),
        total_bytes=told.get("total_bytes") or device_total(engine, known),
        block_bytes=bytes_of_a_block(size, last.blocks),
        sized_by_hand=is_sized_by_hand(last.configuration),
    )


def _highest(values: Any) -> int | None:
    return max((one for one in values if one is not None), default=None)


def _utilization(engine: EngineMemory, last: _Hour) -> Decimal | None:
    """The setting by the engine's own labels, else by its log."""
    log = engine.start.figures.get("utilization") if engine.start else None
    label = share_in(last.configuration.get("gpu_memory_utilization"))
    return share_in(log) if label is None else label


def is_sized_by_hand(configuration: Mapping[str, str]) -> bool:
    """Whether a person fixed the number of blocks or bytes, so that the setting has no effect."""
    names = ("num_gpu_blocks_override", "kv_cache_memory_bytes")
    return any(configuration.get(name, "None") not in NO_NUMBERS for name in names)


def device_total(engine: EngineMemory, known: Fleet) -> int | None:
    """The GPU's memory by its exporter; a little more than the engine itself sees."""
    totals = [row.total_bytes for name in engine.devices for row in known.devices[name].rows]
    return max((one for one in totals if one is not None), default=None)


def _money(
    engine: EngineMemory,
    proposal: Prediction | None,
    window: Window,
    known: Fleet,
    reading: Reading,
) -> str | None:
    """The money sentence, where a lower setting is proposed or tried (method §9)."""
    if proposal is None or proposal.change_bytes >= 0 or not window.total_bytes:
        return None
    on_card = None
    if engine.devices:
        on_card = max(known.devices[name].engines_at_once for name in engine.devices)
    cost = None
    if engine.slug is not None:
        whole = reading.whole.cost(engine.slug, reading.currency)
        mine = once(other for other in known.engines if other.slug == engine.slug)
        gpus = sum(other.gpus for other in mine)
        paid = EXACT.multiply(whole, Decimal(engine.gpus))
        cost = divide(paid, Decimal(gpus)) if whole and gpus else None
    return money_sentence(
        freed_bytes=-proposal.change_bytes,
        total_bytes=window.total_bytes,
        gpus=engine.gpus,
        engines_on_card=on_card,
        cost=cost,
        currency=reading.currency if cost is not None else None,
    )


def _after_change(
    engine: EngineMemory, hours: list[_Hour], present: list[_Hour], known: Fleet
) -> dict[str, Any] | None:
    """Predicted against observed, where the pool changed within the window (method §9)."""
    before = [
        one for one in hours if one.setting != present[-1].setting and one.hour < present[0].hour
    ]
    before = [one for one in before if one.setting == before[-1].setting] if before else []
    if not before:
        return None
    old, new = before[-1], present[-1]
    old_p99 = percentile(summed(one.levels_ms for one in before), Decimal("0.99"))
    predicted = None
    if old_p99 is not None and old.blocks and new.blocks and new.blocks > 1:
        predicted = round_half_even(old_p99 * (old.blocks - 1) / (new.blocks - 1), 4)
    observed = percentile(summed(one.levels_ms for one in present), Decimal("0.99"))
    return {
        "at": rfc3339(present[0].hour),
        "from": {"setting": old.setting[1], "kv_blocks": old.blocks},
        "to": {"setting": new.setting[1], "kv_blocks": new.blocks},
        "predicted_p99": None if predicted is None else plain(predicted),
        "observed_p99": None if observed is None else plain(round_half_even(observed, 4)),
    }
