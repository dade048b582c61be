"""An engine's ladder of settings and the guidance on its other settings, in words for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from finops.core.guidance_seen import NEEDS, WORDS
from finops.core.period import parse_instant
from finops.core.rightsizing import AT_RISK, OVER_RESERVED, TIGHT
from reports.figures import percent
from reports.models import Annotation

MISSING = "Not enough evidence: "
MOST_BLOCKS = 8
URGENT = {verdict: at for at, verdict in enumerate((AT_RISK, TIGHT, OVER_RESERVED))}
NEAR = timedelta(days=1)
RESULTS = {
    "came true": ("ok", "came true"),
    "more than predicted": ("rejected", "fuller than predicted"),
    "less than predicted": ("waiting", "emptier than predicted"),
    "wait": ("waiting", "not enough seen yet"),
}
TONES = {"worth a trial": "waiting", "could be lower": "waiting", "could be higher": "rejected"}
Row = Mapping[str, Any]


def guidance_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Each setting with its title and the tone of its verdict."""
    return [
        {
            **row,
            "text": _after(row["says"]),
            "title": WORDS[row["knob"]],
            "flag": row["knob"] if row["knob"].startswith("--") else "",
            "tone": TONES.get(row["verdict"], "" if row["verdict"] == NEEDS else "ok"),
        }
        for row in rows
    ]


def _after(says: str) -> str:
    """A sentence without the verdict that stands beside it."""
    text = says.removeprefix(MISSING)
    return text[:1].upper() + text[1:]


def report_guidance(rows: Iterable[Row]) -> dict[str, Any]:
    """What a report prints of guidance: the workloads that need it most, of each the settings that
    can be judged, those that cannot in one sentence, and how many workloads are left out."""
    known = sorted(
        (row for row in rows if row["guidance"]),
        key=lambda row: (URGENT.get(row["verdict"], len(URGENT)), row["workload"]),
    )
    blocks = []
    for row in known[:MOST_BLOCKS]:
        told = guidance_rows(row["guidance"])
        missing = [one["title"].lower() for one in told if one["verdict"] == NEEDS]
        judged = [one for one in told if one["verdict"] != NEEDS]
        blocks.append({**row, "rows": judged, "missing": missing})
    return {"sizing_blocks": blocks, "sizing_left": max(0, len(known) - MOST_BLOCKS)}


def ladder_rows(row: Row, notes: Sequence[Annotation]) -> dict[str, Any]:
    """The steps of an engine, each with the annotations that tell of it and what to note."""
    steps = row["ladder"]["steps"]
    return {
        "climbed": [_step(row, step, notes) for step in steps],
        "next_note": _next_note(row),
    }


def _step(row: Row, step: Row, notes: Sequence[Annotation]) -> dict[str, Any]:
    at = parse_instant(step["at"])
    told = [
        one
        for one in notes
        if one.kind == "config"
        and one.workload in ("", row["workload"])
        and abs(one.at - at) <= NEAR
    ]
    tone, result = RESULTS[step["result"]]
    before, after = step["from"]["setting"], step["to"]["setting"]
    text = f"gpu_memory_utilization {before} → {after} on {row['engine']}. {_predicted(step)}"
    if step["to"]["enough"]:
        text += f" Observed: p99 use {_use(step['to']['p99'])}, {_pushed(step['to'])}."
    return {
        "step": step,
        "tone": tone,
        "result": result,
        "notes": told,
        "is_effect_noted": any("Observed" in one.text for one in told),
        "newest": told[-1].pk if told else None,
        "text": text,
    }


def _predicted(step: Row) -> str:
    one = step["predicted"]
    if one is None:
        return "Nothing could be predicted: the card's memory or a block's bytes were not known."
    return f"Predicted: {one['kv_blocks']:,} KV blocks, p99 use {_use(one['p99'])}."


def _pushed(rung: Row) -> str:
    count = rung["preemptions"]
    return f"{count:,} pushed out" if count else "none pushed out"


def _use(share: str | None) -> str:
    exact = None if share is None else Decimal(share)
    return "over 100 %" if exact is not None and exact > 1 else percent(exact)


def _next_note(row: Row) -> str:
    """What the annotation of the next step says; empty without one."""
    one = row["ladder"]["next_step"]
    if one is None:
        return ""
    return (
        f"gpu_memory_utilization {row['setting']} → {one['utilization']} on {row['engine']}. "
        f"Predicted: {one['kv_blocks']:,} KV blocks, p99 use {_use(one['p99'])}."
    )
