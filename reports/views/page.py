"""What every page shares: the frame, the navigation by role, the sample's mark."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from finops.ledger.which import ledger_name
from reports.roles import PERMISSIONS, may, roles_of

NAV: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "",
        (
            ("overview", "Overview", "read"),
            ("reports", "Reports", "read"),
            ("exceptions", "Exceptions", "read"),
            ("workloads", "Workloads", "read"),
            ("training", "Training and service", "read"),
            ("memory", "GPU memory", "read"),
            ("rightsizing", "Right-sizing", "read"),
            ("changes", "Changes", "read"),
            ("annotations", "Annotations", "read"),
        ),
    ),
    (
        "Data",
        (
            ("imports", "Imports", "read"),
            ("sources", "Sources", "read"),
            ("nodes", "GPU time", "read"),
            ("invoices", "Invoices", "read"),
            ("mappings", "CSV mappings", "read"),
        ),
    ),
    (
        "Method",
        (
            ("rules", "Rules", "read"),
            ("baselines", "Baselines", "read"),
            ("prices", "Prices", "read"),
            ("catalogue", "GPU catalogue", "read"),
            ("help", "How it is counted", "read"),
        ),
    ),
    (
        "Audit",
        (
            ("verify", "Verify", "audit"),
            ("trail", "Trail", "audit"),
            ("sampler", "Sampler", "audit"),
        ),
    ),
    ("Organisation", (("people", "People", "people"),)),
)


ONLY_IN_THE_SAMPLE = (
    "This went into the sample organisation and leaves with it. Hand over your first document, "
    "then set up your own."
)


def page(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    """Renders a page inside the frame, with what the person may do as `can`."""
    values = frame(request)
    values |= context or {}
    return render(request, template, values, status=status)


def note_sample(request: HttpRequest) -> None:
    """Warns a person who sets something up while the sample is shown."""
    if ledger_name() == "sample":
        messages.warning(request, ONLY_IN_THE_SAMPLE)


def typed(values: QueryDict, name: str, default: str = "") -> str:
    """What was given under a name, without blanks around it and without what no text may hold."""
    return values.get(name, default).replace("\0", "").strip() or default


def frame(request: HttpRequest) -> dict[str, Any]:
    """The frame's values."""
    can = {name: may(request.user, name) for name in PERMISSIONS}
    return {
        "nav": _navigation(request, can),
        "can": can,
        "person": request.user.get_username(),
        "roles": sorted(roles_of(request.user)),
        "is_sample": ledger_name() == "sample",
    }


def _navigation(request: HttpRequest, can: dict[str, bool]) -> list[dict[str, Any]]:
    groups = []
    for title, entries in NAV:
        shown = []
        for name, label, permission in entries:
            url = reverse(name)
            here = request.path == url or (url != "/" and request.path.startswith(url))
            if can[permission]:
                shown.append({"url": url, "label": label, "here": here})
        if shown:
            groups.append({"title": title, "entries": shown})
    return groups
