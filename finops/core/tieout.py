"""The two tie-out tables and the list of places; every difference has a row of its own (§4)."""

from __future__ import annotations

from decimal import Decimal

from .allocation import (
    IDLE,
    OUT_OF_SCOPE,
    PLACES,
    SHARED,
    UNASSIGNED,
    UNUSED_COMMITMENT,
    WORKLOAD,
)
from .facts import RATE_CARD, Facts, PlaceSum
from .money import EXACT, add, plain
from .plainly import Value, text_of

LABELS = {
    SHARED: "Shared, not yet split",
    IDLE: "Idle",
    UNUSED_COMMITMENT: "Unused commitment",
    OUT_OF_SCOPE: "Out of scope",
    UNASSIGNED: "Unassigned",
}


def invoice_rows(facts: Facts) -> list[Value]:
    """Per invoice and month: Σ billed of its lines against the amount issued."""
    return [
        {
            "issuer": row.issuer,
            "invoice": row.invoice,
            "billing_period": row.billing_period,
            "currency": row.currency,
            "lines": row.lines,
            "billed": plain(row.billed),
            "issued": text_of(row.issued),
            "difference": text_of(row.difference),
            "tolerance": text_of(row.tolerance),
            "within": row.within,
            "provisional": row.provisional,
        }
        for row in facts.invoices
    ]


def period_table(facts: Facts) -> Value:
    """Σ billed − covering purchases + amortised use = Σ effective = Σ places (method §4).

    The table of the report's currency; those of other currencies stand in `other_currencies`.
    """
    others = [m.currency for m in facts.money if m.currency != facts.currency]
    table = _table(facts, facts.currency)
    return table | {"other_currencies": [_table(facts, currency) for currency in others]}


def _table(facts: Facts, currency: str) -> Value:
    billed = add([m.billed for m in facts.money if m.currency == currency])
    effective = add([m.effective for m in facts.money if m.currency == currency])
    rows = [_row("billed", "Billed in the period", billed)]
    explained = [billed]
    for one in facts.commitments:
        if one.currency != currency:
            continue
        name = f"{one.name} ({one.commitment})" if one.name else one.commitment
        if one.purchases:
            rows.append(
                _row(f"purchases {one.commitment}", f"less purchases of {name}", one.purchases)
            )
        if one.amortised:
            is_card = one.commitment.startswith(RATE_CARD)
            label = f"priced by {name}, not invoiced" if is_card else f"amortised use of {name}"
            rows.append(_row(f"use {one.commitment}", label, one.amortised))
        explained += [one.purchases, one.amortised]
    rest = EXACT.subtract(effective, add(explained))
    if rest:
        rows.append(_row("not explained", "Not explained", rest))
    rows.append(_row("effective", "Effective cost of the period", effective))
    places = _places(facts, currency)
    rows += [_row(f"place {key}", label, amount) for key, label, amount in places]
    allocated = add([amount for _, _, amount in places])
    unplaced = EXACT.subtract(effective, allocated)
    if unplaced:
        rows.append(_row("not placed", "In no place", unplaced))
    return {
        "currency": currency,
        "rows": rows,
        "billed_side": plain(add(explained)),
        "effective": plain(effective),
        "allocated": plain(allocated),
        "difference": plain(rest if rest else unplaced),
    }


def _row(key: str, label: str, amount: Decimal) -> Value:
    return {"key": key, "label": label, "amount": plain(amount)}


def _places(facts: Facts, currency: str) -> list[tuple[str, str, Decimal]]:
    """Workloads together, then each other place that holds a charge."""
    found = []
    for kind in PLACES:
        sums = [p for p in facts.places if p.kind == kind and p.currency == currency]
        if sums:
            amount = add([place.effective for place in sums])
            found.append((kind, LABELS.get(kind, "Workloads"), amount))
    return found


def allocation_rows(facts: Facts) -> list[Value]:
    """Where the money of the period ended, place by place."""
    order = {kind: index for index, kind in enumerate(PLACES)}
    places = sorted(facts.places, key=lambda p: (p.currency, order[p.kind], p.target or ""))
    return [
        {
            "place": place.kind,
            "workload": place.target if place.kind == WORKLOAD else None,
            "label": _label(place),
            "currency": place.currency,
            "billed": plain(place.billed),
            "effective": plain(place.effective),
            "charges": place.charges,
        }
        for place in places
    ]


def _label(place: PlaceSum) -> str:
    if place.kind == WORKLOAD:
        return str(place.target)
    label = LABELS[place.kind]
    return f"{label}: {place.target}" if place.target else label
