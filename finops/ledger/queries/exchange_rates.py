"""Exchange rates as their source gives them: dated, never guessed (method §3.9)."""

from __future__ import annotations

from datetime import date, timedelta

from finops.ledger.models import FxRate

LONGEST_GAP = timedelta(days=10)  # a rate older than this says nothing of a day


def rates_on(day: date | None = None) -> list[FxRate]:
    """The rate of each currency on a day: that day's, else the last one up to ten days before.

    Without a day, the newest of each currency. Of two documents the one that came later counts.
    """
    rows = FxRate.objects.select_related("document")
    if day is not None:
        rows = rows.filter(date__lte=day, date__gt=day - LONGEST_GAP)
    return list(
        rows.order_by("currency", "-date", "-document__received_at", "-pk").distinct("currency")
    )
