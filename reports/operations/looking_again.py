"""Sealed weeks, built afresh when something of them arrives (method §11).

Nothing sealed is touched: what a week would print now is kept beside it, as a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from finops.core.canonical import canonical_bytes, digest
from finops.core.period import week_of
from finops.ledger.queries.arrivals import arrived_since
from finops.trail import operations as trail
from reports import sheet
from reports.evidence.restated import more_documents
from reports.models import FreshLook, Report
from reports.operations.closing import build
from reports.queries import weeks
from reports.queries.proposals import newest_looks, sealed_reports
from reports.queries.standing import statement_of

from .sealing import week_locked


def look_again(*, at: datetime, tell: Callable[[str], None] | None = None) -> list[FreshLook]:
    """Builds each sealed week afresh of which something arrived since it was looked at last.

    Gives the new looks. A figure that would be printed otherwise makes one a proposal, which is
    noted in the trail.
    """
    reports = sealed_reports()
    looks = newest_looks(reports)
    found = []
    for report in reports:
        last = looks.get(report.pk)
        period = week_of(report.week, weeks.zone())
        if arrived_since(period, last.at if last else report.created_at):
            if tell:
                tell(f"looking at the sealed report of {report.week} again")
            found.append(_look(report, last, at))
    return found


def _look(report: Report, last: FreshLook | None, at: datetime) -> FreshLook:
    value, old = build(report.week, at), statement_of(report)
    changed = [_plain(row) for row in sheet.differences(old, value)]
    with week_locked(report.week):
        look, is_new = FreshLook.objects.get_or_create(
            report=report,
            at=at,
            defaults={
                "digest": digest(canonical_bytes(value)),
                "differences": changed,
                "documents": [one["name"] for one in more_documents(value, old)],
            },
        )
        if is_new and changed != (last.differences if last else []):
            trail.record(
                at=at,
                actor="program",
                action="restatement proposed" if changed else "restatement not proposed any more",
                subject=f"{report.week} revision {report.revision}",
                detail={"figures": len(changed), "digest": look.digest},
            )
    return look


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of differences as JSON keeps it: figures are text or whole numbers already."""
    return {
        k: v if v is None or isinstance(v, str | int | bool) else str(v) for k, v in row.items()
    }


def on_arrival(*, at: datetime, tell: Callable[[str], None] | None = None, **_: Any) -> None:
    """Listens to the ledger's `arrived`."""
    look_again(at=at, tell=tell)
