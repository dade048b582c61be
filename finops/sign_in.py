"""Signing in and out: a pause after too many wrong passwords, and a note of each in the trail.

An attempt is written down before its password is looked at, so that many at once are counted too,
and taken out again when it was right. The counts stand in the database: every web process sees
them, and they outlive a restart.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any

from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone

from finops.ledger.which import use_ledger
from finops.models import SignInAttempt
from finops.trail.operations import record
from reports.client import client_address

PAUSE = timedelta(minutes=15)
MOST_BY_NAME = 10  # wrong passwords for one name from one address
LOCK = 0x516E  # of attempts, apart from the ledger's locks
MOST_BY_ADDRESS = 100  # from one address, whatever the names: many people may share one


class SignIn(views.LoginView):
    """The page of that name. Refuses (429) without looking at the password during a pause."""

    redirect_authenticated_user = False
    next_page = "/"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Counts the attempt, then lets Django look at the password."""
        name = folded(request.POST.get("username", ""))
        self.attempt = attempted(name, address_of(request))
        if self.attempt is None:
            form = AuthenticationForm(request)
            context = self.get_context_data(form=form, pause_minutes=PAUSE.seconds // 60)
            return self.render_to_response(context, status=429)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """The right password: earlier wrong ones no longer count."""
        assert self.attempt is not None
        given = {"name": self.attempt.name, "address": self.attempt.address}
        SignInAttempt.objects.filter(**given).delete()
        answer = super().form_valid(form)
        noted(self.request, "signed in", form.get_user().get_username())
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """A wrong password or name."""
        noted(self.request, "sign-in failed", known(self.request.POST.get("username", "")))
        return super().form_invalid(form)


class SignOut(views.LogoutView):
    """Ends the session, by POST alone."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Notes who leaves."""
        if request.user.is_authenticated:
            noted(request, "signed out", request.user.get_username())
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer


class OwnPassword(views.PasswordChangeView):
    """Another password for oneself: nobody should go on with one that an administrator knows."""

    template_name = "registration/own_password.html"
    success_url = reverse_lazy("overview")

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        """The person's other sessions end with the old password."""
        answer = super().form_valid(form)
        noted(self.request, "password changed", self.request.user.get_username())
        return answer


def attempted(name: str, address: str) -> SignInAttempt | None:
    """Writes an attempt down; None while the name or the address has to wait."""
    now = timezone.now()
    with transaction.atomic(using="default"):
        with connections["default"].cursor() as cursor:  # one after the other, by address
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, address])
        SignInAttempt.objects.filter(at__lte=now - PAUSE).delete()
        recent = SignInAttempt.objects.filter(address=address)
        if recent.count() >= MOST_BY_ADDRESS or recent.filter(name=name).count() >= MOST_BY_NAME:
            return None
        return SignInAttempt.objects.create(name=name, address=address, at=now)


def address_of(request: HttpRequest) -> str:
    """Where a request comes from; of an IPv6 address its /64, which one client has to itself.

    Behind a proxy (HEADROOM_BEHIND_PROXY) the address that the proxy added last.
    """
    try:
        address = ipaddress.ip_address(client_address(request))
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((int(address), 64), strict=False))


def folded(name: str) -> str:
    """A name as attempts are counted by."""
    return name.replace("\0", "").strip().casefold()[:150]


def known(name: str) -> str:
    """The name when somebody has it: what else was typed may be a password in the wrong field."""
    found = User.objects.filter(username=name.replace("\0", "").strip()).first()
    return found.username if found else "unknown name"


def noted(request: HttpRequest, action: str, name: str) -> None:
    """An entry in the own ledger's trail."""
    with use_ledger("default"):
        record(
            at=timezone.now(),
            actor=name,
            action=action,
            subject=f"person {name}",
            detail={"address": address_of(request)},
        )
