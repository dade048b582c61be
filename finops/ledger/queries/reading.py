"""A week read once: its charges in places, its tokens, and what is computed from them when asked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from finops.core.allocation import WORKLOAD, Assigner, Place
from finops.core.baseline import Terms
from finops.core.bridge import decimal_of
from finops.core.exchange import Rates
from finops.core.period import Period, instant_of
from finops.core.tokens import Tokens
from finops.ledger.models import Workload

from .allocation import assign_charges, assign_series, shared_keys
from .as_of import known_by
from .baselines import newest_baselines
from .costs import Costs, costs, report_currency, split_costs
from .exchange_rates import rates_of
from .nodes import NodeLedger
from .reaches import CostSpan, Span, cost_span, source_spans
from .token_rows import Known
from .tokens import TokenLedger

SHAPES = "GPU count of the invoice's shape × billed hours"


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
    nodes: NodeLedger
    baselines: dict[str, Terms]
    rates: Rates | None
    parts: dict[Period, Costs] = field(default_factory=dict)
    tokens_in: dict[Period, dict[Place, Tokens]] = field(default_factory=dict)

    @cached_property
    def tokens(self) -> dict[Place, Tokens]:
        """The period's tokens by place."""
        return self.tokens_of(self.period)

    @cached_property
    def currency(self) -> str:
        """The report's currency: the chosen one, else the one most charges are in (§3.9)."""
        return self.rates.target if self.rates else report_currency(self.whole)

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
            found = costs(period, self.charge_places, self.as_of, self.nodes.nodes, self.rates)
            self._split(found)
            self.parts[period] = found
        return self.parts[period]

    def split(self) -> None:
        """Splits the whole period's shared charges."""
        self._split(self.whole)

    def _split(self, found: Costs) -> None:
        hours = {w.slug: self.gpu_hours(w.slug)[0] or Decimal(0) for w in self.workloads}
        split_costs(found, shared_keys(self.as_of), self._token_weights(), hours)

    def gpu_hours(
        self, slug: str, period: Period | None = None
    ) -> tuple[Decimal | None, str | None]:
        """GPU-hours of a workload and by what they are known: requests, else devices, else the
        shapes of its charges (method §4). One source for the whole week, so that weeks compare."""
        whole = period is None or period == self.period
        told = self._told.get(slug)
        if told is None:
            found = self.whole if whole else self.costs_of(period or self.period)
            hours = found.gpu_hours(slug)
            return hours, None if hours is None else SHAPES
        if whole:
            return decimal_of(told[0]), told[1]
        part = self.nodes.gpu_hours(period or self.period).get(slug, (Fraction(0), told[1]))
        return decimal_of(part[0]), told[1]

    @cached_property
    def _told(self) -> dict[str, tuple[Fraction, str]]:
        return self.nodes.gpu_hours(self.period)

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
            for _, row, place in self.ledger.places(role, self.series_places):
                if row.tokens and place.kind == WORKLOAD and place.target:
                    hours.setdefault(place.target, set()).add(instant_of(row.hour_ms))
        for usage in self.ledger.usage:
            place = self.series_places(usage.rule_labels, usage.hour)
            if place.kind == WORKLOAD and place.target:
                hours.setdefault(place.target, set()).add(usage.hour)
        return hours

    @cached_property
    def first_known(self) -> dict[str, list[Known]]:
        """The series that belong to a workload in their first hour of the period."""
        found: dict[str, list[Known]] = {}
        for known in self.ledger.known:
            for row in known.rows[:1]:
                place = self.series_places(known.labels, instant_of(row.hour_ms))
                if place.target:
                    found.setdefault(place.target, []).append(known)
        return found

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
            place = self.series_places(usage.rule_labels, usage.hour)
            if place.target:
                found.setdefault(place.target, set()).add(usage.source.name)
        return found

    def preempted(self, slug: str, counted: Mapping[tuple[int, str], int]) -> int | None:
        """Preemptions of a workload's engines; None when none of them tells."""
        engines = {known.engine for known in self.first_known.get(slug, ())}
        told = [counted[engine] for engine in engines if engine in counted]
        return sum(told) if told else None

    def ended(self, slug: str) -> bool:
        """Whether every source of a workload has ended."""
        spans = [self.source_spans[name] for name in self.sources.get(slug, ())]
        return bool(spans) and all(span.ended for span in spans)


def _workloads(as_of: datetime | None) -> list[Workload]:
    """The workloads by slug, character by character: a database sorts by the language it was set
    up in, and a report and its second computation have to agree on any of them."""
    known = Workload.objects.filter(known_by(as_of, "created_at"))
    return sorted(known, key=lambda one: one.slug)


def read(period: Period, as_of: datetime | None = None) -> Reading:
    """Reads a period of whole hours once, its shared charges split."""
    charges, series = assign_charges(as_of), assign_series(as_of)
    ledger = TokenLedger(period, as_of)
    nodes = NodeLedger(period, ledger, series, as_of)
    baselines = newest_baselines(as_of)
    rates = rates_of(period, as_of, baselines)
    reading = Reading(
        period=period,
        as_of=as_of,
        series_places=series,
        charge_places=charges,
        ledger=ledger,
        workloads=_workloads(as_of),
        whole=costs(period, charges, as_of, nodes.nodes, rates),
        cost_span=cost_span(period, as_of),
        source_spans=source_spans(period, as_of),
        nodes=nodes,
        baselines=baselines,
        rates=rates,
    )
    reading.split()
    return reading
