"""The shapes charts are drawn with: solid fills and a class each, so that the page can recolour
them in the dark; on paper the attributes count."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from django.utils.html import escape

INK, QUIET, ACCENT, PALE = "#1a2233", "#5b6577", "#2f4b8f", "#b9c5e0"
GAIN, LOSS = "#1d7a4f", "#b3362b"
FILLS = {"accent": ACCENT, "pale": PALE, "gain": GAIN, "loss": LOSS}
WIDTH = 720
FONT = "Inter, sans-serif"
Number = Decimal | int


def number(value: Number) -> str:
    """A coordinate, rounded to a tenth."""
    text = f"{Decimal(value).quantize(Decimal('0.1')):f}"
    return text.removesuffix(".0")


def rect(x: Number, y: Number, w: Number, h: Number, tone: str) -> str:
    """A filled rectangle of a tone."""
    return (
        f'<rect class="{tone}" x="{number(x)}" y="{number(y)}" width="{number(w)}" '
        f'height="{number(h)}" fill="{FILLS[tone]}"/>'
    )


def outline(x: Number, y: Number, w: Number, h: Number) -> str:
    """A rectangle drawn by its edge alone: what is planned or assumed, not what is (IBCS)."""
    return (
        f'<rect class="outline" x="{number(x)}" y="{number(y)}" width="{number(w)}" '
        f'height="{number(h)}" fill="none" stroke="{INK}" stroke-width="1.2"/>'
    )


def text(
    x: Number, y: Number, words: str, *, anchor: str = "middle", size: int = 11,
    weight: int = 400, quiet: bool = False,
) -> str:  # fmt: skip
    """A line of text."""
    name, fill = ("quiet", QUIET) if quiet else ("ink", INK)
    return (
        f'<text class="{name}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" '
        f'font-size="{size}" font-weight="{weight}" font-family="{FONT}" '
        f'fill="{fill}">{escape(words)}</text>'
    )


def rule(x1: Number, y1: Number, x2: Number, y2: Number, dash: str = "") -> str:
    """A thin line: an axis, a level, an instant."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line class="rule" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" '
        f'y2="{number(y2)}" stroke="{QUIET}" stroke-width="0.8"{dashed}/>'
    )


def area(steps: Sequence[tuple[Number, Number, Number]], floor: Number, tone: str) -> str:
    """A filled run of steps `(from x, to x, y)` down to a floor."""
    if not steps:
        return ""
    first, last = steps[0], steps[-1]
    parts = [f"M{number(first[0])} {number(floor)}"]
    level: Number | None = None
    for left, _, y in steps:
        if y != level:
            parts.append(f"H{number(left)}V{number(y)}")
            level = y
    parts.append(f"H{number(last[1])}V{number(floor)}Z")
    return f'<path class="{tone}" d="{"".join(parts)}" fill="{FILLS[tone]}"/>'


def stepped(steps: Sequence[tuple[Number, Number, Number]]) -> str:
    """A line over a run of steps."""
    if not steps:
        return ""
    parts = [f"M{number(steps[0][0])} {number(steps[0][2])}"]
    level: Number = steps[0][2]
    for left, _, y in steps[1:]:
        if y != level:
            parts.append(f"H{number(left)}V{number(y)}")
            level = y
    parts.append(f"H{number(steps[-1][1])}")
    return (
        f'<path class="line" d="{"".join(parts)}" fill="none" stroke="{INK}" stroke-width="1.4"/>'
    )


def cut(words: str, most: int) -> str:
    """Text no longer than `most` characters."""
    return words if len(words) <= most else words[: most - 1] + "…"
