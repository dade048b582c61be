"""Who may do what: one table. Roles are groups; a superuser has the role of an administrator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

FINANCE, ENGINEER, AUDITOR, ADMIN = "finance", "engineer", "auditor", "admin"
ROLES = {
    FINANCE: "prepares, approves and seals reports; invoices, rules and baselines",
    ENGINEER: "sources, workloads and rules; annotations; uploads",
    AUDITOR: "reads and verifies everything, changes nothing",
    ADMIN: "everything, and who may do what",
}

# What may be done, in words for the people page, and the roles that may.
PERMISSIONS: dict[str, tuple[str, frozenset[str]]] = {
    "read": ("Read every page", frozenset({FINANCE, ENGINEER, AUDITOR, ADMIN})),
    "annotate": ("Write annotations", frozenset({FINANCE, ENGINEER, ADMIN})),
    "upload": ("Hand over files", frozenset({FINANCE, ENGINEER, ADMIN})),
    "mapping": ("Map columns of CSV files", frozenset({FINANCE, ENGINEER, ADMIN})),
    "decide": ("Decide on waiting snapshots", frozenset({FINANCE, ADMIN})),
    "sources": ("Add and test sources", frozenset({ENGINEER, ADMIN})),
    "allocate": ("Add workloads and rules", frozenset({FINANCE, ENGINEER, ADMIN})),
    "baseline": ("Set baselines and budgets", frozenset({FINANCE, ADMIN})),
    "invoice": ("Enter invoice amounts, confirm months", frozenset({FINANCE, ADMIN})),
    "close": ("Close and restate weeks", frozenset({FINANCE, ADMIN})),
    "dispose": ("Decide on exceptions", frozenset({FINANCE, ENGINEER, ADMIN})),
    "approve": ("Review, approve and seal reports; approve baselines", frozenset({FINANCE, ADMIN})),
    "audit": (
        "Verify reports, read the trail, draw samples",
        frozenset({FINANCE, AUDITOR, ADMIN}),
    ),
    "people": ("Manage people and their roles", frozenset({ADMIN})),
}

View = Callable[..., HttpResponseBase]


def roles_of(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    """The user's roles; asked of the database once for each request's user."""
    known: frozenset[str] | None = getattr(user, "_headroom_roles", None)
    if known is None:
        known = frozenset()
        if getattr(user, "is_superuser", False):
            known = frozenset({ADMIN})
        elif user.is_authenticated:
            names = Group.objects.filter(user=user.pk).values_list("name", flat=True)
            known = frozenset(names) & frozenset(ROLES)
        user._headroom_roles = known  # type: ignore[union-attr]
    return known


def may(user: AbstractBaseUser | AnonymousUser, permission: str) -> bool:
    """Whether the user may. Raises KeyError for a permission that is not in the table."""
    return bool(roles_of(user) & PERMISSIONS[permission][1])


def refusal(name: str, permission: str) -> str:
    """Why somebody may not act in this name, as a sentence; empty when the account may, and for a
    name without an account, of whom no roles are known. Capitals make nobody another person."""
    alike = list(User.objects.filter(username__iexact=" ".join(name.split())))
    accounts = [one for one in alike if one.username == name] or alike
    if not accounts or any(one.is_active and may(one, permission) for one in accounts):
        return ""
    if not any(one.is_active for one in accounts):
        return f"The account {name} is switched off: nobody acts in its name."
    what = PERMISSIONS[permission][0]
    return f"{name} may not: {what[:1].lower()}{what[1:]}. An administrator gives roles."


def allowed(permission: str) -> Callable[[View], View]:
    """Lets a view be used only by people who may; others are told so (403)."""
    assert permission in PERMISSIONS

    def wrap(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not may(request.user, permission):
                raise PermissionDenied(PERMISSIONS[permission][0])
            return view(request, *args, **kwargs)

        checked.permission = permission  # type: ignore[attr-defined]
        return checked

    return wrap


def ensure_groups(**_: Any) -> None:
    """Makes the groups that stand for the roles; runs after each migration of `default`."""
    for name in ROLES:
        Group.objects.get_or_create(name=name)
