"""Whether anything that a period is made of arrived after an instant (method §11)."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from finops.core.period import Period
from finops.ledger.models import Snapshot, TokenHour, UsageHour


def arrived_since(period: Period, since: datetime) -> bool:
    """Whether charges, or hours of tokens, that touch the period were posted or decided on since."""
    hours = Q(hour__gte=period.start, hour__lt=period.end)
    return (
        Snapshot.objects.filter(
            Q(arrived_at__gt=since) | Q(decisions__at__gt=since),
            charge_start__lt=period.end,
            charge_end__gte=period.start,
        ).exists()
        or TokenHour.objects.filter(hours, posted_at__gt=since).exists()
        or UsageHour.objects.filter(hours, document__received_at__gt=since).exists()
    )
