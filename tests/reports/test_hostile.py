"""What people and programs may send by mistake or on purpose: never a server error."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from .helpers import make_report
from .test_roles import ACTS, READ

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
ODD = ["\0", "x" * 5000, "'\";--", "<script>alert(1)</script>", "2026-W99", "９", "../..", "%00"]
NAMES = ["week", "left", "right", "state", "year", "workload", "at", "size", "text", "exception",
         "reason", "comment", "verdict", "issuer", "billing_account", "billing_period", "amount",
         "currency", "invoice", "slug", "model", "stack", "matchers", "target", "order", "subject",
         "name", "url", "user", "secret", "username", "password", "roles", "per_million", "kind",
         "valid_from", "start", "end", "legacy"]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_never_break_a_page(odd: str, admin: Client) -> None:
    make_report()
    admin.raise_request_exception = False
    for name in READ:
        answer = admin.get(reverse(name), dict.fromkeys(NAMES, odd))
        assert answer.status_code < 500, (name, odd)
        assert "<script>alert(1)" not in answer.content.decode()
    for name, given, _ in ACTS:
        posted = name in ("baselines", "verify")
        kwargs = {} if posted else given
        data = dict.fromkeys(NAMES, odd) | (given if posted else {})
        answer = admin.post(reverse(name, kwargs=kwargs), data, follow=True)
        assert answer.status_code < 500, (name, odd)
        assert "<script>alert(1)" not in answer.content.decode(), name


def test_odd_addresses_are_not_found(admin: Client) -> None:
    make_report()
    admin.raise_request_exception = False
    for path in ("/workloads/%00/", "/workloads/a%2Fb/", "/imports/documents/x/", "/reports/2026-W60/",
                 "/reports/2026-W47/999999999999999999999/", "/annotations/99999999999999999999/",
                 "/rules/999999999999999999999/retire/"):  # fmt: skip
        answer = admin.get(path)
        assert answer.status_code in (404, 405), (path, answer.status_code)
