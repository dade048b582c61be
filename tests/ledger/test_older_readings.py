"""Documents that an older catalogue of GPUs was used for: no problem, told, and read again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finops.ledger.models import Charge, Document, Reread, Snapshot
from finops.ledger.operations import reach, summing_again
from finops.ledger.operations.documents import stored
from finops.ledger.queries.snapshots import current_ids
from finops.sources import focus
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.trail.test_chain import triggers_off

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

ROWS = (
    {"ChargeDescription": "8xH100", "ResourceId": "node", "AllocatedTags": '{"app": "chat"}'},
    {"ResourceId": "disk", "Tags": '{"team": "a"}'},
)


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file taken in when `8xH100` said nothing, nor what a part of a split line is for."""
    path = focus_file(tmp_path / "a.csv", *ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(reach, "catalogue_digest", lambda: "")
        patch.setattr(summing_again, "catalogue_digest", lambda: "")
        patch.setattr(focus, "gpu_of", lambda *_, **__: None)
        patch.setattr(focus, "_tags", lambda row: row.map("Tags"))
        ingested(path)
    return path


def current() -> list[tuple[Any, ...]]:
    rows = Charge.objects.filter(snapshot__in=current_ids()).order_by("line")
    return list(rows.values_list("gpu_model", "gpu_count", "tags"))


def test_an_older_reading_is_a_notice_and_no_problem(older: Path) -> None:
    assert current() == [(None, None, {}), (None, None, {"team": "a"})]
    answer = command("check-ledger")
    assert (answer["ok"], answer["problems"]) == (True, [])
    (notice,) = answer["notices"]
    assert notice.startswith("a.csv: 1 charge was read by an older catalogue of GPUs")


def test_taking_the_file_in_again_reads_it_by_todays_catalogue(older: Path) -> None:
    (document,) = ingested(older)
    assert document["status"] == "unchanged"
    assert current() == [("H100", Decimal(8), {"app": "chat"}), (None, None, {"team": "a"})]
    assert [one.reason for one in Reread.objects.all()] == [summing_again.CATALOGUE]
    answer = command("check-ledger")  # the older charges are there still, as they were read
    assert (answer["problems"], answer["notices"]) == ([], [])
    assert Charge.objects.count() == 4


def test_it_is_read_again_once(older: Path) -> None:
    for _ in range(3):
        ingested(older)
    assert (Snapshot.objects.count(), Reread.objects.count()) == (2, 1)


def parts_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a delivery of two files, taken in by an older catalogue."""
    folder = tmp_path / "parts"
    folder.mkdir()
    focus_file(folder / "1.csv", ROWS[0])
    focus_file(folder / "2.csv", ROWS[1])
    with monkeypatch.context() as patch:
        patch.setattr(reach, "catalogue_digest", lambda: "")
        patch.setattr(summing_again, "catalogue_digest", lambda: "")
        ingested(folder)
    return folder


def test_the_other_parts_of_a_snapshot_are_read_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = parts_read_before(tmp_path, monkeypatch)
    ingested(folder / "2.csv")
    assert len(current()) == 2
    assert Reread.objects.count() == 2


def test_what_cannot_be_read_again_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = parts_read_before(tmp_path, monkeypatch)
    before = current_ids()
    other = stored(Document.objects.get(name__endswith="1.csv").sha256)
    kept = other.read_bytes()
    other.unlink()
    try:
        answer = command("ingest", str(folder / "2.csv"), "--by", "Ada")
    finally:
        other.write_bytes(kept)
    assert [one["status"] for one in answer["documents"]] == ["rejected"]
    assert current_ids() == before


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"billed_cost": 99}, "billed_cost"),
        ({"tags": {"team": "b", "own": "x"}}, "tags"),
        ({"service": "other"}, "service"),
    ],
)
def test_what_no_catalogue_says_is_still_a_problem(
    older: Path, values: dict[str, Any], word: str
) -> None:
    with triggers_off():
        Charge.objects.filter(line=3).update(**values)
    assert f"line 3: {word} is" in " ".join(command("check-ledger")["problems"])


def test_a_reading_of_today_is_compared_whole(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "a.csv", *ROWS))
    with triggers_off():
        Charge.objects.filter(line=2).update(gpu_count=4)
    answer = command("check-ledger")
    assert "line 2: gpu_count is 4, its document says 8" in " ".join(answer["problems"])
    assert answer["notices"] == []
