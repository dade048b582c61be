"""What is newer, and what a newer delivery does: the exports' own times, shorter ones (§3.2)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from finops.core.period import month_of
from finops.ledger.models import Snapshot
from finops.ledger.operations.snapshots import decide
from finops.ledger.queries.money_exceptions import MoneyException, money_exceptions
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.snapshots import with_verdict
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours
from tests.sources.reading import as_csv
from tests.sources.test_aws_cur import ROW as AWS
from tests.sources.test_azure_cost import ROW as AZURE
from tests.sources.test_gcp_billing import ROW as GCP

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
FIRST = hours("2026-10-01T00", "2026-10-10T00", BilledCost="9", EffectiveCost="9")
REST = hours("2026-10-10T00", "2026-10-21T00", BilledCost="11", EffectiveCost="11")


def billed(month: str = "2026-10") -> Decimal | None:
    return money_total(month_of(month)).billed("USD")


def verdicts() -> list[str]:
    return list(with_verdict().order_by("pk").values_list("verdict", flat=True))


def told(kind: str, month: str = "2026-10") -> list[MoneyException]:
    return [one for one in money_exceptions(month_of(month)) if one.kind == kind]


def test_a_newer_delivery_of_fewer_days_replaces_and_what_it_leaves_out_is_told(
    tmp_path: Path,
) -> None:
    ingested(focus_file(tmp_path / "to-date.csv", FIRST, REST))
    (document,) = ingested(focus_file(tmp_path / "once.csv", FIRST))
    assert document["status"] == "posted"
    assert (verdicts(), billed()) == (["superseded", "current"], Decimal(9))
    (found,) = told("shorter-snapshot")
    old = Snapshot.objects.earliest("pk")
    assert found.amount == 11
    assert "told of 2026-10-01T00:00:00Z to 2026-10-21T00:00:00Z" in found.text
    assert "only of 2026-10-01T00:00:00Z to 2026-10-10T00:00:00Z" in found.text
    assert f"snapshot decide {old.pk} replacement" in found.text
    assert not told("shorter-snapshot", "2026-11")


def test_a_person_takes_the_longer_one_back(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "to-date.csv", FIRST, REST))
    ingested(focus_file(tmp_path / "once.csv", FIRST))
    old = Snapshot.objects.earliest("pk")
    with pytest.raises(ValueError, match="it is superseded"):
        decide(old.pk, "parts", "Ada", "both")
    command("snapshot", "decide", old.pk, "replacement", "--reason", "whole month", "--by", "Ada")
    assert (verdicts(), billed()) == (["current", "superseded"], Decimal(20))
    assert not told("shorter-snapshot")
    assert command("check-ledger")["ok"] is True


def test_what_a_person_chose_is_not_told_again(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "to-date.csv", FIRST, REST))
    other = hours("2026-10-25T00", "2026-10-26T00", BilledCost="1", EffectiveCost="1")
    ingested(focus_file(tmp_path / "other.csv", other))
    waits = Snapshot.objects.latest("pk")
    decide(waits.pk, "replacement", "Ada", "the export was cut anew")
    assert billed() == 1
    assert not told("shorter-snapshot")


def test_the_whole_month_again_ends_the_notice(tmp_path: Path) -> None:
    ingested(focus_file(tmp_path / "to-date.csv", FIRST, REST))
    ingested(focus_file(tmp_path / "once.csv", FIRST))
    ingested(focus_file(tmp_path / "again.csv", FIRST, REST | {"ResourceId": "i-2"}))
    assert billed() == 20
    assert not told("shorter-snapshot")


def test_files_of_one_delivery_that_hold_the_same_lines_are_told(tmp_path: Path) -> None:
    once = focus_file(tmp_path / "once.csv", FIRST)
    ingested(once, focus_file(tmp_path / "to-date.csv", FIRST, REST))
    assert billed() == 29
    (found,) = told("overlapping-files")
    assert found.amount == 9


# The export's own time ------------------------------------------------------------------------


def gcp(path: Path, exported: str, cost: str) -> Path:
    path.write_text(as_csv([GCP | {"cost": cost, "credits": "[]", "export_time": exported}]))
    return path


def test_googles_export_time_decides_whatever_arrives_last(tmp_path: Path) -> None:
    (newer,) = ingested(gcp(tmp_path / "b.csv", "2026-11-03 04:00:00 UTC", "7"))
    assert newer["exported_at"] == "2026-11-03T04:00:00Z"
    ingested(gcp(tmp_path / "a.csv", "2026-11-02 04:00:00 UTC", "5"))
    assert verdicts() == ["current", "superseded"]
    ingested(gcp(tmp_path / "c.csv", "2026-11-04 04:00:00 UTC", "8"))
    assert verdicts() == ["superseded", "superseded", "current"]
    rows = command("snapshot", "list")["snapshots"]
    assert [one["exported_at"][:10] for one in rows] == ["2026-11-03", "2026-11-02", "2026-11-04"]


def test_the_latest_row_is_the_files_time_in_parquet_too(tmp_path: Path) -> None:
    rows = [GCP | {"export_time": f"2026-11-0{day} 04:00:00 UTC"} for day in (3, 5, 4)]
    source, target = tmp_path / "a.csv", tmp_path / "a.parquet"
    source.write_text(as_csv(rows))
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_csv('{source}', all_varchar = true)) TO '{target}'"
        )
    (document,) = ingested(target)
    assert document["exported_at"] == "2026-11-05T04:00:00Z"


def test_a_time_that_is_none_is_no_time(tmp_path: Path) -> None:
    (document,) = ingested(gcp(tmp_path / "a.csv", "yesterday", "5"))
    assert (document["status"], document["exported_at"]) == ("posted", None)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def aws_report(root: Path, assembly: str, cost: str) -> Path:
    month = root / "20261001-20261101"
    put(month / assembly / "cur-1.csv", as_csv([AWS | {"lineItem/UnblendedCost": cost}]))
    manifest = {"assemblyId": assembly, "reportKeys": [f"p/20261001-20261101/{assembly}/cur-1.csv"]}
    put(month / "cur-Manifest.json", json.dumps(manifest))
    return root


def test_amazons_assembly_bears_its_time(tmp_path: Path) -> None:
    (newer,) = ingested(aws_report(tmp_path / "b", "20261103T060211Z", "7"))
    assert newer["exported_at"] == "2026-11-03T06:02:11Z"
    ingested(aws_report(tmp_path / "a", "20261102T060211Z", "5"))
    assert billed() == 7


def test_an_assembly_without_a_time_goes_by_its_arrival(tmp_path: Path) -> None:
    ingested(aws_report(tmp_path / "b", "0c1e7d4a-11aa-4c6e-9d51-aa8c0d5a21f4", "7"))
    (later,) = ingested(aws_report(tmp_path / "a", "1c1e7d4a-11aa-4c6e-9d51-aa8c0d5a21f4", "5"))
    assert later["exported_at"] is None
    assert billed() == 5


def test_of_the_runs_of_amazons_newer_export_the_latest_counts_and_bears_its_time(
    tmp_path: Path,
) -> None:
    for day, cost in (("04", "7"), ("03", "5")):
        run = f"2026-11-{day}T06:02:11.123Z-0c1e7d4a"
        month = f"BILLING_PERIOD=2026-10/{run}"
        text = as_csv([AWS | {"lineItem/UnblendedCost": cost}])
        put(tmp_path / "data" / month / "cur-00001.csv", text)
        files = [f"s3://bucket/data/{month}/cur-00001.csv"]
        put(tmp_path / "metadata" / month / "cur-Manifest.json", json.dumps({"dataFiles": files}))
    found = {one["status"]: one for one in ingested(tmp_path)}
    assert found["posted"]["exported_at"] == "2026-11-04T06:02:11Z"
    assert "an older run" in found["unchanged"]["warnings"][0]
    assert billed() == 7


# Two exports of the same days in one delivery ---------------------------------------------------


def azure(day: str, cost: str) -> dict[str, str]:
    return AZURE | {"Date": day, "Cost": cost}


def azure_export(root: Path, name: str, submitted: str, days: tuple[str, str], *rows: Any) -> None:
    text = as_csv(rows)
    manifest = {
        "blobCount": 1,
        "exportConfig": {
            "resourceId": f"/subscriptions/s/providers/Microsoft.CostManagement/exports/{name}",
            "type": "ActualCost",
        },
        "runInfo": {
            "runId": name,
            "submittedTime": submitted,
            "startDate": f"{days[0]}T00:00:00",
            "endDate": f"{days[1]}T00:00:00",
        },
        "blobs": [{"blobName": f"{name}/part_0.csv", "dataRowCount": len(rows)}],
    }
    put(root / name / "part_0.csv", text)
    put(root / name / "manifest.json", json.dumps(manifest))


@pytest.mark.parametrize("names", [("a-once", "b-to-date"), ("b-once", "a-to-date")])
def test_6_a_one_time_export_beside_a_daily_one_in_one_folder(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    once, to_date = names
    days = [azure("09/03/2026", "9"), azure("09/15/2026", "11")]
    azure_export(tmp_path, once, "2026-09-10T02:00:00Z", ("2026-09-01", "2026-09-09"), days[0])
    azure_export(tmp_path, to_date, "2026-09-21T02:00:00Z", ("2026-09-01", "2026-09-20"), *days)
    assert {one["status"] for one in ingested(tmp_path)} == {"posted"}
    assert billed("2026-09") == 20
    assert verdicts() == ["superseded", "current"]
    azure_export(tmp_path / "late", "c-once", "2026-09-11T02:00:00Z", ("2026-09-01", "2026-09-09"),
                 azure("09/03/2026", "9.5"))  # fmt: skip
    ingested(tmp_path / "late")
    assert billed("2026-09") == 20


def test_exports_of_other_days_in_one_folder_are_parts(tmp_path: Path) -> None:
    for day in (3, 4, 5):
        at = f"2026-09-0{day}"
        name = f"daily-{day}"
        row = azure(f"09/0{day}/2026", "2")
        azure_export(tmp_path, name, f"2026-09-0{day + 1}T02:00:00Z", (at, at), row)
    ingested(tmp_path)
    assert (billed("2026-09"), verdicts()) == (Decimal(6), ["current"])


def test_a_document_that_is_read_again_keeps_its_exports_time(tmp_path: Path) -> None:
    # The two views of Azure: the actual one is read again beside the amortised one.
    row = azure("09/03/2026", "9")
    days = ("2026-09-01", "2026-09-20")
    azure_export(tmp_path / "a", "actual", "2026-09-21T02:00:00Z", days, row)
    ingested(tmp_path / "a")
    plan = {"PricingModel": "Reservation", "benefitId": "/reservations/r1", "Cost": "3"}
    put(tmp_path / "amortised.csv", as_csv([row | plan]))
    ingested(tmp_path / "amortised.csv")
    current = with_verdict().get(verdict="current")
    assert current.parts.count() == 2
    assert current.exported_at == datetime(2026, 9, 21, 2, tzinfo=UTC)
