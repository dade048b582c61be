"""What a rate card is for, in words (the page of prices)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.test import Client

from reports.figures import THIN
from tests.ledger.doors import ingested

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
RATES = [
    {"match": {"sku": None, "gpu_model": "H100", "provider": "CoreWeave"}, "unit": "GPU-Hour",
     "price": "2.39"},
    {"match": {"sku": "x-1"}, "unit": "GPU-Hour", "price": "3"},
]  # fmt: skip


def test_a_rate_says_in_words_what_it_is_for(tmp_path: Path, admin: Client) -> None:
    card = {"rate_card": "contract", "currency": "USD", "valid_from": "2026-01-01", "rates": RATES}
    (tmp_path / "card.json").write_text(json.dumps(card))
    assert ingested(tmp_path / "card.json")[0]["status"] == "posted"
    page = admin.get("/prices/").content.decode()
    assert "provider CoreWeave, GPU model H100" in page and "SKU x-1" in page
    assert (
        ">None<" not in page
        and "&#x27;sku" not in page
        and "{&#x27;" not in page
        and "{'" not in page
    )


def test_a_card_s_rates_and_hardware_stand_in_tables(admin: Client, tmp_path: Path) -> None:
    rate = {
        "match": {"gpu_model": "H100", "provider": "CoreWeave", "sku": None},
        "unit": "GPU-Hour",
    }
    owned = {"name": "rack-7", "gpu_model": "H100", "gpus": 8, "capex": "250000", "life_months": 48,
             "power_kw": "10.2", "pue": "1.3", "tariff_per_kwh": "0.14", "in_service": "2026-02-01"}  # fmt: skip
    card = {"rate_card": "colo", "currency": "EUR", "valid_from": "2026-01-01", "valid_to": None}
    rates = [rate | {"price": "2.390"}, {"match": {}, "unit": "Hour", "price": "9"}]
    (tmp_path / "card.json").write_text(json.dumps(card | {"rates": rates, "owned": [owned]}))
    ingested(tmp_path / "card.json")
    page = admin.get("/prices/").content.decode()
    cells = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", page)
    assert cells[:9] == ["For", "Unit", "EUR a unit", "provider CoreWeave, GPU model H100", "GPU-Hour",
                         "2.390", "any usage", "Hour", "9"]  # fmt: skip
    bought = f"250{THIN}000.00"
    assert cells[17:] == ["rack-7", '8<span class="sub">H100</span>', "2026-02-01", bought, "48 months",
                          "10.2 kW", "1.3", "0.14"]  # fmt: skip
