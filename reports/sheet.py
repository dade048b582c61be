"""From a report's stored bytes to what the template shows: the same for screen and paper.

Only choices of presentation are made here; every figure comes from the statement as it was sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from django.utils.safestring import SafeString

from finops.core.money import round_half_even
from reports import change_words, charts, figures, level_words
from reports.allocation_words import statement_words
from reports.footnotes import footnotes
from reports.ladder_words import report_guidance
from reports.memory_words import (
    engine_rows,
    last_row_words,
    memory_blocks,
    rounding_words,
    shared_device_words,
    twice_words,
)
from reports.queries.standing import FIRST_PREVIOUS_DIGEST, Standing
from reports.saving_words import questions
from reports.waterfall import places

BRIDGE_TEXTS = {
    "price": ("Price", "what a GPU-hour costs"),
    "efficiency": ("Efficiency", "how many tokens a GPU-hour gives"),
    "mix": ("Mix", "tokens moving between dearer and cheaper workloads"),
    "entered": ("Entered", "workloads that were not there the week before"),
    "left": ("Left", "workloads that are no longer there"),
    "cost_without_tokens": ("No tokens", "cost without tokens or GPU-hours"),
}
NARROW = Decimal("0.001")  # bounds closer than this share are not printed (method §5)
RULE_TEXT_LIMIT = 200


def identity(stand: Standing) -> dict[str, Any]:
    """State, people and digests, as plain values."""
    seal = stand.seal or {}
    return {
        "number": stand.number,
        "state": stand.state,
        "digest": stand.digest,
        "prepared_by": stand.report.prepared_by,
        "approved_by": seal.get("approved_by") or stand.approved_by,
        "sealed_by": seal.get("sealed_by"),
        "sealed_at": seal.get("sealed_at"),
        "previous_digest": seal.get("previous_digest"),
        "is_first": seal.get("previous_digest") == FIRST_PREVIOUS_DIGEST,
        "reason": stand.report.reason,
        "acts": seal.get("events", []),
        "waivers": seal.get("waivers", []),
        "evidence": _evidence(seal),
        "trail": seal.get("trail"),
        "restates": seal.get("restates"),
    }


def _evidence(seal: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the second computation went, without the digests of its files."""
    evidence = seal.get("evidence")
    names = ("archive", "figures_computed_again", "figures_unequal_count")
    return {name: evidence[name] for name in names} if evidence else None


def as_sealed(stand: Standing) -> dict[str, Any]:
    """The identity paper shows: the state at sealing, whatever came after (method §11)."""
    shown = identity(stand)
    return shown | {"state": "final"} if stand.seal else shown


def context(
    statement: Mapping[str, Any],
    stand: Mapping[str, Any],
    dispositions: Mapping[str, Any],
    *,
    note_url: str | None = None,
) -> dict[str, Any]:
    """The template's values for a statement, its identity and its dispositions.

    With `note_url` the charts also bring what the page's script draws from; paper has no script.
    """
    s = dict(statement)
    values = s["figures"]
    levels = level_words.levels(s)
    s["workloads"] = [_workload(w) | {"level": levels.get(w["slug"])} for w in s["workloads"]]
    s["baselines"] = [_baseline(b, s["period"]["zone"]) for b in s["baselines"]]
    s["rules"] = [dict(r) | {"shown": _matchers(r["matchers"])} for r in s.get("rules", [])]
    defined = charts.of_statement(s)
    drawn = {name: _drawn(name, chart, note_url) for name, chart in defined.items()}
    notes = footnotes(s["workloads"])
    tokens = _sum(values.get("prompt_tokens"), values.get("generation_tokens"))
    end = figures.as_datetime(s["period"]["end"])
    return {
        "s": s,
        "stand": stand,
        "charts": drawn,
        "memory_blocks": (blocks := memory_blocks(s, defined, drawn)),
        "memory_device": shared_device_words(blocks),
        "memory_engines": engine_rows(s),
        "memory_rounding": rounding_words(s.get("memory_tables") or []),
        "memory_last_row": last_row_words(s.get("memory_tables") or []),
        "memory_twice": twice_words(s.get("memory")),
        "sizing_twice": twice_words(s.get("rightsizing")),
        **report_guidance(s.get("rightsizing") or []),
        "trend_words": trend_words(s),
        "tokens": tokens,
        "unit_word": "dollar" if s["currency"] == "USD" else s["currency"],
        "unit_interval": _wide(values, "cost_per_million_lower", "cost_per_million_upper"),
        "saving_interval": _apart(values),
        "saving_basis": _saving_basis(s),
        "period_differs": _differs(values, "effective_cost", "period_effective_cost"),
        "last_day": end - timedelta(seconds=1) if end else None,
        "exceptions": [
            dict(e) | {"disposition": dispositions.get(e["id"])} for e in s["exceptions"]
        ],
        "workload_notes": notes.texts,
        "marks": notes.marks,
        "change_rows": change_words.rows(s),
        "change_message": change_words.message(s),
        "level_words": level_words.beside_the_cost(s),
        "level_message": level_words.message(s),
        "level_rows": list(levels.values()),
        **statement_words(s),
        **_tieout(s),
        **_exchange(s),
        **_bridge(s),
    }


def _drawn(name: str, chart: charts.Chart, note_url: str | None) -> SafeString:
    if note_url is None:
        return charts.svg(chart)
    workload = name.partition(":")[2]
    at_hours = isinstance(chart, charts.Areas)
    return charts.on_screen(chart, f"{note_url}?workload={quote(workload)}" if at_hours else "")


def _workload(row: Mapping[str, Any]) -> dict[str, Any]:
    values = row["figures"]
    wide = _wide(values, "cost_per_million_lower", "cost_per_million_upper")
    cost, whole = values.get("effective_cost"), values.get("period_effective_cost")
    return dict(row) | {
        "interval": wide,
        "cost": whole if cost is None else cost,
        "cost_of_week": cost is None and whole is not None,
    }


def _baseline(row: Mapping[str, Any], zone: str) -> dict[str, Any]:
    cost = figures.decimal(row.get("actual"))
    return dict(row) | {
        "interval": _apart(row),
        "questions": questions(row, zone),
        "rounding": figures.footing(
            [row.get("counterfactual"), None if cost is None else -cost],
            row.get("saving"),
            printed="the two amounts are {gap} further apart than the difference says",
        ),
    }


def _saving_basis(s: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside the sum of savings: token bases, scope, and whether all is approved."""
    counted = [row for row in s["baselines"] if row.get("saving") is not None]
    scope = s.get("saving_scope") or {}
    return {
        "bases": " and ".join(sorted({row["basis"] for row in counted})),
        "workloads": [row["workload"] for row in counted],
        "of": scope.get("of"),
        "share": scope.get("share_of_cost"),
        "unapproved": len([row for row in counted if "approver" in row and not row["approver"]]),
    }


def _apart(values: Mapping[str, Any]) -> bool:
    """Whether a saving has two bounds that differ."""
    low, high = (figures.decimal(values.get(name)) for name in ("saving_lower", "saving_upper"))
    return low is not None and high is not None and low != high


def _tieout(s: Mapping[str, Any]) -> dict[str, Any]:
    """The period tie-out's two sides, each in the report's currency, and other currencies'."""
    table = s["tieout"]["period"]
    billed = [row for row in table["rows"] if not _is_effective(row["key"])]
    placed = [row for row in s["allocation"] if row.get("currency", s["currency"]) == s["currency"]]
    lost = [row for row in table["rows"] if row["key"] == "not placed"]
    others = [
        dict(one) | {"billed_rows": [r for r in one["rows"] if not _is_effective(r["key"])]}
        for one in table.get("other_currencies", [])
    ]
    return {
        "billed_rows": billed,
        "placed_rows": placed,
        "lost_rows": lost,
        "other_currencies": others,
    }


def _exchange(s: Mapping[str, Any]) -> dict[str, Any]:
    """The rates that converted charges, and the documents they are from (method §3.9)."""
    rows = (s.get("exchange") or {}).get("rates", [])
    documents = {digest for row in rows for digest in row["document_digests"]}
    return {
        "exchange_rates": [
            dict(row) | {"shown": figures.rate(row["rate"]), "legs": _legs(row)} for row in rows
        ],
        "exchange_documents": sorted(documents),
    }


def _legs(row: Mapping[str, Any]) -> str:
    """What a euro was worth on both sides of a cross rate; nothing where one side is the euro."""
    if "EUR" in (row["from"], row["to"]):
        return ""
    return f": 1 EUR = {row['from_per_eur']} {row['from']} = {row['to_per_eur']} {row['to']}"


def _is_effective(key: str) -> bool:
    return key in ("effective", "not placed") or key.startswith("place ")


def _matchers(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(",", ", ")[:RULE_TEXT_LIMIT]
    parts = [" ".join(map(str, m)) if isinstance(m, list | tuple) else str(m) for m in value]
    return ", ".join(parts)[:RULE_TEXT_LIMIT]


def _sum(one: Any, other: Any) -> int | None:
    return None if one is None or other is None else int(one) + int(other)


def _wide(values: Mapping[str, Any], low_name: str, high_name: str) -> bool:
    low, high = figures.decimal(values.get(low_name)), figures.decimal(values.get(high_name))
    if low is None or high is None or high == 0:
        return False
    return (high - low) / high > NARROW


def _differs(values: Mapping[str, Any], one: str, other: str) -> bool:
    a, b = figures.decimal(values.get(one)), figures.decimal(values.get(other))
    return a is not None and b is not None and a != b


def trend_words(s: Mapping[str, Any]) -> str:
    """The trend's message: this week against the week before and against the first shown."""
    rows = [r for r in s.get("trend") or [] if figures.decimal(r["cost_per_million_tokens"])]
    if len(rows) < 2 or rows[-1]["week"] != s["period"]["week"]:
        return ""
    last, before, first = rows[-1], rows[-2], rows[0]
    text = f"A million tokens cost {_against(last, before)} in {before['week']}"
    if first is not before:
        text += f" and {_against(last, first)} in {first['week']}"
    return text + "."


def _against(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    name = "cost_per_million_tokens"
    change = figures.ratio_change(now[name], then[name]) or Decimal(0)
    if round_half_even(change * 100, 1) == 0:
        return "about as much as"
    return f"{figures.percent(abs(change), 1)} {'more' if change > 0 else 'less'} than"


def _bridge(s: Mapping[str, Any]) -> dict[str, Any]:
    bridge = s.get("bridge")
    if not bridge:
        return {}
    price = figures.decimal(s["figures"].get("cost_per_million_tokens"))
    parts = {key: figures.decimal(bridge.get(key)) or Decimal(0) for key in BRIDGE_TEXTS}
    digits = places(list(parts.values()), price)
    rows = [
        {"label": label, "text": text, "shown": figures.signed(parts[key], digits)}
        for key, (label, text) in BRIDGE_TEXTS.items()
    ]
    return {
        "bridge_rows": rows,
        "bridge_total": figures.signed(bridge["total"], digits),
        "bridge_note": figures.footing(list(parts.values()), bridge["total"], digits),
        "bridge_words": _bridge_words(bridge, parts, s["currency"]),
        "bridge_parts": _efficiency_parts(bridge, digits),
    }


def _bridge_words(bridge: Mapping[str, Any], parts: Mapping[str, Decimal], currency: str) -> str:
    """The largest cause, in a sentence."""
    total = figures.decimal(bridge["total"]) or Decimal(0)
    if total == 0:
        return "A million tokens cost the same as the week before."
    direction = "less" if total < 0 else "more"
    amount = figures.price(abs(total))
    largest = max(parts, key=lambda key: abs(parts[key]))
    label, text = BRIDGE_TEXTS[largest]
    effect = figures.signed(parts[largest], figures.price_decimals(abs(parts[largest])))
    return (
        f"A million tokens cost {amount} {currency} {direction} than the week before. "
        f"The largest part is {label.lower()} ({text}): {effect} {currency}."
    )


def _efficiency_parts(bridge: Mapping[str, Any], digits: int) -> str:
    active, through = bridge.get("active_share"), bridge.get("throughput")
    if active is None or through is None:
        return ""
    text = (
        f"Efficiency consists of active share ({figures.signed(active, digits)}: more or fewer "
        f"hours with tokens moving) and throughput ({figures.signed(through, digits)}: more or "
        "fewer tokens while moving)."
    )
    parts = "the two add up to {gap} against efficiency"
    note = figures.footing([active, through], bridge["efficiency"], digits, parts)
    return f"{text} {note}".strip()


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every figure two statements print differently, for restatements and comparisons."""
    rows = _changed("", before["figures"], after["figures"])
    old = {w["slug"]: w["figures"] for w in before["workloads"]}
    new = {w["slug"]: w["figures"] for w in after["workloads"]}
    for slug in sorted({*old, *new}):
        rows += _changed(slug, old.get(slug, {}), new.get(slug, {}))
    texts = [("", name, before.get(name), after.get(name)) for name in ("currency", "headline")]
    rows += [
        {"workload": w, "figure": f, "before": a, "after": b} for w, f, a, b in texts if a != b
    ]
    return rows


def _changed(slug: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if as_printed(name, a) != as_printed(name, b):
            found.append({"workload": slug, "figure": name, "before": a, "after": b})
    return found


def is_money(name: str) -> bool:
    """Whether a figure is an amount of the report's currency."""
    return "saving" in name or ("cost" in name and not name.startswith("share"))


def as_printed(name: str, value: Any) -> str:
    """A figure as the report prints it: what decides whether a restatement is due."""
    if isinstance(value, bool) or value is None:
        return str(value)
    exact = figures.decimal(value)
    if exact is None:
        return str(value)
    if isinstance(value, int):
        return figures.whole(value)
    if name.startswith(("cost_per", "usage_cost_per")):
        return figures.price(value)
    if name in ("coverage", "tokens_per_dollar_change", "share_of_cost"):
        return figures.coverage(value)
    if name in ("tokens_per_dollar", "gpu_hours"):
        return figures.whole(value)
    return figures.grouped(exact, 2)
