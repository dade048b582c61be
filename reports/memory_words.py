"""What a workload's KV cache shows and bought, in words: once per workload, not per engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

from finops.core.money import divide
from finops.core.period import rfc3339
from reports import charts, figures

MOST_DRAWN = 8
Row = Mapping[str, Any]


def memory_blocks(
    statement: Row, defined: Mapping[str, charts.Chart], drawn: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """For each workload with engines that tell of their cache, the largest reservation first:
    message, chart, what the reservation bought, what nvidia-smi shows."""
    hours = {row["workload"]: row for row in statement.get("memory_hours") or []}
    groups: dict[str, list[Row]] = {}
    for row in statement.get("memory") or []:
        groups.setdefault(row["workload"] or "no workload", []).append(row)
    ordered = sorted(groups, key=lambda name: (-_sum(groups[name], "reserved_tokens"), name))
    return [
        {
            "workload": name,
            "engines": len(groups[name]),
            "message": _message(name, groups[name]),
            "chart": drawn.get(f"memory:{name}") if at < MOST_DRAWN else None,
            "unit": charts.scale_of(hours[name]["unit"])[1] if name in hours else "",
            "marks": charts.annotations_of(statement.get("annotations") or [], name),
            "days": _days(defined.get(f"memory:{name}")),
            "measured": bool((hours.get(name) or {}).get("device_used")),
            "bought": bought(groups[name]),
            "device": device_words(hours.get(name)),
        }
        for at, name in enumerate(ordered)
    ]


def _days(chart: charts.Chart | None) -> list[dict[str, str]]:
    """The days of a chart's axis, each with the instant an annotation of it begins at."""
    if not isinstance(chart, charts.Areas):
        return []
    return [{"at": rfc3339(at.astimezone(UTC)), "name": name} for at, name in chart.days()]


def _sum(rows: Iterable[Row], key: str) -> int:
    return sum(row[key] or 0 for row in rows)


def active_share(rows: Sequence[Row]) -> Decimal | None:
    """Active ÷ reserved of engines together, means of the week; None where one does not tell."""
    reserved = _sum(rows, "reserved_tokens")
    means = [figures.decimal(row.get("active_tokens_mean")) for row in rows]
    if not reserved or any(mean is None for mean in means):
        return None
    return divide(sum((mean for mean in means if mean is not None), Decimal(0)), Decimal(reserved))


def _message(name: str, rows: Sequence[Row]) -> str:
    share = active_share(rows)
    if share is None:
        return f"{name}: the KV cache in use was not measured."
    return (
        f"{name}: live requests used {figures.percent(share, 1)} of the reserved KV cache "
        "on average."
    )


def bought(rows: Sequence[Row]) -> str:
    """What the reservation bought (method §8.7), for identical engines once."""
    reserved = _sum(rows, "reserved_tokens")
    if not reserved:
        return "The engines do not tell how large their cache is: not measured."
    engines = f"{len(rows)} engines" if len(rows) > 1 else "The engine"
    text = f"{engines} reserved room for {figures.whole(reserved)} tokens at the start."
    told = [row for row in rows if row["peak_running"] is not None and row["contiguous_slots"]]
    if told:
        best = max(told, key=lambda row: row["peak_running"])
        one = "on one engine " if len(rows) > 1 else ""
        text += (
            f" At the busiest moment {figures.whole(best['peak_running'])} {'request' if best['peak_running'] == 1 else 'requests'} ran "
            f"together {one}– paging gives each only what it needs. With one slot of the longest request "
            f"({figures.whole(best['max_model_len'])} tokens) for each, the same memory would have "
            f"held {figures.whole(best['contiguous_slots'])}."
        )
    preempted = _sum(rows, "preemptions")
    if preempted:
        noun = "request was" if preempted == 1 else "requests were"
        text += f" {figures.whole(preempted)} {noun} set back for want of cache."
    return text


def shared_device_words(blocks: Sequence[Row]) -> str:
    """What nvidia-smi shows, said once when it is the same for every workload; else empty."""
    told = {block["device"] for block in blocks}
    return told.pop() if len(told) == 1 else ""


def device_words(hours: Row | None) -> str:
    """What nvidia-smi shows, or that nobody measured it."""
    used = [value for value in (hours or {}).get("device_used") or [] if value is not None]
    if hours is None or not used:
        return (
            "What nvidia-smi showed was not measured: no GPU exporter tells of these engines' "
            "cards. It would show the reservation, not the use."
        )
    low, high = (figures.grouped(Decimal(value) / 1024, 1) for value in (min(used), max(used)))
    total = hours.get("device_total")
    of = f" of {figures.grouped(Decimal(total) / 1024, 1)}" if total else ""
    between = f"{low}{of} GiB" if low == high else f"{low} to {high}{of} GiB"
    return (
        f"nvidia-smi showed {between} in use on one GPU of each engine, whatever the traffic: "
        "the pool is taken at the start, so a full card is no sign of load."
    )
