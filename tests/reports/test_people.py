"""Another password for a person who lost theirs, and where a download came from behind a proxy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse

from finops.trail.models import Entry
from reports.client import client_address

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
LONG = "correct horse battery staple"


def test_an_administrator_sets_another_password_and_the_trail_says_so(
    admin: Client, client_of: Callable[..., Client]
) -> None:
    theirs = client_of("finance", name="ben")
    ben = User.objects.get(username="ben")
    where = reverse("person-password", kwargs={"pk": ben.pk})
    assert where in admin.get(reverse("people")).content.decode()
    for short in ("short", "ben ben ben ben"[:3], "123456789012"):
        answer = admin.post(where, {"password": short})
        assert answer.status_code == 200 and "error" in answer.content.decode()
    assert not Entry.objects.filter(action="password reset").exists()
    assert admin.post(where, {"password": LONG}).status_code == 302
    ben.refresh_from_db()
    assert ben.check_password(LONG)
    assert theirs.get(reverse("overview")).status_code == 302, "the old sessions end"
    entry = Entry.objects.get(action="password reset")
    assert (entry.actor, entry.subject) == ("Mira Lindqvist", "person ben")
    assert LONG not in str(entry.detail) and ben.password not in str(entry.detail)


def test_who_runs_the_installation_is_not_taken_over(admin: Client) -> None:
    root = User.objects.create_superuser("root", password=LONG)
    where = reverse("person-password", kwargs={"pk": root.pk})
    assert admin.post(where, {"password": "another long password"}).status_code == 403
    root.refresh_from_db()
    assert root.check_password(LONG)


@pytest.mark.parametrize(
    ("proxied", "forwarded", "expected"),
    [
        (False, "1.2.3.4", "192.0.2.7"),  # nobody vouches for the header
        (True, "1.2.3.4, 198.51.100.8", "198.51.100.8"),  # the proxy adds last
        (True, "198.51.100.8, <script>", "192.0.2.7"),
        (True, "", "192.0.2.7"),
        (True, "2001:db8::7", "2001:db8::7"),
    ],
)
def test_the_address_that_the_proxy_added_counts_and_no_other(
    settings: object, proxied: bool, forwarded: str, expected: str
) -> None:
    value = ("HTTP_X_FORWARDED_PROTO", "https") if proxied else None
    settings.SECURE_PROXY_SSL_HEADER = value  # type: ignore[attr-defined]
    given = {"REMOTE_ADDR": "192.0.2.7", "HTTP_X_FORWARDED_FOR": forwarded}
    assert client_address(RequestFactory().get("/", **given)) == expected
