"""Printing a report for people: the bytes, their signature, and both digests in the trail (§11)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from finops.trail.models import Entry
from finops.trail.operations import record as trail
from reports import paper
from reports.queries.standing import Standing

from . import signing


@dataclass(frozen=True, slots=True)
class Print:
    """A report on paper: as printed, and with its signature where it is sealed."""

    unsigned: bytes
    signed: bytes | None


def print_report(stand: Standing, *, size: str, by: str, at: datetime, sign: bool) -> Print:
    """Prints a report. A sealed one is signed when asked, and its digests go into the trail.

    Raises signing.NoKey, and ValueError for a paper size there is not.
    """
    unsigned = paper.pdf(stand, size=size)
    if stand.seal is None:
        return Print(unsigned, None)
    reason = f"Report {stand.number}, seal SHA-256 {stand.digest}"
    signed = signing.sign(unsigned, reason=reason) if sign else None
    detail = {
        "seal": stand.digest,
        "revision": stand.revision,
        "size": size,
        "unsigned_sha256": hashlib.sha256(unsigned).hexdigest(),
        "signed_sha256": hashlib.sha256(signed).hexdigest() if signed else None,
    }
    known = Entry.objects.filter(action=signing.PRINTED, detail=detail).exists()
    if not known:
        subject = f"report {stand.week}"
        trail(at=at, actor=by, action=signing.PRINTED, subject=subject, detail=detail)
    return Print(unsigned, signed)
