"""The catalogue's digest: another one whenever something that decides GPU time is another."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from finops.sources import azure_cost, focus, focus_columns, gcp_billing, gpu_catalogue, gpu_shapes
from finops.sources.gpu_catalogue import catalogue_digest

NEVER = re.compile("never")


@pytest.fixture(autouse=True)
def _made_anew() -> None:
    catalogue_digest.cache_clear()


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        *(
            (gpu_shapes, name, NEVER)
            for name in [
                "_EC2",
                "_EC2_GPU",
                "_AZURE",
                "_GCP",
                "_ULTRA",
                "_OCI",
                "_PART",
                "_SURE_MODEL",
                "_SHORT_MODEL",
                "_COUNTED_MODEL",
                "_ANY_RTX",
                "_LOOKS_GPU",
                "_NO_GPU",
                "_GPU_WORD",
                "_TIMES",
                "_HOST_PART",
                "_ANY_HOST_PART",
                "_UUID",
                "_MACHINE_HOURS",
                "_BESIDE_MACHINES",
                "_BESIDE_SERVICES",
            ]
        ),
        (gpu_shapes, "_HOST_PARTS", {"a2": "H100"}),
        (gpu_shapes, "_WORD_MODELS", ()),
        (focus_columns, "NAMES", ("SkuId",)),
        (focus_columns, "CALLED", "ResourceId"),
        (focus_columns, "UNITS", ("PricingUnit",)),
        (focus, "NO_MACHINES", frozenset(("storage",))),
        (azure_cost, "MACHINES", frozenset()),
        (gcp_billing, "HOST_PARTS", ()),
        (gpu_catalogue, "READING", 1),
    ],
)
def test_another_pattern_or_list_is_another_catalogue(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object
) -> None:
    before = catalogue_digest()
    catalogue_digest.cache_clear()
    monkeypatch.setattr(module, name, value)
    assert catalogue_digest() != before
    monkeypatch.undo()
    catalogue_digest.cache_clear()
    assert catalogue_digest() == before


def test_flags_of_a_pattern_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = catalogue_digest()
    catalogue_digest.cache_clear()
    other = re.compile(gpu_shapes._SHORT_MODEL.pattern, re.IGNORECASE)
    monkeypatch.setattr(gpu_shapes, "_SHORT_MODEL", other)
    assert catalogue_digest() != before


def test_every_process_says_the_same() -> None:
    """The order of a set changes from one process to the next."""
    code = "from finops.sources.gpu_catalogue import catalogue_digest as d; print(d())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert said == {catalogue_digest()}
