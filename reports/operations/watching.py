"""Looking after the triggers that guard rows, where the database itself does not tell (§11)."""

from __future__ import annotations

from datetime import datetime

from finops.trail import operations as trail
from finops.trail.guards import guards_off
from finops.trail.models import Entry

OFF = "guard found switched off"
ON = "guard found switched on again"
TOLD = {"guard switched off", "guard changed", "guard removed", OFF}
"""What says that a guard is off: the database's own entries, and ours."""


def note_guards(at: datetime) -> list[str]:
    """Notes in the trail each guard that is off, or on again, unless its newest entry says so.

    The database does this at once where its owner may have event triggers; this finds what was
    switched elsewhere. Gives the guards that are off, as `table.trigger`.
    """
    off = {f"{table}.{name}" for table, name in guards_off()}
    rows = Entry.objects.filter(action__startswith="guard ").order_by("number")
    told = {subject: action in TOLD for subject, action in rows.values_list("subject", "action")}
    known = {subject for subject, is_off in told.items() if is_off}
    for action, guards in ((OFF, off - known), (ON, known - off)):
        for guard in sorted(guards):
            trail.record(at=at, actor="program", action=action, subject=guard, detail={})
    return sorted(off)
