"""Charts: one definition gives the SVG (paper, and the page as first painted) and Plotly's JSON.

Columns over weeks, areas over the hours, reserved-versus-active bars and the bridge; values label
themselves and there is no axis to read off (IBCS). The SVG is deterministic and uses solid fills
only, as gradients do not show in all PDF viewers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from finops.core.memory_hours import unstepped
from reports import figures
from reports.against import Against, saving_chart
from reports.areas import Areas
from reports.bars import Bars, Columns
from reports.shapes import WIDTH
from reports.waterfall import Waterfall

Chart = Columns | Bars | Waterfall | Areas | Against
__all__ = ["Areas", "Bars", "Chart", "Columns", "Waterfall", "alternative", "svg", "to_plotly"]


def svg(chart: Chart) -> SafeString:
    """The chart as SVG with a text alternative; the same chart gives the same bytes."""
    body, height = chart.draw()
    name = escape(chart.id)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" id="{name}" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{escape(chart.title)}</title>'
        f'<desc id="{name}-text">{escape(alternative(chart))}</desc>'
    )
    return mark_safe(head + body + "</svg>")  # noqa: S308 - every text in it was escaped


def alternative(chart: Chart) -> str:
    """What the chart shows, in words and figures."""
    return chart.words()


def to_plotly(chart: Chart) -> dict[str, Any]:
    """The same chart for Plotly: data and layout; a trace's `meta.tone` names its colour."""
    data, more = chart.plotly()
    return {"data": data, "layout": {"showlegend": False} | more}


def on_screen(chart: Chart, note_url: str = "") -> SafeString:
    """The SVG and, as inert JSON beside it, what the page's script may draw in its place.

    `note_url` is the form an annotation is written with, for a click on the time axis.
    """
    if isinstance(chart, Bars | Against):
        return svg(chart)  # its labels already say all, and Plotly's legend needs inline styles
    value = to_plotly(chart) | ({"note": note_url} if note_url else {})
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return format_html(
        '{}<script type="application/json" data-chart="{}">{}</script>',
        svg(chart),
        chart.id,
        mark_safe(safe),  # noqa: S308 - no character of it can end the element
    )


def of_statement(statement: Mapping[str, Any], prefix: str = "") -> dict[str, Chart]:
    """The charts of a report, by name; those without data are left out.

    The areas are `memory:` and the workload's name; bars stand in where no hours were stated.
    """
    found: dict[str, Chart] = {}
    if trend := trend_chart(statement, prefix):
        found["trend"] = trend
    hours = statement.get("memory_hours") or []
    for at, row in enumerate(hours):
        found[f"memory:{row['workload']}"] = memory_areas(row, statement, f"{prefix}memory-{at}")
    if not hours and (memory := memory_chart(statement.get("memory") or [], prefix)):
        found["memory"] = memory
    if bridge := bridge_chart(statement, prefix):
        found["bridge"] = bridge
    if saving := saving_chart(statement, prefix):
        found["saving"] = saving
    return found


def trend_chart(statement: Mapping[str, Any], prefix: str = "") -> Columns | None:
    """The cost per million tokens of the last weeks."""
    trend = statement.get("trend") or []
    values = [figures.decimal(row["cost_per_million_tokens"]) for row in trend]
    if not any(value is not None for value in values):
        return None
    return Columns(
        id=f"{prefix}trend",
        title=f"Cost per million tokens, last {len(trend)} weeks",
        unit=f"{statement['currency']} per million tokens",
        labels=[row["week"].partition("-")[2] for row in trend],
        values=values,
    )


def memory_areas(row: Mapping[str, Any], statement: Mapping[str, Any], name: str) -> Areas:
    """One workload's KV cache over the week, with its annotations on the time axis."""
    size, unit = scale_of(row["unit"])
    notes = annotations_of(statement.get("annotations") or [], row["workload"])
    start = figures.as_datetime(row["start"])
    assert start is not None
    device = row["device_used"] if row["unit"] == "MiB" else None
    return Areas(
        id=name,
        title=f"{row['workload']}: KV cache reserved and active",
        unit=unit,
        start=start,
        zone=statement["period"]["zone"],
        reserved=_scaled(unstepped(row["reserved_steps"], row["hours"]), size),
        active=_scaled(row["active"], size),
        device=None if device is None else _scaled(device, size),
        marks=[(at, str(n)) for n, note in notes if (at := figures.as_datetime(note["at"]))],
    )


def scale_of(unit: str) -> tuple[int, str]:
    """What a stated unit is divided by for reading, and the name of the result."""
    return (1024, "GiB") if unit == "MiB" else (1000, "thousand tokens")


def _scaled(values: Sequence[int | None], size: int) -> list[Decimal | None]:
    return [None if value is None else Decimal(value) / size for value in values]


def annotations_of(
    rows: Sequence[Mapping[str, Any]], workload: str
) -> list[tuple[int, Mapping[str, Any]]]:
    """The annotations that concern a workload, with their numbers in the report's list."""
    return [
        (number, row)
        for number, row in enumerate(rows, start=1)
        if row["workload"] in (None, workload)
    ]


def memory_chart(rows: Sequence[Mapping[str, Any]], prefix: str = "") -> Bars | None:
    """Reserved and active KV cache of each engine, in GiB where bytes are known, else in tokens."""
    known = [row for row in rows if row.get("reserved_bytes") and row.get("active_bytes_mean")]
    size, unit, keys = figures.GIB, "GiB", ("reserved_bytes", "active_bytes_mean")
    if not known:
        size, unit, keys = 1000, "thousand tokens", ("reserved_tokens", "active_tokens_mean")
        known = [row for row in rows if row.get(keys[0]) and row.get(keys[1]) is not None]
    if not known:
        return None
    return Bars(
        id=f"{prefix}memory",
        title="KV cache reserved and active, mean of the week",
        unit=unit,
        rows=[
            (
                f"{row['workload'] or '?'} {row.get('engine') or ''}".strip(),
                Decimal(row[keys[0]]) / size,
                Decimal(row[keys[1]]) / size,
            )
            for row in known[:24]
        ],
    )


BRIDGE_STEPS = (
    ("price", "Price"),
    ("efficiency", "Efficiency"),
    ("mix", "Mix"),
    ("entered", "Entered"),
    ("left", "Left"),
    ("cost_without_tokens", "No tokens"),
)
ALWAYS_SHOWN = ("price", "efficiency", "mix")


def bridge_chart(statement: Mapping[str, Any], prefix: str = "") -> Waterfall | None:
    """Why the cost per million tokens changed since the week before."""
    bridge, previous = statement.get("bridge"), statement.get("previous")
    if not bridge or not previous:
        return None
    end = figures.decimal(statement["figures"].get("cost_per_million_tokens"))
    total = figures.decimal(bridge["total"])
    if end is None or total is None:
        return None
    steps = [
        (label, value)
        for key, label in BRIDGE_STEPS
        if (value := figures.decimal(bridge.get(key)) or Decimal(0)) or key in ALWAYS_SHOWN
    ]
    return Waterfall(
        id=f"{prefix}bridge",
        title="What moved the cost per million tokens",
        unit=f"{statement['currency']} per million tokens",
        start=(bridge["from"].partition("-")[2], end - total),
        steps=steps,
        end=(bridge["to"].partition("-")[2], end),
    )
