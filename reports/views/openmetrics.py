"""Our own figures for Prometheus: `/metrics/cost`, behind a bearer token."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from reports.exposition import OLDER_TEXT, OPENMETRICS, written
from reports.queries.cost_metrics import gauges


@login_not_required
@require_safe
def cost(request: HttpRequest) -> HttpResponse:
    """The exposition; 404 while HEADROOM_METRICS_TOKEN is not set, 401 without the token."""
    if not settings.METRICS_TOKEN:
        raise Http404
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    right = constant_time_compare(given.strip(), settings.METRICS_TOKEN)
    if scheme.lower() != "bearer" or not right:
        refused = HttpResponse("bearer token needed\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    sample = "true" if request.ledger == "sample" else "false"  # type: ignore[attr-defined]
    newer = "application/openmetrics-text" in request.headers.get("Accept", "")
    return HttpResponse(
        written(gauges(), sample=sample), content_type=OPENMETRICS if newer else OLDER_TEXT
    )
