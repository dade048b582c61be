"""Closing a week: from the ledger's facts to the canonical bytes of a report (method §11)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Max

from finops.core.canonical import canonical_bytes, digest
from finops.core.period import week_before, week_of
from finops.core.statement import statement, trend_row
from finops.ledger.queries.facts import facts
from reports import level_columns, sheet
from reports.models import Report
from reports.queries import notes, proposals, weeks
from reports.queries.standing import FINAL, report_of, standing, statement_of

from .refused import NoSuchWeek, NotAllowed, refuse_unseen
from .sealing import act, week_locked

TREND_WEEKS = 12
NO_DATA = "There is no data yet: ingest an invoice or collect readings first."


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing gave: the report, whether it is new, and what would change a sealed one."""

    report: Report
    is_new: bool
    differences: list[dict[str, Any]]


def week_asked(text: str, at: datetime) -> str:
    """`latest` or an ISO week as the week's name. NoSuchWeek when there is none of this name."""
    if text != "latest":
        try:
            week_of(text, weeks.zone())
        except ValueError as error:
            raise NoSuchWeek(str(error)) from None
        return text
    newest = weeks.newest_week(at)
    if newest is None:
        raise NotAllowed(NO_DATA)
    return newest


def close_week(week: str, *, by: str, at: datetime) -> Closed:
    """Closes a week: a new preliminary revision when its bytes differ from the newest one's.

    A sealed week is left as it is; `differences` then says which printed figures would change,
    and a restatement is due only when there are any.
    """
    _refuse_without_data(week, at)
    value = build(week, at)
    with week_locked(week):
        newest = Report.objects.filter(week=week).order_by("-revision").first()
        content = canonical_bytes(value)
        if newest and newest.digest == digest(content):
            return Closed(newest, False, [])
        stand = standing(newest) if newest else None
        if newest and stand and stand.state == FINAL:
            return Closed(newest, False, sheet.differences(stand.statement, value))
        return Closed(_store(week, content, value, by, at, reason=""), True, [])


def restate(week: str, *, reason: str, by: str, at: datetime) -> Closed:
    """A new preliminary revision of a sealed week, with its reason and a difference table.

    Raises NotAllowed without a reason, when the week is not sealed, and when no printed figure
    would change.
    """
    reason = reason.strip()
    if not reason:
        raise NotAllowed("A restatement needs a reason.")
    refuse_unseen(reason)
    week = week_asked(week, at)
    value = build(week, at)
    with week_locked(week):
        newest = Report.objects.filter(week=week).order_by("-revision").first()
        stand = standing(newest) if newest else None
        if newest is None or stand is None or stand.state != FINAL:
            raise NotAllowed(f"{week} is not sealed; close it again instead.")
        differences = sheet.differences(stand.statement, value)
        if not differences:
            raise NotAllowed("No printed figure would change, so nothing is restated.")
        report = _store(week, canonical_bytes(value), value, by, at, reason=reason)
        return Closed(report, True, differences)


def build(week: str, at: datetime) -> dict[str, Any]:
    """The statement of a week as the ledger stands, with annotations, nothing stored."""
    earlier = [_earlier(name, at) for name in weeks.earlier_weeks(week, TREND_WEEKS - 1)]
    names = [value["period"]["week"] for value in earlier]
    before = week_before(week, weeks.zone())
    previous = earlier[names.index(before)] if before in names else None
    value = _stated(week, at, previous, earlier)
    period = week_of(week, weeks.zone())
    value["annotations"] = notes.as_statement(notes.current_annotations(period))
    return value


def _earlier(week: str, at: datetime) -> dict[str, Any]:
    """An earlier week as it was said, else as the ledger stands now."""
    report = report_of(week)
    return statement_of(report) if report else _stated(week, at, None, [])


def _stated(
    week: str, at: datetime, previous: dict[str, Any] | None, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """A week's statement; the trend leaves out weeks that were told in another currency (§3.9)."""
    found = facts(week_of(week, weeks.zone()), week=week, as_of=at)
    found = replace(found, notices=(*found.notices, *proposals.notices(week, at)))
    trend = [trend_row(one) for one in earlier if one["currency"] == found.currency]
    value: dict[str, Any] = statement(found, previous, trend)
    return value


def _store(
    week: str, content: bytes, value: dict[str, Any], by: str, at: datetime, *, reason: str
) -> Report:
    newest = Report.objects.filter(week=week).aggregate(newest=Max("revision"))["newest"] or 0
    report = Report.objects.create(
        week=week,
        revision=newest + 1,
        statement=content,
        digest=digest(content),
        method_version=value["method_version"],
        created_at=at,
        prepared_by=by,
        reason=reason,
        headline=value["headline"],
        figures=level_columns.listed(value),
    )
    act(report, "closed", by=by, at=at, comment=reason)
    return report


def _refuse_without_data(week: str, at: datetime) -> None:
    """A report of a week that nothing can be known of would be an empty one for good."""
    period = week_of(week, weeks.zone())
    if period.start > at:
        raise NotAllowed(f"{week} has not begun yet.")
    first = weeks.first_data()
    if first is None:
        raise NotAllowed(NO_DATA)
    if period.end <= first:
        raise NotAllowed(f"{week} lies before the first data, which are of {first:%Y-%m-%d}.")
