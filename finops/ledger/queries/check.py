"""Checking the ledger against itself and its documents: every figure computed a second time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Min, Sum
from django.db.models.functions import Coalesce

from finops.core.amounts import BASES, Money
from finops.core.period import rfc3339
from finops.ledger.models import (
    Charge,
    Document,
    ReadingBlock,
    RejectedRow,
    Reread,
    Series,
    Snapshot,
    UsageHour,
)
from finops.ledger.queries.money import MONEY

SERIES_AT_ONCE = 200

Digest = Callable[[Path], str]


def missing_bytes(stored: Callable[[str], Path], digest_of: Digest) -> Iterator[str]:
    """Documents whose bytes are gone from the store, or are no longer those received."""
    for one in Document.objects.order_by("pk").iterator(chunk_size=500):
        path = stored(one.sha256)
        if not path.exists():
            yield f"{one.name}: its bytes are missing from the store ({one.sha256})"
        elif path.stat().st_size != one.size_bytes or digest_of(path) != one.sha256:
            yield f"{one.name}: its bytes in the store are not those received ({one.sha256})"


def miscounted_documents() -> Iterator[str]:
    """Documents whose rows are not all accounted for, or whose postings are not as counted."""
    lines = _counts(Charge.objects.filter(last_line__isnull=True), "pk")
    summed = _sums(Charge.objects.filter(last_line__isnull=False), "line_count")
    again = _sums(Reread.objects, "charges")
    summed_again = _sums(Reread.objects, "rows_summed")
    rejected = _counts(RejectedRow.objects, "pk")
    readings = _readings_by_source()
    requests = _sums(UsageHour.objects, "requests")
    for one in Document.objects.order_by("pk").iterator(chunk_size=500):
        found = {
            "charges": (one.charges + again.get(one.pk, 0), lines.get(one.pk, 0)),
            "lines in kept sums": (
                one.account.get("rows_summed", 0) + summed_again.get(one.pk, 0),
                summed.get(one.pk, 0),
            ),
            "usage records": (one.account.get("records", 0), requests.get(one.pk, 0)),
        }
        for what, (said, is_now) in found.items():
            if said != is_now:
                yield f"{one.name}: {said} {what} were counted, {is_now} are there"
        for source, is_now in readings.get(one.pk, {"": 0}).items():
            if one.readings != is_now:
                of_source = f" of {source}" if len(readings.get(one.pk, {})) > 1 else ""
                yield f"{one.name}: {one.readings} readings were counted, {is_now}{of_source} are there"
        if rejected.get(one.pk, 0) > one.rows_rejected:
            yield f"{one.name}: more rejected rows are there than were counted"
        accounted = one.charges + one.rows_rejected
        accounted += one.account.get("rows_in_parent", 0) + one.account.get("rows_summed", 0)
        if "totals" in one.account and one.rows_read != accounted:
            yield (
                f"{one.name}: rows read are not charges, splits of charges and rejections, nor lines "
                "in kept sums"
            )


def _readings_by_source() -> dict[str, dict[str, int]]:
    """How many readings of each document are there, by source: two stores, or one at two addresses, may
    give the same bytes, which each source has whole."""
    rows = ReadingBlock.objects.order_by().values_list(
        "document_id", "series__target__source__name"
    )
    found: dict[str, dict[str, int]] = {}
    for document, source, readings in rows.annotate(found=Sum("readings")):
        found.setdefault(document, {})[source] = readings
    return found


def _counts(those: Any, field: str) -> dict[str, int]:
    rows = those.order_by().values_list("document_id").annotate(found=Count(field))
    return dict(rows)


def _sums(those: Any, field: str) -> dict[str, int]:
    rows = those.order_by().values_list("document_id").annotate(found=Sum(field))
    return dict(rows)


def changed_totals() -> Iterator[str]:
    """Documents whose charges no longer sum to the control totals taken when they were read."""
    sums: dict[str, Money] = defaultdict(Money)
    totals = {f"sum_{name}": Sum(name) for name in MONEY}
    rows = Charge.objects.order_by().values("document_id", "currency").annotate(**totals)
    names = ("document_id", "currency", *totals)
    for document_id, currency, *four in rows.values_list(*names):
        sums[document_id].add(currency, (four[0], four[1], four[2], four[3]))
    for one in Document.objects.order_by("pk").iterator(chunk_size=500):
        said = _decimals(_with_rereads(one))
        if said != _decimals(sums[one.pk].as_json()):
            yield f"{one.name}: its charges no longer sum to its control totals"


def _with_rereads(document: Document) -> dict[str, dict[str, str | None]]:
    """The control totals of a document and of each time it was read again."""
    total = Money()
    for totals in (document.account.get("totals", {}), *_reread_totals(document)):
        for currency, amounts in totals.items():
            four = [None if amounts.get(b) is None else Decimal(amounts[b]) for b in BASES]
            total.add(currency, (four[0], four[1], four[2], four[3]))
    return total.as_json()


def _reread_totals(document: Document) -> Iterable[dict[str, Any]]:
    return document.rereads.values_list("totals", flat=True)


def _decimals(totals: dict[str, dict[str, str | None]]) -> dict[tuple[str, str], Decimal | None]:
    return {
        (currency, basis): None if (text := amounts.get(basis)) is None else Decimal(text)
        for currency, amounts in totals.items()
        for basis in BASES
    }


def miscounted_snapshots() -> Iterator[str]:
    """Snapshots whose charges are not as many, or not of the time, as were delivered."""
    rows = Snapshot.objects.annotate(
        found=Coalesce(Sum("lines__line_count"), 0, output_field=BigIntegerField()),
        first=Min("lines__charge_start"),
        last=Max("lines__charge_end"),
    ).order_by("pk")
    for one in rows.iterator(chunk_size=500):
        if one.charges != one.found:
            yield f"snapshot {one.pk}: {one.charges} charges were delivered, {one.found} are there"
        elif one.charges and (one.charge_start, one.charge_end) != (one.first, one.last):
            said, is_now = _span(one.charge_start, one.charge_end), _span(one.first, one.last)
            yield f"snapshot {one.pk}: charges of {said} were delivered, {is_now} are there"


def _span(start: datetime, end: datetime) -> str:
    return f"{rfc3339(start)} to {rfc3339(end)}"


def rederived(recheck: Callable[[Sequence[int]], Iterable[str]]) -> Iterator[str]:
    """Series whose token hours differ from a fresh derivation from their readings."""
    series = list(Series.objects.order_by("target_id", "pk").values_list("pk", flat=True))
    for start in range(0, len(series), SERIES_AT_ONCE):
        yield from recheck(series[start : start + SERIES_AT_ONCE])


def size() -> dict[str, int]:
    """How much there is to check."""
    return {
        "documents": Document.objects.count(),
        "charges": Charge.objects.count(),
        "snapshots": Snapshot.objects.count(),
        "series": Series.objects.count(),
        "reading_blocks": ReadingBlock.objects.count(),
    }
