"""Reading the trail: entries, newest first, and the head of the chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from finops.trail.models import Entry


@dataclass(frozen=True, slots=True)
class Act:
    """One entry as plain values."""

    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    digest: str


def entries(
    *,
    actor: str | None = None,
    action: str | None = None,
    subject: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Act]:
    """The newest entries that match, at most `limit`; `before` gives the next page's number."""
    wanted = {"actor": actor, "action": action, "subject": subject, "number__lt": before}
    found = Entry.objects.filter(
        **{key: value for key, value in wanted.items() if value is not None}
    )
    return [
        Act(e.number, e.at, e.actor, e.action, e.subject, e.detail, e.digest)
        for e in found.order_by("-number")[:limit]
    ]


def head() -> tuple[int, str] | None:
    """Number and digest of the newest entry: writing them down elsewhere fixes all before it."""
    last = Entry.objects.order_by("-number").values_list("number", "digest").first()
    return (last[0], last[1]) if last else None
