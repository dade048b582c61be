"""Who may and who may not, from the one table, through the doors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from reports.models import ReportEvent
from reports.roles import PERMISSIONS, ROLES

from .helpers import make_report
from .test_closing import command

# Every page and act: its address, method, and what it needs.
READ = ["overview", "guide", "help", "reports", "compare", "exceptions", "workloads",
        "annotations", "imports", "sources", "nodes", "invoices", "rules", "baselines",
        "training", "changes"]  # fmt: skip
ACTS = [
    ("close", {}, "close"),
    ("report-restate", {"week": "2026-W47"}, "close"),
    ("report-act", {"week": "2026-W47", "revision": 1, "kind": "review"}, "approve"),
    ("dispose", {}, "dispose"),
    ("snapshot-decide", {"snapshot": 1}, "decide"),
    ("source-test", {}, "sources"),
    ("source-active", {"name": "x"}, "sources"),
    ("invoice-confirm", {}, "invoice"),
    ("rule-preview", {}, "allocate"),
    ("rule-retire", {"number": 1}, "allocate"),
    ("workload-add", {}, "allocate"),
    ("workload-adopt", {}, "allocate"),
    ("workload-objective", {"slug": "x"}, "allocate"),
    ("training", {}, "baseline"),
    ("changes", {}, "annotate"),
    ("person", {"pk": 0}, "people"),
    ("person-password", {"pk": 0}, "people"),
    ("people", {}, "people"),
    ("annotations", {}, "annotate"),
    ("imports", {}, "upload"),
    ("sources", {}, "sources"),
    ("invoices", {}, "invoice"),
    ("baselines", {"kind": "declared"}, "baseline"),
    ("baseline-decide", {"number": 1}, "approve"),
    ("verify", {"what": "ledger"}, "audit"),
    ("sampler", {}, "audit"),
]

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]


@pytest.mark.parametrize("role", [*ROLES, ""])
def test_acts_are_open_to_the_roles_of_the_table_and_to_no_others(
    role: str, client_of: Callable[..., Client]
) -> None:
    make_report()
    client = client_of(role) if role else client_of()
    for name, given, permission in ACTS:
        posted = name in ("baselines", "verify")
        kwargs, data = ({}, given) if posted else (given, {})
        answer = client.post(reverse(name, kwargs=kwargs), data)
        allowed = role in PERMISSIONS[permission][1]
        assert (answer.status_code != 403) == allowed, (role, name, answer.status_code)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_reads_every_page(role: str, client_of: Callable[..., Client]) -> None:
    make_report()
    client = client_of(role)
    for name in READ:
        assert client.get(reverse(name)).status_code == 200, name


def test_people_without_a_role_read_nothing(client_of: Callable[..., Client]) -> None:
    client = client_of()
    for name in READ:
        assert client.get(reverse(name)).status_code == 403, name


def test_nothing_is_shown_to_people_who_have_not_signed_in() -> None:
    make_report()
    client = Client()
    open_to_all = {"healthz", "metrics-cost", "login", "welcome", "logout"}
    kwargs = {"series": 1, "hour": "x", "figure": "x",
              "week": "2026-W47", "revision": 1, "kind": "seal", "slug": "x", "pk": 1, "number": 1,
              "snapshot": 1, "digest": "ab" * 32, "name": "x", "period": "2026-10", "key": "0" * 8 + "-0000-0000-0000-" + "0" * 12}  # fmt: skip
    seen = 0
    for name in _names():
        if name in open_to_all:
            continue
        pattern = next(p for p in _patterns() if p.name == name)
        wanted = {k: kwargs[k] for k in pattern.pattern.converters}
        answer = client.get(reverse(name, kwargs=wanted))
        assert answer.status_code == 302 and "/login/" in answer["Location"], name
        seen += 1
    assert seen > 30


def _patterns() -> list[URLPattern]:
    found: list[URLPattern] = []
    for entry in get_resolver().url_patterns:
        found += entry.url_patterns if hasattr(entry, "url_patterns") else [entry]
    return found


def _names() -> set[str]:
    return {pattern.name for pattern in _patterns() if pattern.name}


def test_every_view_of_the_site_names_its_permission() -> None:
    from reports.urls import urlpatterns

    for pattern in urlpatterns:
        view = pattern.callback
        while view is not None and not hasattr(view, "permission"):
            view = getattr(view, "__wrapped__", None)
        assert view is not None, pattern.name
        assert view.permission in PERMISSIONS


def test_commands_act_in_no_name_whose_account_may_not(person: Callable[..., User]) -> None:
    """Names without an account are taken as they are: no roles are known of them."""
    make_report(by="Ada")
    person("Ines", "auditor")
    person("Emil", "engineer")
    person("Ben", "finance")
    person("ben", "auditor")
    gone = person("Olga", "finance")
    gone.is_active = False
    gone.save()
    for name in ("Ines", "ines", "Emil", "ben"):
        for words in (["approve"], ["review"], ["seal"], ["close"], ["restate", "--reason", "x"]):
            said = command(words[0], "2026-W47", *words[1:], "--by", name)
            assert not said["ok"] and "may not" in said["error"], (words, name)
    waived = ["waive", "2026-W47", "all", "all", "--text", "x", "--by"]
    assert "may not" in command(*waived, "Ines")["error"]
    disposed = ["dispose", "2026-W47", "all", "--text", "x", "--by"]
    assert "may not" in command(*disposed, "Ines")["error"]
    assert command(*disposed, "Emil")["ok"]
    assert "switched off" in command("approve", "2026-W47", "--by", "Olga")["error"]
    assert not ReportEvent.objects.exclude(kind="closed").exists()
    assert command("approve", "2026-W47", "--by", "Ben")["ok"]
    assert command("review", "2026-W47", "--by", "A person without an account")["ok"]
