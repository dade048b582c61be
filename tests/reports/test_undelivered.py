"""Tokens that were processed and never delivered stand on the report as a line of their own (§2.10)."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from reports.templatetags.figures import beyond

from .example import statement
from .helpers import make_report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_ledger")]


def page_of(client: Client, **delivered: int | None) -> str:
    figures = statement()["figures"] | {
        "prompt_tokens": 10_000, "generation_tokens": 500, **delivered,
    }  # fmt: skip
    make_report(figures=figures)
    page = client.get(reverse("report", kwargs={"week": "2026-W47"})).content.decode()
    return page.replace("\u202f", " ")


def test_the_difference_is_told(admin: Client) -> None:
    """vllm#55634: five aborted streams, 3,010 prompt tokens that nobody was given."""
    page = page_of(admin, delivered_prompt_tokens=6_990, delivered_generation_tokens=460)
    assert "3 010 prompt and 40 generation tokens" in page


@pytest.mark.parametrize("delivered", [None, 20_000])
def test_no_difference_is_made_of_what_is_not_known(admin: Client, delivered: int | None) -> None:
    page = page_of(admin, delivered_prompt_tokens=delivered, delivered_generation_tokens=460)
    assert "Their difference" not in page


def test_beyond() -> None:
    assert (beyond(5, 3), beyond(3, 3), beyond(3, 5), beyond(None, 1), beyond(1, None)) == (
        2, 0, None, None, None,
    )  # fmt: skip
