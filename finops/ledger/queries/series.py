"""Single series of a period: what each booked, and which workload claims it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from finops.core.period import Period, milliseconds
from finops.core.tokens import SeriesPeriod, coverage

from .caps import Caps
from .token_rows import Known
from .tokens import KeyOf, TokenLedger


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One counter series in a period."""

    series_id: int
    name: str
    metric: str
    role: str
    source: str
    labels: dict[str, str]
    workload: str | None
    first_ms: int
    last_ms: int
    readings: int
    tokens: int | None
    lower: int
    upper: int | None
    exact: bool
    restarts: int
    hidden_resets: int
    coverage: Decimal


def series_of(period: Period, key_of: KeyOf | None = None) -> list[SeriesRow]:
    """The counter series that have readings in a period, by metric and labels.

    `key_of` gives the workload of a series at an hour; by default the rules in force.
    """
    claims = key_of or _rules()
    rows: list[SeriesRow] = []
    ledger = TokenLedger(period, caps=Caps())
    for known in ledger.known:
        if known.rows:
            part = ledger.parts(known, period, _one)[None]
            rows.append(_row(known, part, period, claims))
    return sorted(rows, key=lambda row: (row.metric, sorted(row.labels.items())))


def _rules() -> KeyOf:
    from .claims import workload_of_series

    return workload_of_series()


def _one(labels: Mapping[str, str], hour: datetime) -> Hashable:
    return None


def _row(known: Known, part: SeriesPeriod, period: Period, claims: KeyOf) -> SeriesRow:
    workload = claims(known.labels, period.start)
    return SeriesRow(
        series_id=known.series.pk,
        name=str(known.series),
        metric=known.series.metric,
        role=known.series.role,
        source=known.source,
        labels=known.series.labels,
        workload=None if workload is None else str(workload),
        first_ms=max(known.first_ms, min(row.first_ms for row in known.rows)),
        last_ms=min(max(row.last_ms for row in known.rows), milliseconds(period.end) - 1),
        readings=part.readings,
        tokens=part.booked if part.readings else None,
        lower=part.lower(),
        upper=part.own_upper(),
        exact=part.exact(),
        restarts=part.restarts,
        hidden_resets=part.hidden_resets,
        coverage=coverage(part.living_ms, part.unobserved_ms),
    )
