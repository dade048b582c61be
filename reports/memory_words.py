"""What a workload's KV cache shows and bought, in words: once per workload, not per engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

from finops.core.memory import NULL_BLOCK, ran_together
from finops.core.money import divide
from finops.core.period import milliseconds, rfc3339
from finops.core.presence import Span, at_once
from finops.core.wording import READ_TWICE
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
        if row.get("counts", True):  # what may be one engine is added up once
            groups.setdefault(row["workload"] or "no workload", []).append(row)
    ordered = sorted(groups, key=lambda n: (-at_one_time(groups[n], "reserved_tokens"), n))
    return [
        {
            "workload": name,
            "engines": at_one_time(groups[name]),
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


def twice_words(rows: Iterable[Row] | None) -> str:
    """What is said under rows of engines where some of them may be one engine; else empty."""
    return READ_TWICE if any(row.get("told_by") for row in rows or ()) else ""


def engine_rows(statement: Row) -> list[dict[str, Any]]:
    """The report's engines one by one; those of one workload and name say when each was there."""
    rows = statement.get("memory") or []
    names = Counter((row["workload"], row["engine"]) for row in rows)
    return [
        dict(row)
        | {"is_repeated": names[row["workload"], row["engine"]] > 1 and bool(row.get("first_seen"))}
        for row in rows
    ]


def _days(chart: charts.Chart | None) -> list[dict[str, str]]:
    """The days of a chart's axis, each with the instant an annotation of it begins at."""
    if not isinstance(chart, charts.Areas):
        return []
    return [{"at": rfc3339(at.astimezone(UTC)), "name": name} for at, name in chart.days()]


def _sum(rows: Iterable[Row], key: str) -> int:
    return sum(row[key] or 0 for row in rows)


def active_share(rows: Sequence[Row]) -> Decimal | None:
    """Active ÷ reserved of engines together over the time each was there; None where one does not
    tell."""
    means = [figures.decimal(row.get("active_tokens_mean")) for row in rows]
    pools = [
        figures.decimal(row.get("reserved_tokens_mean")) or row["reserved_tokens"] for row in rows
    ]
    if not any(pools) or any(mean is None for mean in means):
        return None
    times = [row.get("observed_seconds") or 0 for row in rows]
    times = times if any(times) else [1] * len(rows)
    held = sum((Decimal(pool or 0) * t for pool, t in zip(pools, times, strict=True)), Decimal(0))
    active = sum(
        ((mean or Decimal(0)) * t for mean, t in zip(means, times, strict=True)), Decimal(0)
    )
    return divide(active, held) if held else None


def at_one_time(rows: Sequence[Row], key: str = "") -> int:
    """The most engines that ran at one time, or the most of a figure of theirs: engines that
    follow each other are never added up. All together where a report does not tell when."""
    spans = [_seen(row) for row in rows]
    counts = [(row[key] or 0) if key else 1 for row in rows]
    if any(span is None for span in spans):
        return sum(counts)
    return at_once([(n, [span]) for n, span in zip(counts, spans, strict=True) if span])


def _seen(row: Row) -> Span | None:
    first, last = (figures.as_datetime(row.get(name)) for name in ("first_seen", "last_seen"))
    return None if first is None or last is None else (milliseconds(first), milliseconds(last))


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
    reserved = at_one_time(rows, "reserved_tokens")
    if not reserved:
        return "The engines do not tell how large their cache is: not measured."
    text = f"{_who(rows)} reserved room for {figures.whole(reserved)} tokens at the start."
    told = [row for row in rows if row["peak_running"] is not None and row["contiguous_slots"]]
    if told:
        text += _at_the_busiest(max(told, key=lambda row: row["peak_running"]), len(rows) > 1)
    preempted = _sum(rows, "preemptions")
    if preempted:
        noun = "request was" if preempted == 1 else "requests were"
        text += f" {figures.whole(preempted)} {noun} set back for want of cache."
    return text


def _who(rows: Sequence[Row]) -> str:
    """The engines, and how many of them ran at one time."""
    most = at_one_time(rows)
    if len(rows) == 1:
        return "The engine"
    if most == len(rows):
        return f"{most} engines"
    if most == 1:
        return f"{len(rows)} engines followed one another, one at a time; each"
    return f"{len(rows)} engines, at most {most} of them at one time,"


def _at_the_busiest(best: Row, several: bool) -> str:
    """Requests that ran together against slots, both of one engine."""
    one, room, same = "", "", "the same memory"
    if several:
        one = "on one engine "
        room = f"The room of that engine is {figures.whole(best['reserved_tokens'])} tokens: "
        same = "its memory"
    with_one = "with" if room else "With"
    return (
        f" At the busiest moment {ran_together(best['peak_running'])} {one}– "
        f"paging gives each only what it needs. {room}{with_one} one slot of the longest request "
        f"({figures.whole(best['max_model_len'])} tokens) for each, {same} would have held "
        f"{figures.whole(best['contiguous_slots'])}{_null_block(best)}."
    )


def _null_block(row: Row) -> str:
    """Why it is one less than the pool divided by the request, where it is."""
    by_division = row["reserved_tokens"] // row["max_model_len"]
    return NULL_BLOCK if by_division != row["contiguous_slots"] else ""


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


PARTS = ("weights", "kv_active", "kv_unreferenced", "graphs", "non_torch", "other", "free", "driver",
         "unattributed")  # fmt: skip


def rounding_words(tables: Sequence[Mapping[str, Any]]) -> str:
    """Why the printed parts of some memory tables do not add up to the printed total (method §1)."""
    names = []
    for row in tables:
        parts = [row[f"{name}_bytes"] for name in PARTS]
        total = row["total_bytes"]
        if total is None:
            continue
        printed = sum((figures.as_gib(one) for one in parts if one is not None), Decimal(0))
        if abs(printed - figures.as_gib(total)) * 20 >= 1:  # what a decimal shows of MiB as well
            names.append(row["workload"] or "all engines and cards")
    if not names:
        return ""
    return (
        f"Each figure is rounded on its own, so that as printed the parts of {', '.join(names)} do not "
        "add up to the device total; the exact bytes do."
    )


COLUMNS = {"total": "device total", "weights": "weights", "kv_active": "KV in use",
           "kv_unreferenced": "KV not referenced", "graphs": "CUDA graphs", "non_torch": "non-torch",
           "other": "other programs", "free": "free", "driver": "driver",
           "unattributed": "not attributed"}  # fmt: skip


def last_row_words(tables: Sequence[Mapping[str, Any]]) -> str:
    """Why the last row of the memory table is not the sum of those above it, as printed, or has no
    device total where they do; empty where it is (method §1, §8 *Over time*). Another column with an unknown
    figure adds up to nothing."""
    above = [row for row in tables if row["workload"]]
    last = next((row for row in tables if not row["workload"]), None)
    if last is None or not above:
        return ""
    said = _not_in_the_last_row(above, last)
    apart = [name for key, name in COLUMNS.items() if _differs(above, last, f"{key}_bytes")]
    if apart:
        said += (
            f" The last row is not the sum of the rows above ({', '.join(apart)}): each row is the mean "
            "of the time in which its own engines were there, the last row of the time in which any "
            "was, with each card once; and each figure is rounded on its own."
        )
    return said.strip()


def _not_in_the_last_row(above: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> str:
    """Why the last row tells no device total while rows above it do; empty where it tells one."""
    unmeasured = [row["workload"] for row in above if row["total_bytes"] is None]
    if last["total_bytes"] is not None or len(unmeasured) == len(above):
        return ""
    whose = f" ({', '.join(unmeasured)})" if unmeasured else ""
    return (
        f"The last row has no device total, as not every card was measured{whose}: the rows above stand "
        "for those that were."
    )


def _differs(above: Sequence[Mapping[str, Any]], last: Mapping[str, Any], key: str) -> bool:
    values = [row[key] for row in above]
    if last[key] is None or None in values:
        return False
    printed = sum((figures.as_gib(value) for value in values), Decimal(0))
    return abs(printed - figures.as_gib(last[key])) * 20 >= 1  # what a decimal shows of MiB as well
