"""Recomputing what was sealed: bytes, digests, chain, copies, evidence and the trail's anchor (§11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from finops.core.canonical import canonical_bytes
from finops.core.canonical import digest as digest_of
from finops.core.period import rfc3339
from finops.core.slo import MEASURES
from finops.ledger.operations import documents
from finops.trail.models import Entry
from reports.level_columns import listed
from reports.models import Report, ReportEvent, Seal

from .standing import FIRST_PREVIOUS_DIGEST, SUPERSEDED


def verify_seals() -> list[str]:
    """Recomputes each seal and each report; one sentence for each problem, none when all hold."""
    return [*_seals(), *_reports(), *_events(), *_gone(), *_untold()]


def _seals() -> Iterator[str]:
    previous, expected = FIRST_PREVIOUS_DIGEST, 1
    for seal in Seal.objects.select_related("report").order_by("number").iterator(chunk_size=20):
        name = f"seal {seal.number} ({seal.report})"
        if seal.number != expected:
            yield f"seals {expected} to {seal.number - 1} are missing"
        yield from (f"{name}: {problem}" for problem in _seal(seal, previous))
        previous, expected = seal.digest, seal.number + 1


def _seal(seal: Seal, previous: str) -> Iterator[str]:
    content = bytes(seal.record)
    if digest_of(content) != seal.digest:
        yield f"the bytes do not give the digest {seal.digest}"
    record = _parsed(content)
    if record is None:
        yield "its record is not in canonical form"
        return
    if record.get("previous_digest") != previous or seal.previous_digest != previous:
        yield "does not follow the seal before it"
    said = {
        "number": seal.number,
        "sealed_by": seal.by,
        "sealed_at": rfc3339(seal.at),
        "week": seal.report.week,
        "revision": seal.report.revision,
        "prepared_by": seal.report.prepared_by,
        "prepared_at": rfc3339(seal.report.created_at),
        "reason": seal.report.reason,
        "statement_digest": seal.report.digest,
    }
    for key, value in said.items():
        if record.get(key) != value:
            yield f"its row says {key} {value!r}, its record {record.get(key)!r}"
    if digest_of(canonical_bytes(record.get("statement"))) != record.get("statement_digest"):
        yield "its statement is not the one that was closed"
    yield from _evidence(record)
    yield from _anchor(record)


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(content)
        same = canonical_bytes(record) == content
    except (ValueError, TypeError):
        return None
    return record if same and isinstance(record, dict) else None


def _evidence(record: dict[str, Any]) -> Iterator[str]:
    evidence = record.get("evidence")
    if not evidence or "archive" not in evidence:
        return
    path = documents.stored(evidence["archive"])
    if not path.exists():
        yield f"its evidence {evidence['archive']} is missing from the store"
    elif documents.digest_of(path) != evidence["archive"]:
        yield f"its evidence {evidence['archive']} is not what was sealed"


def _anchor(record: dict[str, Any]) -> Iterator[str]:
    """The head of the trail at sealing must still be the trail's entry of that number."""
    head = record.get("trail")
    if not head:
        return
    number, digest = head.get("entries"), head.get("head")
    if not Entry.objects.filter(number=number, digest=digest).exists():
        yield f"the trail no longer holds the entry {number} that the seal names"


def _reports() -> Iterator[str]:
    for report in Report.objects.order_by("id").iterator(chunk_size=20):
        content = bytes(report.statement)
        if digest_of(content) != report.digest:
            yield f"{report}: the bytes do not give the digest {report.digest}"
        statement = _parsed(content)
        if statement is None:
            yield f"{report}: its statement is not in canonical form"
            continue
        copies = {
            "week": (statement.get("period") or {}).get("week"),
            "method_version": statement.get("method_version"),
            "headline": statement.get("headline"),
            "figures": _copied(statement),
        }
        for name, value in copies.items():
            if getattr(report, name) != value:
                yield f"{report}: the copy of its {name} differs from its statement"


def _copied(statement: dict[str, Any]) -> dict[str, Any]:
    """What closing copied of a statement for lists; those made before service levels stood in the
    trend have none in the copy."""
    trend = statement.get("trend") or [{}]
    if all(name in trend[-1] for name in MEASURES):
        return listed(statement)
    return (statement.get("figures") or {}) | {"currency": statement.get("currency")}


def _gone() -> Iterator[str]:
    """Rows that others still speak of: a seal's report, an act's report, a sealed report's seal."""
    there = Report.objects.values("pk")
    for number in (
        Seal.objects.exclude(report_id__in=there).order_by("number").values_list("number")
    ):
        yield f"seal {number[0]}: its report is gone"
    acts = ReportEvent.objects.exclude(report_id__in=there).order_by("report_id")
    for lost in acts.values_list("report_id", flat=True).distinct():
        yield f"report number {lost} is gone, its acts are there"
    unsealed = Report.objects.filter(events__kind="sealed", seal__isnull=True)
    for report in unsealed.order_by("id").distinct():
        yield f"{report}: it was sealed, and its seal is gone"


def _events() -> Iterator[str]:
    """Acts stand in the trail as well as in their rows, and in the record of a sealed report."""
    for seal in Seal.objects.select_related("report").order_by("number"):
        record = _parsed(bytes(seal.record))
        events = [e for e in seal.report.events.order_by("id") if e.kind != SUPERSEDED]
        found = [[e.kind, e.by, rfc3339(e.at), e.comment] for e in events if e.kind != "sealed"]
        if record is None:
            continue
        said = [
            [e.get(n) for n in ("kind", "by", "at", "comment")] for e in record.get("events", [])
        ]
        if found != said:
            yield f"seal {seal.number} ({seal.report}): its acts are not those of its record"
        if "waivers" in record:
            rows = [
                {"kind": w.kind, "subject": w.subject, "text": w.text, "by": w.by,
                 "at": rfc3339(w.at)}
                for w in seal.report.waivers.order_by("id")
            ]  # fmt: skip
            if rows != record["waivers"]:
                yield f"seal {seal.number} ({seal.report}): its waivers are not those of its record"


def _untold() -> Iterator[str]:
    """Acts on reports that no entry of the trail tells of. Each was written with its entry, so that
    entries cut off the end of the chain, which it cannot show itself, are missed here."""
    kinds = [f"report {kind}" for kind, _ in ReportEvent.KINDS]
    entries = Entry.objects.filter(action__in=kinds)
    told = set(entries.values_list("action", "subject", "detail__revision", "actor", "at"))
    acts = ReportEvent.objects.filter(report__in=Report.objects.all()).order_by("id")
    for act in acts.values_list("kind", "report__week", "report__revision", "by", "at"):
        kind, week, revision, by, at = act
        if (f"report {kind}", f"report {week}", revision, by, at) not in told:
            yield f"{week} revision {revision}: the trail does not tell that it was {kind} by {by}"
