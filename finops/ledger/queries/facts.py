"""The facts of one week, gathered from the ledger in a few bulk reads (method §4–§8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q

import finops
from finops.core.allocation import WORKLOAD, Place
from finops.core.baseline import AGEING_AFTER, Terms
from finops.core.exchange import working_days_after
from finops.core.facts import (
    DocumentFacts,
    EngineMemory,
    ExchangeFacts,
    Facts,
    InvoiceSum,
    Reaches,
    ServiceLevel,
    WorkloadFacts,
)
from finops.core.period import HOUR_MS, Period, instant_of, milliseconds, rfc3339
from finops.core.sizing_rows import stated
from finops.core.tokens import Tokens
from finops.core.unit_cost import SHOWN_WIDTH, Counted, Weights
from finops.ledger.models import Document, ReadingBlock, Workload
from finops.ledger.which import ledger_name

from .allocation import rule_rows
from .as_of import known_by
from .changes import confirmed_changes
from .costs import other_currencies
from .counts import preemptions
from .engine_memory import engine_memory
from .evidence import names_shown, stated_memory
from .exchange_rates import chosen_currency
from .invoices import invoice_tie_out, provisional_months
from .memory_closing import closings
from .memory_fleet import fleet
from .memory_hours import hours_by_workload
from .node_facts import node_facts, node_notices
from .notices import late_sources, notices
from .reaches import common_span, end_of_hour
from .reading import Reading, read
from .rightsizing import advised
from .service_levels import ServiceLevels
from .training import burn_of


def facts(period: Period, *, week: str, as_of: datetime | None = None) -> Facts:
    """The facts of a week as the ledger stood at `as_of`: the same for the same instant, whatever
    arrives later."""
    reading = read(period, as_of)
    shown = names_shown(period, reading.series_places, as_of)
    sizes = stated_memory(reading.workloads, as_of, shown)
    counted = preemptions(period, as_of)
    engines = fleet(period, as_of)
    memory = engine_memory(period, reading.series_places, sizes, counted, engines, as_of)
    hours = hours_by_workload(period, as_of, engines)
    baselines = _in_report_currency(reading)
    levels = ServiceLevels(period, reading.series_places, as_of)
    workloads = tuple(
        replace(one, memory_hours=hours.get(one.slug), service=_level(levels, one, period))
        for w in reading.workloads
        for one in (
            _workload(
                reading, w, memory.get(w.slug, ()), reading.preempted(w.slug, counted), baselines
            ),
        )
    )
    is_sample = ledger_name() == "sample"
    readings = [r for known in reading.ledger.known for r in known.rows]
    return Facts(
        week=week,
        period=period,
        zone=str(settings.ORGANISATION_ZONE),
        organisation=settings.SAMPLE_ORGANISATION if is_sample else settings.ORGANISATION,
        sample=is_sample,
        software_version=finops.__version__,
        currency=reading.currency,
        reaches=_reaches(reading, workloads),
        money=reading.whole.currency_sums(),
        places=reading.whole.place_sums(),
        commitments=tuple(c for _, c in sorted(reading.whole.commitments.items())),
        invoices=_invoices(period, as_of),
        provisional_months=tuple(provisional_months(period, as_of)),
        workloads=workloads,
        tokens=reading.ledger.totals(),
        series=len({known.series.pk for known in reading.ledger.known if known.rows}),
        readings=sum(r.readings for r in readings),
        readings_missing=sum(
            known.around.missing_readings(milliseconds(period.start), milliseconds(period.end))
            for known in reading.ledger.known
        ),
        first_reading=_instant(min((r.first_ms for r in readings), default=None)),
        last_reading=_instant(max((r.last_ms for r in readings), default=None)),
        documents=_documents(reading),
        rules=tuple(rule_rows(as_of)),
        notices=(
            *notices(period, reading.ledger, reading.series_places, as_of),
            *late_sources(period, reading.source_spans),
            *node_notices(reading),
        ),
        nodes=node_facts(reading),
        memory=closings(reading, engines),
        rightsizing=tuple(
            stated(
                advised(engines, reading, as_of=as_of), rfc3339(period.start), rfc3339(period.end)
            )
        ),
        training=burn_of(reading),
        changes=confirmed_changes(reading),
        weights=Weights(),
        parameters=_parameters(),
        exchange=_exchange(reading),
    )


def _in_report_currency(reading: Reading) -> dict[str, Terms]:
    """The baselines, those in another currency converted where a rate was published (§3.9)."""
    found = {}
    for slug, terms in reading.baselines.items():
        other = reading.rates is not None and terms.currency != reading.currency
        rate = reading.rates.on(terms.currency, terms.day) if reading.rates and other else None
        found[slug] = terms.converted(rate) if rate else terms
    return found


def _exchange(reading: Reading) -> ExchangeFacts | None:
    """What conversion did; None where nobody chose a currency or all is in it."""
    rates, conversions = reading.rates, reading.whole.conversions
    if rates is None or not conversions.tallies:
        return None
    late = {}
    for currency, last in sorted(conversions.last_days().items()):
        newest = rates.newest_day(currency)
        if newest is not None and working_days_after(newest, last):
            late[currency] = newest
    return ExchangeFacts(
        originals=reading.whole.original_sums(),
        rates=conversions.rates(),
        missing=conversions.missing(),
        late=late,
    )


def _level(levels: ServiceLevels, w: WorkloadFacts, period: Period) -> ServiceLevel | None:
    """What came in time in the hours that unit costs use; without such hours, in the period."""
    return levels.of(w.slug, w.common or period) if w.purpose == "inference" else None


def _instant(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else instant_of(time_ms)


def _workload(
    reading: Reading,
    w: Workload,
    memory: tuple[EngineMemory, ...],
    preempted: int | None,
    baselines: Mapping[str, Any],
) -> WorkloadFacts:
    slug, currency, whole = w.slug, reading.currency, reading.whole
    place = Place(WORKLOAD, slug)
    spans = [reading.source_spans[s] for s in reading.sources.get(slug, ())]
    issuers = whole.issuers.get(slug, set())
    common = common_span(reading.period, reading.cost_span, issuers, spans)
    tokens = reading.tokens_of(common).get(place) if common else None
    part = reading.costs_of(common) if common else None
    basis, counted = _counted(tokens)
    moved = reading.moved.get(slug, set())
    gpu_hours, gpu_source = reading.gpu_hours(slug)
    has_cost = part is not None and bool(issuers or part.cost(slug, currency))
    if part is not None and any(other_currencies(part, slug, currency)):
        has_cost = False  # a unit cost without a part of the cost would be too low (method §3.9)
    return WorkloadFacts(
        slug=slug,
        model=w.model,
        stack=w.stack,
        team=w.team,
        purpose=w.purpose,
        cluster=w.cluster,
        namespace=w.namespace,
        tokens=reading.tokens.get(place),
        cost_own=whole.own(slug, currency).effective,
        cost_shared=whole.shared_part(slug, currency),
        charges=whole.own(slug, currency).charges,
        common=common,
        basis=basis,
        common_tokens=tokens,
        counted=counted,
        delivered=_delivered(tokens),
        common_cost=part.cost(slug, currency) if part and has_cost else None,
        active_hours=len([hour for hour in moved if hour in common]) if common else None,
        common_hours=_hours(common),
        gpu_hours=gpu_hours,
        common_gpu_hours=reading.gpu_hours(slug, common)[0] if common else None,
        billed_gpu_hours=part.gpu_hours(slug) if part else None,
        gpu_hours_source=gpu_source,
        gpu_model=whole.gpu_model(slug),
        memory=memory,
        preemptions=preempted,
        old_engine=_old_engine(reading, slug),
        baseline=baselines.get(slug),
        other_currencies=dict(other_currencies(whole, slug, currency)),
    )


def _hours(common: Period | None) -> int | None:
    if common is None:
        return None
    return (milliseconds(common.end) - milliseconds(common.start)) // HOUR_MS


def _counted(tokens: Tokens | None) -> tuple[str, Counted | None]:
    """The basis unit costs are on and its tokens: processed, or delivered where only usage
    records tell; None where prompt or generation tokens are unknown."""
    if tokens is None:
        return "processed", None
    if tokens.prompt is None and tokens.generation is None:
        delivered = _delivered(tokens)
        return "processed" if delivered is None else "delivered", delivered
    if tokens.prompt is None or tokens.generation is None:
        return "processed", None
    counted = Counted(
        prompt=tokens.prompt,
        generation=tokens.generation,
        cached_prompt=tokens.cached_prompt,
        lower=_both(tokens.prompt_lower, tokens.generation_lower),
        upper=_both(tokens.prompt_upper, tokens.generation_upper),
    )
    return "processed", counted


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _delivered(tokens: Tokens | None) -> Counted | None:
    """Tokens on the delivered basis: of requests that finished, or of usage records; None while
    both tell of them and nobody has decided which counts."""
    if tokens is None or tokens.delivered_twice:
        return None
    if tokens.delivered_prompt is None or tokens.delivered_generation is None:
        return None
    prompt, generation = tokens.delivered_prompt, tokens.delivered_generation
    cached = tokens.delivered_cached_prompt
    return Counted(prompt, generation, cached, tokens.delivered_lower, tokens.delivered_upper)


def _old_engine(reading: Reading, slug: str) -> bool:
    """Whether an engine without the label `engine` serves the workload: vLLM before 0.8.3, which
    may count a prompt again after a preemption."""
    return any(
        known.series.metric == "vllm:prompt_tokens_total" and not known.series.engine
        for known in reading.first_known.get(slug, ())
    )


def _reaches(reading: Reading, workloads: Iterable[WorkloadFacts]) -> Reaches:
    """How far cost and readings reach; complete when all that counts and has not ended reaches
    the period's end."""
    counting = [w for w in workloads if w.purpose == "inference" and w.basis == "processed"]
    spans = [(w.slug, w.common) for w in counting if w.common]
    common = None
    if spans:
        common = Period(min(c.start for _, c in spans), max(c.end for _, c in spans))
    lasts = [span.last for span in reading.source_spans.values()]
    cost, end = reading.cost_span.last, reading.period.end
    late = [slug for slug, c in spans if c.end < end and not reading.ended(slug)]
    enough = cost is not None and end_of_hour(cost) >= end
    return Reaches(cost, max(lasts, default=None), common, bool(spans) and enough and not late)


def _invoices(period: Period, as_of: datetime | None) -> tuple[InvoiceSum, ...]:
    return tuple(
        InvoiceSum(
            issuer=row.issuer,
            invoice=row.invoice or None,
            billing_period=row.billing_period,
            currency=row.currency,
            lines=row.lines,
            billed=row.billed,
            issued=row.issued,
            difference=row.difference,
            tolerance=row.tolerance,
            within=row.within,
            provisional=row.provisional,
        )
        for row in invoice_tie_out(period, as_of)
    )


def _documents(reading: Reading) -> tuple[DocumentFacts, ...]:
    """Every document behind the period's charges, readings and usage records."""
    period = reading.period
    blocks = (
        ReadingBlock.objects.filter(known_by(reading.as_of, "document__received_at"))
        .touching(milliseconds(period.start), milliseconds(period.end))
        .order_by()
    )
    usage = {row.document_id for row in reading.ledger.usage}
    papers = reading.whole.documents | reading.whole.conversions.documents()
    mine = Q(pk__in=papers | usage) | Q(pk__in=blocks.values("document_id").distinct())
    return tuple(
        DocumentFacts(
            one.sha256,
            one.name,
            one.format,
            one.size_bytes,
            one.rows_read,
            one.charges,
            one.readings,
            one.rows_rejected,
            one.received_at,
            reading.whole.document_sums(one.sha256),
            one.version,
        )
        for one in Document.objects.filter(mine).order_by("received_at", "sha256")
    )


def _parameters() -> dict[str, Any]:
    chosen = chosen_currency()
    return ({"report_currency": chosen} if chosen else {}) | {
        "gap_over_usual_interval": "2.5",
        "bounds_shown_from_width": str(SHOWN_WIDTH),
        "baseline_ageing_days": AGEING_AFTER.days,
        "cost_basis": "effective",
        "token_basis": "processed",
    }
