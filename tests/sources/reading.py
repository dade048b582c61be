"""What the tests of sources share: documents from text, and their records sorted by kind."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest

from finops.core.money import add
from finops.sources import registry
from finops.sources.records import (
    Account,
    ChargeRecord,
    Rejection,
    SeriesReadings,
    UsageRecord,
)
from tests.paths import SAMPLES


@dataclass
class Read:
    """A document read to its end."""

    account: Account
    charges: list[ChargeRecord] = field(default_factory=list)
    series: list[SeriesReadings] = field(default_factory=list)
    usage: list[UsageRecord] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def total(self, column: str, gpu: bool = False) -> Decimal:
        amounts = [getattr(one, column) for one in self.charges if one.gpu_model or not gpu]
        return add([amount for amount in amounts if amount is not None])


def read(path: Path, format: str | None = None) -> Read:
    """Every record of a document, and its account."""
    parsed = registry.parse(path, path.name, format)
    result = Read(parsed.account)
    places = {
        ChargeRecord: result.charges,
        SeriesReadings: result.series,
        UsageRecord: result.usage,
        Rejection: result.rejections,
    }
    for record in parsed.records:
        places[type(record)].append(record)
    return result


def sample(place: str) -> Path:
    """A published sample; the test is skipped where they are not."""
    path = SAMPLES / place
    if not path.exists():
        pytest.skip(f"no sample {place}; set HEADROOM_SAMPLES")
    return path


def as_csv(rows: Iterable[dict[str, str]]) -> str:
    """CSV text with the keys of the first row as header."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
