"""The statement of one week: what a report says, as plain values (method §4–§11).

Facts in, a dictionary out whose values are text, whole numbers, booleans, null, lists and objects:
decimals are text in full length, instants RFC 3339. Nothing is rounded here but sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from . import memory_closing, register, tieout, wording
from .baseline import Comparison
from .changes import Difference
from .comparing import (
    against_legacy,
    baseline_value,
    bridge_value,
    comparisons,
    saving_scope,
    side_value,
)
from .exchanged import exchange_value
from .facts import ChangeFacts, CurrencySum, DocumentFacts, Facts, WorkloadFacts
from .figures import (
    NO_WEEK_BEFORE,
    OTHER_CURRENCY,
    Reasons,
    counting,
    organisation_figures,
    period_cost,
    summed_cost,
    week_over_week,
    workload_figures,
)
from .memory import sentence
from .money import divide, plain
from .period import rfc3339
from .plainly import Value, span, text_of, when
from .service_levels import beside_price, level_row, organisation_level
from .teams import allocation_statement
from .training import training_value
from .unit_cost import Weights

SCHEMA = "headroom-statement-1"
METHOD_VERSION = "1.0"

COPIED = ("slug", "model", "stack", "team", "purpose", "cluster", "namespace", "basis")


def statement(
    facts: Facts, previous: Mapping[str, Any] | None = None, trend: Sequence[Mapping[str, Any]] = ()
) -> Value:
    """The statement of a week's facts.

    `previous` is the statement of the week before, `trend` the rows of earlier statements as
    `trend_row` gives them, oldest first. Annotations are added by whoever keeps them.
    """
    compared = comparisons(facts)
    figures, reasons = organisation_figures(facts, compared)
    why = NO_WEEK_BEFORE
    if previous and previous["currency"] != facts.currency:
        previous, why = None, OTHER_CURRENCY  # amounts of two currencies are not compared (§3.9)
    before = previous["figures"] if previous else None
    week_over_week(figures, reasons, before, why)
    value = _opening(facts) | _answer(facts, figures, reasons, before, compared)
    value["previous"] = previous and {"week": previous["period"]["week"], "figures": before}
    value["workloads"] = [_workload(w, facts, compared.get(w.slug)) for w in facts.workloads]
    value["baselines"] = [w["baseline"] for w in value["workloads"] if w["baseline"]]
    value |= _service_levels(facts)
    value["training"] = training_value(facts)
    value["changes"] = [_change(one) for one in facts.changes]
    value["memory"] = [row for w in value["workloads"] for row in w["memory"] or ()]
    value["memory_hours"] = [w.memory_hours.as_json() for w in facts.workloads if w.memory_hours]
    value["memory_tables"] = memory_closing.stated(facts.memory)
    value["rightsizing"] = [dict(row) for row in facts.rightsizing]
    value["tieout"] = {
        "invoice": tieout.invoice_rows(facts),
        "period": tieout.period_table(facts),
    }
    if facts.exchange:
        value["exchange"] = exchange_value(facts.exchange, facts.currency)
    value["allocation"] = tieout.allocation_rows(facts)
    value["allocation_statement"] = allocation_statement(facts)
    value["nodes"] = _nodes(facts)
    value["bridge_groups"] = side_value(facts)
    value["bridge"] = bridge_value(previous, value)
    value["annotations"] = []
    value["exceptions"] = register.exceptions(facts)
    value["control_totals"] = _control_totals(facts)
    value["rules"] = [dict(rule) for rule in facts.rules]
    value["parameters"] = dict(facts.parameters)
    value["trend"] = [*map(dict, trend), trend_row(value)]
    return value


def trend_row(value: Mapping[str, Any]) -> Value:
    """A statement's row in the trend of later ones."""
    figures = value["figures"]
    counted = [figures["prompt_tokens"], figures["generation_tokens"]]
    return {
        "week": value["period"]["week"],
        "cost_per_million_tokens": figures["cost_per_million_tokens"],
        "tokens_per_dollar": figures["tokens_per_dollar"],
        "effective_cost": figures["effective_cost"],
        "tokens": None if None in counted else sum(counted),
        **beside_price(value),
    }


def _opening(facts: Facts) -> Value:
    common = facts.reaches.common
    return {
        "schema": SCHEMA,
        "method_version": METHOD_VERSION,
        "software_version": facts.software_version,
        "organisation": facts.organisation,
        "sample": facts.sample,
        "period": {
            "week": facts.week,
            "start": rfc3339(facts.period.start),
            "end": rfc3339(facts.period.end),
            "zone": facts.zone,
        },
        "currency": facts.currency,
        "reaches": {
            "cost": when(facts.reaches.cost),
            "tokens": when(facts.reaches.tokens),
            "common_start": when(common.start) if common else None,
            "common_end": when(common.end) if common else None,
            "complete": facts.reaches.complete,
        },
        "provisional_months": list(facts.provisional_months),
    }


def _answer(
    facts: Facts,
    figures: Value,
    reasons: Reasons,
    before: Mapping[str, Any] | None,
    compared: Mapping[str, Comparison],
) -> Value:
    sentence = wording.headline(
        facts.week,
        facts.currency,
        figures,
        reasons,
        before,
        against_legacy(facts, compared),
        facts.reaches.complete,
    )
    return {
        "headline": sentence,
        "figures": figures,
        "reasons": reasons,
        "saving_scope": saving_scope(facts, compared),
        "weights": _weights(facts.weights),
    }


def _service_levels(facts: Facts) -> Value:
    """What came in time, by workload and of the workloads of the organisation's unit cost."""
    rows = [row for w in facts.workloads if (row := level_row(w))]
    parts = counting(facts)
    cost = summed_cost(parts) if parts else None
    return {
        "service_levels": rows,
        "service_level": organisation_level(parts, rows, cost),
    }


def _change(one: ChangeFacts) -> Value:
    """A confirmed change with its impact; null figures with the reason."""
    found = one.impact
    return {
        "key": one.change.key,
        "workload": one.change.workload,
        "kind": one.change.kind,
        "at": rfc3339(one.change.at),
        "before": one.change.before,
        "after": one.change.after,
        "confirmed_by": one.by,
        "note": one.note,
        "pairs": found.pairs,
        "seed": found.seed,
        "cost_per_million": _difference(found.cost),
        "p99_kv_use": _difference(found.p99),
        "reason": found.reason,
    }


def _difference(found: Difference | None) -> Value | None:
    if found is None:
        return None
    return {field.name: plain(getattr(found, field.name)) for field in fields(found)}


def _weights(weights: Weights) -> Value:
    return {
        "prompt": plain(weights.prompt),
        "cached_prompt": plain(weights.cached_prompt),
        "generation": plain(weights.generation),
        "kind": weights.kind,
    }


def _workload(w: WorkloadFacts, facts: Facts, compared: Comparison | None) -> Value:
    figures, reasons, costs = workload_figures(w, facts, compared)
    total = period_cost(facts)
    known = w.baseline and compared
    return {
        **{name: getattr(w, name) for name in COPIED},
        "common": span(w.common),
        "figures": figures,
        "reasons": reasons,
        "class_costs": {name: plain(cost) for name, cost in costs.class_costs.items()},
        "tokens": w.tokens.as_json() if w.tokens else None,
        "baseline": baseline_value(w, w.baseline, compared, facts.period.end)
        if known and w.baseline and compared
        else None,
        "memory": _memory(w) or None,
        "share_of_cost": text_of(divide(w.cost, total) if total else None),
    }


def _nodes(facts: Facts) -> Value | None:
    """Nodes against the invoice, both sides (method §4); null where no node is known."""
    nodes = facts.nodes
    if nodes is None:
        return None
    names = [
        f.name
        for f in fields(nodes)
        if f.name not in ("unmatched_nodes", "unmatched_charges", "currency")
    ]
    return {
        **{name: plain(getattr(nodes, name)) for name in (*names, "unmatched_node_hours")},
        "unmatched_nodes": list(nodes.unmatched_nodes),
        "unmatched_charges": nodes.unmatched_charges,
        "currency": nodes.currency,
    }


def _memory(w: WorkloadFacts) -> list[Value]:
    return [
        {
            "workload": w.slug,
            "engine": engine.engine,
            "told_by": engine.told_by,
            "counts": engine.counts,
            "device_total": None,
            "first_seen": when(f.first_seen),
            "last_seen": when(f.last_seen),
            "reserved_tokens_mean": text_of(f.reserved_tokens_mean),
            "reserved_bytes_mean": text_of(f.reserved_bytes_mean),
            "reserved_bytes": f.reserved_bytes,
            "active_bytes_mean": text_of(f.active_bytes_mean),
            "unreferenced_bytes_mean": text_of(f.unreferenced_bytes_mean),
            "reserved_tokens": f.reserved_tokens,
            "active_tokens_mean": text_of(f.active_tokens_mean),
            "peak_active_tokens": f.peak_active_tokens,
            "peak_at": when(f.peak_at),
            "peak_running": f.peak_running,
            "contiguous_slots": f.contiguous_slots,
            "max_model_len": f.max_model_len,
            "observed_seconds": f.observed_ms // 1000,
            "stale_seconds": f.stale_ms // 1000,
            "preemptions": engine.preemptions,
            "sentence": sentence(f),
        }
        for engine in w.memory
        for f in (engine.figures,)
    ]


def _document(document: DocumentFacts) -> Value:
    return {
        **asdict(document),
        "received_at": rfc3339(document.received_at),
        "sums": _by_currency(document.sums),
    }


def _by_currency(sums: Iterable[CurrencySum]) -> Value:
    return {
        m.currency: {
            "charges": m.charges,
            "billed": plain(m.billed),
            "effective": plain(m.effective),
        }
        for m in sums
    }


def _control_totals(facts: Facts) -> Value:
    chosen = next((m for m in facts.money if m.currency == facts.currency), None)
    return {
        "documents": [_document(document) for document in facts.documents],
        "charges": sum(m.charges for m in facts.money),
        "billed": text_of(chosen.billed if chosen else None),
        "effective": text_of(chosen.effective if chosen else None),
        "by_currency": _by_currency(facts.as_written),
        "series": facts.series,
        "readings": facts.readings,
        "readings_expected": facts.readings + facts.readings_missing,
        "restarts": facts.tokens.restarts if facts.tokens else 0,
        "first_reading": when(facts.first_reading),
        "last_reading": when(facts.last_reading),
    }
