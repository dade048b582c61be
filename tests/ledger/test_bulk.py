"""COPY keeps what INSERT would: the values, the constraints, and nothing twice."""

from __future__ import annotations

import json
from array import array
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
from finops.ledger.operations import copying as beside
from finops.ledger.operations.blocks import Blocks
from finops.ledger.operations.bulk import copy_lines, copy_new_lines, copy_rows, text_field
from finops.ledger.operations.copying import Copying
from finops.ledger.operations.naming import Known
from finops.ledger.which import atomic
from finops.sources.samples import unpack

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


def _blocks(series: Series, replicas: list[str]) -> Blocks:
    blocks = Blocks("0" * 64)
    first_ms = round(HOUR.timestamp() * 1000)
    times = array("q", [first_ms + 1, first_ms + 3_599_999])
    known = Known(series.pk, series.target_id, series.metric, series.labels_digest, series.role)
    for replica in replicas:
        blocks.add(known, replica, times, array("d", [7.0, 2.0**53]))
    return blocks


def test_blocks_keep_every_sign_of_a_replica_and_come_once(series: Series) -> None:
    name = "\t\n\r\\N\\\\ü"
    Document.objects.create(sha256="0" * 64, size_bytes=1, name="n", origin="o", format="f",
                            received_at=HOUR, received_by="Ada")  # fmt: skip
    with atomic():
        _blocks(series, [name, ""]).flush()
        _blocks(series, [name, "b"]).flush()
    with atomic(), Copying():
        _blocks(series, [name, "", "c"]).flush()
    blocks = ReadingBlock.objects.order_by("pk")
    assert [block.replica for block in blocks] == [name, "", "b", "c"]
    assert {block.hour for block in blocks} == {HOUR}
    first_ms = round(HOUR.timestamp() * 1000)
    for block in blocks:
        assert (block.first_ms, block.last_ms) == (first_ms + 1, first_ms + 3_599_999)
        assert (block.readings, block.part, block.document_id) == (2, 0, "0" * 64)
        times, values = unpack(bytes(block.payload))
        assert (list(times), list(values)) == ([first_ms + 1, first_ms + 3_599_999], [7.0, 2.0**53])


def test_a_row_that_names_no_series_is_refused_when_it_comes(series: Series) -> None:
    """Not only at the end of the transaction, when everyone would wait for it."""
    nobody = Series(pk=series.pk + 1, target=series.target)
    with pytest.raises(IntegrityError, match="ledger_series"), atomic(), Copying():
        beside.copy_lines(TokenHour, LINE, [_line(nobody, 1, 5)])
        Source.objects.exists()
        pytest.fail("the row was taken")


def test_no_rows_are_no_work() -> None:
    copy_rows([])
    copy_lines(TokenHour, LINE, [])
    copy_new_lines(TokenHour, LINE, [])
    assert not Document.objects.exists()


def test_rows_come_beside_the_work_and_stand_there_for_whoever_asks(series: Series) -> None:
    lines = [_line(series, revision, 2**60, "tab\t ü") for revision in range(1, 1200)]
    with atomic(), Copying():
        for start in range(0, len(lines), 100):
            beside.copy_lines(TokenHour, LINE, lines[start : start + 100])
            assert TokenHour.objects.count() == min(start + 100, len(lines))
        beside.copy_lines(TokenHour, LINE, [_line(series, 1200, 7)])
    assert TokenHour.objects.count() == 1200


def test_rows_that_stand_there_already_are_left_alone_beside_the_work_too(series: Series) -> None:
    copy_rows([_hour(series, 2)])
    with atomic(), Copying():
        beside.copy_new_lines(TokenHour, LINE, [_line(series, n, 70 + n) for n in (1, 2, 3)])
        beside.copy_new_lines(TokenHour, LINE, [_line(series, 4, 74)])
        beside.copy_new_lines(TokenHour, LINE, [])
    kept = TokenHour.objects.order_by("revision").values_list("revision", "tokens")
    assert list(kept) == [(1, 71), (2, 5), (3, 73), (4, 74)]


def test_a_constraint_broken_beside_the_work_gives_the_transaction_up(series: Series) -> None:
    with pytest.raises(IntegrityError, match="token_hour_not_negative"), atomic(), Copying():
        copy_rows([_hour(series, 1)])
        beside.copy_lines(TokenHour, LINE, [_line(series, 2, -1)])
    assert not TokenHour.objects.exists()


def test_what_fails_in_the_work_is_said_and_not_what_it_broke_beside(series: Series) -> None:
    with pytest.raises(ZeroDivisionError), atomic(), Copying():
        beside.copy_lines(TokenHour, LINE, [_line(series, 2, -1)])
        raise ZeroDivisionError
    beside.copy_lines(TokenHour, LINE, [_line(series, 1, 3)])
    assert TokenHour.objects.get().tokens == 3


def test_rows_that_wait_for_others_are_refused_with_them(series: Series) -> None:
    """The first of several copies fails: none of them is there, and the connection is free."""
    with atomic():
        with pytest.raises(IntegrityError, match="not_negative"), atomic(), Copying(at_once=3):
            beside.copy_lines(TokenHour, LINE, [_line(series, 1, -1)] * 500)
            for revision in (2, 3):
                beside.copy_lines(TokenHour, LINE, [_line(series, revision, 5)])
        assert not TokenHour.objects.exists()
    copy_lines(TokenHour, LINE, [_line(series, 1, 3)])
    assert TokenHour.objects.get().tokens == 3


def test_more_copies_than_may_wait_are_all_there(series: Series) -> None:
    with atomic(), Copying(at_once=2):
        for revision in range(1, 8):
            beside.copy_lines(TokenHour, LINE, [_line(series, revision, revision)])
        assert TokenHour.objects.count() == 7
    assert set(TokenHour.objects.values_list("tokens", flat=True)) == set(range(1, 8))
