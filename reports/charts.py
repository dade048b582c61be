"""Charts: one definition gives the SVG (paper, and the page as first painted) and Plotly's JSON.

Columns over weeks, reserved-versus-active bars and the bridge's waterfall; values label themselves
and there is no axis to read off (IBCS). The SVG is deterministic and uses solid fills only, as
gradients do not show in all PDF viewers. Shapes carry a class, so that the page can recolour them
in the dark; on paper the attributes count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from reports import figures

INK, QUIET, ACCENT, PALE = "#1a2233", "#5b6577", "#2f4b8f", "#b9c5e0"
GAIN, LOSS = "#1d7a4f", "#b3362b"
WIDTH = 720
FONT = "Inter, sans-serif"


@dataclass(frozen=True, slots=True)
class Columns:
    """Values over weeks; the last is the week reported. A None stays an empty place."""

    id: str
    title: str
    unit: str
    labels: Sequence[str]
    values: Sequence[Decimal | None]


@dataclass(frozen=True, slots=True)
class Bars:
    """For each row a reserved amount and the active part of it."""

    id: str
    title: str
    unit: str
    rows: Sequence[tuple[str, Decimal, Decimal]]
    part_name: str = "active"
    rest_name: str = "reserved, unreferenced"


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Steps from a first to a last total; a rise is a loss where the value is a cost."""

    id: str
    title: str
    unit: str
    start: tuple[str, Decimal]
    steps: Sequence[tuple[str, Decimal]]
    end: tuple[str, Decimal]


Chart = Columns | Bars | Waterfall


def svg(chart: Chart) -> SafeString:
    """The chart as SVG with a text alternative; the same chart gives the same bytes."""
    draw = {Columns: _columns, Bars: _bars, Waterfall: _waterfall}[type(chart)]
    body, height = draw(chart)  # type: ignore[operator]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" id="{escape(chart.id)}" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-labelledby="{escape(chart.id)}-title {escape(chart.id)}-text">'
        f'<title id="{escape(chart.id)}-title">{escape(chart.title)}</title>'
        f'<desc id="{escape(chart.id)}-text">{escape(alternative(chart))}</desc>'
    )
    return mark_safe(head + body + "</svg>")  # noqa: S308 - every text in it was escaped


def alternative(chart: Chart) -> str:
    """What the chart shows, in words and figures."""
    if isinstance(chart, Columns):
        pairs = [
            f"{label} {figures.price(value)}"
            for label, value in zip(chart.labels, chart.values, strict=True)
        ]
        return f"{chart.unit}: " + ", ".join(pairs) + "."
    if isinstance(chart, Bars):
        pairs = [
            f"{name}: {figures.grouped(part, 1)} of {figures.grouped(total, 1)} {chart.part_name}"
            for name, total, part in chart.rows
        ]
        return f"{chart.unit}: " + ", ".join(pairs) + "."
    steps = [f"{name} {figures.signed(value, 4)}" for name, value in chart.steps]
    first, last = chart.start, chart.end
    return (
        f"{chart.unit}: from {figures.price(first[1])} ({first[0]}) by {', '.join(steps)} "
        f"to {figures.price(last[1])} ({last[0]})."
    )


def to_plotly(chart: Chart) -> dict[str, Any]:
    """The same chart for Plotly: data and layout, drawn over the SVG by the page's script."""
    layout = {"title": {"text": chart.title}, "yaxis": {"title": {"text": chart.unit}}}
    if isinstance(chart, Columns):
        values = [None if value is None else str(value) for value in chart.values]
        return {"data": [{"type": "bar", "x": list(chart.labels), "y": values}], "layout": layout}
    if isinstance(chart, Bars):
        names = [name for name, _, _ in chart.rows]
        parts = [str(part) for _, _, part in chart.rows]
        rests = [str(total - part) for _, total, part in chart.rows]
        bars = [(chart.part_name, parts), (chart.rest_name, rests)]
        data = [
            {"type": "bar", "orientation": "h", "name": name, "y": names, "x": x}
            for name, x in bars
        ]
        return {"data": data, "layout": layout | {"barmode": "stack"}}
    trace = {
        "type": "waterfall",
        "x": [chart.start[0], *(name for name, _ in chart.steps), chart.end[0]],
        "y": [str(v) for v in (chart.start[1], *(v for _, v in chart.steps), chart.end[1])],
        "measure": ["absolute", *("relative" for _ in chart.steps), "total"],
    }
    return {"data": [trace], "layout": layout}


def _n(value: Decimal | int) -> str:
    """A coordinate, rounded to a tenth."""
    text = f"{Decimal(value).quantize(Decimal('0.1')):f}"
    return text.removesuffix(".0")


def _rect(x: Decimal, y: Decimal, w: Decimal, h: Decimal, name: str, fill: str) -> str:
    return (
        f'<rect class="{name}" x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}" '
        f'fill="{fill}"/>'
    )


def _text(
    x: Decimal | int, y: Decimal | int, text: str, *, anchor: str = "middle", size: int = 11,
    weight: int = 400, fill: str = INK, name: str = "ink",
) -> str:  # fmt: skip
    return (
        f'<text class="{name}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" font-family="{FONT}" fill="{fill}">{escape(text)}</text>'
    )


def _line(x1: Decimal | int, y1: Decimal | int, x2: Decimal | int, y2: Decimal | int) -> str:
    return (
        f'<line class="rule" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" '
        f'stroke="{QUIET}" stroke-width="0.8"/>'
    )


def _columns(chart: Columns) -> tuple[str, int]:
    height, floor, top = 190, 160, 26
    top_value = max((v for v in chart.values if v is not None), default=Decimal(0)) or Decimal(1)
    step = Decimal(WIDTH) / max(len(chart.values), 6)
    out = [_line(0, floor, step * len(chart.values), floor)]
    for at, (label, value) in enumerate(zip(chart.labels, chart.values, strict=True)):
        last = at == len(chart.values) - 1
        middle = step * at + step / 2
        name, fill = ("accent", ACCENT) if last else ("pale", PALE)
        out.append(_text(middle, floor + 17, label, fill=INK if last else QUIET,
                         name="ink" if last else "quiet", weight=600 if last else 400))  # fmt: skip
        if value is None:
            out.append(_text(middle, floor - 6, figures.NOT_AVAILABLE, fill=QUIET, name="quiet"))
            continue
        tall = value / top_value * (floor - top)
        out.append(_rect(middle - step * 3 / 10, floor - tall, step * 6 / 10, tall, name, fill))
        shown = figures.price(value)
        out.append(_text(middle, floor - tall - 6, shown, weight=600 if last else 400))
    return "".join(out), height


def _bars(chart: Bars) -> tuple[str, int]:
    label_width, right, row_height = 190, 150, 30
    room = WIDTH - label_width - right
    most = max((total for _, total, _ in chart.rows), default=Decimal(0)) or Decimal(1)
    out = [
        _rect(Decimal(label_width), Decimal(2), Decimal(11), Decimal(11), "accent", ACCENT),
        _text(label_width + 16, 12, chart.part_name, anchor="start", fill=QUIET, name="quiet"),
        _rect(Decimal(label_width + 90), Decimal(2), Decimal(11), Decimal(11), "pale", PALE),
        _text(label_width + 106, 12, chart.rest_name, anchor="start", fill=QUIET, name="quiet"),
    ]
    for at, (name, total, part) in enumerate(chart.rows):
        y = Decimal(26 + at * row_height)
        long, inner = total / most * room, part / most * room
        out.append(_text(label_width - 10, y + 14, _cut(name, 28), anchor="end"))
        out.append(_rect(Decimal(label_width), y, inner, Decimal(19), "accent", ACCENT))
        out.append(_rect(label_width + inner, y, long - inner, Decimal(19), "pale", PALE))
        share = figures.percent(part / total if total else 0, 0)
        shown = f"{figures.grouped(part, 1)} of {figures.grouped(total, 1)} ({share})"
        out.append(_text(label_width + long + 8, y + 14, shown, anchor="start"))
    return "".join(out), 34 + len(chart.rows) * row_height


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _waterfall(chart: Waterfall) -> tuple[str, int]:
    height, floor, top = 210, 176, 26
    levels = [chart.start[1]]
    for _, change in chart.steps:
        levels.append(levels[-1] + change)
    high = max([*levels, chart.end[1], Decimal(0)])
    low = min([*levels, chart.end[1], Decimal(0)])
    span = (high - low) or Decimal(1)

    def y_of(value: Decimal) -> Decimal:
        return floor - (value - low) / span * (floor - top)

    step = Decimal(WIDTH) / (len(chart.steps) + 2)
    wide = step * 6 / 10
    out = [_line(0, y_of(Decimal(0)), WIDTH, y_of(Decimal(0)))]

    def column(at: int, label: str, low_y: Decimal, high_y: Decimal, name: str, fill: str,
               shown: str) -> None:  # fmt: skip
        left = step * at + (step - wide) / 2
        out.append(_rect(left, high_y, wide, max(low_y - high_y, Decimal(1)), name, fill))
        out.append(_text(left + wide / 2, high_y - 6, shown))
        out.append(_text(left + wide / 2, floor + 17, label, fill=QUIET, name="quiet"))

    zero = y_of(Decimal(0))
    column(
        0, chart.start[0], zero, y_of(chart.start[1]), "pale", PALE, figures.price(chart.start[1])
    )
    for at, (label, change) in enumerate(chart.steps):
        before, after = y_of(levels[at]), y_of(levels[at + 1])
        name, fill = ("loss", LOSS) if change > 0 else ("gain", GAIN)
        column(at + 1, label, max(before, after), min(before, after), name, fill,
               figures.signed(change, figures.price_decimals(chart.end[1])))  # fmt: skip
        out.append(_line(step * at + (step + wide) / 2, before,
                         step * (at + 1) + (step - wide) / 2, before))  # fmt: skip
    last = len(chart.steps) + 1
    column(last, chart.end[0], zero, y_of(chart.end[1]), "accent", ACCENT,
           figures.price(chart.end[1]))  # fmt: skip
    return "".join(out), height


def of_statement(statement: dict[str, Any], prefix: str = "") -> dict[str, Chart]:
    """The charts of a report, by name; those without data are left out."""
    currency = statement["currency"]
    found: dict[str, Chart] = {}
    trend = statement.get("trend") or []
    values = [figures.decimal(row["cost_per_million_tokens"]) for row in trend]
    if any(value is not None for value in values):
        found["trend"] = Columns(
            id=f"{prefix}trend",
            title=f"Cost per million tokens, last {len(trend)} weeks",
            unit=f"{currency} per million tokens",
            labels=[row["week"].partition("-")[2] for row in trend],
            values=values,
        )
    if memory := memory_chart(statement.get("memory") or [], prefix):
        found["memory"] = memory
    if bridge := bridge_chart(statement, prefix):
        found["bridge"] = bridge
    return found


def memory_chart(rows: Sequence[dict[str, Any]], prefix: str = "") -> Bars | None:
    """Reserved and active KV cache of each engine, in GiB where bytes are known, else in tokens."""
    known = [row for row in rows if row.get("reserved_bytes") and row.get("active_bytes_mean")]
    if known:
        size, unit, keys = Decimal(figures.GIB), "GiB", ("reserved_bytes", "active_bytes_mean")
    else:
        size, unit, keys = (
            Decimal(1000),
            "thousand tokens",
            ("reserved_tokens", "active_tokens_mean"),
        )
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


def bridge_chart(statement: dict[str, Any], prefix: str = "") -> Waterfall | None:
    """Why the cost per million tokens changed since the week before."""
    bridge, previous = statement.get("bridge"), statement.get("previous")
    if not bridge or not previous:
        return None
    end = figures.decimal(statement["figures"].get("cost_per_million_tokens"))
    total = figures.decimal(bridge["total"])
    if end is None or total is None:
        return None
    steps = [(label, figures.decimal(bridge.get(key)) or Decimal(0)) for key, label in BRIDGE_STEPS]
    return Waterfall(
        id=f"{prefix}bridge",
        title="What moved the cost per million tokens",
        unit=f"{statement['currency']} per million tokens",
        start=(bridge["from"].partition("-")[2], end - total),
        steps=steps,
        end=(bridge["to"].partition("-")[2], end),
    )
