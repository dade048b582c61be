"""Reports put into the database from the example statement, and what a page of them says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

from finops.core.canonical import canonical_bytes, digest
from reports import level_columns
from reports.models import Report
from reports.operations import sealing

from .example import statement

NOW = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)


def make_report(
    week: str = "2026-W47", *, by: str = "Ada Okafor", revision: int = 1, **changes: Any
) -> Report:
    """A closed report with the example statement."""
    value = statement(week, **changes)
    content = canonical_bytes(value)
    report = Report.objects.create(
        week=week,
        revision=revision,
        statement=content,
        digest=digest(content),
        method_version="1.0",
        created_at=NOW,
        prepared_by=by,
        headline=value["headline"],
        figures=level_columns.listed(value),
    )
    sealing.act(report, "closed", by=by, at=NOW)
    return report


def sign_waivers(report: Report, *, by: str) -> None:
    """A second person signs for the months that are provisional."""
    from reports.queries.standing import standing

    for month in standing(report).statement["provisional_months"]:
        sealing.waive(report, "provisional-month", month, text="Known.", by=by, at=NOW)


def seal_report(report: Report, *, approver: str = "Benedikt Sommer") -> None:
    """Dispositions, approval and seal."""
    from reports.queries.standing import standing

    for exception in standing(report).statement["exceptions"]:
        sealing.dispose(
            report.week, exception["id"], text="Known and accepted.", by=approver, at=NOW
        )
    sign_waivers(report, by=approver)
    sealing.approve(report, by=approver, at=NOW)
    sealing.seal(report, by=approver, at=NOW)


def html_of(answer: Any) -> str:
    """A page as it is sent."""
    return str(answer.content.decode())


def text_of(answer: Any) -> str:
    """The words of a page, without tags, narrow blanks as ordinary ones."""
    plain = unescape(re.sub(r"<[^>]+>", " ", html_of(answer)))
    return " ".join(plain.replace("\u202f", " ").split())
