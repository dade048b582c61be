"""From figures that no charge makes to the rows kept with the report: memory, right-sizing, service
levels, training, the bridge (method §7, §8, §9, §11)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from finops.core.money import divide, plain
from reports.figures import grouped_text, short
from reports.lineage import NoSuchFigure, Row, files_of, placed, rows
from reports.queries.standing import Standing

Files = Mapping[str, bytes]
Line = dict[str, Any]


@dataclass
class Table:
    """Rows of one kind: their columns, and of each its cells and what it leads to."""

    caption: str
    columns: tuple[str, ...]
    lines: list[Line] = field(default_factory=list)


@dataclass
class Kept:
    """What stands behind a figure: how it follows, and the rows it follows from."""

    title: str
    formula: str
    tables: list[Table]


def behind(stand: Standing, kind: str, workload: str = "", engine: str = "") -> Kept:
    """The rows of a kind, of a workload and engine where the kind has them.

    Raises NoSuchFigure for what the report does not name, and Gone when the evidence is not there.
    """
    if kind not in KINDS:
        raise NoSuchFigure(kind[:60])
    return KINDS[kind](stand, files_of(stand), workload, engine)


# -- memory and right-sizing -----------------------------------------------------------------------

CACHE = ("Hour", "Blocks", "Tokens a block", "Reserved tokens", "Blocks in use, mean",
         "Blocks in use, peak", "Running at the peak", "Waiting, at most", "Setting", "Observed",
         "Stood still")  # fmt: skip
MEMORY = (
    "Reserved is what the engine says of its pool (blocks × tokens a block), in bytes × the bytes of "
    "a token; active is the mean of the blocks in use, by the time observed; the rest is "
    "unreferenced. Hours whose gauges stood still are left out of the means"
)
SIZING = (
    "p99 and the peak follow from the time spent at each level of use, added over the hours below; "
    "a verdict needs seven days and 95 % of their time"
)


def _memory(stand: Standing, files: Files, workload: str, engine: str) -> Kept:
    return _cache(stand, files, "memory", (workload, engine), "KV cache", MEMORY)


def _sizing(stand: Standing, files: Files, workload: str, engine: str) -> Kept:
    return _cache(stand, files, "rightsizing", (workload, engine), "Right-sizing", SIZING)


def _cache(
    stand: Standing, files: Files, part: str, who: tuple[str, str], title: str, formula: str
) -> Kept:
    workload, engine = who
    said = [one for one in stand.statement[part] or () if _is_of(one, workload, engine)]
    if not said:
        raise NoSuchFigure(f"{part} of {workload[:60]} {engine[:60]}")
    engines = [row for row in rows(files, "engines") if row["name"] == engine]
    places = placed(files, engines, "cache_hours")
    mine = [row for row in engines if workload in places.get(row["series"], {workload})]
    series, counters = {e["series"] for e in mine}, {(e["target"], e["engine"]) for e in mine}
    table = Table("Hours of the engine's KV cache", CACHE, [
        _cache_line(row) for row in rows(files, "cache_hours") if row["series"] in series
    ])  # fmt: skip
    pushed = Table("Requests pushed out", ("Hour", "Requests"), [
        {"head": row["hour"], "cells": [row["count"]]} for row in rows(files, "preemptions")
        if (row["target"], row["engine"]) in counters and row["count"] != "0"
    ])  # fmt: skip
    return Kept(f"{title} of {workload}, {engine}", formula, [table, pushed])


def _is_of(one: Mapping[str, Any], workload: str, engine: str) -> bool:
    return one.get("workload") == workload and one.get("engine") == engine


def _cache_line(row: Row) -> Line:
    observed, blocks, size = row["observed_ms"], row["blocks"], row["block_size"]
    mean = ""
    if row["active_block_ms"] and int(observed or 0):
        mean = short(divide(Decimal(row["active_block_ms"]), Decimal(observed)))
    pool = row["pool_tokens"] or (str(int(blocks) * int(size)) if blocks and size else "")
    seconds = [_seconds(row[name]) for name in ("observed_ms", "stale_ms")]
    cells = [blocks, size, pool, mean, row["peak_blocks"], row["peak_running"],
             row["peak_waiting"], row.get("setting", ""), *seconds]  # fmt: skip
    return {"head": row["hour"], "gauge": row["series"], "cells": [_shown(one) for one in cells]}


def _seconds(text: str) -> str:
    return f"{plain(divide(Decimal(text or 0), Decimal(1000)))} s"


def _shown(text: str) -> str:
    return grouped_text(text) if text else "n/a"


# -- service levels --------------------------------------------------------------------------------


def _levels(stand: Standing, files: Files, workload: str, _: str) -> Kept:
    said = [
        one for one in stand.statement.get("service_levels") or () if one["workload"] == workload
    ]
    if not said:
        raise NoSuchFigure(f"service level of {workload[:60]}")
    known = rows(files, "latency_buckets")
    places = placed(files, known, "latency_hours")
    counts: dict[str, list[int]] = {}
    for row in rows(files, "latency_hours"):
        sums = counts.setdefault(row["series"], [0, 0])
        sums[0] += int(row["count"] or 0)
        sums[1] += int(row["readings"] or 0)
    buckets = Table("Buckets of latency, added over the week", (
        "Series", "Measure", "Up to, seconds", "Counted", "Readings"), [
        {"head": row["series"], "cells": [row["measure"].replace("_", " "), row["bound_seconds"],
                                          *(_shown(str(n)) for n in counts.get(row["series"], []))]}
        for row in known
        if workload in places.get(row["series"], ())
    ])  # fmt: skip
    names = ("first_token_seconds", "inter_token_seconds", "target", "valid_from", "by")
    objectives = Table("Objectives", ("Set at", "First token, s", "Between tokens, s", "Share",
                                      "From", "By"), [
        {"head": row["at"], "cells": [row[name] for name in names]}
        for row in rows(files, "objectives") if row["workload"] == workload
    ])  # fmt: skip
    formula = (
        "In time is the count of the bucket at the threshold ÷ that of the last bucket; between two "
        "buckets both counts, as an interval. Only the hours that unit costs use count in the report"
    )
    return Kept(f"Service level of {workload}", formula, [objectives, buckets])


# -- training and the bridge -----------------------------------------------------------------------


def _training(stand: Standing, files: Files, *_: str) -> Kept:
    if not stand.statement.get("training"):
        raise NoSuchFigure("training")
    slugs = {w["slug"] for w in stand.statement["workloads"] if w["purpose"] == "training"}
    columns = ("Document, line", "From", "To", "Workload", "Effective")
    quarter = Table("The quarter's charges of training, whole", columns, [
        _charge(row, row["workload"]) for row in rows(files, "training_charges")
    ])  # fmt: skip
    week = Table("The week's charges of training, whole", columns, [
        _charge(row, row["target"]) for row in rows(files, "charges") if row["target"] in slugs
    ])  # fmt: skip
    formula = (
        "The week's cost is the parts of the week's charges inside it and a share of what is shared; "
        "what was spent of the budget is the parts inside the quarter, to the end of the week"
    )
    return Kept("Training", formula, [week, quarter])


def _charge(row: Row, workload: str) -> Line:
    cells = [row["start"], row["end"], workload, f"{row['effective']} {row['currency']}"]
    return {"document": row["document"], "line": row["line"], "cells": cells}


GROUPS = ("Workload", "GPU model", "Cost", "Tokens", "GPU-hours", "Hours with tokens")


def _bridge(stand: Standing, files: Files, *_: str) -> Kept:
    if not stand.statement["bridge"]:
        raise NoSuchFigure("bridge")
    said = stand.statement["bridge"]
    before = json.loads(files.get("previous_statement.json", b"{}"))
    tables = [
        _groups(f"Groups of {said['to']}", stand.statement["bridge_groups"]["groups"], led=True)
    ]
    if before.get("bridge_groups"):
        groups = before["bridge_groups"]["groups"]
        tables.append(_groups(f"Groups of {said['from']}", groups, led=False))
    parts = ("price", "efficiency", "mix", "entered", "left")
    tables.append(Table("What each group adds, per million tokens", (
        "Group", *(name.capitalize() for name in parts)), [
        {"head": row["group"], "cells": [row.get(name, "") for name in parts]}
        for row in said.get("rows", ())
    ]))  # fmt: skip
    formula = (
        "r = cost ÷ GPU-hours, p = tokens ÷ GPU-hours, s = a group's share of all tokens; price = "
        "Σ s₁(r₁−r₀) ÷ p₀, efficiency = Σ s₁r₁(1÷p₁ − 1÷p₀), mix = Σ (s₁−s₀)(r₀÷p₀ − c₀), entered = "
        "Σ s₁(c₁ − c₀) of new groups, left = −Σ s₀(c₀ of the group − c₀) of gone ones"
    )
    return Kept(f"Bridge from {said['from']} to {said['to']}", formula, tables)


def _groups(caption: str, groups: Iterable[Mapping[str, Any]], *, led: bool) -> Table:
    lines = []
    for one in groups:
        cells = [one.get("gpu_model") or "not known", one["cost"], one["tokens"],
                 one["gpu_hours"], one.get("active_hours")]  # fmt: skip
        shown = ["n/a" if cell is None else grouped_text(str(cell)) for cell in cells]
        lines.append({"head": one["workload"], "cells": shown, "is_led": led})
    return Table(caption, GROUPS, lines)


KINDS: dict[str, Callable[[Standing, Files, str, str], Kept]] = {
    "memory": _memory,
    "rightsizing": _sizing,
    "service-level": _levels,
    "training": _training,
    "bridge": _bridge,
}
