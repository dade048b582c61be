"""GPUs that a pod asked for, by the hour: requested GPUs × observed time (method §4).

A reading holds until the next, over gaps no longer than one usual interval. Whole numbers: GPUs ×
milliseconds; nothing is assumed of time that no reading saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cache import held_spans
from .period import HOUR_MS


@dataclass(slots=True)
class HeldHour:
    """One gauge in one hour: its value × milliseconds, and the milliseconds observed."""

    hour_ms: int
    gpu_ms: int = 0
    observed_ms: int = 0


def held_hours(times_ms: Sequence[int], values: Sequence[int]) -> list[HeldHour]:
    """The hours of one gauge, in time order, from readings in time order."""
    rows: dict[int, HeldHour] = {}
    for value, (start, end) in zip(values, held_spans(times_ms), strict=True):
        while start < end:
            hour_ms = start // HOUR_MS * HOUR_MS
            until = min(end, hour_ms + HOUR_MS)
            row = rows.setdefault(hour_ms, HeldHour(hour_ms))
            row.gpu_ms += value * (until - start)
            row.observed_ms += until - start
            start = until
    return [rows[hour] for hour in sorted(rows)]


def resource_keys(provider_id: str) -> tuple[str, ...]:
    """The resource names on an invoice that a node's provider id may stand for, lower case.

    `aws:///us-east-1a/i-0abc` is charged as `i-0abc` (or an ARN that ends so), `gce://p/z/name` as
    its name; a virtual machine of an Azure scale set is charged as the scale set, and so is known
    by both (facts: invoices name the set, not the machine).
    """
    pieces = [piece for piece in provider_id.casefold().split("/") if piece]
    if not pieces:
        return ()
    if "virtualmachinescalesets" in pieces:
        at = pieces.index("virtualmachinescalesets")
        return tuple(pieces[at + 1 : at + 2])
    return (pieces[-1],)


def charged_key(resource: str | None) -> str | None:
    """The last piece of an invoice's resource id, lower case; what a node's provider id ends with."""
    text = (resource or "").casefold().rstrip("/")
    piece = text.rsplit("/", 1)[-1]
    if text.startswith("arn:"):
        piece = piece.rsplit(":", 1)[-1]
    return piece or None
