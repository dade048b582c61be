"""Whether anything that a period is made of arrived after an instant (method §11).

Rows bear the instant at which the work that posted them began, and are there for others only once
it is committed. Who asks for what came since he looked has to ask for a while before that, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from finops.core.period import Period
from finops.ledger.models import (
    Baseline,
    BaselineDecision,
    CacheHour,
    ChangeDecision,
    DeviceHour,
    EngineStart,
    EvidenceLink,
    FxRate,
    GpuHour,
    InvoiceAmount,
    ModelConfig,
    PeriodConfirmation,
    PeriodStatus,
    QuietHour,
    RateCard,
    Rule,
    ServiceObjective,
    Snapshot,
    TokenHour,
    TrainingBudget,
    UsageHour,
)

from .money import months_of


def arrived_since(period: Period, since: datetime) -> bool:
    """Whether anything that may touch the period's figures bears an instant after `since`."""
    return any(rows.exists() for rows in _arrived(period, since))


def _arrived(period: Period, since: datetime) -> Iterator[QuerySet[Any]]:
    """Rows that came since, kind by kind; small tables first."""
    yield from _papers(period, since)
    yield from _words(period, since)
    yield from _evidence(period, since)
    yield from _hours(period, since)


def _papers(period: Period, since: datetime) -> Iterator[QuerySet[Any]]:
    """Charges and what is said of their months; the tie-out looks at whole months."""
    months = Q(billing_period__in=months_of(period))
    touching = Q(charge_start__lt=period.end, charge_end__gte=period.start)
    came = Q(arrived_at__gt=since) | Q(decisions__at__gt=since)
    yield Snapshot.objects.filter(came, touching | months)
    for model in (InvoiceAmount, PeriodConfirmation, PeriodStatus):
        yield model.objects.filter(months, at__gt=since)
    # A day without a rate takes an older one, and a charge may have begun long before the period.
    yield FxRate.objects.filter(date__lte=period.end.date(), document__received_at__gt=since)
    yield RateCard.objects.filter(_in_force(period), at__gt=since)


def _words(period: Period, since: datetime) -> Iterator[QuerySet[Any]]:
    """What people say; most of it holds for any week."""
    yield Rule.objects.filter(_in_force(period), at__gt=since)
    yield ServiceObjective.objects.filter(valid_from__lt=period.end, at__gt=since)
    for model in (Baseline, BaselineDecision, TrainingBudget, ChangeDecision):
        yield model.objects.filter(at__gt=since)


def _in_force(period: Period) -> Q:
    begun = Q(valid_from__isnull=True) | Q(valid_from__lt=period.end)
    return begun & (Q(valid_to__isnull=True) | Q(valid_to__gt=period.start))


def _evidence(period: Period, since: datetime) -> Iterator[QuerySet[Any]]:
    """What tells the sizes of engines: one that runs in the period may have started before it."""
    started = Q(started_at__isnull=True) | Q(started_at__lt=period.end)
    yield EngineStart.objects.filter(started, posted_at__gt=since)
    yield ModelConfig.objects.filter(posted_at__gt=since)
    yield EvidenceLink.objects.filter(at__gt=since)


def _hours(period: Period, since: datetime) -> Iterator[QuerySet[Any]]:
    hours = Q(hour__gte=period.start, hour__lt=period.end)
    for model in (TokenHour, CacheHour, GpuHour, DeviceHour):
        yield model.objects.filter(hours, posted_at__gt=since)
    yield UsageHour.objects.filter(hours, document__received_at__gt=since)
    touching = Q(start__lt=period.end, end__gt=period.start)
    yield QuietHour.objects.filter(touching, fetch__at__gt=since)
