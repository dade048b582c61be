"""Exchange rates as their source gives them: dated, never guessed (method §3.9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from functools import reduce
from operator import or_

from django.conf import settings
from django.db.models import Max, Min, Q

from finops.core.baseline import Terms
from finops.core.exchange import BASE, LONGEST_GAP, Quote, Rate, Rates
from finops.core.period import Period
from finops.ledger.models import Charge, FxRate
from finops.ledger.which import ledger_name

from .money import day_of, in_period
from .snapshots import current_ids

Spans = dict[str, tuple[date, date]]
"""By currency the first and the last day that asks for a rate."""


def rates_on(day: date | None = None) -> list[FxRate]:
    """The rate of each currency on a day: that day's, else the last one up to ten days before.

    Without a day, the newest of each currency. Of two documents the one that came later counts.
    """
    rows = FxRate.objects.order_by()
    if day is not None:
        rows = rows.filter(date__lte=day, date__gt=day - LONGEST_GAP)
    newest = rows.values_list("currency").annotate(newest=Max("date"))
    pairs = [Q(currency=currency, date=last) for currency, last in newest]
    if not pairs:
        return []
    chosen = FxRate.objects.filter(reduce(or_, pairs)).select_related("document")
    return list(chosen.order_by("currency", "-document__received_at", "-pk").distinct("currency"))


def cross_rates(target: str, day: date | None = None) -> list[Rate]:
    """What one unit of each other currency is worth in `target` on a day, as reports convert it; on
    the newest day that has rates where none is given."""
    if day is None:
        day = FxRate.objects.aggregate(newest=Max("date"))["newest"]
    if day is None:
        return []
    sources = {BASE, *(one.currency for one in rates_on(day))} - {target}
    rates = Rates(target, quotes(target, dict.fromkeys(sources, (day, day))))
    found = (rates.on(source, day) for source in sorted(sources))
    return [rate for rate in found if rate is not None]


def chosen_currency() -> str:
    """The report currency a person chose (HEADROOM_REPORT_CURRENCY), "" where nobody did.

    The sample organisation has its own, whatever the installation's is.
    """
    chosen: str = settings.REPORT_CURRENCY
    return "" if ledger_name() == "sample" else chosen


def ledger_currencies() -> list[str]:
    """The currencies of the current charges, by name."""
    charges = Charge.objects.filter(snapshot__in=current_ids()).order_by()
    return sorted(charges.values_list("currency", flat=True).distinct())


def rates_of(
    period: Period, as_of: datetime | None = None, baselines: Mapping[str, Terms] | None = None
) -> Rates | None:
    """The rates into the chosen currency that a period's charges and baselines ask for.

    None where no currency was chosen: then nothing is converted.
    """
    target = chosen_currency()
    if not target:
        return None
    spans = _asked(period, as_of, baselines or {})
    return Rates(target, quotes(target, spans, as_of))


def quotes(target: str, spans: Spans, as_of: datetime | None = None) -> list[Quote]:
    """The published rates that days of other currencies may be converted by, later documents last.

    Reads from ten days before a currency's first day to its last.
    """
    found: dict[tuple[str, date], Quote] = {}
    for currency, (first, last) in sorted(spans.items()):
        if currency == target:
            continue
        rows = FxRate.objects.filter(
            base=BASE,
            currency__in={currency, target} - {BASE},
            date__gt=first - LONGEST_GAP,
            date__lte=last,
        )
        if as_of is not None:
            rows = rows.filter(document__received_at__lte=as_of)
        named = rows.order_by("currency", "date", "document__received_at", "pk")
        for row in named.values_list("currency", "date", "rate", "document_id"):
            found[row[0], row[1]] = Quote(*row)
    return [found[key] for key in sorted(found)]


def _asked(period: Period, as_of: datetime | None, baselines: Mapping[str, Terms]) -> Spans:
    rows = (
        in_period(period, as_of=as_of)
        .order_by()
        .values_list("currency")
        .annotate(first=Min("charge_start"), last=Max("charge_start"))
    )
    spans = {currency: (day_of(first), day_of(last)) for currency, first, last in rows}
    for terms in baselines.values():
        day = terms.day
        first, last = spans.get(terms.currency, (day, day))
        spans[terms.currency] = (min(first, day), max(last, day))
    return spans


def quotes_of(
    period: Period, as_of: datetime | None, baselines: Iterable[Terms] = ()
) -> list[Quote]:
    """What `rates_of` reads, for evidence; none where no currency was chosen."""
    target = chosen_currency()
    if not target:
        return []
    return quotes(target, _asked(period, as_of, {t.workload: t for t in baselines}), as_of)
