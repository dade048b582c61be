"""CSV files by a saved mapping, and files whose format a person names (§3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from finops.ledger.models import Charge
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.test_formats import PURCHASE, azure, totals

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

MAPPING: dict[str, Any] = {
    "columns": {
        "Datum": "ChargePeriodStart",
        "Betrag": ["BilledCost", "EffectiveCost"],
        "Leistung": "ChargeDescription",
        "Konto": "BillingAccountId",
    },
    "constants": {"BillingCurrency": "EUR", "InvoiceIssuerName": "Rechenzentrum GmbH"},
    "dates": "%d.%m.%Y",
    "decimal": ",",
}


def mapped(folder: Path, mapping: dict[str, Any], name: str = "colo") -> dict[str, Any]:
    path = folder / "mapping.json"
    path.write_text(json.dumps(mapping))
    return command("mapping", name, "--file", path, "--by", "Ada")


def test_a_mapped_csv(tmp_path: Path) -> None:
    path = tmp_path / "rechnung.csv"
    path.write_text(
        "Datum;Betrag;Leistung;Konto;Notiz\n03.10.2026;1.234,56;H100;0042;x\n31.10.2026;0,44;H100;0042;\n"
    )
    (unknown,) = ingested(path)
    assert "needs a saved mapping" in unknown["rejections"][0]["reason"]
    assert mapped(tmp_path, MAPPING)["mappings"][0]["version"] == 1
    (document,) = command("ingest", path, "--as", "csv:colo")["documents"]
    assert (document["format"], document["version"], document["charges"]) == ("csv:colo", "1", 2)
    assert document["unknown_columns"] == ["Notiz"]
    assert document["totals"]["EUR"]["billed"] == "1235.00"
    charge = Charge.objects.order_by("line")[0]
    assert (charge.charge_end - charge.charge_start).days == 1
    assert charge.snapshot.billing_account == "0042"
    assert charge.snapshot.billing_period == "2026-10"
    assert mapped(tmp_path, MAPPING | {"decimal": "."})["mappings"][0]["version"] == 2
    assert mapped(tmp_path, MAPPING | {"decimal": "."})["mappings"][0]["version"] == 2


@pytest.mark.parametrize("name", ["nonsense", "csv:nobody", "focus "])
def test_an_unknown_format_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    path = focus_file(tmp_path / "a.csv", {})
    ingested(path)
    for given in (path, tmp_path / "absent.csv"):
        with pytest.raises(CommandError, match="--as: ") as refused:
            command("ingest", given, "--as", name)
        assert refused.value.returncode == 2


def test_bytes_that_were_read_otherwise_are_not_called_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "rechnung.csv"
    path.write_text("Datum;Betrag;Leistung;Konto\n03.10.2026;1.234,56;H100;0042\n")
    mapped(tmp_path, MAPPING)

    def read(*given: object) -> tuple[str, str]:
        (document,) = command("ingest", path, *given)["documents"]
        reasons = [one["reason"] for one in document["rejections"]]
        return document["status"], " ".join(reasons)

    assert read("--as", "csv:colo")[0] == "posted"
    assert read("--as", "csv:colo")[0] == read()[0] == "unchanged"
    mapped(tmp_path, MAPPING | {"decimal": "."})
    status, reason = read("--as", "csv:colo")
    assert (status, "were read as csv:colo version 1 on" in reason) == ("rejected", True)
    assert read("--as", "focus")[0] == "rejected"
    assert read()[0] == "unchanged"
    # As it says: an empty line makes it a newer delivery, which replaces the first.
    path.write_text(path.read_text().replace("1.234,56", "1234.56") + "\n")
    assert read("--as", "csv:colo")[0] == "posted"
    assert totals("2026-10")["EUR"]["billed"] == "1234.56"


@pytest.mark.parametrize("view", ["azure-cost", "azure-cost-actual"])
def test_a_view_that_was_named_before_is_unchanged(tmp_path: Path, view: str) -> None:
    path = azure(tmp_path, "a.csv", PURCHASE)
    assert command("ingest", path, "--as", view)["documents"][0]["status"] == "posted"
    assert command("ingest", path, "--as", view)["documents"][0]["status"] == "unchanged"


def test_what_a_mapping_cannot_read_is_named_by_line_and_column(tmp_path: Path) -> None:
    mapped(tmp_path, MAPPING)
    path = tmp_path / "rechnung.csv"
    path.write_text(
        'Datum,Betrag,Leistung,Konto\n3/10/2026,"1,00",H100,0042\n03.10.2026,1.00,H100,0042\n03.10.2026,x\n'
    )
    (document,) = command("ingest", path, "--as", "csv:colo")["documents"]
    found = [(one["line"], one["column"]) for one in document["rejections"]]
    assert found == [(2, "Datum"), (3, "Betrag"), (4, None)]
    assert document["charges"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": {"Datum": "ChargePeriodStart"}}, "BilledCost"),
        ({"columns": {"x": "NoSuchColumn"}}, "NoSuchColumn"),
        ({"dates": "yesterday"}, "dates"),
        ({"decimal": ";"}, "decimal"),
        ({"constants": {"BilledCost": "1"}}, "more than once"),
        ({"more": 1}, "more"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(CommandError, match=said):
        mapped(tmp_path, MAPPING | change)
    with pytest.raises(CommandError, match="no mapping 'nosuch'"):
        command("mapping", "nosuch")


def test_a_rejected_cell_stands_as_the_file_has_it(tmp_path: Path) -> None:
    mapped(tmp_path, MAPPING)
    path = tmp_path / "rechnung.csv"
    cells = ["1.5", "1\u00a0234.567,8", "12\u00a034,5", "12,50 €", "5,00-", "(5,00)"]
    rows = [f"03.10.2026;{cell};H100;0042" for cell in cells] + ["13/10/2026;5;H100;0042"]
    path.write_text("\n".join(["Datum;Betrag;Leistung;Konto", *rows]) + "\n")
    (document,) = command("ingest", path, "--as", "csv:colo")["documents"]
    told = [(one["column"], one["value"]) for one in document["rejections"]]
    assert told == [*(("Betrag", cell) for cell in cells), ("Datum", "13/10/2026")]
    reasons = [one["reason"] for one in document["rejections"]]
    assert reasons[0] == "not a number; decimals have a comma"
    assert reasons[-1] == "not a date written %d.%m.%Y"


def test_a_line_that_tells_excel_the_separator_is_no_heading(tmp_path: Path) -> None:
    mapped(tmp_path, MAPPING)
    path = tmp_path / "rechnung.csv"
    row = "03.10.2026;1.234,56;H100;0042"
    path.write_bytes(f"\ufeffsep=;\r\nDatum;Betrag;Leistung;Konto\r\n{row}\r\n;;;\r\n".encode())
    (document,) = command("ingest", path, "--as", "csv:colo")["documents"]
    assert document["totals"]["EUR"]["billed"] == "1234.56"
    assert [one["line"] for one in document["rejections"]] == [4]  # in the file


@pytest.mark.parametrize(
    ("decimal", "cell"),
    [
        (",", "1.234.567,8"),
        (",", "1 234 567,8"),
        (",", "1\u00a0234\u00a0567,8"),
        (",", "1\u202f234\u202f567,8"),
        (".", "1,234,567.8"),
        (".", "1'234'567.8"),
        (".", "1\u2019234\u2019567.8"),
    ],
)
def test_thousands_are_read_as_spreadsheets_write_them(
    tmp_path: Path, decimal: str, cell: str
) -> None:
    mapped(tmp_path, MAPPING | {"decimal": decimal})
    path = tmp_path / "rechnung.csv"
    path.write_text(f"Datum;Betrag;Leistung;Konto\n03.10.2026;-{cell};H100;0042\n")
    (document,) = command("ingest", path, "--as", "csv:colo")["documents"]
    assert document["totals"]["EUR"]["billed"] == "-1234567.8"
