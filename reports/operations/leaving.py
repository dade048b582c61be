"""Leaving a proposed restatement: a person decides that the sealed report stays (method §11)."""

from __future__ import annotations

from datetime import datetime

from finops.trail import operations as trail
from reports.models import LeftProposal
from reports.queries.proposals import proposals

from .refused import NotAllowed, refuse_unseen
from .sealing import week_locked


def leave(week: str, *, text: str, by: str, at: datetime) -> LeftProposal:
    """Writes why a week is not restated; nothing sealed is touched.

    Raises NotAllowed without a reason, and where nothing is proposed of the week or it was left.
    """
    if not text.strip():
        raise NotAllowed("Say why the sealed report stays as it is.")
    refuse_unseen(text)
    with week_locked(week):
        found = next((one for one in proposals() if one.report.week == week), None)
        if found is None:
            raise NotAllowed(f"No restatement of {week} waits for a decision.")
        row = LeftProposal.objects.create(look=found.look, text=text.strip(), by=by, at=at)
        trail.record(
            at=at,
            actor=by,
            action="restatement left",
            subject=f"{week} revision {found.report.revision}",
            detail={
                "text": row.text,
                "figures": len(found.differences),
                "digest": found.look.digest,
            },
        )
        return row
