"""GPU time: who held it, what stood idle, and nodes and invoice side by side (method §4)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.core.money import add, plain
from reports.queries.standing import recent_reports, statement_of
from reports.roles import allowed

from .page import page

KINDS = frozenset(
    {
        "nodes-without-charges",
        "gpu-charges-without-node",
        "gpu-hours-without-workload",
        "gpu-hours-differ",
        "gpu-parts",
        "gpu-parts-unknown",
    }
)
"""The exceptions that are about GPU time."""


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """Both sides of the join in the newest report's week."""
    reports = recent_reports(1)
    statement = statement_of(reports[-1]) if reports else None
    context: dict[str, Any] = {"s": statement}
    if statement:
        nodes = statement.get("nodes")
        context["n"] = nodes
        context["notes"] = [one for one in statement["exceptions"] if one["kind"] in KINDS]
        if nodes:
            both = [Decimal(nodes[name]) for name in ("matched_cost", "unmatched_cost")]
            context["paid"] = plain(add(both))
    return page(request, "reports/nodes.html", context)
