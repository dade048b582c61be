"""The budget of a quarter and what training spent of it (method §5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from finops.core.allocation import WORKLOAD
from finops.core.money import EXACT
from finops.core.period import Period
from finops.core.plainly import when
from finops.core.training import quarter_of, quarter_of_week
from finops.core.training_facts import Budget, Burn
from finops.ledger.models import TrainingBudget

from .exchange_rates import rates_of
from .money import CHUNK_ROWS, COLUMNS, ChargePart, charge_parts, in_period
from .reaches import end_of_hour
from .reading import Reading
from .token_rows import LAST_INSTANT


@dataclass(frozen=True, slots=True)
class Spent:
    """One charge of training, and the workload it belongs to."""

    charge: ChargePart
    workload: str


def zone() -> ZoneInfo:
    """The organisation's zone: quarters begin at its midnight."""
    found: ZoneInfo = settings.ORGANISATION_ZONE
    return found


def budget_of(quarter: str, as_of: datetime | None = None) -> Budget | None:
    """The newest budget of a quarter."""
    row = TrainingBudget.objects.filter(quarter=quarter, at__lte=as_of or LAST_INSTANT).last()
    if row is None:
        return None
    return Budget(row.quarter, row.amount, row.currency, row.document_id, row.note, row.by, row.at)


def budget_rows() -> list[dict[str, Any]]:
    """Every budget ever set, the newest first."""
    return [
        {
            "quarter": row.quarter,
            "amount": row.amount,
            "currency": row.currency,
            "document": row.document_id,
            "note": row.note,
            "at": when(row.at),
            "by": row.by,
        }
        for row in TrainingBudget.objects.order_by("-pk")
    ]


def burn_of(reading: Reading) -> Burn | None:
    """The burn of the quarter that the week's end belongs to; None without training workloads.

    A quarter's charges are read only where it has a budget to compare them with.
    """
    if not any(w.purpose == "training" for w in reading.workloads):
        return None
    quarter = quarter_of_week(reading.period, zone())
    period = quarter_of(quarter, zone())
    budget = budget_of(quarter, reading.as_of)
    until = _until(reading, period)
    if budget is None:
        return Burn(period, until, None)
    spent, charges, others = Decimal(0), 0, set[str]()
    for one in training_charges(reading):
        if one.charge.currency != reading.currency:
            others.add(one.charge.currency)
            continue
        spent = EXACT.add(spent, one.charge.effective or Decimal(0))
        charges += 1
    return Burn(period, until, budget, spent, charges, tuple(sorted(others)))


def _until(reading: Reading, quarter: Period) -> datetime:
    """How far the quarter's cost is known: to the week's end, or to where cost reaches."""
    newest = reading.cost_span.newest
    reached = quarter.start if newest is None else end_of_hour(newest)
    return max(quarter.start, min(reading.period.end, reached))


def training_charges(reading: Reading) -> Iterator[Spent]:
    """The quarter's charges that rules give to training, each with its part up to `until`."""
    quarter = quarter_of(quarter_of_week(reading.period, zone()), zone())
    until = _until(reading, quarter)
    if until <= quarter.start:
        return
    span = Period(quarter.start, until)
    slugs = {w.slug for w in reading.workloads if w.purpose == "training"}
    places = dict(places_of(reading, span, slugs))
    rates = rates_of(span, reading.as_of) if reading.rates else None
    for one in charge_parts(span, as_of=reading.as_of, rates=rates, only=places):
        yield Spent(one, places[one.charge_id])


def places_of(reading: Reading, span: Period, slugs: Collection[str]) -> Iterator[tuple[int, str]]:
    """The charges of a span that rules give to some workloads, by only what the rules look at: a
    quarter holds many charges, and most of them are of others."""
    named = {m.name for rule in reading.charge_places.rules for m in rule.matchers}
    names = sorted(named & COLUMNS.keys() | {"commitment_status"})
    fields = [COLUMNS[name] for name in names]
    tags = sorted(name for name in named if name.startswith("tag:"))
    rows = in_period(span, as_of=reading.as_of).order_by()
    for pk, start, given, *values in rows.values_list(
        "pk", "charge_start", "tags", *fields
    ).iterator(chunk_size=CHUNK_ROWS):
        columns = {name: value or "" for name, value in zip(names, values, strict=True)}
        columns |= {name: str(given[name[4:]]) for name in tags if name[4:] in given}
        place = reading.charge_places(columns, start)
        if place.kind == WORKLOAD and place.target in slugs:
            yield pk, str(place.target)
