"""Deciding on detected changes (method §10): append-only, in the trail."""

from __future__ import annotations

from datetime import datetime, timedelta

from finops.core.changes import CONFIRMED, DISMISSED
from finops.core.period import HOUR, Period, hour_of, rfc3339
from finops.ledger.models import ChangeDecision
from finops.ledger.queries.changes import Proposal, proposals
from finops.ledger.which import atomic
from finops.trail.operations import record

from .workloads import LONGEST_TEXT, NotAccepted, workload_named

WINDOW = timedelta(weeks=12)


def found(at: datetime) -> list[Proposal]:
    """The changes of the last twelve weeks, newest first, with what was decided of each."""
    until = hour_of(at) + HOUR
    return proposals(Period(until - WINDOW, until))


def decide(key: str, verdict: str, *, by: str, at: datetime, note: str = "") -> ChangeDecision:
    """Confirms or dismisses a change by its key; a later decision replaces an earlier one.

    NotAccepted for another verdict, an overlong note, and a key that no change has.
    """
    if verdict not in (CONFIRMED, DISMISSED):
        raise NotAccepted(f"a change is {CONFIRMED} or {DISMISSED}, not {verdict[:20]!r}")
    note = note.strip()
    if len(note) > LONGEST_TEXT or not note.isprintable():
        raise NotAccepted(f"a note is printable text of at most {LONGEST_TEXT} characters")
    change = next((one.change for one in found(at) if one.change.key == key), None)
    if change is None:
        raise NotAccepted(f"there is no change {key[:20]!r} in the last twelve weeks")
    with atomic():
        row = ChangeDecision.objects.create(
            workload=workload_named(change.workload),
            kind=change.kind,
            changed_at=change.at,
            before=change.before,
            after=change.after,
            verdict=verdict,
            note=note,
            at=at,
            by=by,
        )
        record(at=at, actor=by, action=f"change {verdict}", subject=f"workload {change.workload}",
               detail={"change": key, "kind": change.kind, "at": rfc3339(change.at)})  # fmt: skip
    return row
