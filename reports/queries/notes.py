"""Reading annotations: the current versions, and what each replaced."""

from __future__ import annotations

from typing import Any

from finops.core.period import Period, rfc3339
from reports.models import Annotation


def current_annotations(
    period: Period | None = None, workload: str | None = None
) -> list[Annotation]:
    """The annotations in force, oldest first; of one workload, those for all are included."""
    rows = Annotation.objects.filter(replaced_by__isnull=True).select_related("replaces")
    if period is not None:
        rows = rows.filter(at__gte=period.start, at__lt=period.end)
    if workload is not None:
        rows = rows.filter(workload__in=["", workload])
    return list(rows.order_by("at", "id"))


def as_statement(rows: list[Annotation]) -> list[dict[str, Any]]:
    """Annotations as the statement holds them."""
    return [
        {
            "at": rfc3339(row.at),
            "workload": row.workload or None,
            "text": row.text,
            "author": row.author,
            "kind": row.kind,
            "url": row.url or None,
            "replaces": row.replaces.text if row.replaces else None,
        }
        for row in rows
    ]


def versions(row: Annotation) -> list[Annotation]:
    """The earlier versions of an annotation, newest first."""
    found = []
    while row.replaces_id is not None:
        row = Annotation.objects.get(pk=row.replaces_id)
        found.append(row)
    return found
