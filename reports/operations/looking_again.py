"""Sealed weeks, built afresh when something of them arrives (method §11).

Nothing sealed is touched: what a week would print now is kept beside it, as a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

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

INSTANT: Final = timedelta(microseconds=1)
LONGEST_WORK: Final = timedelta(days=3)
"""Work that takes longer than this from its start to its commit may go unseen."""


def look_again(*, at: datetime) -> list[FreshLook]:
    """Builds each sealed week afresh that anything may have touched since it was looked at last.

    Also what bears an instant up to three days before that look counts, as it may have been on its
    way then. Gives the looks that say something else than the ones before them: a figure that would
    be printed otherwise makes a proposal, which is noted in the trail once.
    """
    return _look_at_touched(at, None, lambda seen: seen - LONGEST_WORK)


def on_arrival(*, at: datetime, tell: Callable[[str], None] | None = None, **_: Any) -> None:
    """Listens to the ledger's `arrived`: what arrived bears `at`, the start of its own work.

    A week may have been looked at, or sealed, between that instant and now.
    """
    _look_at_touched(at, tell, lambda seen: min(seen, at - INSTANT))


def _look_at_touched(
    at: datetime, tell: Callable[[str], None] | None, since: Callable[[datetime], datetime]
) -> list[FreshLook]:
    reports = sealed_reports()
    looks = newest_looks(reports)
    found = []
    for report in reports:
        last = looks.get(report.pk)
        period = week_of(report.week, weeks.zone())
        if arrived_since(period, since(last.at if last else report.created_at)):
            if tell:
                tell(f"looking at the sealed report of {report.week} again")
            look, says_more = _look(report, at)
            found += [look] if says_more else []
    return found


def _look(report: Report, at: datetime) -> tuple[FreshLook, bool]:
    """A look that is newer than the last one, and whether it says something else.

    The week is built while nobody else looks at it: an older state never comes after a newer one.
    """
    with week_locked(report.week):
        last = newest_looks([report]).get(report.pk)
        said = last.differences if last else []
        moment = max(at, report.created_at, last.at + INSTANT if last else at)
        value, old = build(report.week, moment), statement_of(report)
        changed = [_plain(row) for row in sheet.differences(old, value)]
        look = FreshLook.objects.create(
            report=report,
            at=moment,
            digest=digest(canonical_bytes(value)),
            differences=changed,
            documents=[one["name"] for one in more_documents(value, old)],
        )
        if changed != said:
            trail.record(
                at=moment,
                actor="program",
                action="restatement proposed" if changed else "restatement not proposed any more",
                subject=f"{report.week} revision {report.revision}",
                detail={"figures": len(changed), "digest": look.digest},
            )
    return look, changed != said


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of differences as JSON keeps it: figures are text or whole numbers already."""
    return {
        k: v if v is None or isinstance(v, str | int | bool) else str(v) for k, v in row.items()
    }
