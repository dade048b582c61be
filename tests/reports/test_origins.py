"""Bytes that come twice are read once, and both places they came from are kept (§3.1, §3.2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from finops.ledger.models import Document, Origin, Source, TokenHour
from finops.trail.models import Entry
from tests.ledger.doors import command
from tests.ledger.focus_files import focus_file
from tests.ledger.gpu_fleet import Fleet

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def taken(path: Path, *more: str) -> dict[str, Any]:
    (document,) = command("ingest", path, "--by", "Ada", *more)["documents"]
    return dict(document)


def places(document: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(Path(one["origin"]).name, one["source"]) for one in document["origins"]]


def readings(folder: Path, name: str) -> Path:
    fleet = Fleet()
    fleet.engine("chat-0", 0.25)
    return fleet.write(folder / name)


def test_a_second_source_of_the_same_readings_is_kept_and_counts_nothing(tmp_path: Path) -> None:
    path = readings(tmp_path, "a.om")
    assert places(taken(path, "--source", "east")) == [("a.om", "east")]
    before = sum(TokenHour.objects.values_list("tokens", flat=True))
    again = taken(path, "--source", "west")
    assert again["status"] == "unchanged"
    assert places(again) == [("a.om", "east"), ("a.om", "west")]
    assert sum(TokenHour.objects.values_list("tokens", flat=True)) == before > 0
    assert not Source.objects.filter(name="west").exists()
    entry = Entry.objects.get(action="document.origin")
    assert entry.subject == again["sha256"] and entry.detail["source"] == "west"


def test_the_same_place_again_adds_nothing(tmp_path: Path) -> None:
    path = readings(tmp_path, "a.om")
    for _ in range(3):
        taken(path, "--source", "east")
    assert not Origin.objects.exists()
    for _ in range(3):
        assert len(taken(path, "--source", "west")["origins"]) == 2


def test_another_file_of_the_same_bytes_is_shown_on_the_documents_page(
    tmp_path: Path, admin: Any
) -> None:
    path = focus_file(tmp_path / "bill.csv", {})
    taken(path)
    copy = tmp_path / "copy.csv"
    copy.write_bytes(path.read_bytes())
    found = taken(copy)
    assert found["status"] == "unchanged"
    assert places(found) == [("bill.csv", None), ("copy.csv", None)]
    page = admin.get(reverse("document", args=[found["sha256"]])).content.decode()
    assert str(path) in page and str(copy) in page


def test_two_files_of_the_same_bytes_in_one_delivery_are_two_places(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    first = focus_file(folder / "a.csv", {})
    (folder / "b.csv").write_bytes(first.read_bytes())
    documents = command("ingest", folder, "--by", "Ada")["documents"]
    assert [one["status"] for one in documents] == ["posted", "unchanged"]
    assert Document.objects.count() == 1
    assert sorted(name for name, _ in places(documents[1])) == ["a.csv", "b.csv"]


def test_the_same_bytes_as_another_format_are_refused_with_when_and_as_what(tmp_path: Path) -> None:
    path = focus_file(tmp_path / "bill.csv", {})
    first = taken(path)
    refused = json.loads(json.dumps(command("ingest", path, "--as", "coreweave-focus")))
    (document,) = refused["documents"]
    assert document["status"] == "rejected" and refused["ok"] is False
    reason = document["rejections"][0]["reason"]
    assert f"read as {first['format']}" in reason and str(path) in reason
    assert not Origin.objects.exists()
