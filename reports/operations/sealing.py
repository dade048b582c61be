"""Reviewing, approving and sealing a report; restating a sealed one (method §11).

Each act locks its week, so two people who press at once are served one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connections

from finops.core.canonical import canonical_bytes, digest
from finops.core.period import rfc3339
from finops.ledger.which import atomic, ledger_name
from finops.trail.fingerprints import Busy, fix_rows
from finops.trail.operations import record as trail
from finops.trail.queries import entries
from finops.trail.queries import head as trail_head
from reports.evidence import restated, sealed
from reports.evidence.sealed import Evidence
from reports.models import Disposition, Report, ReportEvent, Seal, Waiver
from reports.operations.watching import note_guards
from reports.queries.standing import FINAL, FIRST_PREVIOUS_DIGEST, SCHEDULE, Standing, standing

from .refused import NotAllowed, refuse_unseen

SEAL_SCHEMA = "headroom-seal-1"
LOCK = 0x5EA1
NOT_CONFIRMED = "seal not confirmed"  # what the trail calls such a refusal


@contextmanager
def week_locked(week: str) -> Iterator[None]:
    """A transaction in which no one else acts on reports."""
    with atomic():
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, week])
        yield


def act(report: Report, kind: str, *, by: str, at: datetime, comment: str = "") -> ReportEvent:
    """Records one act on a report, in its events and in the trail. NotAllowed for a comment with
    signs that cannot be seen."""
    refuse_unseen(comment)
    event = ReportEvent.objects.create(report=report, kind=kind, by=by, at=at, comment=comment)
    trail(
        at=at,
        actor=by,
        action=f"report {kind}",
        subject=f"report {report.week}",
        detail={"revision": report.revision, "digest": report.digest, "comment": comment},
    )
    return event


def review(report: Report, *, by: str, at: datetime, comment: str = "") -> ReportEvent:
    """Records that a person has read the report; anyone with the role may."""
    with week_locked(report.week):
        _open(report)
        said = _said_already(report, "reviewed", by, comment)
        return said or act(report, "reviewed", by=by, at=at, comment=comment)


def send_back(report: Report, *, by: str, at: datetime, comment: str) -> ReportEvent:
    """Takes an approval back, or refuses it, with the reason."""
    if not comment.strip():
        raise NotAllowed("Say why the report is sent back.")
    with week_locked(report.week):
        _open(report)
        return act(report, "returned", by=by, at=at, comment=comment.strip())


def approve(report: Report, *, by: str, at: datetime, comment: str = "") -> ReportEvent:
    """Approves the report. Raises NotAllowed for its preparer (method §11)."""
    with week_locked(report.week):
        _open(report)
        if same_person(by, report.prepared_by):
            raise NotAllowed(
                f"{by} prepared this report; preparer and approver are two people. "
                "Ask a second person to approve it."
            )
        said = _said_already(report, "approved", by, comment)
        return said or act(report, "approved", by=by, at=at, comment=comment)


def _said_already(report: Report, kind: str, by: str, comment: str) -> ReportEvent | None:
    """The newest act when it is this one: who presses twice has said it once."""
    newest = ReportEvent.objects.filter(report=report).order_by("-id").first()
    same = newest and (newest.kind, newest.by, newest.comment) == (kind, by, comment)
    return newest if same else None


def same_person(one: str, other: str) -> bool:
    """Whether two names are one person's: other capitals or blanks make nobody a second person."""
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())


def blocks(stand: Standing) -> list[str]:
    """What keeps a report from being sealed, each as a sentence; empty when nothing does."""
    found = []
    statement = stand.statement
    signed = {(one["kind"], one["subject"]) for one in stand.waivers}
    if stand.state != FINAL and not stand.approved_by:
        found.append("No second person has approved it yet.")
    elif stand.report.prepared_by == SCHEDULE and len(stand.people) < 2:
        found.append(
            "The schedule closed it, which is no person: somebody besides its approver reviews it."
        )
    period = statement["tieout"]["period"]
    if Decimal(period["difference"]) != 0:
        found.append(f"The period tie-out is open by {period['difference']}.")
    for row in statement["tieout"]["invoice"]:
        subject = row["invoice"] or "not issued"
        if row.get("within") is False and ("invoice-differs", subject) not in signed:
            found.append(
                f"Invoice {subject} of {row['issuer']} differs from its issued amount by "
                f"{row['difference']} {row['currency']}, and nobody has signed a waiver."
            )
    for month in statement["provisional_months"]:
        if ("provisional-month", month) not in signed:
            found.append(f"The costs of {month} are provisional, and nobody has signed a waiver.")
    if not statement["reaches"]["complete"]:
        found.append("Cost or token data do not reach the end of the week yet.")
    if count := len(stand.open_exceptions):
        noun = "exception has" if count == 1 else "exceptions have"
        found.append(f"{count} {noun} no disposition.")
    return found


class NotConfirmed(NotAllowed):
    """The second computation gives another figure than the report."""


def seal(report: Report, *, by: str, at: datetime) -> Seal:
    """Seals the report: its bytes, people and dispositions can never change (method §11).

    Raises NotAllowed with all that stands against it; that figures were not confirmed stands in the
    trail. An earlier sealed revision of the week becomes superseded.
    """
    try:
        with week_locked("seals"), week_locked(report.week):
            return _sealed(report, by=by, at=at)
    except NotConfirmed:  # outside of the transaction, which leaves nothing
        subject = f"report {report.week}"
        detail = {"revision": report.revision, "digest": report.digest}
        trail(at=at, actor=by, action=NOT_CONFIRMED, subject=subject, detail=detail)
        raise


def _sealed(report: Report, *, by: str, at: datetime) -> Seal:
    _open(report)
    note_guards(at)  # before the head of the trail goes into the record
    stand = standing(Report.objects.prefetch_related("events").get(pk=report.pk))
    if found := blocks(stand):
        raise NotAllowed(f"{report.week} cannot be sealed. " + " ".join(found))
    evidence = sealed.gather(report, stand.statement)
    if unequal := not_confirmed(stand, evidence):
        raise NotConfirmed(f"{report.week} cannot be sealed. " + " ".join(unequal))
    with suppress(Busy):  # then what was fixed before stands
        fix_rows(by=by, at=at)  # before the head of the trail goes into the record, too
    last = Seal.objects.order_by("-number").first()
    previous = last.digest if last else FIRST_PREVIOUS_DIGEST
    number = last.number + 1 if last else 1
    record = _record(stand, number, previous, by, at) | {"evidence": sealed.keep(evidence)}
    content = canonical_bytes(record)
    earlier = Report.objects.filter(week=report.week, seal__isnull=False)
    for old in earlier.exclude(events__kind="superseded"):
        act(old, "superseded", by=by, at=at, comment=f"by revision {report.revision}")
    act(report, "sealed", by=by, at=at)
    return Seal.objects.create(
        number=number,
        report=report,
        record=content,
        digest=digest(content),
        previous_digest=previous,
        at=at,
        by=by,
    )


def not_confirmed(stand: Standing, evidence: Evidence | None) -> list[str]:
    """What the second computation of the figures has against sealing (method §11)."""
    if evidence is None or not evidence.unequal:
        return []
    if ("recomputation", "figures") in {(w["kind"], w["subject"]) for w in stand.waivers}:
        return []
    return [
        f"{len(evidence.unequal)} of {evidence.computed} figures were not confirmed by the second "
        f"computation from the rows as of the closing ({'; '.join(evidence.unequal[:3])}). Close "
        "the week again, or let a second person sign a waiver."
    ]


def _is_unequal(report: Report, statement: dict[str, Any]) -> bool:
    """Whether the second computation differs from a figure of the report now."""
    evidence = sealed.gather(report, statement)
    return evidence is not None and bool(evidence.unequal)


WAIVABLE = {kind for kind, _ in Waiver.KINDS}


def waive(report: Report, kind: str, subject: str, *, text: str, by: str, at: datetime) -> Waiver:
    """Signs for one thing that stands against sealing. Raises NotAllowed for the preparer, for
    an unknown kind, without a reason, and when there is nothing of this kind to sign for: for
    the second computation, as long as no figure differs."""
    if kind not in WAIVABLE:
        raise NotAllowed(
            f"There is no waiver {kind[:40]!r}; there are {', '.join(sorted(WAIVABLE))}."
        )
    if not text.strip():
        raise NotAllowed("A waiver needs a reason.")
    refuse_unseen(text)
    with week_locked(report.week):
        _open(report)
        if same_person(by, report.prepared_by):
            raise NotAllowed(f"{by} prepared this report; a second person signs its waivers.")
        statement = standing(report).statement
        if (kind, subject) not in waivable(statement):
            raise NotAllowed(f"{report} has nothing to waive of {kind} {subject[:80]}.")
        if kind == "recomputation" and not _is_unequal(report, statement):
            # Signed beforehand it would let whatever differs later pass unread.
            raise NotAllowed(
                "The second computation has nothing against this report: there is nothing to sign for."
            )
        row = Waiver.objects.create(
            report=report, kind=kind, subject=subject, text=text.strip(), by=by, at=at
        )
        trail(
            at=at,
            actor=by,
            action="waiver signed",
            subject=f"report {report.week}",
            detail={"revision": report.revision, "kind": kind, "subject": subject,
                    "text": row.text},
        )  # fmt: skip
        return row


def unsigned(stand: Standing) -> list[dict[str, str]]:
    """What stands against the seal, can be waived, and nobody has signed for yet. Figures of the
    second computation only once it has refused a seal of this report: before, nothing differs
    that anybody has seen, and to compute it for each reader would take too long."""
    if not stand.is_open:
        return []
    done = {(one["kind"], one["subject"]) for one in stand.waivers}
    if not _was_not_confirmed(stand.report):
        done.add(("recomputation", "figures"))
    return [
        {"kind": kind, "subject": subject}
        for kind, subject in waivable(stand.statement)
        if (kind, subject) not in done
    ]


def _was_not_confirmed(report: Report) -> bool:
    """Whether the second computation has refused a seal of these very bytes."""
    told = {"revision": report.revision, "digest": report.digest}
    refused = entries(action=NOT_CONFIRMED, subject=f"report {report.week}")
    return any(told.items() <= entry.detail.items() for entry in refused)


def waivable(statement: dict[str, Any]) -> list[tuple[str, str]]:
    """What a second person may sign for: provisional months, invoices outside their tolerance,
    and figures that the second computation does not confirm."""
    found = [("provisional-month", month) for month in statement["provisional_months"]]
    for row in statement["tieout"]["invoice"]:
        if row.get("within") is False:
            found.append(("invoice-differs", row["invoice"] or "not issued"))
    return [*found, ("recomputation", "figures")]


def _record(stand: Standing, number: int, previous: str, by: str, at: datetime) -> dict[str, Any]:
    named = [
        {"kind": e.kind, "by": e.by, "at": rfc3339(e.at), "comment": e.comment}
        for e in stand.events
    ]
    used = {entry["id"] for entry in stand.statement["exceptions"]}
    head = trail_head()
    return {
        "schema": SEAL_SCHEMA,
        "number": number,
        "week": stand.week,
        "revision": stand.revision,
        "reason": stand.report.reason,
        "prepared_by": stand.report.prepared_by,
        "prepared_at": rfc3339(stand.report.created_at),
        "approved_by": stand.approved_by,
        "sealed_by": by,
        "sealed_at": rfc3339(at),
        "events": named,
        "statement": stand.statement,
        "statement_digest": stand.report.digest,
        "dispositions": {k: v for k, v in stand.dispositions.items() if k in used},
        "waivers": stand.waivers,
        "restates": restated.against_earlier(stand.report, stand.statement),
        "trail": None if head is None else {"entries": head[0], "head": head[1]},
        "previous_digest": previous,
    }


def _open(report: Report) -> None:
    """Raises NotAllowed for a sealed report and for one that a newer revision replaced."""
    if ReportEvent.objects.filter(report=report, kind="sealed").exists():
        raise NotAllowed(
            f"{report} is sealed. A correction is a new revision: restate the week with a reason."
        )
    newest = Report.objects.filter(week=report.week).order_by("-revision").first()
    if newest and newest.revision != report.revision:
        raise NotAllowed(f"{report} was replaced by revision {newest.revision}.")


def dispose(week: str, exception: str, *, text: str, by: str, at: datetime) -> Disposition:
    """Writes what was decided of an exception of a week; sealed weeks keep theirs."""
    if not text.strip():
        raise NotAllowed("Write what was decided of the exception.")
    refuse_unseen(text)
    newest = Report.objects.filter(week=week).order_by("-revision").first()
    if newest is None:
        raise NotAllowed(f"There is no report of {week}.")
    with week_locked(week):
        _open(newest)
        known = {entry["id"] for entry in standing(newest).statement["exceptions"]}
        if exception not in known:
            raise NotAllowed(f"{week} has no exception {exception[:80]!r}.")
        row = Disposition.objects.create(
            week=week, exception=exception, text=text.strip(), by=by, at=at
        )
        trail(
            at=at,
            actor=by,
            action="exception dispositioned",
            subject=f"report {week}",
            detail={"exception": exception, "text": row.text},
        )
        return row
