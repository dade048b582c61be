"""Uploads: read once whatever happens to the worker, bounded, told apart by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from finops.ledger.models import Charge, Document
from finops.ledger.operations.ingest import ingest
from reports.models import Upload, UploadOutcome
from reports.operations import uploads
from reports.operations.refused import NotAllowed
from tests.ledger.focus_files import focus_text

from .helpers import NOW

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
FILE = focus_text([{"ResourceId": f"i-{n}"} for n in range(3)]).encode()


def take(*names: str) -> Upload:
    files = [SimpleUploadedFile(name, FILE) for name in names]
    return uploads.take(files, by="Ada", at=NOW)


def test_a_small_file_is_read_at_once_and_its_copy_is_removed() -> None:
    upload = take("a.csv")
    outcome = UploadOutcome.objects.get(upload=upload)
    assert outcome.documents[0]["status"] == "posted"
    assert outcome.documents[0]["path"] == "a.csv"
    assert Charge.objects.count() == 3
    assert Document.objects.get().received_by == "Ada"
    assert not (uploads.folder(upload.pk) / "a.csv").exists()


def test_files_of_the_same_name_are_kept_apart() -> None:
    upload = take("x/a.csv", "y/a.csv")
    assert upload.names == ["a.csv", "2-a.csv"]
    statuses = [one["status"] for one in UploadOutcome.objects.get().documents]
    assert statuses == ["posted", "unchanged"]
    assert Charge.objects.count() == 3


def test_reading_again_changes_nothing() -> None:
    upload = take("a.csv")
    first = UploadOutcome.objects.get()
    assert uploads.read(str(upload.pk)) == first
    assert UploadOutcome.objects.count() == 1


def test_a_worker_killed_between_posting_and_noting_loses_nothing() -> None:
    upload = Upload.objects.create(names=["a.csv"], size_bytes=len(FILE), at=NOW, by="Ada")
    path: Path = uploads.folder(upload.pk) / "a.csv"
    path.write_bytes(FILE)
    ingest([str(path)], by="Ada", at=NOW)  # posted, then killed
    outcome = uploads.read(str(upload.pk))
    assert outcome.error == ""
    assert outcome.documents[0]["status"] == "unchanged"
    assert Charge.objects.count() == 3


def test_bounds(settings: object) -> None:
    with pytest.raises(NotAllowed, match="at least one"):
        uploads.take([], by="Ada", at=NOW)
    with pytest.raises(NotAllowed, match="at most"):
        uploads.take([SimpleUploadedFile("a", b"x")] * 51, by="Ada", at=NOW)
    settings.UPLOAD_BYTES = 10  # type: ignore[attr-defined]
    with pytest.raises(NotAllowed, match="MiB"):
        take("a.csv")
    assert not Upload.objects.exists()
    connection.check_constraints()


def test_a_file_that_was_not_taken_does_not_read_as_read(admin: Client) -> None:
    chosen = SimpleUploadedFile("bad.csv", b"a,b\n1,2\n")
    admin.post("/imports/", {"chosen": [chosen], "format": ""})
    page = admin.get("/imports/").content.decode()
    assert "1 not taken" in page
    assert ">read</span>" not in page


def test_a_file_whose_rows_were_all_rejected_says_so_beside_its_state(admin: Client) -> None:
    sums: list[str] = []
    for costs in (("1e400", "NaN"), ("1.5", "NaN")):
        rows = [{"BilledCost": cost, "EffectiveCost": "1", "SkuId": cost} for cost in costs]
        chosen = SimpleUploadedFile(f"{costs[0]}.csv", focus_text(rows).encode())
        page = admin.post("/imports/", {"chosen": [chosen], "format": ""}, follow=True)
        sums.append(page.content.decode())
    assert "no row taken</span>" in sums[0]
    assert "1 row not taken</span>" in sums[1]
