"""People and their roles; only administrators come here."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from finops.ledger.which import use_ledger
from finops.trail.operations import record
from reports.forms import PasswordForm, PersonForm
from reports.roles import ADMIN, PERMISSIONS, ROLES, allowed

from .page import page, typed


@require_http_methods(["GET", "POST"])
@allowed("people")
def listing(request: HttpRequest) -> HttpResponse:
    """Everyone with their roles, who may do what, and a form for a new person."""
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        _add(request, form)
        return redirect("people")
    rows = [
        {"user": user, "roles": [group.name for group in user.groups.all()]}
        for user in User.objects.prefetch_related("groups").order_by("username")
    ]
    table = [
        {"text": text, "may": [role in allowed_roles for role in ROLES]}
        for text, allowed_roles in PERMISSIONS.values()
    ]
    context = {"rows": rows, "form": form, "roles": ROLES, "table": table}
    return page(request, "reports/people.html", context)


def _add(request: HttpRequest, form: PersonForm) -> None:
    values = form.cleaned_data
    with transaction.atomic(using="default"):
        user = User.objects.create_user(values["username"], password=values["password"])
        user.groups.set(Group.objects.filter(name__in=values["roles"]))
        _note(request, "person added", user, values["roles"])
    messages.success(request, f"{user.username} may sign in now.")


def _note(request: HttpRequest, action: str, user: User, roles: list[str]) -> None:
    with use_ledger("default"):
        record(
            at=timezone.now(),
            actor=request.user.get_username(),
            action=action,
            subject=f"person {user.username}",
            detail={"roles": sorted(roles), "active": user.is_active},
        )


@require_http_methods(["GET", "POST"])
@allowed("people")
def password(request: HttpRequest, pk: int) -> HttpResponse:
    """Sets another password for a person; their sessions end, and the trail says who did it.

    The password of an administrator of the installation is set only by another such one.
    """
    user = get_object_or_404(User, pk=pk)
    if user.is_superuser and not getattr(request.user, "is_superuser", False):
        raise PermissionDenied("Only an administrator of the installation may do this.")
    form = PasswordForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic(using="default"):
            user.set_password(form.cleaned_data["password"])
            user.save(update_fields=["password"])
            roles = list(user.groups.values_list("name", flat=True))
            _note(request, "password reset", user, roles)
        messages.success(request, f"{user.username} has another password; their sessions ended.")
        return redirect("people")
    return page(request, "reports/password.html", {"form": form, "person": user})


@require_POST
@allowed("people")
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Gives a person other roles, or lets them in no longer."""
    user = get_object_or_404(User, pk=pk)
    roles = [role for role in request.POST.getlist("roles") if role in ROLES]
    active = typed(request.POST, "active") == "1"
    if user.pk == request.user.pk and not (active and (ADMIN in roles or user.is_superuser)):
        messages.error(
            request,
            "You cannot lock yourself out, nor take the administrator's role from yourself.",
        )
        return redirect("people")
    with transaction.atomic(using="default"):
        user.groups.set(Group.objects.filter(name__in=roles))
        user.is_active = active
        user.save(update_fields=["is_active"])
        _note(request, "person changed", user, roles)
    messages.success(request, f"{user.username} was changed.")
    return redirect("people")
