"""The first login: a link for the administrator of a new installation.

The link is Django's own signed token over the user's state: signing in changes that state, so the
link works once, for a day, and not at all once a password is set. Opening it only shows a button;
mail scanners and link previews that fetch it use nothing up.
"""

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import AbstractBaseUser, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

OWNER = "owner"


class FirstLoginToken(PasswordResetTokenGenerator):
    """A token for the first login only: one for resetting a password does not pass here."""

    key_salt = "headroom.first-login"


tokens = FirstLoginToken()


def path_for_owner() -> str | None:
    """The path of the first-login link, or None once somebody can sign in with a password."""
    with transaction.atomic():
        people = list(User.objects.select_for_update().filter(is_active=True))
        if any(person.has_usable_password() for person in people):
            return None
        owner = next((person for person in people if person.is_superuser), None)
        if owner is None:
            owner = User.objects.create_superuser(OWNER, password=None)
    key = urlsafe_base64_encode(str(owner.pk).encode())
    return reverse("welcome", args=[key, tokens.make_token(owner)])


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def welcome(request: HttpRequest, key: str, token: str) -> HttpResponse:
    """Shows the button (GET) and signs the administrator in (POST)."""
    owner = _owner(key)
    if owner is None or owner.has_usable_password() or not tokens.check_token(owner, token):
        return render(request, "registration/welcome.html", {"valid": False}, status=410)
    if request.method == "POST":
        # The second of two clicks at once finds the state already changed.
        with transaction.atomic():
            locked = User.objects.select_for_update().get(pk=owner.pk)
            if not tokens.check_token(locked, token):
                return redirect("login")
            login(request, locked, backend="django.contrib.auth.backends.ModelBackend")
        return redirect("first-password")
    return render(request, "registration/welcome.html", {"valid": True})


@never_cache
@require_http_methods(["GET", "POST"])
def first_password(request: HttpRequest) -> HttpResponse:
    """Asks the administrator for a password; for people who have none yet."""
    user = request.user
    if not isinstance(user, AbstractBaseUser) or user.has_usable_password():
        return redirect("/")
    form = SetPasswordForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        return redirect("/")
    return render(request, "registration/first_password.html", {"form": form, "name": OWNER})


def _owner(key: str) -> User | None:
    try:
        pk = int(urlsafe_base64_decode(key).decode())
    except (ValueError, OverflowError):
        return None
    return User.objects.filter(pk=pk, is_active=True, is_superuser=True).first()
