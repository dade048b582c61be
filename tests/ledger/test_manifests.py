"""Manifests: which files are one delivery, whether they are all here, and what lies (§3.2)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finops.core.period import month_of
from finops.ledger.models import Document, Snapshot
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.snapshots import with_verdict
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_text
from tests.sources.reading import as_csv
from tests.sources.test_aws_cur import ROW as AWS
from tests.sources.test_azure_cost import ROW as AZURE

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def aws_part(path: Path, cost: str) -> Path:
    return put(
        path, as_csv([AWS | {"lineItem/UnblendedCost": cost, "identity/LineItemId": path.name}])
    )


def aws_manifest(path: Path, assembly: str, *keys: str) -> Path:
    content = {"assemblyId": assembly, "reportKeys": list(keys), "reportName": "cur"}
    return put(path, json.dumps(content))


def statuses(documents: list[dict[str, Any]], root: Path) -> dict[str, str]:
    return {str(Path(one["path"]).relative_to(root)): one["status"] for one in documents}


def billed(month: str) -> Decimal | None:
    return money_total(month_of(month)).billed("USD")


def test_only_the_assembly_of_the_top_level_manifest_counts(tmp_path: Path) -> None:
    month = tmp_path / "cur" / "20261001-20261101"
    for assembly, costs in (("old", ["5"]), ("new", ["7", "8"])):
        names = [f"cur-{at}.csv" for at, _ in enumerate(costs, start=1)]
        for name, cost in zip(names, costs, strict=True):
            aws_part(month / assembly / name, cost)
        keys = [f"prefix/cur/20261001-20261101/{assembly}/{name}" for name in names]
        aws_manifest(month / assembly / "cur-Manifest.json", assembly, *keys)
    aws_manifest(month / "cur-Manifest.json", "new", *keys)
    documents = ingested(tmp_path)
    assert statuses(documents, month) == {
        "old/cur-1.csv": "unchanged",
        "new/cur-1.csv": "posted",
        "new/cur-2.csv": "posted",
    }
    assert billed("2026-10") == 15
    assert Document.objects.count() == 2


def test_a_manifest_named_where_the_command_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_part(tmp_path / "a" / "cur-1.csv", "7")
    aws_manifest(tmp_path / "cur-Manifest.json", "a", "p/a/cur-1.csv", "p/a/cur-2.csv")
    monkeypatch.chdir(tmp_path)
    (waiting,) = ingested("cur-Manifest.json", "a/cur-1.csv")
    assert (waiting["path"], waiting["status"]) == ("a/cur-1.csv", "waiting")


def test_a_set_that_is_not_complete_waits_and_leaves_nothing(tmp_path: Path) -> None:
    month = tmp_path / "20261001-20261101"
    keys = ["p/20261001-20261101/a/cur-1.csv", "p/20261001-20261101/a/cur-2.csv"]
    aws_part(month / "a" / "cur-1.csv", "7")
    aws_manifest(month / "cur-Manifest.json", "a", *keys)
    answer = command("ingest", tmp_path)
    (waiting,) = answer["documents"]
    assert (waiting["status"], answer["ok"]) == ("waiting", True)
    assert "names 2 files; 1 are not here yet" in waiting["warnings"][0]
    assert not Document.objects.exists()
    aws_part(month / "a" / "cur-2.csv", "8")
    assert set(statuses(ingested(tmp_path), month).values()) == {"posted"}
    assert billed("2026-10") == 15


def test_several_assemblies_without_a_manifest_are_refused(tmp_path: Path) -> None:
    month = tmp_path / "20261001-20261101"
    for assembly in ("a", "b"):
        aws_part(month / assembly / f"cur-{assembly}.csv", "7")
    answer = command("ingest", tmp_path)
    assert {one["status"] for one in answer["documents"]} == {"rejected"}
    assert "no manifest says which one counts" in answer["documents"][0]["rejections"][0]["reason"]
    assert billed("2026-10") is None
    (one,) = ingested(month / "b")
    assert one["status"] == "posted"


def test_a_manifest_whose_files_are_all_missing_waits(tmp_path: Path) -> None:
    aws_manifest(tmp_path / "cur-Manifest.json", "a", "p/a/cur-1.csv")
    (waiting,) = ingested(tmp_path)
    assert waiting["status"] == "waiting"


def test_the_newer_kind_of_export_keeps_its_manifest_apart(tmp_path: Path) -> None:
    data = tmp_path / "data" / "BILLING_PERIOD=2026-10"
    aws_part(data / "cur-00001.csv", "7")
    aws_part(data / "cur-00009.csv", "9")  # left over of an earlier run
    files = ["s3://bucket/exports/data/BILLING_PERIOD=2026-10/cur-00001.csv"]
    manifest = tmp_path / "metadata" / "BILLING_PERIOD=2026-10" / "cur-Manifest.json"
    put(manifest, json.dumps({"dataFiles": files}))
    found = statuses(ingested(tmp_path), data)
    assert found == {"cur-00001.csv": "posted", "cur-00009.csv": "unchanged"}


def azure_run(folder: Path, cost: str, submitted: str, **changes: Any) -> Path:
    text = as_csv([AZURE | {"Cost": cost}])
    path = put(folder / "part_0_0001.csv", text)
    manifest = {
        "blobCount": 1,
        "byteCount": len(text),
        "dataRowCount": 1,
        "exportConfig": {"exportName": "mtd", "type": "ActualCost"},
        "runInfo": {"runId": folder.name, "submittedTime": submitted, "startDate": "2026-09-01"},
        "blobs": [
            {"blobName": f"x/{folder.name}/{path.name}", "byteCount": len(text), "dataRowCount": 1}
        ],
    }
    put(folder / "manifest.json", json.dumps(manifest | changes))
    return path


def test_of_several_runs_the_latest_counts(tmp_path: Path) -> None:
    # Thread 42: a month-to-date export writes a whole new file every day.
    azure_run(tmp_path / "r2", "20", "2026-09-05T02:00:00Z")
    azure_run(tmp_path / "r1", "10", "2026-09-04T02:00:00Z")
    found = statuses(ingested(tmp_path), tmp_path)
    assert found == {"r1/part_0_0001.csv": "unchanged", "r2/part_0_0001.csv": "posted"}
    assert billed("2026-09") == 20
    assert Snapshot.objects.get().exported_at is not None


def test_an_export_that_was_made_earlier_does_not_replace_a_later_one(tmp_path: Path) -> None:
    azure_run(tmp_path / "b" / "r2", "20", "2026-09-05T02:00:00Z")
    ingested(tmp_path / "b")
    azure_run(tmp_path / "a" / "r1", "10", "2026-09-04T02:00:00Z")
    ingested(tmp_path / "a")
    assert billed("2026-09") == 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"blobCount": 2}, "says 2 files and names 1"),
        ({"blobs": [{"blobName": "part_0_0001.csv", "byteCount": 5}]}, "says 5 bytes"),
        ({"dataRowCount": 99}, "says 99 rows, those of its files are 1"),
        ({"byteCount": "many", "blobCount": "one"}, "blobCount is no whole number: 'one'"),
        (
            {"dataRowCount": 9, "blobs": [{"blobName": "part_0_0001.csv", "dataRowCount": 9}]},
            "says 9 rows, 1 are",
        ),
        ({"blobs": "none"}, "blobs is not a list"),
    ],
)
def test_a_manifest_that_lies_lets_nothing_in(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    azure_run(tmp_path / "r1", "10", "2026-09-04T02:00:00Z", **changes)
    answer = command("ingest", tmp_path)
    reasons = [one["reason"] for document in answer["documents"] for one in document["rejections"]]
    assert any(said in reason for reason in reasons), reasons
    assert answer["ok"] is False
    assert not Document.objects.exists()


def test_the_manifest_says_which_view_a_file_is(tmp_path: Path) -> None:
    changes = {"exportConfig": {"exportName": "mtd", "type": "AmortizedCost"}}
    azure_run(tmp_path / "r1", "10", "2026-09-04T02:00:00Z", **changes)
    (document,) = ingested(tmp_path)
    assert document["version"] == "amortised"
    assert document["totals"]["USD"]["billed"] is None


def test_a_damaged_manifest_is_named_and_never_read_as_data(tmp_path: Path) -> None:
    # Thread 17: a manifest was parsed as CSV.
    put(tmp_path / "_manifest.json", "{")
    put(tmp_path / "part_0.csv", as_csv([AZURE]))
    found = {Path(one["path"]).name: one for one in ingested(tmp_path)}
    assert found["_manifest.json"]["status"] == "rejected"
    assert "not readable as JSON" in found["_manifest.json"]["rejections"][0]["reason"]
    assert found["part_0.csv"]["status"] == "waiting"


def test_manifests_in_another_store(tmp_path: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    month = tmp_path / "20261001-20261101"
    aws_part(month / "old" / "cur-1.csv", "5")
    aws_part(month / "new" / "cur-1.csv", "7")
    aws_manifest(month / "cur-Manifest.json", "new", "p/20261001-20261101/new/cur-1.csv")
    store.put(str(tmp_path), "/manifests-here", recursive=True)
    try:
        found = {one["path"][-13:]: one["status"] for one in ingested("memory://manifests-here")}
    finally:
        store.rm("/manifests-here", recursive=True)
    assert found == {"old/cur-1.csv": "unchanged", "new/cur-1.csv": "posted"}
    assert billed("2026-10") == 7


def test_a_manifest_of_another_kind_governs_nothing(tmp_path: Path) -> None:
    put(tmp_path / "manifest.json", '{"name": "web app"}')
    put(tmp_path / "part_0.csv", as_csv([AZURE]))
    (document,) = ingested(tmp_path)
    assert document["status"] == "posted"


def test_the_watched_folder_waits_for_its_manifest_too(tmp_path: Path) -> None:
    import os
    from datetime import UTC, datetime

    from finops.ledger.operations.folder import take_in

    aws_part(tmp_path / "a" / "cur-1.csv", "7")
    aws_manifest(tmp_path / "cur-Manifest.json", "a", "p/a/cur-1.csv", "p/a/cur-2.csv")
    for path in tmp_path.rglob("*"):
        os.utime(path, (0, 0))
    at = datetime(2026, 11, 2, tzinfo=UTC)
    assert take_in(tmp_path, by="schedule", at=at) == {"waiting": 1}


def test_a_newer_set_takes_over_the_parts_that_did_not_change(tmp_path: Path) -> None:
    month = tmp_path / "20261001-20261101"

    def run(assembly: str, *costs: str) -> dict[str, str]:
        names = [f"cur-{at}.csv" for at, _ in enumerate(costs, start=1)]
        for name, cost in zip(names, costs, strict=True):
            aws_part(month / assembly / name, cost)
        keys = [f"p/20261001-20261101/{assembly}/{name}" for name in names]
        aws_manifest(month / "cur-Manifest.json", assembly, *keys)
        return statuses(ingested(month), month)

    assert set(run("a", "7", "8").values()) == {"posted"}
    assert billed("2026-10") == 15
    later = run("b", "7", "9")
    assert (later["b/cur-1.csv"], later["b/cur-2.csv"]) == ("unchanged", "posted")
    assert billed("2026-10") == 16
    current = with_verdict().get(verdict="current")
    assert (current.charges, current.parts.count()) == (2, 2)
    assert command("check-ledger")["ok"] is True


@pytest.mark.parametrize("spoiled", ["late", "early"])
def test_a_set_with_a_part_that_cannot_be_read_is_refused_whole(
    tmp_path: Path, spoiled: str
) -> None:
    month = tmp_path / "20261001-20261101"
    names = ["cur-1.csv", "cur-2.csv", "cur-3.csv"]
    for name in names:
        aws_part(month / "a" / name, "7")
    aws_manifest(
        month / "cur-Manifest.json", "a", *(f"p/20261001-20261101/a/{name}" for name in names)
    )
    bad = month / "a" / "cur-2.csv"
    content = bad.read_text()
    bad.write_bytes((content + "\0\n").encode() if spoiled == "late" else b"\0nothing")
    other = put(tmp_path / "other.csv", focus_text([{}]))
    answer = {Path(one["path"]).name: one for one in ingested(tmp_path)}
    assert {name: answer[name]["status"] for name in names} == dict.fromkeys(names, "rejected")
    assert "names cur-2.csv too, which was refused" in str(answer["cur-1.csv"]["rejections"])
    assert answer[other.name]["status"] == "posted"
    assert billed("2026-10") == 1
    assert Document.objects.count() == 1


def test_a_discount_is_taken_once_from_its_lines_or_from_the_net_columns(tmp_path: Path) -> None:
    month = tmp_path / "20261001-20261101"
    use = AWS | {"lineItem/UnblendedCost": "10", "lineItem/NetUnblendedCost": "9"}
    lines = {"lineItem/LineItemType": "EdpDiscount", "lineItem/UnblendedCost": "-2"}
    keys = ["p/20261001-20261101/a/cur-1.csv", "p/20261001-20261101/a/cur-2.csv"]
    put(month / "a" / "cur-1.csv", as_csv([use]))
    put(month / "a" / "cur-2.csv", as_csv([use | {"lineItem/UsageAmount": "2"}]))
    aws_manifest(month / "cur-Manifest.json", "a", *keys)
    documents = ingested(month)
    assert {one["format"] for one in documents} == {"aws-cur"}
    assert billed("2026-10") == 18
    # Lines of discounts in one part: the costs of every part are those before discounts.
    put(month / "b" / "cur-1.csv", as_csv([use | {"lineItem/UsageAmount": "3"}]))
    more = use | lines | {"lineItem/NetUnblendedCost": "0"}
    put(month / "b" / "cur-2.csv", as_csv([use | {"lineItem/UsageAmount": "4"}, more]))
    aws_manifest(month / "cur-Manifest.json", "b", *(key.replace("/a/", "/b/") for key in keys))
    ingested(month)
    assert billed("2026-10") == 18
    assert command("check-ledger")["ok"] is True
