"""The GPU catalogue: lines to be reviewed, and the machine shapes that lines are told by."""

from __future__ import annotations

from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.ledger.queries.unrecognised import review_list
from finops.sources.gpu_shapes import catalogue
from reports.roles import allowed

from .page import page

MOST_SHOWN = 200


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """What looks like GPU time and is not known, by cost; then the shapes by provider."""
    rows, count = review_list(MOST_SHOWN)
    providers = groupby(catalogue(), key=lambda shape: shape.provider)
    context = {
        "rows": rows,
        "count": count,
        "providers": [(name, list(shapes)) for name, shapes in providers],
    }
    return page(request, "reports/catalogue.html", context)
