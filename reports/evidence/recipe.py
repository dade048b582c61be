"""The headline by hand: which rows of the pack to add, and what each step gives, for one week.

The numbers are taken from the pack's own tables by the second computation (`verify.py`), so that a
reader with a spreadsheet can follow them step by step. That is done when the report is sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from typing import Any

from finops.core.money import plain

from . import verify
from .typed import typed

BY_HAND = "recipe.md"
STEPS = """
### {slug}, {start} to {end}

| step | rows | gives |
|---|---|---:|
{rows}| cost: the sum of the steps above that are money | | {cost} {currency} |
"""

WEIGHTS = {"tokens": "tokens of the whole week", "gpu-hours": "GPU-hours of the whole week"}


def recipe(files: Mapping[str, bytes], statement: Mapping[str, Any]) -> str:
    """Markdown: the steps of each workload that counts, then the division (n/a without tokens)."""
    with localcontext(verify.EXACT):  # a context is a thread's own
        return _steps(files, statement)


def _steps(files: Mapping[str, bytes], statement: Mapping[str, Any]) -> str:
    week = verify.Week(verify.Pack(dict(files)), statement)
    if not week.counting:
        return (
            "No workload has both tokens and cost in this week, so there is no headline figure.\n"
        )
    parts = [_workload(week, one) for one in week.counting]
    tokens = sum(w["counted"]["prompt"] + w["counted"]["generation"] for w in week.counting)
    cost = sum((w["cost"] for w in week.counting), Decimal(0))
    divided = "n/a: there are no tokens to divide by"
    if tokens:
        divided = f"{plain(verify.quotient(cost * 1_000_000, tokens))} {week.currency}"
    total = (
        f"\n### All together\n\n| step | gives |\n|---|---:|\n"
        f"| cost of all of them | {plain(cost)} {week.currency} |\n"
        f"| prompt and generation tokens of all of them | {tokens:,} |\n"
        f"| cost ÷ tokens × 1,000,000 | {divided} |\n"
    )
    return "".join(parts) + total + typed(files, statement, week)


def _workload(week: Any, w: Mapping[str, Any]) -> str:
    start, end = (verify.written(at) for at in w["common"])
    rows = [*_tokens(week, w), *_own(week, w), *_shared(week, w)]
    return STEPS.format(
        slug=w["slug"],
        start=start,
        end=end,
        rows="".join(f"| {step} | {of} | {gives} |\n" for step, of, gives in rows),
        cost=plain(w["cost"]),
        currency=week.currency,
    )


def _tokens(week: Any, w: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Which series, and the sum of their hours inside the span."""
    since, until = w["common"]
    place = ("workload", w["slug"])
    for role in ("prompt", "generation"):
        numbers, total, count = [], 0, 0
        for number, series in week.tokens.series.items():
            if (series["role"], series["layer"], series["other_half"]) != (role, "engine", "0"):
                continue
            hours = [
                row.tokens
                for hour, row in week.tokens.hours.get(number, ())
                if since <= hour < until and week.tokens.place(series, hour) == place
            ]
            if hours:
                numbers.append(number)
                total, count = total + sum(hours), count + len(hours)
        named = ", ".join(numbers)
        yield f"{role} tokens", f"`token_hours`, series {named}: {count} rows", f"{total:,}"


def _own(week: Any, w: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The workload's own charges: those wholly inside the span, then each part of the others."""
    since, until = w["common"]
    mine = [
        row
        for row in week.charges
        if (row["place"], row["target"]) == ("workload", w["slug"])
        and row["money"] == week.currency
    ]
    inside = [r for r in mine if since <= r["start"] < until and r["end"] <= until]
    total = sum((Decimal(row["effective"] or 0) for row in inside), Decimal(0))
    yield (
        "own charges inside the span, money",
        f"`charges`, place workload, target {w['slug']}: {len(inside)} rows",
        plain(total),
    )
    edges = [
        verify.part(Decimal(r["effective"] or 0), r["start"], r["end"], since, until)
        for r in mine
        if r["start"] < until and r["end"] > since and r not in inside
    ]
    if edges:
        yield (
            "own charges across an edge, the part inside, money",
            f"the same, {len(edges)} rows: `effective` × time inside ÷ whole time (method §3.7)",
            plain(sum(edges, Decimal(0))),
        )


def _shared(week: Any, w: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The workload's part of each pot of shared charges."""
    costs = week.costs(w["common"])
    methods = {
        row["key"]: WEIGHTS.get(row["method"], "the shares in `shared_keys`")
        for row in week.pack.table("shared_keys")
    }
    for (name, currency), pot in sorted(costs.shared.items()):
        weights = {slug: one for slug, one in sorted(week.keys.get(name, {}).items()) if one > 0}
        if currency != week.currency or w["slug"] not in weights:
            continue
        shares = dict(zip(weights, verify.split(pot[1], list(weights.values())), strict=True))
        mine, whole = weights[w["slug"]], sum(weights.values())
        yield (
            f"part of what is shared by key {name}, money",
            f"`charges`, place shared, target {name}, split by {methods[name]}, parts inside the "
            f"span: {plain(pot[1])} × "
            f"{_plain(mine)} ÷ {_plain(whole)}",
            plain(shares[w["slug"]]),
        )


def _plain(value: Any) -> str:
    return plain(value) if isinstance(value, Decimal) else str(value)
