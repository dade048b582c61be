"""FOCUS files through the door: published totals, no-ops, rejections, whole or nothing."""

from __future__ import annotations

import gzip
import hashlib
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from finops.ledger.models import Charge, Delivery, Document, RejectedRow, Snapshot
from finops.ledger.operations.documents import stored
from finops.ledger.which import use_ledger
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, focus_text, hours
from tests.paths import SAMPLES

INVOICES = SAMPLES / "invoices"
THOUSAND = INVOICES / "focus-1.0_anonymised_aws-azure-oci_1000rows.csv"

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def decimals(totals: dict[str, str]) -> dict[str, Decimal]:
    return {basis: Decimal(amount) for basis, amount in totals.items()}


@pytest.mark.skipif(not THOUSAND.exists(), reason="third-party samples are not here")
def test_the_published_totals_of_a_real_file_to_the_last_digit() -> None:
    (document,) = ingested(THOUSAND)
    assert (document["rows_read"], document["charges"], document["rows_rejected"]) == (
        1000,
        1000,
        0,
    )
    assert document["format"] == "focus"
    assert document["version"] == "1.0"
    assert document["unknown_columns"] == ["Id"]
    assert decimals(document["totals"]["USD"]) == {
        "billed": Decimal("20.52022672899"),
        "effective": Decimal("14.97651418586"),
        "list": Decimal("20.39090575119"),
        "contracted": Decimal("14.97626039326"),
    }
    gpu = decimals(document["gpu_totals"]["USD"])
    assert gpu["billed"] == Decimal("10.20368294400")
    assert gpu["effective"] == Decimal("11.0")
    billed: dict[str, Decimal] = defaultdict(Decimal)
    for provider, amount in Charge.objects.values_list("provider", "billed_cost"):
        billed[provider] += amount
    assert billed == {
        "AWS": Decimal("18.00663861840"),
        "Microsoft": Decimal("1.97651418586"),
        "Oracle": Decimal("0.53707392473"),
    }


@pytest.mark.skipif(not THOUSAND.exists(), reason="third-party samples are not here")
@pytest.mark.parametrize(
    ("name", "billed", "effective"),
    [
        ("saas_spend_agreements_a2", "1200", "1200"),
        ("virtual_currency_pricing_model_a1", "200000", "0"),
        ("virtual_currency_pricing_model_a2", "0", "1230"),
        ("virtual_currency_pricing_model_b1", "100000", "0"),
        ("virtual_currency_pricing_model_b2", "0", "615"),
        ("virtual_currency_pricing_model_b3", "0", "495"),
        ("virtual_currency_pricing_model_c", "53000", "0"),
    ],
)
def test_the_worked_totals_of_the_specification(name: str, billed: str, effective: str) -> None:
    (document,) = ingested(INVOICES / "focus-spec-1.2-examples" / f"{name}.csv")
    totals = decimals(document["totals"]["USD"])
    assert (totals["billed"], totals["effective"]) == (Decimal(billed), Decimal(effective))


def test_same_bytes_again_change_nothing(tmp_path: Path) -> None:
    path = focus_file(tmp_path / "october.csv", {}, {"ResourceId": "i-2"})
    (first,) = ingested(path)
    (again,) = ingested(path.rename(tmp_path / "another name.csv"))
    assert first["status"] == "posted"
    assert first["sha256"] == hashlib.sha256(stored(first["sha256"]).read_bytes()).hexdigest()
    assert again["status"] == "unchanged"
    assert again["totals"] == first["totals"]
    assert (Document.objects.count(), Charge.objects.count(), Delivery.objects.count()) == (1, 2, 1)


def test_twice_in_one_delivery_counts_once(tmp_path: Path) -> None:
    focus_file(tmp_path / "a.csv", {})
    focus_file(tmp_path / "b.csv", {})
    statuses = [document["status"] for document in ingested(tmp_path)]
    assert statuses == ["posted", "unchanged"]
    assert Charge.objects.count() == 1


def test_own_and_sample_ledger_hold_the_same_bytes_apart(tmp_path: Path) -> None:
    path = focus_file(tmp_path / "october.csv", {})
    ingested(path)
    with use_ledger("sample"):
        assert not Document.objects.exists()
    assert command("ingest", path, "--sample")["documents"][0]["status"] == "posted"
    with use_ledger("sample"):
        assert Charge.objects.count() == 1
    assert Charge.objects.count() == 1


def test_every_digit_and_every_text_is_kept(tmp_path: Path) -> None:
    long = "16.2969321366366446274854190001"
    row = {"BilledCost": long, "EffectiveCost": "1.81E-8", "Tags": '{"team": "zoë \\u0000 x"}'}
    (document,) = ingested(focus_file(tmp_path / "digits.csv", row))
    charge = Charge.objects.get()
    assert (charge.billed_cost, charge.effective_cost) == (Decimal(long), Decimal("1.81E-8"))
    assert charge.snapshot.billing_account == "012345678901"
    assert charge.tags == {"team": "zoë \ufffd x"}
    assert document["totals"]["USD"]["billed"] == long
    assert document["totals"]["USD"]["effective"] == "0.0000000181"


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ({"BilledCost": "1e400"}, "BilledCost"),
        ({"EffectiveCost": "NaN"}, "EffectiveCost"),
        ({"BilledCost": "1,234.50"}, "BilledCost"),
        ({"BilledCost": ""}, "BilledCost"),
        ({"BillingCurrency": ""}, "BillingCurrency"),
        ({"BillingCurrency": "X" * 41}, "BillingCurrency"),
        ({"ChargePeriodEnd": "2026-10-05T09:00:00Z"}, "ChargePeriodEnd"),
        ({"ChargePeriodStart": "yesterday"}, "ChargePeriodStart"),
        ({"ChargeCategory": "Gift"}, "ChargeCategory"),
        ({"InvoiceIssuerName": "I" * 401}, "issuer"),
    ],
)
def test_a_bad_row_is_named_and_the_others_count(
    tmp_path: Path, cells: dict[str, str], column: str
) -> None:
    path = focus_file(tmp_path / "mixed.csv", {}, cells, {"ResourceId": "i-3"})
    answer = command("ingest", path)
    (document,) = answer["documents"]
    assert answer["ok"] is False
    assert (document["status"], document["rows_read"]) == ("posted", 3)
    assert (document["charges"], document["rows_rejected"]) == (2, 1)
    (rejection,) = document["rejections"]
    assert (rejection["line"], rejection["column"]) == (3, column)
    assert rejection["reason"]
    assert RejectedRow.objects.get().document_id == document["sha256"]


def test_a_file_that_breaks_off_leaves_nothing_and_the_others_go_on(tmp_path: Path) -> None:
    rows = ({"ResourceId": f"i-{i}", "BilledCost": f"{i}.25"} for i in range(20_000))
    whole = gzip.compress(focus_text(rows).encode())
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) * 3 // 4])
    focus_file(tmp_path / "good.csv", {})
    cut, good = ingested(tmp_path / "cut.csv.gz", tmp_path / "good.csv")
    assert (cut["status"], cut["charges"]) == ("rejected", 0)
    assert "cut off" in cut["rejections"][0]["reason"]
    assert good["status"] == "posted"
    assert Document.objects.get().sha256 == good["sha256"]
    assert Charge.objects.count() == 1
    assert Snapshot.objects.get().charges == 1
    assert not stored(cut["sha256"]).exists()


def test_more_rows_than_one_batch(tmp_path: Path) -> None:
    path = focus_file(tmp_path / "long.csv", *({"ResourceId": f"i-{i}"} for i in range(5001)))
    (document,) = ingested(path)
    assert document["charges"] == Charge.objects.count() == 5001
    assert Decimal(document["totals"]["USD"]["billed"]) == 5001


def test_unknown_and_missing_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not an invoice\n")
    text, missing = ingested(tmp_path / "notes.txt", tmp_path / "absent.csv")
    assert text["status"] == missing["status"] == "rejected"
    assert "notes.txt" in text["rejections"][0]["reason"]
    assert "no such file" in missing["rejections"][0]["reason"]
    assert not Document.objects.exists()


def test_a_folder_passes_over_hidden_files_and_manifests(tmp_path: Path) -> None:
    focus_file(tmp_path / "part-1.csv", {})
    (tmp_path / "deeper").mkdir()
    focus_file(tmp_path / "deeper" / "part-2.csv", {"ResourceId": "i-2"})
    for name in (".hidden.csv", "x-manifest.json", "_SUCCESS", "README.md"):
        (tmp_path / name).write_text("{}")
    documents = ingested(tmp_path)
    names = {Path(document["path"]).name for document in documents}
    assert names == {"part-1.csv", "part-2.csv"}
    assert Snapshot.objects.get().charges == 2


def test_a_glob_and_a_url(tmp_path: Path) -> None:
    focus_file(tmp_path / "a.csv", {})
    focus_file(tmp_path / "b.csv", {"ResourceId": "i-2"})
    by_glob = ingested(tmp_path / "*.csv")
    assert [document["status"] for document in by_glob] == ["posted", "posted"]
    (by_url,) = ingested(f"file://{tmp_path}/a.csv")
    assert by_url["status"] == "unchanged"


def test_a_header_without_rows_is_a_document_without_charges(tmp_path: Path) -> None:
    (document,) = ingested(focus_file(tmp_path / "empty.csv"))
    assert (document["status"], document["rows_read"], document["totals"]) == ("posted", 0, {})
    assert not Snapshot.objects.exists()


def test_a_month_billed_in_another_zone_is_still_that_month(tmp_path: Path) -> None:
    zone = {
        "BillingPeriodStart": "2026-09-30T22:00:00Z",
        "BillingPeriodEnd": "2026-10-31T23:00:00Z",
    }
    (document,) = ingested(focus_file(tmp_path / "zone.csv", zone))
    assert document["snapshots"][0]["billing_period"] == "2026-10"


def test_scopes_of_one_file_become_a_snapshot_each(tmp_path: Path) -> None:
    other = {"BillingAccountId": "B"}
    later = {
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
        **hours("2026-11-02T00", "2026-11-02T01"),
    }
    (document,) = ingested(focus_file(tmp_path / "scopes.csv", {}, other, later, {}))
    found = {(s["billing_account"], s["billing_period"]) for s in document["snapshots"]}
    assert found == {("012345678901", "2026-10"), ("B", "2026-10"), ("012345678901", "2026-11")}
    assert sum(Snapshot.objects.values_list("charges", flat=True)) == 4
