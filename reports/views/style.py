"""The style page: every component of the pages, with invented values, to look at and test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django import forms
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.core.period import Period
from reports import charts
from reports.forms import PlainForm
from reports.heat import heat_map
from reports.roles import allowed

from .page import page

START = datetime(2026, 11, 16, tzinfo=UTC)
COLOURS = ("paper", "ground", "raised", "sunken", "ink", "quiet", "line", "line-strong", "accent",
           "accent-soft", "pale", "gain", "gain-soft", "loss", "loss-soft", "warn", "warn-soft",
           "part")  # fmt: skip
CHIPS = ("preliminary", "final", "superseded", "waiting", "ok", "late", "rejected")


class ExampleForm(PlainForm):
    """One field of each kind, one of them wrong."""

    name = forms.CharField(label="Name", help_text="Like chat-70b.")
    kind = forms.ChoiceField(label="Kind", choices=[("a", "First"), ("b", "Second")])
    day = forms.DateField(label="Day", widget=forms.DateInput(attrs={"type": "date"}))
    text = forms.CharField(label="Text", widget=forms.Textarea(attrs={"rows": 2}))


@require_GET
@allowed("read")
def components(request: HttpRequest) -> HttpResponse:
    """All components on one page."""
    form = ExampleForm({"name": "", "kind": "a", "day": "2026-11-16", "text": "A sentence."})
    form.is_valid()
    context = {
        "has_charts": True,
        "colours": COLOURS,
        "chips": CHIPS,
        "form": form,
        "drawings": [charts.on_screen(chart) for chart in _charts()],
        "map": _map(),
    }
    return page(request, "reports/style.html", context)


def _charts() -> list[charts.Chart]:
    weeks: list[Decimal | None] = [
        Decimal(value) / 100 for value in (243, 239, 238, 233, 229, 224, 219, 213)
    ]
    names = [f"W{number}" for number in range(40, 48)]
    changes = [
        ("Price", Decimal("0.03")),
        ("Efficiency", Decimal("-0.11")),
        ("Mix", Decimal("0.02")),
    ]
    day: list[Decimal | None] = [
        Decimal(value) for value in (2, 2, 3, 5, 9, 14, 17, 18, 17, 12, 8, 4)
    ]
    active: list[Decimal | None] = [value for value in day for _ in (0, 1)] * 7
    active[50:56] = [None] * 6
    reserved: list[Decimal | None] = [None if value is None else Decimal(58) for value in active]
    device: list[Decimal | None] = [None if value is None else Decimal(72) for value in active]
    unit = "USD per million tokens"
    return [
        charts.Columns("style-columns", "Columns over weeks", unit, names, weeks),
        charts.Waterfall("style-bridge", "A bridge", unit, ("W46", Decimal("2.19")), changes,
                         ("W47", Decimal("2.13"))),
        charts.Areas("style-areas", "Reserved and active", "GiB", START, "UTC", reserved, active,
                     device, [(START + timedelta(hours=60), "1")]),
        charts.Bars("style-bars", "Reserved and active, means", "GiB",
                    [("chat-70b", Decimal(58), Decimal(17)), ("code-32b", Decimal(31), Decimal(3))]),
    ]  # fmt: skip


def _map() -> str:
    period = Period(START, START + timedelta(days=7))
    hours = {
        "prometheus-eu": ["whole"] * 168,
        "prometheus-us": ["whole"] * 40
        + ["part"] * 5
        + ["whole"] * 60
        + ["unread"] * 8
        + ["whole"] * 40
        + ["empty"] * 10
        + ["whole"] * 5,
    }
    return heat_map(period, hours, "UTC", lambda name, at: "#map")
