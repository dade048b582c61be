"""What a rate card is for, in words (the page of prices)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

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
