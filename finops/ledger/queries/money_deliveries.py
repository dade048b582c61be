"""What deliveries leave to be known: days that a newer one no longer holds, files that overlap (§3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Q, Sum

from finops.core.money import plain
from finops.core.period import Period, rfc3339
from finops.ledger.models import Charge, Snapshot, SnapshotDecision
from finops.ledger.queries.as_of import known_by
from finops.ledger.queries.money import in_period, months_of
from finops.ledger.queries.money_unusual import ALIKE, MoneyException
from finops.ledger.queries.snapshots import NEWEST, with_verdict

A_DAY = timedelta(days=1)
INSTANT = timedelta(microseconds=1)


def of_deliveries(period: Period, as_of: datetime | None = None) -> Iterator[MoneyException]:
    """All of them; nothing when there is nothing."""
    yield from _shorter(period, as_of)
    yield from _overlapping(period, as_of)


def _shorter(period: Period, as_of: datetime | None) -> Iterator[MoneyException]:
    """A snapshot that replaced, by itself, one that reached over a day further, or further back.

    The newer one counts (method §3.2), but days of which nothing is said any more must be seen.
    """
    touching = Q(charge_start__lt=period.end, charge_end__gt=period.start)
    superseded = with_verdict(as_of).filter(verdict="superseded")
    for old in superseded.filter(touching | Q(billing_period__in=months_of(period))):
        held = _held(old, as_of)
        if held is None or (
            held.start <= old.charge_start + A_DAY and old.charge_end <= held.end + A_DAY
        ):
            continue
        for currency, billed, lines in _outside(old, held, period):
            yield MoneyException(
                "shorter-snapshot",
                f"snapshot {old.pk}",
                f"{old}: snapshot {old.pk} told of {rfc3339(old.charge_start)} to "
                f"{rfc3339(old.charge_end)}; what replaced it tells only of {rfc3339(held.start)} to "
                f"{rfc3339(held.end)}. {lines} charges outside that count no more. Hand over the "
                f"whole month, or take the older one back: `snapshot decide {old.pk} replacement`",
                billed,
                currency,
            )


def _held(old: Snapshot, as_of: datetime | None) -> Period | None:
    """What the current snapshots of a scope tell of; None where a person chose them."""
    current = with_verdict(as_of).filter(
        issuer=old.issuer,
        billing_account=old.billing_account,
        billing_period=old.billing_period,
        verdict="current",
    )
    found = list(current)
    said = SnapshotDecision.objects.filter(known_by(as_of, "at"), snapshot__in=found).order_by("pk")
    newest = dict(said.values_list("snapshot_id", "reason"))  # the last word of each holds
    if NEWEST not in newest.values():
        return None
    start = min(one.charge_start for one in found)
    return Period(start, max(start + INSTANT, *(one.charge_end for one in found)))


def _outside(old: Snapshot, held: Period, period: Period) -> list[tuple[str, Decimal | None, int]]:
    """Currency, billed and number of an older snapshot's charges that began outside `held`."""
    lines = Charge.objects.filter(
        Q(charge_start__lt=held.start) | Q(charge_start__gte=held.end),
        snapshot=old,
        charge_start__lt=period.end,
        charge_end__gt=period.start,
    ).order_by()
    return list(
        lines.values_list("currency").annotate(billed=Sum("billed_cost"), lines=Sum("line_count"))
    )


def _overlapping(period: Period, as_of: datetime | None) -> Iterator[MoneyException]:
    """Lines alike in everything that stand in several files that count: each is counted."""
    rows = (
        in_period(period, as_of=as_of)
        .exclude(Q(billed_cost=0) | Q(resource__isnull=True) | Q(billed_cost__isnull=True))
        .order_by()
        .values(*ALIKE, "currency", "snapshot__issuer", "snapshot__billing_account")
        .annotate(files=Count("document_id", distinct=True))
        .filter(files__gt=1)
    )
    sums: dict[tuple[str, str], list[Decimal]] = {}
    for row in rows.iterator(chunk_size=2000):
        more = row["billed_cost"] * (row["files"] - 1)
        sums.setdefault((row["snapshot__issuer"], row["currency"]), []).append(more)
    for (issuer, currency), amounts in sorted(sums.items()):
        total = sum(amounts, Decimal(0))
        yield MoneyException(
            "overlapping-files",
            issuer,
            f"{issuer}: {len(amounts)} lines stand alike in several files, and all are counted: "
            f"{plain(total)} {currency} may count twice. Files of one delivery are taken for its "
            "parts; hand over exports of the same days one after the other",
            total,
            currency,
        )
