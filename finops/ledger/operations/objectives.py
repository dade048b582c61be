"""Setting a workload's service level objective (method §5): dated, append-only, in the trail."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from finops.core.money import parse_decimal, plain
from finops.core.period import hour_of, rfc3339
from finops.core.slo import FIRST_TOKEN, INTER_TOKEN, KEPT_SECONDS
from finops.ledger.models import ServiceObjective
from finops.ledger.which import atomic
from finops.trail.operations import record

from .workloads import LONGEST_TEXT, NotAccepted, workload_named

WORDS = {FIRST_TOKEN: "time to the first token", INTER_TOKEN: "time between tokens"}
FIRST_YEAR, LAST_YEAR = 2000, 2200


def set_objective(
    slug: str,
    *,
    first_token_seconds: str | None,
    inter_token_seconds: str | None,
    target: str,
    by: str,
    at: datetime,
    valid_from: datetime | None = None,
    note: str = "",
) -> ServiceObjective:
    """A new objective of a workload, from a whole hour on; without one from the workload's start.

    Thresholds are seconds, `target` a share above 0 and at most 1. NotAccepted says what is wrong:
    a threshold outside the buckets that are kept could not be judged.
    """
    workload = workload_named(slug)
    if workload.purpose != "inference":
        raise NotAccepted(f"{slug} is for training: only inference has a service level objective")
    thresholds = {
        FIRST_TOKEN: _seconds(FIRST_TOKEN, first_token_seconds),
        INTER_TOKEN: _seconds(INTER_TOKEN, inter_token_seconds),
    }
    if not any(thresholds.values()):
        raise NotAccepted("an objective needs a threshold: for the first token, between tokens")
    share = _share(target)
    since = _since(valid_from)
    note = note.strip()
    if len(note) > LONGEST_TEXT or not note.isprintable():
        raise NotAccepted(f"a note is printable text of at most {LONGEST_TEXT} characters")
    with atomic():
        row = ServiceObjective.objects.create(
            workload=workload,
            first_token_seconds=thresholds[FIRST_TOKEN],
            inter_token_seconds=thresholds[INTER_TOKEN],
            target=share,
            valid_from=since,
            note=note,
            at=at,
            by=by,
        )
        told = {f"{name}_seconds": plain(value) for name, value in thresholds.items() if value}
        record(at=at, actor=by, action="service level objective set", subject=f"workload {slug}",
               detail={**told, "target": plain(share), "from": rfc3339(since)})  # fmt: skip
    return row


def _seconds(measure: str, text: str | None) -> Decimal | None:
    if text is None or not text.strip():
        return None
    value = _number(text, WORDS[measure])
    low, high = KEPT_SECONDS[measure]
    if not low <= value <= high:
        raise NotAccepted(
            f"the {WORDS[measure]} is {plain(low)} to {plain(high)} seconds, not {text.strip()[:40]}: "
            "the engines' buckets are kept in that range"
        )
    return value


def _share(text: str) -> Decimal:
    value = _number(text, "target")
    if not 0 < value <= 1:
        raise NotAccepted(
            f"the target is a share above 0 and at most 1, like 0.99, not {text.strip()[:40]}"
        )
    return value


def _number(text: str, what: str) -> Decimal:
    try:
        value = parse_decimal(text)
    except ValueError as error:
        raise NotAccepted(f"the {what} is {error}") from None
    if len(value.as_tuple().digits) > 12:
        raise NotAccepted(f"the {what} has too many digits: {text.strip()[:40]}")
    return value


def _since(valid_from: datetime | None) -> datetime:
    """Without a date an objective holds for all hours that were ever read."""
    if valid_from is None:
        return datetime.fromisoformat(f"{FIRST_YEAR}-01-01T00:00:00+00:00")
    if valid_from != hour_of(valid_from) or not FIRST_YEAR <= valid_from.year <= LAST_YEAR:
        raise NotAccepted(
            f"an objective begins at a whole UTC hour of the years {FIRST_YEAR} to {LAST_YEAR}, "
            f"not at {rfc3339(valid_from)}"
        )
    return valid_from
