"""The chain of digests shows what was changed, taken out or slipped in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connection

from finops.trail.models import Entry
from finops.trail.operations import record, verify
from finops.trail.queries import entries, head
from tests.ledger.doors import command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


@contextmanager
def triggers_off() -> Iterator[None]:
    """What someone with the keys to the database could do."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = origin")


def three() -> list[Entry]:
    return [
        record(at=NOW, actor=name, action="test", subject="x", detail={"n": n, "t": "é"})
        for n, name in enumerate(["Ada", "Ben", "Cy"])
    ]


def test_a_whole_chain_has_no_problems() -> None:
    first, _, last = three()
    assert verify() == []
    assert head() == (3, last.digest)
    assert [one.actor for one in entries()] == ["Cy", "Ben", "Ada"]
    assert [one.actor for one in entries(actor="Ben")] == ["Ben"]
    assert [one.number for one in entries(before=3, limit=1)] == [2]
    assert first.previous_digest == "0" * 64


def test_anyone_can_recompute_a_digest_from_the_published_form() -> None:
    _, second, _ = three()
    content = {
        "number": 2,
        "at": "2026-11-29T12:00:00.123456+00:00",
        "actor": "Ben",
        "action": "test",
        "subject": "x",
        "detail": {"n": 1, "t": "é"},
        "previous": Entry.objects.get(number=1).digest,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert second.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"actor": "Mallory"}, "entry 2 was changed"),
        ({"detail": {"n": 2, "t": "é"}}, "entry 2 was changed"),
        ({"previous_digest": "0" * 64}, "entry 2 does not follow"),
    ],
)
def test_a_changed_entry_is_found(change: dict[str, object], problem: str) -> None:
    three()
    with triggers_off():
        Entry.objects.filter(number=2).update(**change)
    assert any(problem in one for one in verify())


def test_an_entry_taken_out_is_found() -> None:
    three()
    with triggers_off():
        Entry.objects.filter(number=2).delete()
    problems = verify()
    assert problems[0] == "trail entries 2 to 2 are missing"
    answer = command("trail", "--verify", "--sample")
    assert answer["ok"] is True
    assert command("ingest", "--sample", __file__)["ok"] is False


@pytest.mark.parametrize("detail", [{"a": 0.1}, {"a": "\0"}, {"a": [{"b": b""}]}, {"a": "\ud800"}])
def test_what_cannot_be_kept_exactly_is_refused(detail: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the trail keeps no"):
        record(at=NOW, actor="Ada", action="test", subject="x", detail=detail)
    assert not Entry.objects.exists()
