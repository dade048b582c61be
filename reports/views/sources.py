"""Sources: adding, testing, health. Always of the own ledger, since that is what they fill."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from finops.ledger.access import Access
from finops.ledger.operations import sources
from finops.ledger.queries.sources import health
from finops.ledger.which import use_ledger
from reports.forms import SourceForm
from reports.roles import allowed, may

from .page import page, typed


@require_http_methods(["GET", "POST"])
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The sources' health, and a form to add one."""
    form = SourceForm(request.POST or None)
    with use_ledger("default"):
        if request.method == "POST":
            if not may(request.user, "sources"):
                return page(request, "403.html", status=403)
            if form.is_valid() and _add(request, form):
                return redirect("sources")
        rows = health(timezone.now())
    return page(request, "reports/sources.html", {"rows": rows, "form": form})


def _add(request: HttpRequest, form: SourceForm) -> bool:
    values = form.cleaned_data
    try:
        sources.add_source(
            values["name"],
            values["url"],
            by=request.user.get_username(),
            at=timezone.now(),
            matchers=values["matchers"],
            secret=values["secret"],
            user=values["user"],
        )
    except sources.SourceRefused as refused:
        form.add_error(None, str(refused))
        return False
    messages.success(request, f"Source {values['name']} was added. It is collected every hour.")
    return True


@require_POST
@allowed("sources")
def test(request: HttpRequest) -> HttpResponse:
    """Asks a store about its last hour, without keeping anything."""
    form = SourceForm(request.POST)
    context: dict[str, object] = {"form": form}
    if form.is_valid():
        values = form.cleaned_data
        access = Access(values["url"], values["secret"], values["user"], "identity")
        context["tested"] = sources.test_access(access, values["matchers"], at=timezone.now())
    with use_ledger("default"):
        context["rows"] = health(timezone.now())
    return page(request, "reports/sources.html", context)


@require_POST
@allowed("sources")
def set_active(request: HttpRequest, name: str) -> HttpResponse:
    """Stops or starts collecting a source."""
    with use_ledger("default"):
        try:
            sources.set_active(
                name,
                typed(request.POST, "active") == "1",
                by=request.user.get_username(),
                at=timezone.now(),
            )
        except sources.SourceRefused as refused:
            messages.error(request, str(refused))
    return redirect("sources")
