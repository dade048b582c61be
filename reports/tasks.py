"""Background work of the reports: closing the week, printing, reading uploads, verifying.

Each is safe twice and killed at any instant: closing stores nothing when nothing differs, printing,
reading and verifying find what is already done.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.utils import timezone

from finops.ledger.which import use_ledger


@shared_task(name="reports.tasks.close_week")
def close_week(*, week: str = "latest") -> dict[str, Any]:
    """Closes the newest complete week of the own ledger, each Monday."""
    from reports.operations.closing import close_week as close
    from reports.operations.closing import week_asked
    from reports.operations.refused import NotAllowed
    from reports.queries.standing import SCHEDULE

    now = timezone.now()
    with use_ledger("default"):
        try:
            closed = close(week_asked(week, now), by=SCHEDULE, at=now)
        except NotAllowed as refused:
            return {"closed": False, "why": str(refused)}
        return {"closed": closed.is_new, "week": closed.report.week, "digest": closed.report.digest}


@shared_task(name="reports.tasks.look_at_sealed_weeks")
def look_at_sealed_weeks() -> int:
    """Builds sealed weeks afresh that anything may have touched, each day.

    How many it finds that would change, or would change otherwise than it was said before.
    """
    from reports.operations.looking_again import look_again

    with use_ledger("default"):
        return sum(bool(look.differences) for look in look_again(at=timezone.now()))


@shared_task(name="reports.tasks.make_pdf", soft_time_limit=300, time_limit=330)
def make_pdf(*, ledger: str, week: str, revision: int, size: str) -> str:
    """Prints one revision, within the memory that the settings allow; the result is kept by digest."""
    from reports.operations.printing import make

    return make("sample" if ledger == "sample" else "default", week, revision, size).name


@shared_task(name="reports.tasks.read_upload", soft_time_limit=3300)
def read_upload(*, upload: str) -> None:
    """Reads an uploaded delivery into the own ledger."""
    from reports.operations.uploads import read

    with use_ledger("default"):
        read(upload)


# The limits stand in reports.operations.verification too, which a worker needs only then.
@shared_task(name="reports.tasks.check", soft_time_limit=1800, time_limit=1860)
def check(*, check: str) -> None:
    """Verifies what a person asked for on the page Verify; done once."""
    from reports.operations.verification import run

    run(check)
