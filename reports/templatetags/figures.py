"""Template filters for figures; the rules are in `reports.figures`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from finops.core import signs
from finops.core.money import round_half_even
from reports import figures, level_words, sheet
from reports.change_words import became

register = template.Library()
BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[KMGT]i?B\b)")
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]+)")

register.filter("money", figures.money)
register.filter("grouped", figures.grouped_text)
register.filter("price", figures.price)
register.filter("whole", figures.whole)
register.filter("hours", figures.hours)
register.filter("short", figures.short)
register.filter("percent", figures.percent)
register.filter("coverage", figures.coverage)
register.filter("gib", figures.gib)
register.filter("mib", figures.mib)
register.filter("gb", figures.gb)
register.filter("signed", figures.signed)
register.filter("instant", figures.instant)
register.filter("day", figures.day)
register.filter("clock", figures.clock)
register.filter("became", became)


@register.filter
def said(value: Any) -> SafeString:
    """A sentence with its numbers grouped as in tables, kept with their unit, and flags of programs
    kept whole."""
    text = BEFORE_UNIT.sub(figures.THIN, figures.grouped_text(value))
    return SafeString(FLAG.sub(r'<code class="nowrap">\1</code>', conditional_escape(text)))


register.filter("in_time", level_words.share)
register.filter("lag", figures.lag)


@register.filter
def as_it_came(value: Any) -> SafeString:
    """A text of another program in a field that hands it back (`finops.core.signs.handed_back`)."""
    return SafeString(signs.handed_back(conditional_escape(value)))


@register.filter
def change(value: Any) -> str:
    """A relative change with its sign: `+12.3 %`."""
    return figures.percent(value, 1, sign=True)


@register.filter
def tone(value: Any) -> str:
    """`gain`, `loss` or `same`, for a change in which more is better."""
    exact = _as_printed(value)
    if exact is None or exact == 0:
        return "same"
    return "gain" if exact > 0 else "loss"


def _as_printed(value: Any) -> Decimal | None:
    """A ratio as `change` prints it, so that 0.0 % points nowhere."""
    exact = figures.decimal(value)
    return None if exact is None else round_half_even(exact * 100, 1)


@register.filter
def arrow(value: Any) -> str:
    """The direction of a change, so that colour is never the only sign."""
    exact = _as_printed(value)
    if exact is None:
        return ""
    return "▲" if exact > 0 else "▼" if exact < 0 else "="


@register.filter
def is_zero(value: Any) -> bool:
    """Whether an exact amount is zero."""
    return figures.decimal(value) == 0


@register.filter
def item(mapping: Any, key: str) -> Any:
    """`mapping[key]`, None when absent."""
    return mapping.get(key) if isinstance(mapping, dict) else None


@register.filter
def brief(digest: Any) -> str:
    """The first twelve digits of a digest."""
    return str(digest or "")[:12]


@register.filter
def words(value: Any) -> str:
    """An identifier as words: `hidden-reset` → `hidden reset`."""
    return str(value).replace("-", " ").replace("_", " ")


@register.filter
def signed_gib(value: Any) -> str:
    """Bytes as GiB with their sign: the remainder of a memory table."""
    return figures.signed_gib(value)


@register.filter
def printed(value: Any, name: str) -> str:
    """A figure of a statement by its name, as the report prints it."""
    if value is None or isinstance(value, bool):
        return {None: figures.NOT_AVAILABLE, True: "yes", False: "no"}[value]
    return sheet.as_printed(name, value)


@register.simple_tag
def figure(holder: dict[str, Any], name: str, kind: str = "money") -> SafeString | str:
    """A figure of a statement, or n/a with its reason as a footnote people can read."""
    value = holder.get("figures", {}).get(name)
    if value is None:
        reason = holder.get("reasons", {}).get(name) or "not known"
        return format_html('<span class="na" title="{}">n/a</span>', reason)
    return str(getattr(figures, kind)(value))


@register.simple_tag
def reason(holder: dict[str, Any], name: str) -> str:
    """Why a figure is not available; empty when it is."""
    if holder.get("figures", {}).get(name) is not None:
        return ""
    return str(holder.get("reasons", {}).get(name) or "not known")


@register.simple_tag
def footing(rows: list[dict[str, Any]], key: str, total: Any, *printed: str) -> str:
    """The footnote of a table whose rounded rows do not add up."""
    return figures.footing([row.get(key) for row in rows], total, 2, *printed)


@register.simple_tag
def mark(marks: dict[str, int], holder: Any, name: str) -> SafeString | str:
    """The number of a figure's footnote, or of a column's (without a holder); empty without."""
    number = marks.get(f"{holder['slug'] if holder else ''}/{name}")
    if number is None:
        return ""
    return format_html(
        '<sup class="mark"><span class="visually-hidden">note </span>{}</sup>', number
    )


@register.inclusion_tag("parts/why.html")
def why(linked: Any, anchor: str, subject: str) -> dict[str, Any]:
    """A link from a figure to how it is counted; nothing on paper."""
    return {"linked": linked, "anchor": anchor, "subject": subject}


@register.filter
def beyond(more: Any, less: Any) -> int | None:
    """How many tokens one count has more than another; None where it has not, or one is unknown."""
    if more is None or less is None or int(more) < int(less):
        return None
    return int(more) - int(less)


@register.filter
def minus(value: Any) -> str:
    """A text with a true minus sign for a hyphen before a number."""
    return str(value).replace("-", figures.MINUS, 1)
