"""The review list: charges that look like GPU time and match nothing of the catalogue (facts 3)."""

from __future__ import annotations

from typing import Any

from django.db.models import Max, Min, Sum

from finops.core.money import plain
from finops.ledger.models import Charge
from finops.ledger.queries.snapshots import current_ids
from finops.sources.gpu_shapes import UNRECOGNISED

ALIKE = (
    "provider",
    "service",
    "sku",
    "instance_type",
    "description",
    "consumed_unit",
    "currency",
    "snapshot__issuer",
)


def review_list(most: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """Current charges of unrecognised GPU time, those alike in what they are of in one row: at most
    so many rows, and how many there are.

    Each row has what names the machine, the name of one of its resources (it may be what looks like
    GPU time), how many lines there are, the days they span, their exact
    cost, and the first of the lines by document and line. What costs most comes first.
    """
    rows = (
        Charge.objects.filter(snapshot__in=current_ids(), gpu_model=UNRECOGNISED)
        .order_by()
        .values(*ALIKE)
        .annotate(
            lines=Sum("line_count"),
            billed=Sum("billed_cost"),
            effective=Sum("effective_cost"),
            first=Min("charge_start"),
            last=Max("charge_end"),
            resource=Min("resource_name"),
            example=Min("pk"),
        )
    )
    found = sorted(rows, key=lambda row: (-abs(row["effective"] or 0), row["example"]))
    shown = found[:most]
    examples = Charge.objects.only("document_id", "line").in_bulk([row["example"] for row in shown])
    return [_row(row, examples[row["example"]]) for row in shown], len(found)


def _row(row: dict[str, Any], example: Charge) -> dict[str, Any]:
    names = ("provider", "service", "sku", "instance_type", "description", "resource", "currency",
             "lines")  # fmt: skip
    return {name: row[name] for name in names} | {
        "issuer": row["snapshot__issuer"],
        "unit": row["consumed_unit"],
        "billed": None if row["billed"] is None else plain(row["billed"]),
        "effective": None if row["effective"] is None else plain(row["effective"]),
        "first": row["first"],
        "last": row["last"],
        "document": example.document_id,
        "line": example.line,
    }
