"""From a report's stored bytes to what the template shows: the same for screen and paper.

Only choices of presentation are made here; every figure comes from the statement as it was sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from finops.core.money import round_half_even
from reports import charts, figures
from reports.queries.standing import FIRST_PREVIOUS_DIGEST, Standing

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
        "sealed_at": seal.get("sealed_at"),
        "previous_digest": seal.get("previous_digest"),
        "is_first": seal.get("previous_digest") == FIRST_PREVIOUS_DIGEST,
        "reason": stand.report.reason,
    }


def as_sealed(stand: Standing) -> dict[str, Any]:
    """The identity paper shows: the state at sealing, whatever came after (method §11)."""
    shown = identity(stand)
    return shown | {"state": "final"} if stand.seal else shown


def context(
    statement: Mapping[str, Any],
    stand: Mapping[str, Any],
    dispositions: Mapping[str, Any],
) -> dict[str, Any]:
    """The template's values for a statement, its identity and its dispositions."""
    s = dict(statement)
    values = s["figures"]
    s["workloads"] = [_workload(w) for w in s["workloads"]]
    s["baselines"] = [_baseline(b) for b in s["baselines"]]
    s["rules"] = [dict(r) | {"shown": _matchers(r["matchers"])} for r in s.get("rules", [])]
    drawn = charts.of_statement(s)
    memory = drawn.get("memory")
    tokens = _sum(values.get("prompt_tokens"), values.get("generation_tokens"))
    end = figures.as_datetime(s["period"]["end"])
    return {
        "s": s,
        "stand": stand,
        "charts": {name: charts.svg(chart) for name, chart in drawn.items()},
        "memory_unit": memory.unit if isinstance(memory, charts.Bars) else "",
        "tokens": tokens,
        "unit_word": "dollar" if s["currency"] == "USD" else s["currency"],
        "unit_interval": _wide(values, "cost_per_million_lower", "cost_per_million_upper"),
        "saving_interval": _apart(values),
        "period_differs": _differs(values, "effective_cost", "period_effective_cost"),
        "last_day": end - timedelta(seconds=1) if end else None,
        "exceptions": [
            dict(e) | {"disposition": dispositions.get(e["id"])} for e in s["exceptions"]
        ],
        "workload_notes": _workload_notes(s["workloads"]),
        "memory_sentences": _sentences(s["memory"]),
        **_tieout(s),
        **_bridge(s),
    }


def _workload(row: Mapping[str, Any]) -> dict[str, Any]:
    values = row["figures"]
    wide = _wide(values, "cost_per_million_lower", "cost_per_million_upper")
    cost, whole = values.get("effective_cost"), values.get("period_effective_cost")
    return dict(row) | {
        "interval": wide,
        "cost": whole if cost is None else cost,
        "cost_of_week": cost is None and whole is not None,
    }


def _baseline(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row) | {"interval": _apart(row)}


def _apart(values: Mapping[str, Any]) -> bool:
    """Whether a saving has two bounds that differ."""
    low, high = (figures.decimal(values.get(name)) for name in ("saving_lower", "saving_upper"))
    return low is not None and high is not None and low != high


def _sentences(rows: list[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What each engine's memory means, once where several of a workload say the same."""
    found: dict[tuple[str, str], None] = {}
    for row in rows:
        if row.get("sentence"):
            found[(row["workload"] or "no workload", row["sentence"])] = None
    return [{"workload": workload, "text": text} for workload, text in found]


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


def _workload_notes(rows: list[dict[str, Any]]) -> list[str]:
    """Footnotes: why figures of a workload are not available, and where others come from."""
    found = []
    for row in rows:
        reasons = [
            row.get("reasons", {}).get(name)
            for name in ("prompt_tokens", "cost_per_million_tokens", "gpu_hours")
            if row["figures"].get(name) is None
        ]
        known = list(dict.fromkeys(reason for reason in reasons if reason))
        if known:
            found.append(f"{row['slug']}, n/a: {'; '.join(known)}.")
    sources = sorted(
        {str(row["figures"]["gpu_hours_source"]) for row in rows
         if row["figures"].get("gpu_hours_source")}
    )  # fmt: skip
    if sources:
        found.append(f"GPU-hours: {'; '.join(sources)}.")
    if any(row["cost_of_week"] for row in rows):
        found.append("Whole week: without common hours the cost of all hours is shown.")
    if any(row["interval"] for row in rows):
        found.append("Under a price: its bounds where tokens may have been lost unseen.")
    return found


def _bridge(s: Mapping[str, Any]) -> dict[str, Any]:
    bridge = s.get("bridge")
    if not bridge:
        return {}
    price = figures.decimal(s["figures"].get("cost_per_million_tokens"))
    digits = max(4, figures.price_decimals(price) if price else 4)
    parts = {key: figures.decimal(bridge.get(key)) or Decimal(0) for key in BRIDGE_TEXTS}
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
    return (
        f"Efficiency consists of active share ({figures.signed(active, digits)}: more or fewer "
        f"hours with tokens moving) and throughput ({figures.signed(through, digits)}: more or "
        "fewer tokens while moving)."
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every figure two statements print differently, for restatements and comparisons."""
    rows = _changed("", before["figures"], after["figures"])
    old = {w["slug"]: w["figures"] for w in before["workloads"]}
    new = {w["slug"]: w["figures"] for w in after["workloads"]}
    for slug in sorted({*old, *new}):
        rows += _changed(slug, old.get(slug, {}), new.get(slug, {}))
    texts = [("", "headline", before["headline"], after["headline"])]
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
    return str(round_half_even(exact, 2))
