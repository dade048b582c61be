"""The facts of one week, gathered from the ledger in a few bulk reads (method §4–§8)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import Q

import finops
from finops.core.allocation import WORKLOAD, Assigner, Place
from finops.core.baseline import AGEING_AFTER
from finops.core.facts import (
    DocumentFacts,
    EngineMemory,
    Facts,
    InvoiceSum,
    Reaches,
    WorkloadFacts,
)
from finops.core.period import Period, instant_of, milliseconds
from finops.core.tokens import Tokens
from finops.core.unit_cost import SHOWN_WIDTH, Counted, Weights
from finops.ledger.models import Document, ReadingBlock, Workload
from finops.ledger.which import ledger_name

from .allocation import assign_charges, assign_series, rule_rows, shared_keys
from .baselines import newest_baselines
from .costs import Costs, costs, other_currencies, report_currency, split_costs
from .counts import preemptions
from .engine_memory import engine_memory
from .invoices import invoice_tie_out, provisional_months
from .notices import notices
from .reaches import CostSpan, Span, common_span, cost_span, end_of_hour, source_spans
from .tokens import TokenLedger

GPU_HOURS_SOURCE = "GPU count of the invoice's shape × billed hours"


@dataclass
class Reading:
    """Everything read once for a week, and what is computed from it when asked."""

    period: Period
    as_of: datetime | None
    series_places: Assigner
    charge_places: Assigner
    ledger: TokenLedger
    workloads: list[Workload]
    whole: Costs
    cost_span: CostSpan
    source_spans: dict[str, Span]
    parts: dict[Period, Costs] = field(default_factory=dict)
    tokens_in: dict[Period, dict[Place, Tokens]] = field(default_factory=dict)

    @cached_property
    def tokens(self) -> dict[Place, Tokens]:
        """The period's tokens by place."""
        return self.tokens_of(self.period)

    @cached_property
    def currency(self) -> str:
        """The report's currency."""
        return report_currency(self.whole)

    def tokens_of(self, period: Period) -> dict[Place, Tokens]:
        """Tokens by place of a part of the period, kept for the next who asks."""
        if period not in self.tokens_in:
            caps: dict[Hashable, int] = {
                Place(WORKLOAD, w.slug): w.rate_cap_tokens_per_second
                for w in self.workloads
                if w.rate_cap_tokens_per_second
            }
            self.tokens_in[period] = self.ledger.by(self.series_places, period, caps)
        return self.tokens_in[period]

    def costs_of(self, period: Period) -> Costs:
        """The money of a part of the period, shared charges split by the whole period's keys."""
        if period == self.period:
            return self.whole
        if period not in self.parts:
            found = costs(period, self.charge_places, self.as_of)
            self._split(found)
            self.parts[period] = found
        return self.parts[period]

    def split(self) -> None:
        """Splits the whole period's shared charges."""
        self._split(self.whole)

    def _split(self, found: Costs) -> None:
        hours = {w.slug: self.whole.gpu_hours(w.slug) or Decimal(0) for w in self.workloads}
        split_costs(found, shared_keys(), self._token_weights(), hours)

    def _token_weights(self) -> dict[str, int]:
        """Processed tokens of inference workloads: what the key `tokens` splits by."""
        weights = {}
        for w in self.workloads:
            tokens = self.tokens.get(Place(WORKLOAD, w.slug))
            if tokens and w.purpose == "inference":
                weights[w.slug] = (tokens.prompt or 0) + (tokens.generation or 0)
        return weights

    @cached_property
    def moved(self) -> dict[str, set[datetime]]:
        """The hours in which tokens moved, by workload."""
        hours: dict[str, set[datetime]] = {}
        for role in ("prompt", "generation"):
            for known, hour, tokens in self.ledger.hours(role):
                if tokens:
                    self._note(hours, known.labels, hour)
        for row in self.ledger.usage:
            self._note(hours, row.labels | {"source": row.source.name}, row.hour)
        return hours

    def _note(
        self, hours: dict[str, set[datetime]], labels: Mapping[str, str], hour: datetime
    ) -> None:
        place = self.series_places(labels, hour)
        if place.kind == WORKLOAD and place.target:
            hours.setdefault(place.target, set()).add(hour)

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """The sources that tell of each workload."""
        found: dict[str, set[str]] = {}
        for known in self.ledger.known:
            for row in (known.rows[:1], known.rows[-1:]):
                if row:
                    place = self.series_places(known.labels, instant_of(row[0].hour_ms))
                    if place.target:
                        found.setdefault(place.target, set()).add(known.source)
        for usage in self.ledger.usage:
            labels = usage.labels | {"source": usage.source.name}
            place = self.series_places(labels, usage.hour)
            if place.target:
                found.setdefault(place.target, set()).add(usage.source.name)
        return found


def read(period: Period, as_of: datetime | None = None) -> Reading:
    """Reads a period of whole hours once, its shared charges split."""
    charges = assign_charges(as_of)
    reading = Reading(
        period=period,
        as_of=as_of,
        series_places=assign_series(as_of),
        charge_places=charges,
        ledger=TokenLedger(period),
        workloads=list(Workload.objects.order_by("slug")),
        whole=costs(period, charges, as_of),
        cost_span=cost_span(period, as_of),
        source_spans=source_spans(period),
    )
    reading.split()
    return reading


def facts(period: Period, *, week: str, as_of: datetime | None = None) -> Facts:
    """The facts of a week; charges and rules as they stood at `as_of`."""
    reading = read(period, as_of)
    bytes_per_token = {w.slug: w.kv_bytes_per_token for w in reading.workloads}
    memory = engine_memory(period, reading.series_places, bytes_per_token)
    baselines = newest_baselines(as_of)
    counted = preemptions(period, reading.series_places)
    workloads = tuple(
        _workload(reading, w, memory.get(w.slug, ()), counted.get(w.slug), baselines)
        for w in reading.workloads
    )
    readings = [r for known in reading.ledger.known for r in known.rows]
    return Facts(
        week=week,
        period=period,
        zone=str(settings.ORGANISATION_ZONE),
        organisation=settings.ORGANISATION,
        sample=ledger_name() == "sample",
        software_version=finops.__version__,
        currency=reading.currency,
        reaches=_reaches(reading, workloads),
        money=reading.whole.currency_sums(),
        places=reading.whole.place_sums(),
        commitments=tuple(c for _, c in sorted(reading.whole.commitments.items())),
        invoices=_invoices(period),
        provisional_months=tuple(provisional_months(period)),
        workloads=workloads,
        tokens=reading.ledger.totals(),
        series=len({known.series.pk for known in reading.ledger.known if known.rows}),
        first_reading=_instant(min((r.first_ms for r in readings), default=None)),
        last_reading=_instant(max((r.last_ms for r in readings), default=None)),
        documents=_documents(reading),
        rules=tuple(rule_rows(as_of)),
        notices=notices(period, reading.ledger, reading.series_places),
        weights=Weights(),
        parameters=_parameters(),
    )


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
    has_cost = part is not None and bool(issuers or part.cost(slug, currency))
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
        gpu_hours=whole.gpu_hours(slug),
        common_gpu_hours=part.gpu_hours(slug) if part else None,
        gpu_hours_source=GPU_HOURS_SOURCE if whole.gpu_hours(slug) is not None else None,
        gpu_model=whole.gpu_model(slug),
        memory=memory,
        preemptions=preempted,
        old_engine=_old_engine(reading, slug),
        baseline=baselines.get(slug),
        other_currencies=dict(other_currencies(whole, slug, currency)),
    )


def _hours(common: Period | None) -> int | None:
    return (
        None
        if common is None
        else (milliseconds(common.end) - milliseconds(common.start)) // 3_600_000
    )


def _counted(tokens: Tokens | None) -> tuple[str, Counted | None]:
    """The basis unit costs are on and its tokens: processed, or delivered where only usage
    records tell; None where prompt or generation tokens are unknown."""
    if tokens is None:
        return "processed", None
    if tokens.prompt is None and tokens.generation is None:
        return ("delivered" if tokens.delivered_prompt is not None else "processed"), _delivered(
            tokens
        )
    if tokens.prompt is None or tokens.generation is None:
        return "processed", None
    return "processed", Counted(
        prompt=tokens.prompt,
        generation=tokens.generation,
        cached_prompt=tokens.cached_prompt,
        lower=_both(tokens.prompt_lower, tokens.generation_lower),
        upper=_both(tokens.prompt_upper, tokens.generation_upper),
    )


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _delivered(tokens: Tokens | None) -> Counted | None:
    """Tokens on the delivered basis: of requests that finished, or of usage records."""
    if tokens is None or tokens.delivered_prompt is None or tokens.delivered_generation is None:
        return None
    prompt, generation = tokens.delivered_prompt, tokens.delivered_generation
    cached = tokens.delivered_cached_prompt
    exact = prompt + generation if tokens.exact else None
    return Counted(prompt, generation, cached, exact, exact)


def _old_engine(reading: Reading, slug: str) -> bool:
    """Whether an engine without the label `engine` serves the workload: vLLM before 0.8.3, which
    may count a prompt again after a preemption."""
    for known in reading.ledger.known:
        if known.series.metric == "vllm:prompt_tokens_total" and not known.series.engine:
            for row in known.rows[:1]:
                if reading.series_places(known.labels, instant_of(row.hour_ms)).target == slug:
                    return True
    return False


def _reaches(reading: Reading, workloads: Iterable[WorkloadFacts]) -> Reaches:
    """How far cost and readings reach; complete when all that counts reaches the period's end."""
    commons = [w.common for w in workloads if w.common and w.purpose == "inference"]
    common = Period(min(c.start for c in commons), max(c.end for c in commons)) if commons else None
    lasts = [span.last for span in reading.source_spans.values()]
    cost = reading.cost_span.last
    end = reading.period.end
    enough = cost is not None and end_of_hour(cost) >= end
    complete = bool(commons) and enough and all(c.end >= end for c in commons)
    return Reaches(cost, max(lasts, default=None), common, complete)


def _invoices(period: Period) -> tuple[InvoiceSum, ...]:
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
        for row in invoice_tie_out(period)
    )


def _documents(reading: Reading) -> tuple[DocumentFacts, ...]:
    """Every document behind the period's charges, readings and usage records."""
    period = reading.period
    blocks = ReadingBlock.objects.filter(hour__gte=period.start, hour__lt=period.end).order_by()
    usage = {row.document_id for row in reading.ledger.usage}
    mine = Q(pk__in=reading.whole.documents | usage) | Q(
        pk__in=blocks.values("document_id").distinct()
    )
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
        )
        for one in Document.objects.filter(mine).order_by("received_at", "sha256")
    )


def _parameters() -> dict[str, Any]:
    return {
        "gap_over_usual_interval": "2.5",
        "bounds_shown_from_width": str(SHOWN_WIDTH),
        "baseline_ageing_days": AGEING_AFTER.days,
        "cost_basis": "effective",
        "token_basis": "processed",
    }
