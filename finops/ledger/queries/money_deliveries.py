"""What deliveries leave to be known: days that a newer one no longer holds, files that overlap (§3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Q, Sum

from finops.core.money import plain
from finops.core.period import Period, rfc3339
from finops.ledger.models import Charge, Snapshot, SnapshotDecision
from finops.ledger.queries.money import in_period, months_of
from finops.ledger.queries.money_unusual import ALIKE, MoneyException
from finops.ledger.queries.snapshots import NEWEST, with_verdict

A_DAY = timedelta(days=1)


def of_deliveries(period: Period) -> Iterator[MoneyException]:
    """All of them; nothing when there is nothing."""
    yield from _shorter(period)
    yield from _overlapping(period)


def _shorter(period: Period) -> Iterator[MoneyException]:
    """A snapshot that replaced, by itself, one that reached over a day further.

    The newer one counts (method §3.2), but days of which nothing is said any more must be seen.
    """
    touching = Q(charge_start__lt=period.end, charge_end__gt=period.start)
    superseded = with_verdict().filter(verdict="superseded")
    for old in superseded.filter(touching | Q(billing_period__in=months_of(period))):
        new = _reach(old)
        if new is None or old.charge_end <= new.charge_end + A_DAY:
            continue
        for currency, billed, lines in _after(old, new.charge_end, period):
            yield MoneyException(
                "shorter-snapshot",
                f"snapshot {old.pk}",
                f"{old}: snapshot {old.pk} reached to {rfc3339(old.charge_end)}, snapshot {new.pk} "
                f"that replaced it only to {rfc3339(new.charge_end)}. {lines} charges after that "
                "count no more. Hand over the whole month, or take the older one back: "
                f"`snapshot decide {old.pk} replacement`",
                billed,
                currency,
            )


def _reach(old: Snapshot) -> Snapshot | None:
    """The current snapshot of a scope that reaches furthest; None when a person chose one."""
    current = with_verdict().filter(
        issuer=old.issuer,
        billing_account=old.billing_account,
        billing_period=old.billing_period,
        verdict="current",
    )
    furthest: Snapshot | None = current.order_by("-charge_end", "-pk").first()
    if furthest is None:
        return None
    said = SnapshotDecision.objects.filter(snapshot__in=list(current)).order_by("pk")
    newest = dict(said.values_list("snapshot_id", "reason"))  # the last word of each holds
    return furthest if NEWEST in newest.values() else None


def _after(old: Snapshot, end: datetime, period: Period) -> list[tuple[str, Decimal | None, int]]:
    """Currency, billed and number of an older snapshot's charges after an instant, in a period."""
    lines = Charge.objects.filter(
        snapshot=old,
        charge_start__gte=end,
        charge_start__lt=period.end,
        charge_end__gt=period.start,
    ).order_by()
    return list(
        lines.values_list("currency").annotate(billed=Sum("billed_cost"), lines=Count("pk"))
    )


def _overlapping(period: Period) -> Iterator[MoneyException]:
    """Lines alike in everything that stand in several files of one delivery: each is counted."""
    rows = (
        in_period(period)
        .exclude(Q(billed_cost=0) | Q(resource__isnull=True) | Q(billed_cost__isnull=True))
        .order_by()
        .values("snapshot_id", *ALIKE, "currency", "snapshot__issuer")
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
            f"{issuer}: {len(amounts)} lines stand alike in several files of one delivery, and all "
            f"are counted: {plain(total)} {currency} may count twice. Files of one delivery are "
            "taken for its parts; hand over exports of the same days one after the other",
            total,
            currency,
        )
