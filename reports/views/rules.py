"""Rules: which series and charges belong where; a rule shows what it would move before it is kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from finops.ledger.models import Workload
from finops.ledger.operations.rules import Draft, add_rule, draft, next_number, retire_rule
from finops.ledger.operations.summing_again import would_move
from finops.ledger.operations.workloads import NotAccepted
from finops.ledger.queries.allocation import rule_rows, shared_keys
from finops.ledger.tasks import sum_again_soon
from reports.forms import RuleForm
from reports.queries.weeks import zone
from reports.roles import allowed

from .page import note_sample, page, typed


def _targets() -> list[tuple[str, str]]:
    slugs = Workload.objects.order_by("slug").values_list("slug", flat=True)
    return [
        *((slug, slug) for slug in slugs),
        *((f"shared:{name}", f"shared by {name}") for name in sorted(shared_keys())),
        ("out-of-scope", "out of scope"),
    ]


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The rules in force and a form for a new one."""
    return _shown(request, RuleForm(targets=_targets()))


def _shown(request: HttpRequest, form: RuleForm, **more: Any) -> HttpResponse:
    rows = rule_rows()
    charges = [row for row in rows if row["subject"] == "charge"]
    series = [row for row in rows if row["subject"] == "series"]
    context = {"groups": [("Charges", charges), ("Series", series)], "form": form}
    return page(request, "reports/rules.html", context | more)


@require_POST
@allowed("allocate")
def preview(request: HttpRequest) -> HttpResponse:
    """Shows what a rule would move, or keeps it once that was seen."""
    form = RuleForm(request.POST, targets=_targets())
    if not form.is_valid():
        return _shown(request, form)
    try:
        new = _draft(form.cleaned_data)
        if typed(request.POST, "keep") == "1":
            row = add_rule(new, by=request.user.get_username(), at=timezone.now())
            messages.success(request, f"Rule {row.number} was added.")
            if sum_again_soon():
                messages.info(request, "Long documents are read again for it; that takes a while.")
            note_sample(request)
            return redirect("rules")
        moves = would_move(new.numbered(next_number(), 1))
    except NotAccepted as refused:
        form.add_error(None, str(refused))
        return _shown(request, form)
    return _shown(request, form, moves=moves)


def _draft(values: dict[str, Any]) -> Draft:
    matchers = values["matchers"]
    is_charge = values["subject"] == "charge"
    return draft(
        values["target"],
        charge=matchers if is_charge else None,
        series=None if is_charge else matchers,
        valid_from=_midnight(values["valid_from"]),
        valid_to=_midnight(values["valid_to"]),
        order=values["order"],
    )


def _midnight(day: date | None) -> datetime | None:
    if day is None:
        return None
    return datetime.combine(day, time(), tzinfo=zone()).astimezone(UTC)


@require_POST
@allowed("allocate")
def retire(request: HttpRequest, number: int) -> HttpResponse:
    """Takes a rule out of force; its versions stay."""
    try:
        retire_rule(number, by=request.user.get_username(), at=timezone.now())
    except NotAccepted as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, f"Rule {number} was retired.")
    return redirect("rules")
