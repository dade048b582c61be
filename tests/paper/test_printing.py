"""Printing in the background: once for all who ask, whole or not at all, by the web's door too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reports.operations import printing, sealing
from reports.operations.bounded import TooMuchMemory
from reports.queries import papers
from reports.queries.standing import standing
from reports.tasks import make_pdf
from tests.reports.conftest import *  # noqa: F403 - the same people and ledger
from tests.reports.helpers import NOW, make_report, seal_report

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]


def test_the_task_is_safe_twice_and_leaves_nothing_half_made() -> None:
    report = make_report("2026-W30")
    given = {"ledger": "default", "week": report.week, "revision": 1, "size": "A4"}
    name = make_pdf.apply(kwargs=given).get()
    path = papers.folder() / name
    content, made = path.read_bytes(), path.stat().st_mtime_ns
    assert make_pdf.apply(kwargs=given).get() == name
    assert path.stat().st_mtime_ns == made
    path.unlink()  # lost, or never finished: the next run makes the same bytes
    (papers.folder() / "killed.part").write_bytes(b"%PDF-half")
    make_pdf.apply(kwargs=given)
    assert path.read_bytes() == content


def test_other_people_or_decisions_are_other_sheets() -> None:
    report = make_report("2026-W31")
    first = papers.key_of(standing(report), "A4")
    assert first == papers.key_of(standing(report), "A4")
    assert first != papers.key_of(standing(report), "Letter")
    sealing.dispose(report.week, "1f0c2a9d77aa", text="Known.", by="Ben", at=NOW)
    second = papers.key_of(standing(report), "A4")
    seal_report(report)
    assert len({first, second, papers.key_of(standing(report), "A4")}) == 3


def test_the_page_waits_and_then_gives_the_file(client_of: Callable[..., Client]) -> None:
    report = make_report("2026-W32")
    client = client_of("auditor")
    where = reverse("report-paper", kwargs={"week": report.week, "revision": 1})
    waiting = client.get(where)
    assert waiting.status_code in (202, 503)  # 503: no broker in this test
    printing.make("default", report.week, 1, "A4")
    answer = client.get(where)
    assert answer["Content-Type"] == "application/pdf"
    assert "attachment" in answer["Content-Disposition"]
    assert b"".join(answer.streaming_content).startswith(b"%PDF-")  # type: ignore[attr-defined]
    assert client.get(where, {"size": "../A4"}).status_code == 404


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux bounds it")
def test_a_rendering_that_takes_too_much_memory_ends_and_says_so(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    report = make_report("2026-W34")
    settings.PDF_MEMORY_MIB = 64
    # More than other tests may have left free in this process, which it may take again.
    monkeypatch.setattr(printing, "print_report", lambda *_, **__: bytearray(768 << 20))
    given = {"ledger": "default", "week": report.week, "revision": 1, "size": "A4"}
    assert isinstance(make_pdf.apply(kwargs=given).result, TooMuchMemory)
    key = papers.key_of(standing(report), "A4")
    assert (
        papers.path_of(key, "failed")
        .read_text()
        .startswith("TooMuchMemory: it took more than 64 MiB")
    )
    assert not papers.path_of(key).exists()
    assert len(bytearray(128 << 20)) == 128 << 20  # the process is free again


def test_a_rendering_that_failed_says_so(client_of: Callable[..., Client]) -> None:
    report = make_report("2026-W33")
    key = papers.key_of(standing(report), "A4")
    papers.path_of(key, "failed").write_text("MemoryError: secret path /x")
    where = reverse("report-paper", kwargs={"week": report.week, "revision": 1})
    answer = client_of("auditor").get(where)
    assert answer.status_code == 500
    page = answer.content.decode()
    assert "could not be made" in page and "/x" not in page
