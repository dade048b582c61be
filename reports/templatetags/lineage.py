"""Exact figures for links to their rows: as they stand in the statement, never rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

register = template.Library()
LONGEST = 18


@register.filter
def exact(value: Any) -> str:
    """A figure as it stands in the statement, cut (not rounded) where it is very long."""
    if value is None:
        return "n/a"
    text = str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


@register.simple_tag
def exact_of(figures: Mapping[str, Any], name: str) -> str:
    """A workload's figure of a name; empty where the workload has none of that name."""
    return exact(figures[name]) if name in figures else ""
