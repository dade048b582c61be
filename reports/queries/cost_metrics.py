"""The figures of the newest closed weeks as gauges, named like OpenCost's where it has the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from finops.core.money import WIDE
from finops.core.period import parse_instant
from finops.core.slo import MEASURES
from finops.ledger.queries import tokens
from reports import level_columns
from reports.exposition import Gauge
from reports.queries.standing import Standing, shown_reports, standing

WEEKS = 12
HOUR_SECONDS = 3600
BASES = {
    "allocation": "cost_per_million_tokens",
    "usage": "usage_cost_per_million_tokens",
}
PHASES = {
    "prompt": "cost_per_million_prompt_tokens",
    "cached_prompt": "cost_per_million_cached_prompt_tokens",
    "generation": "cost_per_million_generation_tokens",
}


def gauges() -> list[Gauge]:
    """All families. Unknown figures have no sample (method §5: never 0)."""
    reports = shown_reports(WEEKS)
    found = _weeks(reports)
    if reports:
        stand = standing(reports[0])
        found += [*_unit_costs(stand.statement), *_organisation(stand), *_memory(stand.statement)]
        found += _levels(stand.statement)
    return [*found, _sources()]


def _unit_costs(statement: Mapping[str, Any]) -> list[Gauge]:
    per_million = Gauge(
        "llm_cost_per_million_tokens",
        "Cost per million tokens of the newest closed week. cost_basis=allocation is all that was "
        "paid for the model, idle time included; cost_basis=usage is its share in hours with "
        "tokens moving. Without phase: prompt and generation together. phase=prompt leaves cached "
        "prompt tokens out.",
    )
    hourly = Gauge(
        "llm_total_hourly_cost",
        "Effective cost of the newest closed week divided by its hours; weeks that cost does not "
        "reach the end of are left out.",
    )
    hours = _hours(statement)
    for workload in statement["workloads"]:
        figures, labels = workload["figures"], _labels(workload, statement["currency"])
        for basis, name in BASES.items():
            per_million.add(figures.get(name), cost_basis=basis, **labels)
        for phase, name in PHASES.items():
            per_million.add(figures.get(name), cost_basis="allocation", phase=phase, **labels)
        cost = figures.get("period_effective_cost")
        if hours and cost is not None:
            value = WIDE.divide(Decimal(cost), hours)
            hourly.add(value, cost_basis="allocation", **labels)
    return [per_million, hourly]


def _labels(workload: Mapping[str, Any], currency: str | None = None) -> dict[str, str | None]:
    labels = {
        "model_name": workload["model"],
        "namespace": workload["namespace"],
        "cluster": workload["cluster"],
        "workload": workload["slug"],
        "workload_type": workload["purpose"],
    }
    return labels | ({"currency": currency} if currency else {})


def _hours(statement: Mapping[str, Any]) -> Decimal | None:
    """The week's hours, where cost reaches its end; an hour lost to summer time is not counted."""
    reach, period = statement["reaches"]["cost"], statement["period"]
    start, end = parse_instant(period["start"]), parse_instant(period["end"])
    if reach is None or parse_instant(reach) < end:
        return None
    return Decimal(int((end - start).total_seconds())) / HOUR_SECONDS


def _organisation(stand: Standing) -> list[Gauge]:
    statement, figures = stand.statement, stand.statement["figures"]
    currency = statement["currency"]
    cost = Gauge(
        "headroom_cost_per_million_tokens",
        "The organisation's cost per million tokens in the newest closed week.",
    )
    for basis, name in BASES.items():
        cost.add(figures.get(name), cost_basis=basis, currency=currency)
    plain = [
        ("tokens_per_currency_unit", "tokens_per_dollar", "Tokens per unit of the currency."),
        ("saving_vs_baseline", "saving_vs_baseline", "Counterfactual cost less actual cost."),
    ]
    counted = [
        ("token_coverage_ratio", "coverage", "Share of the engines' time that readings cover."),
        ("engine_restarts", "restarts", "Restarts of engines in the week."),
    ]
    found = [cost]
    for name, figure, said in plain:
        found.append(gauge := Gauge(f"headroom_{name}", f"{said} Newest closed week."))
        gauge.add(figures.get(figure), currency=currency)
    for name, figure, said in counted:
        found.append(gauge := Gauge(f"headroom_{name}", f"{said} Newest closed week."))
        gauge.add(figures.get(figure))
    for side in ("cost", "tokens"):
        gauge = Gauge(f"headroom_{side}_reach_timestamp_seconds", f"How far {side} reach.")
        gauge.add(_seconds(statement["reaches"][side]))
        found.append(gauge)
    return [*found, _info(stand)]


def _info(stand: Standing) -> Gauge:
    info = Gauge("headroom_report_info", "The report that these figures are read from.")
    info.add(
        1,
        week=stand.week,
        revision=str(stand.revision),
        state=stand.state,
        digest=stand.digest,
        method_version=stand.report.method_version,
        currency=stand.statement["currency"],
    )
    return info


def _levels(statement: Mapping[str, Any]) -> list[Gauge]:
    """What came in time, beside the costs: the organisation's samples have no workload."""
    share = Gauge(
        "headroom_in_time_ratio",
        "Share of the newest closed week that came in time, by measure (first_token, inter_token), "
        "as an interval: a threshold between two buckets gives two bounds.",
    )
    target = Gauge("headroom_in_time_target_ratio", "Share that a workload's objective asks for.")
    price = Gauge(
        "headroom_cost_per_million_tokens_in_time",
        "Cost per million tokens that came in time in the newest closed week, as an interval.",
    )
    workloads = {workload["slug"]: workload for workload in statement["workloads"]}
    rows = [row for row in statement.get("service_levels") or () if row["workload"] in workloads]
    whole = statement.get("service_level") or {}
    for row in (whole, *rows):
        labels = _labels(workloads[row["workload"]]) if row is not whole else {}
        for bound in level_columns.SIDES:
            for name in MEASURES:
                told = (row.get(name) or {}).get(f"share_{bound}")
                share.add(told, measure=name, bound=bound, **labels)
            cost = (row.get("goodput") or {}).get(f"cost_per_million_{bound}")
            price.add(cost, bound=bound, currency=statement["currency"], **labels)
        target.add((row.get("objective") or {}).get("target"), **labels)
    return [share, target, price]


def _memory(statement: Mapping[str, Any]) -> list[Gauge]:
    reserved = Gauge(
        "headroom_kv_reserved_bytes",
        "KV cache pool of an engine in the newest closed week; unknown ones are left out.",
    )
    active = Gauge(
        "headroom_kv_active_bytes",
        "Time-weighted mean of the pool that live requests referenced in the newest closed week.",
    )
    workloads = {workload["slug"]: workload for workload in statement["workloads"]}
    for row in statement.get("memory") or ():
        if row["workload"] in workloads:
            labels = _labels(workloads[row["workload"]]) | {"target": row["engine"]}
            reserved.add(row["reserved_bytes"], **labels)
            active.add(row["active_bytes_mean"], **labels)
    return [reserved, active]


def _weeks(reports: list[Any]) -> list[Gauge]:
    price = Gauge(
        "headroom_week_cost_per_million_tokens",
        f"The organisation's cost per million tokens in each of the newest {WEEKS} closed weeks.",
    )
    cost = Gauge(
        "headroom_week_effective_cost",
        "Effective cost of the hours with readings in the same weeks.",
    )
    share = Gauge("headroom_week_in_time_ratio", "What came in time in the same weeks.")
    for report in reports:
        labels = {"week": report.week, "currency": report.figures.get("currency")}
        price.add(report.figures.get("cost_per_million_tokens"), **labels)
        cost.add(report.figures.get("effective_cost"), **labels)
        for name in MEASURES:
            for bound in level_columns.SIDES:
                told = report.figures.get(f"{name}_in_time_{bound}")
                share.add(told, week=report.week, measure=name, bound=bound)
    return [price, cost, share]


def _sources() -> Gauge:
    last = Gauge(
        "headroom_source_last_reading_timestamp_seconds",
        "When the last reading of a source was taken.",
    )
    for name, moment in sorted(tokens.reach().items()):
        last.add(_unix(moment), source=name)
    return last


def _seconds(instant: str | None) -> Decimal | None:
    return _unix(parse_instant(instant)) if instant else None


def _unix(moment: datetime) -> Decimal:
    return Decimal(int(moment.timestamp() * 1000)) / 1000
