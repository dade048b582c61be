"""Writing the trail: each act is one entry whose digest includes the previous entry's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.db import connections, router, transaction

from finops.trail.models import Entry

FIRST_PREVIOUS_DIGEST = "0" * 64
LOCK = 0x7261696C  # any number no other advisory lock of the ledger uses


def record(*, at: datetime, actor: str, action: str, subject: str, detail: dict[str, Any]) -> Entry:
    """Adds an entry to the chain of the ledger in use and returns it.

    Entries are written one after the other: the lock is held until the transaction ends, and an
    act whose transaction fails leaves no entry. `detail` holds text, whole numbers, booleans,
    None, lists and dictionaries; ValueError for anything else, a binary float above all.
    """
    _check_plain(detail, "detail")
    database = router.db_for_write(Entry)
    with transaction.atomic(using=database):
        with connections[database].cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        last = Entry.objects.order_by("-number").first()
        entry = Entry(
            number=last.number + 1 if last else 1,
            at=at.astimezone(UTC),
            actor=actor,
            action=action,
            subject=subject,
            detail=detail,
            previous_digest=last.digest if last else FIRST_PREVIOUS_DIGEST,
        )
        entry.digest = digest_of(entry)
        entry.save(force_insert=True)
    return entry


def digest_of(entry: Entry) -> str:
    """The SHA-256 of an entry: of all its fields and the previous digest, as canonical JSON."""
    content = {
        "number": entry.number,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "detail": entry.detail,
        "previous": entry.previous_digest,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def verify() -> list[str]:
    """Recomputes the chain of the ledger in use; one sentence for each problem, none when whole.

    A chain cannot show that its newest entries were cut off: compare `queries.head()` with a head
    written down elsewhere, such as a seal's.
    """
    return list(_problems())


def _problems() -> Iterator[str]:
    previous = FIRST_PREVIOUS_DIGEST
    expected = 1
    for entry in Entry.objects.order_by("number").iterator(chunk_size=1000):
        if entry.number != expected:
            yield f"trail entries {expected} to {entry.number - 1} are missing"
        if entry.previous_digest != previous:
            yield f"trail entry {entry.number} does not follow the digest of the entry before it"
        if digest_of(entry) != entry.digest:
            yield f"trail entry {entry.number} was changed after it was written"
        previous, expected = entry.digest, entry.number + 1


def _check_plain(value: Any, place: str) -> None:
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_plain(inner, f"{place}[{index}]")
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for key, inner in value.items():
            _check_text(key, place)
            _check_plain(inner, f"{place}.{key}")
    else:
        raise ValueError(f"the trail keeps no {type(value).__name__} ({place})")


def _check_text(text: str, place: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"the trail keeps no NUL and no half characters ({place})")
