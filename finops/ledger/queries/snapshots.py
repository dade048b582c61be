"""Snapshots as they stand: current, waiting, superseded or refused (method §3.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from finops.ledger.models import Snapshot, SnapshotDecision

NEWEST = (
    "newest"  # why a snapshot is current: it replaced others by itself, without a person's word
)


def with_verdict(as_of: datetime | None = None) -> QuerySet[Any]:
    """All snapshots, each with its newest `verdict` (as it stood at an instant, when given)."""
    decisions = SnapshotDecision.objects.filter(snapshot=OuterRef("pk"))
    if as_of is not None:
        decisions = decisions.filter(at__lte=as_of)
    newest = decisions.order_by("-id").values("verdict")[:1]
    return Snapshot.objects.annotate(verdict=Subquery(newest))


def current_ids(as_of: datetime | None = None) -> list[int]:
    """The snapshots whose charges count, now or as it stood at an instant."""
    return list(with_verdict(as_of).filter(verdict="current").values_list("pk", flat=True))


def waiting() -> list[Snapshot]:
    """The snapshots that wait for a person's decision, oldest first."""
    return list(with_verdict().filter(verdict="waiting").order_by("pk"))
