"""The ledger rows behind one week as tables of text, for evidence packs (method §11).

Each table holds inputs, not results: with them every figure of the statement can be computed a
second time. `as_of` is the instant the statement was made of; rows posted later are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import Case, Q, Sum, When

from finops.core.allocation import KEPT_SUM, WORKLOAD, Place
from finops.core.baseline import Terms
from finops.core.money import plain
from finops.core.period import Period, milliseconds, rfc3339
from finops.core.training import quarter_of, quarter_of_week
from finops.ledger.models import (
    Charge,
    InvoiceAmount,
    PeriodConfirmation,
    PeriodStatus,
)
from finops.sources.engines import role_of
from finops.sources.focus_invoices import DETAIL

from .allocation import rules, shared_keys
from .baselines import newest_baselines
from .changes import change_of, confirmed, load_hours
from .evidence import names_shown, stated_memory
from .exchange_rates import quotes_of
from .export_memory import cache_hours, engines_and_devices, preemptions
from .export_nodes import nodes_and_holders
from .export_readings import readings
from .export_table import Table, table
from .export_unread import unread
from .money import COLUMNS, ChargePart, charge_parts, day_of, in_period, months_of
from .reading import Reading, read
from .service_levels import buckets, objectives
from .snapshots import current_ids
from .training import budget_of, training_charges, zone


def tables(period: Period, as_of: datetime) -> Iterator[Table]:
    """Every table of a week as it stood at an instant, one after the other."""
    reading = read(period, as_of)
    yield _charges(reading)
    yield _rules(as_of)
    yield _keys(as_of)
    yield _workloads(reading)
    yield _series(reading)
    yield _token_hours(reading)
    yield _gaps(reading)
    yield _restarts(reading)
    yield from unread(reading)
    yield from readings(reading.ledger.known, period, as_of)
    yield _usage_hours(reading)
    yield from nodes_and_holders(reading.nodes)
    yield from cache_hours(period, as_of)
    yield preemptions(period, as_of)
    yield from engines_and_devices(period, as_of)
    yield from _service_levels(period, as_of)
    yield from _training(reading)
    yield from _changes(reading)
    yield _reaches(reading)
    yield _invoice_lines(period, as_of)
    yield _invoice_amounts(period, as_of)
    yield _confirmations(period, as_of)
    yield _period_statuses(period, as_of)
    yield _baselines(as_of)
    yield from _exchange_rates(reading)


# -- money ---------------------------------------------------------------------------------------


def _charges(reading: Reading) -> Table:
    """Each charge that touches the week: whole amounts, its place by the rules."""
    tags = sorted(
        {m.name for r in reading.charge_places.rules for m in r.matchers if m.name[:4] == "tag:"}
    )
    columns = ("document", "line", "start", "end", "billed", "effective", "gpu_count",
               "consumed_quantity", "consumed_unit", "pricing_quantity", "pricing_unit",
               "place", "target", "idle_share", KEPT_SUM, *PRICES, *COLUMNS, *tags)  # fmt: skip
    converted = bool(reading.whole.conversions.tallies)
    columns += CONVERTED if converted else ()
    touching = in_period(reading.period, as_of=reading.as_of)
    whole = {
        pk: ((billed, effective), (*prices, _digest(tags)))
        for pk, billed, effective, *prices, tags in touching.values_list(
            "pk", "billed_cost", "effective_cost", *WRITTEN, "tags"
        ).iterator(chunk_size=2000)
    }
    rows = []
    for one in charge_parts(reading.period, as_of=reading.as_of):
        place, (amounts, prices) = (
            reading.charge_places(one.columns, one.start),
            whole[one.charge_id],
        )
        rows.append((
            one.document, one.line, one.start, one.end, *amounts, one.gpu_count,
            one.consumed_quantity, one.consumed_unit, one.pricing_quantity, one.pricing_unit,
            place.kind, place.target, _idle(reading, one), one.columns.get(KEPT_SUM), *prices,
            *(one.columns[name] for name in COLUMNS),
            *(one.columns.get(name, "") for name in tags),
            *(_converted(reading, one, *amounts) if converted else ()),
        ))  # fmt: skip
    return table("charges", columns, rows)


CONVERTED = ("report_billed", "report_effective", "rate_day")
WRITTEN = ("contracted_cost", "contracted_unit_price", "list_unit_price")
PRICES = ("contracted", "contracted_unit_price", "list_unit_price", "tags_digest")


def _digest(tags: dict[str, str] | None) -> str | None:
    """A line's tags as 16 digits: enough to tell lines that are alike from others."""
    text = json.dumps(tags, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if tags else None


def _converted(reading: Reading, one: Any, *amounts: Decimal | None) -> tuple[Any, ...]:
    """A whole charge in the report's currency and the day of its rate; empty where it has none."""
    currency = one.columns["currency"]
    if reading.rates is None or currency == reading.rates.target:
        return (*amounts, None)
    rate = reading.rates.on(currency, day_of(one.start))
    if rate is None:
        return (None, None, None)
    return (*(None if a is None else rate.convert(a) for a in amounts), rate.day.isoformat())


def _idle(reading: Reading, one: Any) -> str | None:
    """The share of a GPU charge's time in which nobody held the node, as a fraction."""
    nodes = reading.nodes.nodes
    usage = one.columns["category"] == "Usage" and one.columns["commitment_status"] != "Unused"
    if not nodes or not usage or one.gpu_count is None:
        return None
    start, end = max(one.start, reading.period.start), min(one.end, reading.period.end)
    share: Fraction | None = nodes.idle_share(one.columns["resource"], start, end)
    return None if not share else f"{share.numerator}/{share.denominator}"


def _rules(as_of: datetime) -> Table:
    columns = ("number", "version", "order", "subject", "place", "target", "matchers",
               "valid_from", "valid_to")  # fmt: skip
    found = [*rules("charge", as_of), *rules("series", as_of)]
    return table("rules", columns, (
        (r.number, r.version, r.order, r.subject, r.place.kind, r.place.target,
         [[m.name, m.op, m.value] for m in r.matchers], r.valid_from, r.valid_to)
        for r in found
    ))  # fmt: skip


def _keys(as_of: datetime) -> Table:
    rows: list[tuple[Any, ...]] = []
    for key in shared_keys(as_of).values():
        rows += [(key.name, key.method, *one) for one in sorted(key.shares.items())]
        if not key.shares:
            rows.append((key.name, key.method, "", None))
    return table("shared_keys", ("key", "method", "workload", "share"), rows)


def _invoice_lines(period: Period, as_of: datetime) -> Table:
    """The lines of the months the week touches, whole months, summed by document."""
    names = ("snapshot__issuer", "snapshot__billing_account", "invoice",
             "snapshot__billing_period", "currency", "document_id")  # fmt: skip
    rows = (
        Charge.objects.filter(
            snapshot__in=current_ids(as_of),
            snapshot__billing_period__in=months_of(period),
            billed_cost__isnull=False,
        )
        .order_by(*names)
        .values_list(*names)
        .annotate(
            billed=Sum("billed_cost"),
            lines=Sum("line_count"),
            tax_lines=Sum("line_count", filter=Q(category="Tax"), default=0),
        )
    )
    columns = ("issuer", "account", "invoice", "month", "currency", "document", "billed", "lines",
               "tax_lines")  # fmt: skip
    return table("invoice_lines", columns, rows)


def _invoice_amounts(period: Period, as_of: datetime) -> Table:
    columns = ("issuer", "invoice", "billing_period", "currency", "amount", "from_details",
               "document_id", "at", "by")  # fmt: skip
    is_told = Case(When(document__format=DETAIL, then=True), default=False)
    found = InvoiceAmount.objects.filter(billing_period__in=months_of(period), at__lte=as_of)
    rows = found.annotate(from_details=is_told).order_by("pk").values_list(*columns)
    return table("invoice_amounts", columns, rows)


def _confirmations(period: Period, as_of: datetime) -> Table:
    columns = ("issuer", "billing_account", "billing_period", "at", "by")
    found = PeriodConfirmation.objects.filter(billing_period__in=months_of(period), at__lte=as_of)
    return table("confirmations", columns, found.order_by("pk").values_list(*columns))


def _period_statuses(period: Period, as_of: datetime) -> Table:
    """What issuers said of their months, in the order in which they said it."""
    columns = ("issuer", "billing_period", "status", "updated_at", "document_id", "at")
    found = PeriodStatus.objects.filter(billing_period__in=months_of(period), at__lte=as_of)
    rows = found.order_by("updated_at", "pk").values_list(*columns)
    return table("period_statuses", columns, rows)


def _baselines(as_of: datetime) -> Table:
    left_out = ("quoted", "newer_waiting")  # said by the rates and by later rows
    columns = tuple(field.name for field in fields(Terms) if field.name not in left_out)
    found = sorted(newest_baselines(as_of).items())
    rows = []
    for _, terms in found:
        values = {name: getattr(terms, name) for name in columns}
        values["classes"] = {name: plain(price) for name, price in terms.classes.items()}
        rows.append([values[name] for name in columns])
    return table("baselines", columns, rows)


def _exchange_rates(reading: Reading) -> Iterator[Table]:
    """The published rates of the days that charges and baselines may be converted by."""
    found = quotes_of(reading.period, reading.as_of, reading.baselines.values())
    if found:
        columns = ("currency", "day", "per_eur", "document")
        rows = ((q.currency, q.day.isoformat(), q.per_base, q.document) for q in found)
        yield table("exchange_rates", columns, rows)


# -- tokens --------------------------------------------------------------------------------------


def _workloads(reading: Reading) -> Table:
    shown = names_shown(reading.period, reading.series_places, reading.as_of)
    stated = stated_memory(reading.workloads, reading.as_of, shown)
    columns = ("slug", "model", "stack", "team", "purpose", "cluster", "namespace",
               "rate_cap_tokens_per_second", "kv_bytes_per_token", "max_model_len")  # fmt: skip
    rows = [
        (w.slug, w.model, w.stack, w.team, w.purpose, w.cluster, w.namespace,
         w.rate_cap_tokens_per_second, *stated.get(w.slug, (None, None)))
        for w in reading.workloads
    ]  # fmt: skip
    return table("workloads", columns, rows)


def _series(reading: Reading) -> Table:
    columns = ("series", "source", "metric", "role", "layer", "preference", "target", "engine",
               "other_half", "born_ms", "last_ms", "usual_ms", "source_last_ms", "end_dark_ms",
               "marks_last_ms", "labels")  # fmt: skip
    rows = []
    for known in reading.ledger.known:
        around, role = known.around, role_of(known.series.metric)
        alternates = any(row.facts.get("alternations") for row in known.rows)
        rows.append((
            known.series.pk, known.source, known.series.metric, known.series.role,
            "gateway" if known.is_gateway else "engine", role.alias_rank if role else 9,
            known.series.target_id, known.series.engine, known.is_left_out, around.born_ms,
            around.last_ms, around.usual_ms, around.source_last_ms,
            around.dark_of_end().ms if around.ended() else None,
            sorted(around.last_of_marks()) if alternates else None, known.labels,
        ))  # fmt: skip
    return table("series", columns, rows)


def _token_hours(reading: Reading) -> Table:
    columns = ("series", "hour", "workload", "tokens", "readings", "restarts", "hidden_resets",
               "openings", "opening_tokens", "alternations", "unmarked", "rate_tokens", "rate_ms",
               "first_ms", "last_ms")  # fmt: skip
    names = _hour_names(reading.period)
    rows = [
        (known.series.pk, names[r.hour_ms], _slug(place(r.hour_ms)), r.tokens, r.readings,
         r.restarts, r.hidden_resets, len(r.facts.get("openings", ())), r.opening_tokens,
         r.facts.get("alternations", 0), int(bool(r.facts.get("unmarked"))), r.rate_tokens,
         r.rate_ms, r.first_ms, r.last_ms)
        for known in reading.ledger.known
        for place in (reading.series_places.by_hour(known.labels),)
        for r in known.rows
    ]  # fmt: skip
    return Table("token_hours", columns, rows)


def _slug(place: Place) -> str:
    return (place.target or "") if place.kind == WORKLOAD else ""


def _hour_names(period: Period) -> dict[int, str]:
    return {milliseconds(hour): rfc3339(hour) for hour in period.hours()}


def _gaps(reading: Reading) -> Table:
    """Gaps that end in the week, or that lie across its end."""
    rows = [
        (known.series.pk, *gap) for known in reading.ledger.known for gap in known.around.gaps()
    ]
    return table("gaps", ("series", "from_ms", "to_ms", "usual_ms", "tokens"), rows)


def _restarts(reading: Reading) -> Table:
    names = _hour_names(reading.period)
    rows = [
        (known.series.pk, names[row.hour_ms], restart.get("to"), dark.ms, dark.shown)
        for known in reading.ledger.known
        for row in known.rows
        for restart in row.facts.get("restarts", ())
        for dark in (known.around.dark_of(row, restart),)
    ]
    return table("restarts", ("series", "hour", "at_ms", "dark_ms", "shown_tokens"), rows)


def _usage_hours(reading: Reading) -> Table:
    columns = ("document", "source", "hour", "labels", "prompt_tokens", "cached_tokens",
               "generation_tokens", "requests", "quality")  # fmt: skip
    rows = sorted(reading.ledger.usage, key=lambda u: (u.hour, u.document_id, u.labels_digest))
    return table("usage_hours", columns, (
        (u.document_id, u.source.name, u.hour, u.rule_labels,
         u.prompt_tokens, u.cached_tokens, u.generation_tokens, u.requests, u.quality)
        for u in rows
    ))  # fmt: skip


def _service_levels(period: Period, as_of: datetime) -> Iterator[Table]:
    """The objectives, and the latency buckets of the engines by hour where there are any."""
    held = objectives(as_of)
    columns = ("workload", "first_token_seconds", "inter_token_seconds", "target", "valid_from",
               "at", "by", "note")  # fmt: skip
    yield table("objectives", columns, (
        [getattr(one, name) for name in columns] for _, of in sorted(held.items()) for one in of
    ))  # fmt: skip
    every = buckets(period, as_of) if held else []
    named = ("series", "measure", "preference", "target", "engine", "bound_seconds", "labels")
    yield table("latency_buckets", named, (
        (b.series.pk, b.measure, b.preference, *b.engine, str(b.bound_seconds), b.labels)
        for b in every
    ))  # fmt: skip
    names = _hour_names(period)
    rows = [(b.series.pk, names[at], h.count, h.readings) for b in every for at, h in b.hours]
    yield Table("latency_hours", ("series", "hour", "count", "readings"), rows)


def _training(reading: Reading) -> Iterator[Table]:
    """The budgets of the week's quarter, and the quarter's charges of training, whole."""
    quarter = quarter_of_week(reading.period, zone())
    budget = budget_of(quarter, reading.as_of)
    columns = ("quarter", "amount", "currency", "document", "note", "by", "at", "start", "end")
    span = quarter_of(quarter, zone())
    rows = (
        [[*(getattr(budget, name) for name in columns[:7]), span.start, span.end]] if budget else []
    )
    yield table("training_budget", columns, rows)
    spent = list(training_charges(reading)) if budget else []
    whole = dict(
        Charge.objects.filter(pk__in=[one.charge.charge_id for one in spent]).values_list(
            "pk", "effective_cost"
        )
    )
    names = ("document", "line", "start", "end", "workload", "currency", "effective")
    yield table("training_charges", names, (
        (one.charge.document, one.charge.line, one.charge.start, one.charge.end, one.workload,
         one.charge.currency, _whole(one.charge, whole[one.charge.charge_id]))
        for one in spent
    ))  # fmt: skip


def _changes(reading: Reading) -> Iterator[Table]:
    """The changes that the week's report measures, and the hours around each."""
    rows = [(change_of(row), row) for row in confirmed(reading)]
    columns = ("key", "workload", "kind", "at", "before", "after", "confirmed_by", "note")
    yield table("changes", columns, (
        (change.key, change.workload, change.kind, change.at, change.before, change.after,
         row.by, row.note)
        for change, row in rows
    ))  # fmt: skip
    names = ("change", "hour_ms", "cost", "tokens", "levels_ms")
    yield table("change_hours", names, (
        (change.key, hour.hour_ms, hour.cost, hour.tokens,
         {str(level): held for level, held in sorted(hour.levels_ms.items())})
        for change, _ in rows
        for hour in load_hours(reading, change)
    ))  # fmt: skip


def _whole(one: ChargePart, effective: Decimal | None) -> Decimal | None:
    """A whole charge in the currency its part is in: the report's where it was converted."""
    rate = one.original.rate if one.original else None
    return effective if rate is None or effective is None else rate.convert(effective)


def _reaches(reading: Reading) -> Table:
    """How far sources and issuers tell, and where cost begins inside the week."""
    span = reading.cost_span
    rows: list[tuple[Any, ...]] = [("cost", "", span.first, span.newest, None)]
    for issuer, last in sorted(span.by_issuer.items()):
        rows.append(("issuer", issuer, None, last, None))
    for name, one in sorted(reading.source_spans.items()):
        rows.append(("source", name, one.first, one.last, one.ended))
    return table("reaches", ("kind", "name", "first", "last", "ended"), rows)
