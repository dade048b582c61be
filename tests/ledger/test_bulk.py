"""COPY keeps what INSERT would: the values, the constraints, and nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import IntegrityError

from finops.ledger.models import CacheHour, Document, Series, Source, Target, TokenHour
from finops.ledger.operations.bulk import copy_new_rows, copy_rows
from finops.ledger.which import atomic

HOUR = datetime(2026, 11, 16, 7, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture
def series() -> Series:
    source = Source.objects.create(name="one", kind="files", created_at=HOUR, created_by="Ada")
    target = Target.objects.create(source=source, job="job", instance="10.0.0.1:8000")
    return Series.objects.create(
        target=target, metric="m", role="prompt", labels={}, labels_digest="0" * 64
    )


def _hour(series: Series, revision: int, tokens: int = 5) -> TokenHour:
    return TokenHour(
        series=series,
        hour=HOUR,
        revision=revision,
        tokens=tokens,
        readings=1,
        first_ms=1,
        last_ms=2**60,
        facts={"births": [[1, 2]], "text": "tab\t, line\n, \\N and ü"},
        posted_at=HOUR,
    )


def test_values_come_back_as_they_went(series: Series) -> None:
    copy_rows([_hour(series, 1), _hour(series, 2, 2**60)])
    kept = TokenHour.objects.get(revision=2)
    assert (kept.tokens, kept.last_ms, kept.usual_ms) == (2**60, 2**60, None)
    assert kept.facts == {"births": [[1, 2]], "text": "tab\t, line\n, \\N and ü"}
    assert (kept.hour, kept.carry) == (HOUR, {})


def test_exact_decimals_stay_exact(series: Series) -> None:
    amount = Decimal("12345678901234567890123456789.0123456789")
    row = CacheHour(
        series=series, hour=HOUR, revision=1, observed_ms=1, active_block_ms=amount, posted_at=HOUR
    )
    copy_rows([row])
    assert CacheHour.objects.get().active_block_ms == amount


def test_a_broken_constraint_is_djangos_error(series: Series) -> None:
    with pytest.raises(IntegrityError, match="token_hour_not_negative"), atomic():
        copy_rows([_hour(series, 1, -1)])
    assert not TokenHour.objects.exists()


def test_rows_that_are_there_stay_and_new_ones_come(series: Series) -> None:
    copy_rows([_hour(series, 1)])
    with atomic():
        copy_new_rows([_hour(series, 1, 99), _hour(series, 2, 7), _hour(series, 2, 8)])
    assert list(TokenHour.objects.order_by("revision").values_list("tokens", flat=True)) == [5, 7]


def test_no_rows_are_no_work() -> None:
    copy_rows([])
    copy_new_rows([])
    assert not Document.objects.exists()
