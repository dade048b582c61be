"""Rate cards and exchange rates: what prices usage that no invoice prices, by version and day; and
which rates the newest report used (method §3.9)."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.ledger.models import RateCard
from finops.ledger.queries.exchange_rates import chosen_currency, rates_on
from reports import figures
from reports.queries.standing import recent_reports, statement_of
from reports.queries.weeks import zone
from reports.roles import allowed

from .page import page

MOST_SHOWN = 100
_ASKED = {"provider": "provider", "gpu_model": "GPU model", "sku": "SKU"}


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The rate cards, newest version first, the rates of the newest report, and the newest rates."""
    cards = RateCard.objects.select_related("document").order_by("name", "-version")
    context = {
        "cards": [_card(row) for row in cards[:MOST_SHOWN]],
        "rates": rates_on(),
        "zone": zone().key,
        "chosen": chosen_currency(),
        **_used(),
    }
    return page(request, "reports/prices.html", context)


def _used() -> dict[str, Any]:
    """The newest report's exchange of currencies; nothing where it converted none."""
    newest = recent_reports(1)
    said = statement_of(newest[0]) if newest else {}
    if not said.get("exchange"):
        return {}
    rates = [dict(row) | {"shown": figures.rate(row["rate"])} for row in said["exchange"]["rates"]]
    return {"used": said["exchange"], "used_rates": rates, "report": newest[0]}


def _card(row: RateCard) -> dict[str, Any]:
    rates = row.content.get("rates") or []
    return {
        "card": row,
        "rates": [item | {"asks": _asks(item.get("match") or {})} for item in rates],
        "owned": row.content.get("owned") or [],
    }


def _asks(match: dict[str, Any]) -> str:
    """What a rate is for, as `provider CoreWeave, GPU model H100`."""
    told = [f"{name} {match[key]}" for key, name in _ASKED.items() if match.get(key)]
    return ", ".join(told) or "any usage"
