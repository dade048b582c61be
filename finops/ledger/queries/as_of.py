"""Rows as they stood at an instant: what was posted, received or decided later is left out (§11)."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q


def known_by(as_of: datetime | None, field: str = "posted_at") -> Q:
    """The rows whose `field` is not after `as_of`; all rows when it is None."""
    return Q() if as_of is None else Q(**{f"{field}__lte": as_of})
