"""Zips of export files through the door: each member a document, or the whole zip refused (§3.1)."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from finops.core.period import month_of
from finops.ledger.models import Document, Snapshot
from finops.ledger.queries.money_totals import money_total
from finops.sources import zips
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_text, hours
from tests.sources.reading import as_csv
from tests.sources.test_azure_cost import ROW as AZURE

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
OCTOBER = month_of("2026-10")
A = focus_text([hours("2026-10-01T00", "2026-10-02T00", BilledCost="3")])
B = focus_text([hours("2026-10-02T00", "2026-10-03T00", BilledCost="4")])


def packed(path: Path, *members: tuple[str | zipfile.ZipInfo, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def refusal(path: Path) -> str:
    answer = command("ingest", path, "--by", "Ada")
    (document,) = answer["documents"]
    assert (document["status"], answer["ok"]) == ("rejected", False)
    assert not Document.objects.exists()
    reason: str = document["rejections"][0]["reason"]
    assert path.name in reason
    return reason


def test_members_are_documents_of_one_delivery_that_name_their_zip(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "export.zip",
        ("october/a.csv", A),
        ("october/b.csv", B),
        ("__MACOSX/october/._a.csv", b"\0"),
        ("readme.md", "notes"),
    )
    documents = ingested(path)
    assert [one["path"].rpartition("export.zip/")[2] for one in documents] == [
        "october/a.csv",
        "october/b.csv",
    ]
    assert {one["status"] for one in documents} == {"posted"}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert {one["archive_sha256"] for one in documents} == {digest}
    first = Document.objects.get(name="a.csv")
    assert first.sha256 == hashlib.sha256(A.encode()).hexdigest()
    assert digest in first.origin and first.origin.endswith("october/a.csv")
    assert Snapshot.objects.count() == 1
    assert money_total(OCTOBER).billed("USD") == 7
    assert command("check-ledger")["ok"] is True


def test_the_same_zip_again_changes_nothing_and_nor_do_its_files_by_themselves(
    tmp_path: Path,
) -> None:
    path = packed(tmp_path / "export.zip", ("a.csv", A))
    ingested(path)
    (tmp_path / "a.csv").write_text(A)
    for again in (path, tmp_path / "a.csv"):
        (document,) = ingested(again)
        assert document["status"] == "unchanged"
    assert Snapshot.objects.count() == 1


def test_the_only_file_of_a_zip_is_taken_whatever_its_name(tmp_path: Path) -> None:
    (document,) = ingested(packed(tmp_path / "x.zip", ("cost_export", A)))
    assert (document["status"], document["format"]) == ("posted", "focus")


def test_a_zip_in_a_folder_and_in_the_watched_folder(tmp_path: Path) -> None:
    import os

    from finops.ledger.operations.folder import take_in

    path = packed(tmp_path / "x.zip", ("a.csv", A))
    assert [one["status"] for one in ingested(tmp_path)] == ["posted"]
    os.utime(path, (0, 0))
    assert take_in(tmp_path, by="schedule", at=datetime(2026, 11, 2, tzinfo=UTC)) == {
        "unchanged": 1
    }


def test_a_zip_in_another_store(tmp_path: Path) -> None:
    import fsspec

    path = packed(tmp_path / "x.zip", ("a.csv", A), ("b.csv", B))
    store = fsspec.filesystem("memory")
    store.put(str(path), "/zips-here/x.zip")
    try:
        documents = ingested("memory://zips-here")
    finally:
        store.rm("/zips-here", recursive=True)
    assert [one["status"] for one in documents] == ["posted", "posted"]
    assert documents[0]["archive_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_manifest_in_a_zip_is_heeded(tmp_path: Path) -> None:
    text = as_csv([AZURE])
    manifest = {
        "blobCount": 1,
        "blobs": [{"blobName": "run/part_0.csv", "byteCount": len(text), "dataRowCount": 2}],
    }
    path = packed(
        tmp_path / "x.zip",
        ("run/manifest.json", json.dumps(manifest)),
        ("run/part_0.csv", text),
    )
    assert "its manifest says 2 rows, 1 are in the file" in _reasons(path)


def _reasons(path: Path) -> str:
    documents = command("ingest", path, "--by", "Ada")["documents"]
    return " ".join(one["reason"] for document in documents for one in document["rejections"])


@pytest.mark.parametrize(
    "name", ["../a.csv", "/etc/a.csv", "x/../../a.csv", "C:/a.csv", "..\\a.csv", "\\\\host\\a.csv"]
)
def test_names_that_lead_outside_refuse_the_whole_zip(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / "x.zip", ("good.csv", A), (name, B))
    assert "leads outside" in refusal(path)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("a.csv")
    link.external_attr = 0o120777 << 16
    assert "leads outside" in refusal(packed(tmp_path / "x.zip", (link, "/etc/passwd")))


def test_archives_in_archives_are_refused_by_name_and_by_content(tmp_path: Path) -> None:
    inner = packed(tmp_path / "inner.zip", ("a.csv", A)).read_bytes()
    for name in ("inner.zip", "inner.csv", "inner.tar"):
        path = packed(tmp_path / "x.zip", ("good.csv", A), (name, inner))
        assert "is an archive itself" in refusal(path)


def test_a_workbook_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = packed(tmp_path / "b.xlsx", ("[Content_Types].xml", "<x/>"), ("xl/sheet1.xml", "<x/>"))
    assert "save its sheet as CSV" in refusal(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    packed(path, ("a.csv", b"0" * (64 << 20)))
    assert "times its size" in refusal(path)


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.zip", *((f"{n}.csv", A + str(n)) for n in range(40)))
    content = bytearray(path.read_bytes())
    at, first = content.find(b"PK\x01\x02"), None
    while at >= 0:  # every entry of the list points to the first member, of its largest size
        struct.pack_into("<L", content, at + 20, 4000)
        struct.pack_into("<L", content, at + 42, 0)
        first = first or at
        at = content.find(b"PK\x01\x02", at + 4)
    path.write_bytes(content)
    assert "share bytes" in refusal(path)


def test_too_many_members_are_refused_before_their_list_is_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "x.zip", *((f"{n}.csv", "") for n in range(zips.MOST_MEMBERS + 1)))
    assert "1001 members" in refusal(path)
    content = bytearray(packed(tmp_path / "y.zip", ("a.csv", A)).read_bytes())
    struct.pack_into("<L", content, content.rfind(b"PK\x05\x06") + 12, 1 << 31)
    path = tmp_path / "y.zip"
    path.write_bytes(content)
    assert "members" in refusal(path)


def _locked(content: bytearray) -> None:
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(sign) + place] |= 1


def _other_method(content: bytearray) -> None:
    for sign, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        struct.pack_into("<H", content, content.find(sign) + place, 9)


def _wrong_sum(content: bytearray) -> None:
    content[content.find(b"PK\x01\x02") + 16] ^= 0xFF


def _wrong_size(content: bytearray) -> None:
    at = content.find(b"PK\x01\x02") + 24
    struct.pack_into("<L", content, at, struct.unpack_from("<L", content, at)[0] - 5)


def _cut(content: bytearray) -> None:
    del content[len(content) // 2 :]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_locked, "locked by a password"),
        (_other_method, "method 9"),
        (_wrong_sum, "damaged"),
        (_wrong_size, "damaged"),
        (_cut, "cut off"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_whole(
    tmp_path: Path, spoil: Callable[[bytearray], None], said: str
) -> None:
    path = packed(tmp_path / "x.zip", ("a.csv", A), ("b.csv", B))
    content = bytearray(path.read_bytes())
    spoil(content)
    path.write_bytes(content)
    assert said in refusal(path)


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = packed(tmp_path / "x.zip", ("a.csv", A), ("a.csv", B))
    assert "more than once" in refusal(path)


def test_a_zip_without_data_says_so(tmp_path: Path) -> None:
    assert "no data files" in refusal(packed(tmp_path / "x.zip", ("a.pdf", "x"), ("b.doc", "x")))
    assert "no data files" in refusal(packed(tmp_path / "empty.zip"))
