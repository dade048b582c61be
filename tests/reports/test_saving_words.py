"""The first questions an auditor asks of a saving, answered on the page (method §6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reports.saving_words import questions

from .example import statement
from .helpers import make_report, text_of

LEGACY = statement()["baselines"][0] | {
    "legacy": "vicuna",
    "author": "Ada",
    "approver": "Ben",
    "frozen_at": "2026-05-20T00:00:00Z",
    "saving_share": "0.6406",
    "currency": "USD",
}


def answers(**changes: Any) -> dict[str, str]:
    found = {question: " ".join(text.split()) for question, text in questions(LEGACY | changes)}
    return {question.split()[0]: text.replace("\u202f", " ") for question, text in found.items()}


def test_both_sides_and_what_differs_are_named() -> None:
    said = answers()["Are"]
    assert "both count delivered tokens, those of requests that finished" in said
    assert "the effective cost of vicuna in the ledger from 4 May 2026 to 18 May 2026" in said
    assert "No other difference is known." in said
    unlike = answers(notes=["Different models: the baseline ran v, this workload m."])["Are"]
    assert unlike.endswith("What differs stands below.")
    declared = answers(kind="declared", period=None, basis="processed")["Are"]
    assert "the price that its document states; what it includes is theirs to say" in declared
    assert "processed tokens, all that the engines worked on" in declared


def test_who_stands_for_it() -> None:
    assert answers()["Who"] == "Ada registered it on 20 May 2026; Ben approved it."
    assert answers(approver="")["Who"].endswith("nobody else has approved it yet.")


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ("0.6406", "The saving is gone when the baseline is 64.1 % lower."),
        ("-0.2", "There is no saving to lose"),
        ("0", "There is no saving to lose"),
        (None, "The table gives the saving"),
    ],
)
def test_how_wrong_the_baseline_may_be(share: str | None, said: str) -> None:
    assert answers(saving_share=share)["What"].startswith(said)


def test_without_a_saving_nothing_is_answered() -> None:
    assert questions(LEGACY | {"saving": None}) == []


@pytest.mark.django_db(databases=["default", "sample"])
@pytest.mark.usefixtures("own_ledger")
def test_the_page_says_basis_scope_interval_and_answers(client_of: Callable[..., Client]) -> None:
    scope = {"workloads": ["chat-70b"], "of": 3, "share_of_cost": "0.6"}
    make_report(baselines=[LEGACY | {"approver": ""}], saving_scope=scope)
    text = text_of(client_of("auditor").get(reverse("report", args=["2026-W47"])))
    assert "delivered tokens, effective cost; chat-70b alone, 60.0 % of the cost above" in text
    assert "its baseline is not approved yet" in text
    assert "Interval 31 420.12 to 31 424.90 USD, by the bounds of the tokens" in text
    assert "Scope this workload, 2026-W47, the hours that have both cost and tokens" in text
    assert "What an auditor asks first Are both sides counted alike?" in text
    assert "The saving is gone when the baseline is 64.1 % lower." in text
