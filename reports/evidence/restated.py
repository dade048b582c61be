"""What a restatement changed: figures old and new, and the documents that came or went (§11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports import sheet
from reports.models import Report, Seal
from reports.queries.standing import statement_of


def against_earlier(report: Report, statement: Mapping[str, Any]) -> dict[str, Any] | None:
    """The difference table against the newest sealed revision before; None for a first seal."""
    seals = Seal.objects.filter(report__week=report.week, report__revision__lt=report.revision)
    seal = seals.select_related("report").order_by("-report__revision").first()
    if seal is None:
        return None
    old = statement_of(seal.report)
    return {
        "revision": seal.report.revision,
        "digest": seal.digest,
        "reason": report.reason,
        "figures": [
            {key: _text(value) for key, value in row.items()}
            for row in sheet.differences(old, statement)
        ],
        "documents_added": more_documents(statement, old),
        "documents_removed": more_documents(old, statement),
    }


def more_documents(these: Mapping[str, Any], those: Mapping[str, Any]) -> list[dict[str, str]]:
    """The documents of one statement that the other does not have."""
    known = {one["sha256"] for one in those["control_totals"]["documents"]}
    return [
        {"sha256": one["sha256"], "name": one["name"]}
        for one in these["control_totals"]["documents"]
        if one["sha256"] not in known
    ]


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | bool) else str(value)
