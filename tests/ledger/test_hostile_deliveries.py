"""Deliveries that mean harm: manifests, names, links and files that change while they are read.

Each through the command as a person types it: a sentence, and nothing half imported (§3.1, §3.2).
"""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.utils import timezone

from finops.core.period import Period
from finops.ledger.models import Charge, Delivery, Document, Snapshot
from finops.ledger.operations import documents, folder
from finops.ledger.queries.money_deliveries import of_deliveries
from finops.sources.files import MAX_COLUMNS
from finops.sources.parquet import LARGEST_DESCRIPTION_BYTES
from reports.operations import uploads
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, focus_text, hours

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
ROWS = [hours("2026-10-05T10", "2026-10-05T11", ResourceId=f"i-{n}") for n in range(3)]
TEXT = focus_text(ROWS)


def said(*paths: object) -> str:
    """What a person sees at the terminal."""
    out = StringIO()
    with suppress(SystemExit):
        call_command("ingest", *map(str, paths), "--by", "Ada", stdout=out, stderr=out)
    return out.getvalue()


def nothing_is_kept() -> bool:
    return not any(m.objects.exists() for m in (Charge, Delivery, Document, Snapshot))


MANIFESTS = {
    "config is a text": {"blobs": [{"blobName": "a.csv"}], "exportConfig": "x"},
    "config is a list": {"blobs": [{"blobName": "a.csv"}], "exportConfig": ["x"]},
    "run is a number": {"blobs": [{"blobName": "a.csv"}], "runInfo": 7},
    "names are nested": {"blobs": [{"blobName": [["a.csv"]]}]},
    "counts lie": {"blobCount": -1, "blobs": [{"blobName": "a.csv"}]},
    "rows lie": {"blobs": [{"blobName": "a.csv", "dataRowCount": 10**30}]},
    "bytes lie": {"blobs": [{"blobName": "a.csv", "byteCount": -5}]},
    "dates lie": {
        "blobs": [{"blobName": "a.csv", "dataRowCount": 4}],
        "runInfo": {"submittedTime": "9999-99-99T99:99:99", "startDate": {}, "endDate": 1e400},
    },
    "nobody": {"dataFiles": []},
    "no names": {"dataFiles": [""], "executionId": {}},
    "outside": {"dataFiles": ["../../../../etc/passwd"]},
    "another bucket": {"dataFiles": ["s3://other/secret/a.csv", "https://127.0.0.1/a.csv"]},
    "a reports key outside": {"reportKeys": ["../../a.csv"], "billingPeriod": ["x"]},
    "an instant that is none": {
        "reportKeys": ["x/a.csv"],
        "assemblyId": "20269999T999999Z",
        "billingPeriod": {"start": [1]},
    },
    "half a character": {"blobs": [{"blobName": "\ud800\udfff\ud800.csv"}]},
    "no blobs": {"blobs": []},
    "blobs of nothing": {"blobs": [{}]},
}


# These say nothing that is untrue of a.csv; the others name it wrongly, or nobody can tell.
TAKEN = {
    "nobody",
    "no names",
    "outside",
    "another bucket",
    "a reports key outside",
    "an instant that is none",
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_lies_takes_nothing_in_by_halves(tmp_path: Path, case: str) -> None:
    """A set that is not what its manifest says is refused whole (method §3.2)."""
    focus_file(tmp_path / "a.csv", *ROWS)
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFESTS[case]))
    results = ingested(tmp_path)
    posted = [one for one in results if one["status"] == "posted"]
    if case in TAKEN:
        assert [Path(one["path"]).name for one in posted] == ["a.csv"]
        assert Charge.objects.count() == 3
    else:
        assert results and posted == []
        assert {one["status"] for one in results} <= {"rejected", "waiting"}
        assert nothing_is_kept()
    assert said(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "a\nRejected: all.csv",
        "a\x1b[31m\x1b]0;title\x07.csv",
        "\u202egnp.csv",
        "a\u2028b\u2029c.csv",
        " .csv",
        "*.csv",
        "[a-z].csv",
        "?.csv",
        "--by.csv",
        "a" * 250 + ".csv",
        "∞ 💶 \u0301.csv",
        "a;DROP TABLE x--.csv",
    ],
)
def test_a_name_is_a_name_and_nothing_else(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.write_text(TEXT)
    shown = said(tmp_path)
    assert [line[:1] for line in shown.splitlines() if line[:1] != " "] == ["✓"]
    assert not any(c in shown for c in "\x1b\x07\u202e\u2028\u2029")
    assert Document.objects.get().name == name
    assert Charge.objects.count() == 3
    (again,) = ingested(place)
    assert again["status"] == "unchanged"


def test_a_name_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    place = os.path.join(os.fsencode(tmp_path), b"bill-\xff\xfe.csv")
    with open(place, "wb") as file:
        file.write(TEXT.encode())
    (one,) = ingested(tmp_path)
    assert one["status"] == "posted"
    assert said(tmp_path)
    assert Charge.objects.count() == 3


def test_the_same_file_under_two_names_counts_once(tmp_path: Path) -> None:
    focus_file(tmp_path / "a.csv", *ROWS)
    focus_file(tmp_path / "b.csv", *ROWS)
    os.link(tmp_path / "a.csv", tmp_path / "c.csv")
    os.symlink(tmp_path / "a.csv", tmp_path / "d.csv")
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        archive.writestr("f.csv", TEXT)
    results = ingested(tmp_path)
    assert sorted(one["status"] for one in results) == ["posted"] + ["unchanged"] * 4
    assert Charge.objects.count() == 3


def test_each_of_several_files_of_the_same_bytes_is_refused_by_its_own_name(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(b"x,y\n1,2\n")
    for document in ingested(tmp_path):
        name = Path(document["path"]).name
        assert document["rejections"][0]["reason"].startswith(f"{name}: not a document")


def test_the_same_lines_packed_and_plain_are_told(tmp_path: Path) -> None:
    """Other bytes are another document; the doubled lines are not counted unseen."""
    focus_file(tmp_path / "a.csv", *ROWS)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    results = ingested(tmp_path)
    assert [one["status"] for one in results] == ["posted", "posted"]
    october = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    (told,) = [one for one in of_deliveries(october) if one.kind == "overlapping-files"]
    assert str(told.amount) == "3.00"  # three lines of 1.00 that stand in both


def test_links_in_the_watched_folder_are_left_alone(tmp_path: Path) -> None:
    outside, watched = tmp_path / "outside", tmp_path / "watched"
    outside.mkdir()
    watched.mkdir()
    focus_file(outside / "secret.csv", *ROWS)
    os.symlink(outside, watched / "folder")
    os.symlink(outside / "secret.csv", watched / "file.csv")
    os.symlink(watched, watched / "loop")
    os.symlink(watched / "nowhere.csv", watched / "broken.csv")
    os.mkfifo(watched / "pipe.csv")
    later = time.time() + 3600
    assert folder.settled(watched, later) == []
    assert folder.take_in(watched, by="schedule", at=timezone.now()) == {}
    assert nothing_is_kept()


def test_a_link_to_a_loop_or_nothing_in_a_folder_is_named(tmp_path: Path) -> None:
    os.symlink(tmp_path, tmp_path / "loop")
    os.symlink(tmp_path / "x.csv", tmp_path / "x.csv")
    os.symlink("/dev/zero", tmp_path / "zero.csv")
    results = ingested(tmp_path)
    assert [one["status"] for one in results] == ["rejected"] * 2
    assert nothing_is_kept()


def test_a_file_that_grows_while_it_is_read_is_one_state_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    rows = TEXT.splitlines(keepends=True)[1:]
    stop = threading.Event()

    def grow() -> None:
        with path.open("a") as file:
            for n in range(5_000):
                if stop.is_set():
                    return
                file.write(rows[n % 3].replace("i-", f"i-{n}-"))
                file.flush()

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        (one,) = ingested(path)
    finally:
        stop.set()
        growing.join()
    if one["status"] == "posted":  # the last line may be cut: then it is a rejection, or refused
        kept = documents.stored(one["sha256"])
        assert documents.digest_of(kept) == one["sha256"]
        assert one["rows_read"] == Charge.objects.count() + one["rows_rejected"]
        assert command("check-ledger")["ok"]
    else:
        assert nothing_is_kept()


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_part_of_next_to_nothing_is_refused_with_its_set(tmp_path: Path, size: int) -> None:
    for name, content in (("a.csv", TEXT.encode()), ("b.csv", b"\xef\xbb\xbf"[:size])):
        (tmp_path / name).write_bytes(content)
    blobs = [{"blobName": name} for name in ("a.csv", "b.csv")]
    (tmp_path / "manifest.json").write_text(json.dumps({"blobCount": 2, "blobs": blobs}))
    results = ingested(tmp_path)
    assert [one["status"] for one in results] == ["rejected"] * 2
    assert nothing_is_kept()


def packed(content: bytes, times: int) -> bytes:
    for _ in range(times):
        content = gzip.compress(content, mtime=0)
    return content


def zipped(content: bytes, name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return held.getvalue()


def deep(times: int, name: str) -> bytes:
    content = TEXT.encode()
    for _ in range(times):
        content = zipped(content, name)
    return content


ARCHIVES = {
    "zips in zips.zip": lambda: deep(30, "x.csv"),
    "zip named csv.csv": lambda: deep(2, "x.csv"),
    "gz of gz of gz.csv.gz": lambda: packed(TEXT.encode(), 3),
    "zip in gz.csv.gz": lambda: packed(deep(1, "x.csv"), 1),
    "zip in gz in zip.zip": lambda: zipped(packed(deep(1, "x.csv"), 1), "x.csv.gz"),
    "gz of gz in zip.zip": lambda: zipped(packed(TEXT.encode(), 2), "x.csv.gz"),
    "folder only.zip": lambda: zipped(b"", "folder/"),
    "empty member.zip": lambda: zipped(b"", "x.csv"),
    "parquet in gz.parquet": lambda: packed(b"PAR1" + b"\0" * 100 + b"PAR1", 1),
    "tail only.zip": lambda: b"PK\x05\x06" + b"\xff" * 18,
    "pk.zip": lambda: b"PK\x03\x04",
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_in_archives_and_damaged_ones_are_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.write_bytes(ARCHIVES[name]())
    (one,) = ingested(place)
    assert one["status"] == "rejected"
    reason = one["rejections"][0]["reason"]
    assert any(said in reason for said in (name, "x.csv")) and "Error" not in reason
    assert nothing_is_kept()


@pytest.mark.parametrize("above", [0, 100_000], ids=["in bulk", "by line"])
def test_a_parquet_file_of_too_many_columns_is_refused(
    tmp_path: Path, settings: Any, above: int
) -> None:
    settings.SUM_LINES_ABOVE = above
    place = tmp_path / "wide.parquet"
    names = ["ChargePeriodStart", "BilledCost"] + [f"c{n}" for n in range(MAX_COLUMNS)]
    with duckdb.connect(":memory:") as connection:
        wanted = ", ".join(f"1 AS {name}" for name in names)
        connection.execute(f"COPY (SELECT {wanted}) TO '{place}' (FORMAT parquet)")
    found = command("ingest", place, "--as", "focus", "--by", "Ada")
    reason = found["documents"][0]["rejections"][0]["reason"]
    assert reason == f"wide.parquet: {MAX_COLUMNS + 2} columns, over {MAX_COLUMNS}"
    assert nothing_is_kept()


def test_a_parquet_file_of_which_the_description_is_too_long_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "long.parquet"
    size = LARGEST_DESCRIPTION_BYTES + 1
    with place.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(4 + size)
        file.seek(0, os.SEEK_END)
        file.write(size.to_bytes(4, "little") + b"PAR1")
    found = command("ingest", place, "--as", "focus", "--by", "Ada")
    reason = found["documents"][0]["rejections"][0]["reason"]
    assert f"its columns take {size} bytes to describe" in reason
    assert nothing_is_kept()


def test_very_many_lines_in_quotes_are_one_cell_too_long(tmp_path: Path) -> None:
    header, first, *_ = TEXT.splitlines()
    place = tmp_path / "a.csv"
    with place.open("w") as file:
        file.write(f'{header}\n{first}\n"')
        for _ in range(64):
            file.write("\n" * (1 << 20))
        file.write('"\n')
    (one,) = ingested(place)
    assert one["status"] == "rejected"
    assert "line 3: not readable as CSV" in one["rejections"][0]["reason"]
    assert nothing_is_kept()


@pytest.mark.parametrize("case", ["zips in zips.zip", "gz of gz of gz.csv.gz", "pk.zip"])
def test_an_upload_of_them_is_refused_in_words(case: str) -> None:
    file = SimpleUploadedFile(case, ARCHIVES[case]())
    upload = uploads.take([file], by="Ada", at=timezone.now())
    outcome = uploads.read(str(upload.pk))
    assert not outcome.error
    (one,) = outcome.documents
    assert one["status"] == "rejected"
    assert nothing_is_kept()


@pytest.mark.parametrize(
    "name", ["../../x.csv", "a\nb\x1b[0m\u202e.csv", "\\\\host\\x.csv", "..", ""]
)
def test_an_upload_of_any_name_stays_in_its_folder(name: str) -> None:
    file = SimpleUploadedFile("x.csv", TEXT.encode())
    file._name = name
    upload = uploads.take([file], by="Ada", at=timezone.now())
    (kept,) = upload.names
    assert "/" not in kept and kept.isprintable() and kept.strip(". ")
    outcome = uploads.read(str(upload.pk))
    assert not outcome.error and outcome.documents[0]["status"] == "posted"
