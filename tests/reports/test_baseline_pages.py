"""Registering a baseline in the browser, approving it as another person, and its papers (method §6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.ledger.models import Baseline, BaselineDecision, Workload
from finops.trail.models import Entry

from .helpers import NOW, make_report, text_of

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]


@pytest.fixture
def workload(db: None) -> Workload:
    return Workload.objects.create(
        slug="chat", model="m", stack="vllm", created_at=NOW, created_by="ada"
    )


def declared(client: Client, **changes: Any) -> Any:
    papers = [SimpleUploadedFile("offer.pdf", b"%PDF- offer"),
              SimpleUploadedFile("../memo <b>.txt", b"a memorandum")]  # fmt: skip
    values = {"kind": "declared", "workload": "chat", "per_million": "6.00", "currency": "EUR",
              "document": papers, "basis": "delivered", "prompt": "3", "generation": "12",
              "model": "Vicuna-33b", "note": "From the contract."}  # fmt: skip
    return client.post(reverse("baselines"), values | changes)


def test_two_people_and_every_field(workload: Workload, client_of: Callable[..., Client]) -> None:
    make_report()
    ada, ben = client_of("finance", name="Ada"), client_of("finance", name="Ben")
    answer = declared(ada)
    row = Baseline.objects.get()
    assert answer.status_code == 302 and answer["Location"] == reverse("baseline", args=[row.pk])
    assert (row.by, row.approved_by, row.basis, row.currency) == ("Ada", "", "delivered", "EUR")
    assert row.cost_per_million_tokens == Decimal("6.00") and len(row.documents) == 2
    assert row.classes == {"prompt": "3", "generation": "12"} and row.model == "Vicuna-33b"
    page = reverse("baseline", args=[row.pk])
    own = text_of(ada.get(page))
    assert "waiting" in own and "another person has to approve it" in own
    assert "Approve</button>" not in ada.get(page).content.decode()
    assert "1 baseline waits for approval" in text_of(ada.get(reverse("baselines")))
    decide = reverse("baseline-decide", args=[row.pk])
    assert f"Baseline {row.pk} of chat" in text_of(ben.get(reverse("overview")))
    refused = ada.post(decide, {"verdict": "approved"}, follow=True)
    assert "approved by another person than its author" in text_of(refused)
    assert not BaselineDecision.objects.exists()
    assert "Approve" in text_of(ben.get(page))
    done = text_of(ben.post(decide, {"verdict": "approved", "text": "Read it."}, follow=True))
    assert "Baseline 1 was approved" in re.sub(r"Baseline \d+", "Baseline 1", done)
    assert "Ben" in done and "Read it." in done
    assert "waits for approval" not in text_of(ben.get(reverse("baselines")))
    assert f"Baseline {row.pk} of chat" not in text_of(ben.get(reverse("overview")))
    said = [(e.actor, e.action) for e in Entry.objects.filter(subject__startswith="baseline ")]
    assert said == [("Ada", "baseline added"), ("Ben", "baseline approved")]


def test_papers_come_back_byte_for_byte_and_nothing_else_does(
    workload: Workload, client_of: Callable[..., Client]
) -> None:
    ada, auditor = client_of("finance", name="Ada"), client_of("auditor", name="Vera")
    declared(ada)
    row = Baseline.objects.get()
    page = auditor.get(reverse("baseline", args=[row.pk])).content.decode()
    links = re.findall(r'href="(/baselines/papers/[0-9a-f]{64}/)"', page)
    found = [auditor.get(link) for link in links]
    assert [b"".join(one.streaming_content) for one in found] == [b"%PDF- offer", b"a memorandum"]
    assert all(one["Content-Disposition"].startswith("attachment") for one in found)
    assert "<b>" not in page
    # The invoice of the ledger is no paper of a baseline.
    assert auditor.get(reverse("baseline-paper", args=["ab" * 32])).status_code == 404


def test_a_refusal_needs_a_reason_and_a_new_one_is_registered(
    workload: Workload, client_of: Callable[..., Client]
) -> None:
    ada, ben = client_of("finance", name="Ada"), client_of("finance", name="Ben")
    declared(ada)
    row = Baseline.objects.get()
    decide = reverse("baseline-decide", args=[row.pk])
    assert "Say why" in text_of(ben.post(decide, {"verdict": "refused"}, follow=True))
    ben.post(decide, {"verdict": "refused", "text": "Not signed."})
    assert "Not signed." in text_of(ada.get(reverse("baseline", args=[row.pk])))
    declared(ada, per_million="7")
    newer = Baseline.objects.latest("pk")
    listing = text_of(ada.get(reverse("baselines")))
    assert "refused" in listing and f"number {newer.pk}" in listing
    for verdict, number in (("perhaps", newer.pk), ("approved", 999)):
        odd = ben.post(reverse("baseline-decide", args=[number]), {"verdict": verdict})
        assert odd.status_code == 404
    assert ben.get(reverse("baseline", args=[999])).status_code == 404


def test_only_those_who_may_approve_decide(
    workload: Workload, client_of: Callable[..., Client]
) -> None:
    declared(client_of("finance", name="Ada"))
    number = Baseline.objects.get().pk
    for role in ("engineer", "auditor"):
        client = client_of(role)
        page = client.get(reverse("baseline", args=[number]))
        assert page.status_code == 200 and "<textarea" not in page.content.decode()
        post = client.post(reverse("baseline-decide", args=[number]), {"verdict": "approved"})
        assert post.status_code == 403
    assert not BaselineDecision.objects.exists()


def test_an_ageing_baseline_is_flagged(workload: Workload, admin: Client) -> None:
    old = datetime.now(UTC) - timedelta(days=200)
    Baseline.objects.create(
        workload=workload, kind="declared", basis="processed", currency="USD", at=old, by="Ada",
        cost_per_million_tokens=Decimal(3), approved_by="Ben",
    )  # fmt: skip
    listing = text_of(admin.get(reverse("baselines")))
    assert "200 days old : ageing, over 180" in listing or "200 days old: ageing" in listing
    assert "approved" in listing and "Ben" in listing  # who was named when it was kept


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"document": ""}, "This field is required"),
        ({"per_million": "-1"}, "more than zero"),
        ({"per_million": "six"}, "not a number"),
        ({"currency": "eur"}, "a code like USD"),
        ({"generation": "nan"}, "not a number"),
        ({"basis": "guessed"}, "valid choice"),
        ({"workload": "nobody"}, "valid choice"),
    ],
)
def test_what_cannot_be_kept_is_told_in_the_form(
    workload: Workload, admin: Client, changes: dict[str, str], said: str
) -> None:
    answer = declared(admin, **changes)
    assert answer.status_code == 200 and said in text_of(answer)
    assert not Baseline.objects.exists()
