"""GPU-hours that a charge stands for: GPU count × billed hours (method §4)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

HOURS_A_UNIT = {
    "hour": Fraction(1), "hours": Fraction(1), "hr": Fraction(1), "hrs": Fraction(1),
    "h": Fraction(1), "minute": Fraction(1, 60), "minutes": Fraction(1, 60),
    "second": Fraction(1, 3600), "seconds": Fraction(1, 3600), "s": Fraction(1, 3600),
    "day": Fraction(24), "days": Fraction(24),
}  # fmt: skip
UNIT = re.compile(r"(?:(\d{1,9})\s+)?([a-z]+(?:[- ][a-z]+)?)", re.IGNORECASE)
HOUR_US = 3_600_000_000


def hours_of(quantity: Decimal | None, unit: str | None) -> tuple[Fraction, bool] | None:
    """A quantity in hours, and whether they are GPU-hours already; None for another unit.

    Units as invoices write them: `Hours`, `100 Hours`, `GPU-Hours`, `Seconds`.
    """
    match = UNIT.fullmatch((unit or "").strip())
    if quantity is None or not match:
        return None
    name = match[2].lower()
    of_gpu = bool(re.match(r"(gpu|instance)[- ]", name))
    each = HOURS_A_UNIT.get(re.sub(r"^(gpu|instance)[- ]", "", name))
    if each is None:
        return None
    return Fraction(quantity) * each * int(match[1] or 1), of_gpu and name.startswith("gpu")


def charge_gpu_hours(
    *,
    gpu_count: Decimal | None,
    quantities: tuple[tuple[Decimal | None, str | None], ...],
    start: datetime,
    end: datetime,
    since: datetime,
    until: datetime,
    correction_of: Decimal | None = None,
) -> Fraction | None:
    """GPU-hours of one usage charge inside [since, until); None when no GPU count is known.

    The first quantity that is in hours counts, else the length of the charge's own period. Of a
    correction (`correction_of` is its cost) only a quantity with the sign of its cost counts: a
    refund of hours does, a refund of money alone does not.
    """
    if gpu_count is None or gpu_count <= 0:
        return None
    known = next((h for q, u in quantities if (h := hours_of(q, u)) is not None), None)
    if correction_of is not None and (known is None or (known[0] < 0) != (correction_of < 0)):
        return Fraction(0)
    length = Fraction((end - start) // timedelta(microseconds=1), HOUR_US)
    hours, of_gpu = known or (length, False)
    whole = hours if of_gpu else hours * Fraction(gpu_count)
    return whole * share_inside(start, end, since, until)


def share_inside(start: datetime, end: datetime, since: datetime, until: datetime) -> Fraction:
    """The share of [start, end) that lies in [since, until); a zero length lies where it starts."""
    if end == start:
        return Fraction(int(since <= start < until))
    inside = min(end, until) - max(start, since)
    return Fraction(max(timedelta(0), inside) // timedelta(microseconds=1),
                    (end - start) // timedelta(microseconds=1))  # fmt: skip
