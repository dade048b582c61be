"""Acts that are really committed, by several people at the same moment (method §11)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from reports.models import Report, Seal
from reports.operations import sealing, uploads
from reports.operations.closing import close_week
from reports.operations.refused import NotAllowed
from reports.queries.standing import standing
from reports.queries.verifying import verify_seals
from tests.ledger import small_company
from tests.ledger.test_ingest_together import at_once

from .helpers import NOW, make_report, sign_waivers

pytestmark = pytest.mark.django_db(databases=["default", "sample"], transaction=True)
WEEK = "2026-W47"


def test_closing_at_once_makes_one_revision(tmp_path: Path) -> None:
    small_company.found(tmp_path)
    closed = at_once(lambda number: close_week(WEEK, by=f"person {number}", at=NOW))
    assert Counter(one.is_new for one in closed) == {True: 1, False: 3}
    assert len({one.report.digest for one in closed}) == 1
    assert Report.objects.count() == 1


def test_sealing_at_once_makes_one_seal_and_different_weeks_one_chain() -> None:
    reports = [make_report(f"2026-W{week}") for week in (40, 41)]
    for report in reports:
        for exception in standing(report).statement["exceptions"]:
            sealing.dispose(report.week, exception["id"], text="Known.", by="Ben", at=NOW)
        sign_waivers(report, by="Ben")
        sealing.approve(report, by="Ben", at=NOW)

    def seal(number: int) -> str:
        try:
            sealing.seal(reports[number % 2], by="Ben", at=NOW)
        except NotAllowed as refused:
            return "refused" if "sealed" in str(refused) else str(refused)
        return "sealed"

    assert Counter(at_once(seal)) == {"sealed": 2, "refused": 2}
    assert Seal.objects.count() == 2
    assert verify_seals() == []


def test_an_upload_read_at_once_has_one_outcome(tmp_path: Path) -> None:
    from reports.models import Upload

    text = small_company.csv_text(small_company.charges()).encode()
    upload = Upload.objects.create(names=["a.csv"], size_bytes=len(text), at=NOW, by="Ada")
    (uploads.folder(upload.pk) / "a.csv").write_bytes(text)
    outcomes = at_once(lambda _: uploads.read(str(upload.pk)))
    assert len({one.pk for one in outcomes}) == 1
    assert outcomes[0].error == ""
