"""Exports whose files each hold lines of their own: a new file adds (Oracle's, method §3.2)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from finops.core.period import month_of
from finops.ledger.queries.money_exceptions import money_exceptions
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.snapshots import with_verdict
from tests.ledger.doors import command, ingested
from tests.sources.reading import as_csv
from tests.sources.test_oci_cost import ROW

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def report(folder: Path, name: str, day: int, cost: str) -> Path:
    path = folder / name
    at = {f"lineItem/intervalUsage{edge}": f"2026-10-{day:02d}T1{h}:00Z"
          for edge, h in (("Start", 0), ("End", 1))}  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(as_csv([ROW | at | {"cost/myCost": cost}]))
    return path


def billed() -> Decimal | None:
    return money_total(month_of("2026-10")).billed("EUR")


def verdicts() -> list[str]:
    return list(with_verdict().order_by("pk").values_list("verdict", flat=True))


def test_each_new_file_adds_whether_or_not_its_days_overlap(tmp_path: Path) -> None:
    for name, day in (("0001.csv", 3), ("0002.csv", 4), ("0003.csv", 4)):
        (document,) = ingested(report(tmp_path, name, day, f"1.{day}{name[3]}"))
        assert document["status"] == "posted"
    assert billed() == Decimal("1.31") + Decimal("1.42") + Decimal("1.43")
    assert verdicts() == ["current"] * 3
    assert command("check-ledger")["ok"] is True


def test_a_file_of_the_same_name_replaces_its_older_self(tmp_path: Path) -> None:
    ingested(report(tmp_path, "0001.csv", 3, "1"))
    ingested(report(tmp_path, "0002.csv", 4, "2"))
    ingested(report(tmp_path / "again", "0001.csv", 3, "1.5"))
    assert billed() == Decimal("3.5")
    assert verdicts() == ["superseded", "current", "current"]


def test_a_file_that_came_with_others_waits_for_a_person(tmp_path: Path) -> None:
    report(tmp_path, "0001.csv", 3, "1")
    report(tmp_path, "0002.csv", 4, "2")
    ingested(tmp_path)
    (document,) = ingested(report(tmp_path / "again", "0001.csv", 3, "1.5"))
    assert document["status"] == "waiting"
    assert billed() == 3


def test_the_same_lines_under_another_name_are_told(tmp_path: Path) -> None:
    ingested(report(tmp_path, "0001.csv", 3, "1"))
    path = report(tmp_path, "copy.csv", 3, "1")
    path.write_text(path.read_text() + "\n")
    ingested(path)
    found = {one.kind: one for one in money_exceptions(month_of("2026-10"))}
    assert found["overlapping-files"].amount == 1
