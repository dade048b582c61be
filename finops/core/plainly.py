"""Values of a statement in JSON's types: exact decimals and instants as text, unknown as null."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from .money import plain
from .period import Period, rfc3339

Value = dict[str, Any]


def text_of(value: Decimal | None) -> str | None:
    """An exact decimal in plain notation, None as null."""
    return None if value is None else plain(value)


def when(instant: datetime | None) -> str | None:
    """An instant as RFC 3339 UTC, None as null."""
    return None if instant is None else rfc3339(instant)


def span(period: Period | None) -> Value | None:
    """A period as its start and end, None as null."""
    if period is None:
        return None
    return {"start": rfc3339(period.start), "end": rfc3339(period.end)}
