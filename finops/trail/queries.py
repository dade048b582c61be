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
    about: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Act]:
    """The newest entries that match, at most `limit`; `before` gives the next page's number,
    `about` is a part of the subject."""
    wanted = {"actor": actor, "action": action, "subject": subject, "number__lt": before,
              "subject__icontains": about}  # fmt: skip
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


def actions() -> list[str]:
    """The kinds of acts that the trail holds, in order."""
    return list(Entry.objects.order_by("action").values_list("action", flat=True).distinct())


def brief(detail: dict[str, Any]) -> dict[str, Any]:
    """What an entry tells, for people: of fixed rows how many, not every digest."""
    tables = detail.get("tables")
    if not isinstance(tables, dict):
        return detail
    rows = 0
    for told in tables.values():
        rows += sum(one[2] for one in told.get("ranges", ()))
        rows += sum(len(one) - 1 for one in told.get("groups", ()))
    left = {"left": detail["left"]} if "left" in detail else {}
    return {"tables": len(tables), "rows": rows} | left
