"""The pages of GPU memory, asked as people ask: a number copied from elsewhere, a log that failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.ledger import gpu_fleet
from tests.ledger.doors import ingested
from tests.ledger.memory_tables import one_card, workload

from .helpers import html_of

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_a_number_is_found_as_it_was_copied(admin: Client, tmp_path: Path) -> None:
    workload()
    ingested(one_card(tmp_path), gpu_fleet.log(tmp_path / "engine.log"))
    for text, unit in (("76000MiB / 81559MiB", "GB"), ("76\u202f000", "MiB"), ("74,2 GiB", "MiB")):
        page = html_of(
            admin.get(reverse("memory"), {"number": text, "unit": unit, "week": "2026-W47"})
        )
        assert "is <strong>in use, mean</strong>" in page, text
    page = html_of(admin.get(reverse("memory"), {"number": "much", "week": "2026-W47"}))
    assert "alone or with its unit" in page


def test_what_is_not_enough_alone_has_no_tick(admin: Client) -> None:
    """24.0 GiB are needed and 11.72 there: 12 in 8 bits are too much, 12 on each of two GPUs fit."""
    text = (
        "INFO 10-01 10:00:00 [gpu_model_runner.py:1] Model loading took 56.90 GiB memory and 33.1 seconds\n"
        "ERROR 10-01 10:01:00 [core.py:700] ValueError: To serve at least one request with the model's "
        "max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (11.72 GiB). Try increasing `gpu_memory_utilization`.\n"
    )
    page = html_of(admin.post(reverse("memory-log"), {"text": text}))
    assert "Not enough alone:</span> <strong>Keep the cache in fewer bits: fp8." in page
    assert "✓</span> <strong>Spread the model over more GPUs: 2." in page


def test_a_pasted_log_may_hold_what_a_terminal_does_not_show(admin: Client) -> None:
    text = "\0\0INFO 10-01 10:00:00 [gpu_worker.py:1] Available KV cache mem\0ory: 11.72 GiB\n"
    page = html_of(admin.post(reverse("memory-log"), {"text": text}))
    assert "11.7" in page and "Null characters" not in page
