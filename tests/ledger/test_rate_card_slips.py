"""Rate cards that do not fit what they price: a slip in a unit, and another currency (§3.9, §3.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from finops.ledger.models import Charge
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import ROW
from tests.ledger.test_formats import CARD, card_file
from tests.sources.reading import as_csv

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def rate(unit: str, **match: str) -> dict[str, Any]:
    return {"match": match, "unit": unit, "price": "2"}


def test_a_unit_that_may_be_a_slip_is_told_and_others_are_not(tmp_path: Path) -> None:
    rates = [
        rate("GPU-Hour", gpu_model="H100"),
        rate("GPU/h", gpu_model="H100"),
        rate("Hours", gpu_model="H100"),
        rate("gpu-hr", gpu_model="A100"),
        rate("GiB-Hours", sku="disk"),
    ]
    (card,) = ingested(card_file(tmp_path / "card.json", CARD | {"rates": rates}))
    assert card["status"] == "posted"
    assert [warning.partition(" is neither")[0] for warning in card["warnings"]] == [
        "rates[1]: the unit 'GPU/h'",
        "rates[3]: the unit 'gpu-hr'",
    ]


def test_a_card_in_another_currency_leaves_no_amount_under_a_wrong_name(tmp_path: Path) -> None:
    # 8 GPU-hours at 2.39 EUR; the document's own list cost of 40 is in USD.
    usage = {k: v for k, v in ROW.items() if k not in ("BilledCost", "EffectiveCost")} | {
        "ListCost": "40",
        "ContractedCost": "30",
        "ListUnitPrice": "5",
        "ChargeDescription": "H100",
        "ConsumedQuantity": "8",
        "ConsumedUnit": "GPU-Hours",
        "ProviderName": "CoreWeave",
    }
    (tmp_path / "usage.csv").write_text(as_csv([usage]))
    ingested(card_file(tmp_path / "card.json", CARD | {"currency": "EUR"}))
    ingested(tmp_path / "usage.csv")
    found = command("totals", "--from", "2026-10-01T00:00Z", "--to", "2026-11-01T00:00Z")["money"]
    assert found == {
        "EUR": {"billed": None, "effective": "19.12", "list": None, "contracted": None}
    }
    assert Charge.objects.get().list_unit_price is None
    ingested(card_file(tmp_path / "dollars.json", CARD | {"rate_card": "coreweave 2026"}))
    found = command("totals", "--from", "2026-10-01T00:00Z", "--to", "2026-11-01T00:00Z")["money"]
    assert found["USD"] == {
        "billed": None,
        "effective": "19.12",
        "list": "40",
        "contracted": "30",
    }
    assert command("check-ledger")["ok"] is True
