"""The memory of GPUs hour by hour as a stacked area: weights, KV in use, KV not referenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from reports import figures
from reports.shapes import WIDTH, area

FLOOR, TOP, HEIGHT = 150, 8, 158
STACKED = (("weights", "accent"), ("kv_active", "gain"), ("kv_unreferenced", "pale"))
Hours = Sequence[Mapping[str, Any]]


def stacked(hours: Hours, title: str) -> SafeString | None:
    """The hours as one picture with its text alternative; None where nothing is known of them.

    A layer that is not measured in an hour takes no room in it.
    """
    most = max((max(_tops(one)[-1], one["total_bytes"] or 0) for one in hours), default=0)
    if not most:
        return None
    drawn = [
        area(list(_steps(hours, layer, most)), FLOOR, STACKED[layer][1])
        for layer in reversed(range(len(STACKED)))  # the lower layers lie over the higher ones
    ]
    text = f"{title}, {len(hours)} hours; the highest is {figures.gib(most)}. " + " ".join(
        f"{name.replace('_', ' ')}: {_range(hours, name)}." for name, _ in STACKED
    )
    return mark_safe(  # noqa: S308 - figures and escaped words
        f'<svg class="memory-hours" role="img" aria-label="{escape(text)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )


def _tops(one: Mapping[str, Any]) -> list[int]:
    """The upper edge of each layer in an hour, in bytes."""
    found, total = [], 0
    for name, _ in STACKED:
        total += one[f"{name}_bytes"] or 0
        found.append(total)
    return found


def _steps(hours: Hours, layer: int, most: int) -> Iterator[tuple[Decimal, Decimal, Decimal]]:
    width = Decimal(WIDTH) / len(hours)
    for at, one in enumerate(hours):
        height = Decimal(_tops(one)[layer]) / most * (FLOOR - TOP)
        yield at * width, (at + 1) * width, FLOOR - height


def _range(hours: Hours, name: str) -> str:
    known = [one[f"{name}_bytes"] for one in hours if one[f"{name}_bytes"] is not None]
    if not known:
        return "not measured"
    return f"{figures.gib(min(known))} to {figures.gib(max(known))}"
