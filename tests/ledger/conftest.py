"""A replayed store to collect from, and no waiting between its attempts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from finops.ledger.fetch import Limits
from finops.ledger.operations import collect
from tests.ledger.stores import Store, replay


@pytest.fixture
def store() -> Iterator[Store]:
    with replay() as running:
        yield running


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "WARNED_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(collect, "limits_of_stores", lambda: Limits(pause_seconds=0.01))
