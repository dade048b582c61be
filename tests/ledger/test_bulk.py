"""COPY keeps what INSERT would: the values, the constraints, and nothing twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import IntegrityError

from finops.ledger.models import (
    CacheHour,
    Document,
    ReadingBlock,
    Series,
    Source,
    Target,
    TokenHour,
)
from finops.ledger.operations.bulk import copy_lines, copy_new_lines, copy_rows, text_field
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


LINE = ("series_id", "hour", "revision", "tokens", "readings", "restarts", "hidden_resets",
        "opening_tokens", "rate_tokens", "rate_ms", "first_ms", "last_ms", "facts", "carry",
        "posted_at")  # fmt: skip


def _line(series: Series, revision: int, tokens: int, text: str = "") -> bytes:
    facts = text_field(json.dumps({"text": text}, ensure_ascii=False))
    at = HOUR.isoformat()
    head = f"{series.pk}\t{at}\t{revision}\t{tokens}\t1\t0\t0\t0\t0\t1\t1\t2\t".encode()
    return head + facts + f"\t{{}}\t{at}\n".encode()


def test_lines_keep_every_sign_of_a_text(series: Series) -> None:
    text = "tab\t, line\n, return\r, \\N, \\. and ü"
    copy_lines(TokenHour, LINE, [_line(series, 1, 2**60, text)])
    kept = TokenHour.objects.get()
    assert (kept.tokens, kept.facts, kept.usual_ms) == (2**60, {"text": text}, None)
    name = "\t\n\r\\N\\\\ü"
    Document.objects.create(sha256="0" * 64, size_bytes=1, name="n", origin="o", format="f",
                            received_at=HOUR, received_by="Ada")  # fmt: skip
    names = ("series_id", "replica", "hour", "document_id", "part", "first_ms", "last_ms",
             "readings", "payload")  # fmt: skip
    line = f"{series.pk}\t{text_field(name).decode()}\t{HOUR.isoformat()}\t{'0' * 64}\t0\t1\t2\t3"
    copy_lines(ReadingBlock, names, [line.encode() + b"\t\\\\x5c0a00ff\n"])
    block = ReadingBlock.objects.get()
    assert (block.replica, bytes(block.payload)) == (name, b"\\\n\0\xff")


def test_a_line_that_breaks_a_constraint_is_djangos_error(series: Series) -> None:
    with pytest.raises(IntegrityError, match="token_hour_not_negative"), atomic():
        copy_lines(TokenHour, LINE, [_line(series, 1, -1)])
    assert not TokenHour.objects.exists()


def test_rows_that_are_there_stay_and_new_ones_come(series: Series) -> None:
    copy_rows([_hour(series, 1)])
    with atomic():
        lines = [_line(series, 1, 99), _line(series, 2, 7), _line(series, 2, 8)]
        copy_new_lines(TokenHour, LINE, lines)
    assert list(TokenHour.objects.order_by("revision").values_list("tokens", flat=True)) == [5, 7]


def test_no_rows_are_no_work() -> None:
    copy_rows([])
    copy_lines(TokenHour, LINE, [])
    copy_new_lines(TokenHour, LINE, [])
    assert not Document.objects.exists()
