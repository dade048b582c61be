"""What a GPU-hour can cost: wide bounds by model, dated and sourced, to find a wrong unit or price.

Never a price: what a charge costs is told by its invoice or its rate card alone (method §3.10).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Final

ANY_MODEL: Final = "*"


@dataclass(frozen=True, slots=True)
class PriceRange:
    """The bounds in USD a GPU-hour, where they come from, and of which day."""

    lowest: Decimal
    highest: Decimal
    source: str
    as_of: str

    def __contains__(self, price: Decimal) -> bool:
        return self.lowest <= price <= self.highest


def price_range(gpu_model: str) -> PriceRange:
    """The bounds of a model; of one without its own, those of any GPU."""
    return ranges().get(gpu_model) or ranges()[ANY_MODEL]


@cache
def ranges() -> dict[str, PriceRange]:
    """All bounds by model."""
    text = files("finops.sources").joinpath("data/gpu_price_ranges.csv").read_text("utf-8")
    return {
        row["gpu_model"]: PriceRange(
            Decimal(row["lowest_usd_per_gpu_hour"]),
            Decimal(row["highest_usd_per_gpu_hour"]),
            row["source"],
            row["as_of"],
        )
        for row in csv.DictReader(text.splitlines())
    }
