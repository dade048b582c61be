"""Which snapshots are current: newer replaces older, or a person decides (method §3.2).

A decision is a row that is added; the newest one of a snapshot holds. Decisions of one scope
(issuer, billing account, billing period) are made one after the other, under the scope's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from finops.core import signs
from finops.ledger import signals
from finops.ledger.models import Snapshot, SnapshotDecision
from finops.ledger.operations.locks import lock
from finops.ledger.queries.snapshots import NEWEST, with_verdict
from finops.ledger.which import atomic
from finops.trail import operations as trail

WHOLE_ACCOUNT = {"aws-cur", "aws-cur-2"}  # one export holds every issuer of the account
VERDICTS = ("parts", "replacement", "refused")
INSTANT = timedelta(microseconds=1)


def settle(snapshots: Sequence[Snapshot], *, by: str, at: datetime) -> dict[int, str]:
    """Decides on snapshots just delivered, inside the caller's transaction; verdicts by id.

    The first of a scope is current. One whose charge periods overlap a current one's replaces it,
    also when it holds fewer days; one exported before the current one (by the exports' own times,
    where both are known) is superseded itself; one that overlaps none waits for a person. Files of
    an export that adds (Oracle's) count beside the others, and replace only files of their names.
    """
    verdicts = {}
    for snapshot in sorted(snapshots, key=_scope):
        lock("scope", *_scope(snapshot))
        verdicts[snapshot.pk] = _settle_one(snapshot, by, at)
    _leave_behind([one for one in snapshots if verdicts[one.pk] == "current"], by, at)
    return verdicts


def _leave_behind(snapshots: Sequence[Snapshot], by: str, at: datetime) -> None:
    """A report of a whole account replaces its older one of an issuer it no longer names.

    An AWS report first bears one name of the invoicing entity, and another once it is final.
    """
    for new in snapshots:
        if not _is_whole_account(new):
            continue
        others = with_verdict().filter(
            billing_account=new.billing_account,
            billing_period=new.billing_period,
            verdict="current",
        )
        for other in others.exclude(delivery=new.delivery_id):
            if other.pk < new.pk and overlap(other, new) and _is_whole_account(other):
                _say(other, "superseded", by, at, f"replaced by snapshot {new.pk} of the account")


def _is_whole_account(snapshot: Snapshot) -> bool:
    formats = snapshot.parts.values_list("document__format", flat=True)
    return set(formats) <= WHOLE_ACCOUNT


def _scope(snapshot: Snapshot) -> tuple[str, str, str]:
    return (snapshot.issuer, snapshot.billing_account, snapshot.billing_period)


def _others(snapshot: Snapshot, *verdicts: str) -> list[Snapshot]:
    """The scope's other snapshots that stand so now."""
    issuer, account, month = _scope(snapshot)
    scope = with_verdict().filter(issuer=issuer, billing_account=account, billing_period=month)
    return list(scope.exclude(pk=snapshot.pk).filter(verdict__in=verdicts).order_by("pk"))


def _settle_one(snapshot: Snapshot, by: str, at: datetime) -> str:
    current = _others(snapshot, "current")
    if current and all(_adds(one) for one in (snapshot, *current)):
        return _settle_added(snapshot, current, by, at)
    replaced = [one for one in current if overlap(one, snapshot)]
    if any(_is_exported_later(one, snapshot) for one in replaced):
        return _say(snapshot, "superseded", by, at, "exported before the current snapshot")
    if current and not replaced:
        reason = "its charge periods do not overlap the current snapshot's: more parts, or a replacement?"
        return _say(snapshot, "waiting", by, at, reason)
    _replace(snapshot, replaced, by, at)
    return _say(snapshot, "current", by, at, NEWEST if replaced else "first of its scope")


def _adds(snapshot: Snapshot) -> bool:
    """Whether each of its files holds lines that no other file of the export holds."""
    accounts = list(snapshot.parts.values_list("document__account", flat=True))
    return bool(accounts) and all(account.get("adds_to_others", False) for account in accounts)


def _settle_added(snapshot: Snapshot, current: Sequence[Snapshot], by: str, at: datetime) -> str:
    mine = _file_names(snapshot)
    again = [one for one in current if _file_names(one) & mine]
    if any(_file_names(one) - mine for one in again):
        reason = "some of its files are there already, with others: more parts, or a replacement?"
        return _say(snapshot, "waiting", by, at, reason)
    for other in again:
        _say(other, "superseded", by, at, f"replaced by snapshot {snapshot.pk}")
    return _say(snapshot, "current", by, at, "its export adds: its files hold lines of their own")


def _file_names(snapshot: Snapshot) -> set[str]:
    names = snapshot.parts.values_list("document__name", flat=True)
    return {name.lower().removesuffix(".gz") for name in names}


def _replace(snapshot: Snapshot, replaced: Sequence[Snapshot], by: str, at: datetime) -> None:
    """The replaced ones, and older ones still waiting that the new one covers, are superseded.

    Numbers are given before the scope's lock is held, so a replaced one may have a higher number.
    """
    waiting = [one for one in _others(snapshot, "waiting") if overlap(one, snapshot)]
    for other in [*replaced, *(one for one in waiting if one.pk < snapshot.pk)]:
        _say(other, "superseded", by, at, f"replaced by snapshot {snapshot.pk}")


def overlap(one: Snapshot, other: Snapshot) -> bool:
    """Whether the charge periods of two snapshots share an instant."""
    one_end = max(one.charge_end, one.charge_start + INSTANT)
    other_end = max(other.charge_end, other.charge_start + INSTANT)
    return one.charge_start < other_end and other.charge_start < one_end


def _is_exported_later(one: Snapshot, other: Snapshot) -> bool:
    known = one.exported_at is not None and other.exported_at is not None
    return known and one.exported_at > other.exported_at  # type: ignore[operator]


def _say(snapshot: Snapshot, verdict: str, by: str, at: datetime, reason: str) -> str:
    SnapshotDecision.objects.create(snapshot=snapshot, verdict=verdict, at=at, by=by, reason=reason)
    return verdict


def decide(
    snapshot_id: int, verdict: str, by: str, reason: str, *, at: datetime | None = None
) -> list[str]:
    """A person's word on a waiting snapshot: `parts`, `replacement` or `refused` (method §3.2).

    `parts`: it counts beside the current ones. `replacement`: it replaces all of them; a superseded
    snapshot is taken back so too. `refused`: it never counts. Gives what went wrong after the word
    was kept, a sentence each. ValueError when there is no such snapshot, it does not wait, or the
    word would count the same time twice.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"{verdict!r} is no verdict; there are {', '.join(VERDICTS)}")
    if refused := signs.refusal(reason):
        raise ValueError(refused)
    with atomic():
        snapshot = Snapshot.objects.filter(pk=snapshot_id).first()
        if snapshot is None:
            raise ValueError(f"there is no snapshot {snapshot_id}")
        lock("scope", *_scope(snapshot))
        _check_waiting(snapshot, verdict)
        moment = at or timezone.now()
        _carry_out(snapshot, verdict, by, moment, reason)
        trail.record(
            at=moment,
            actor=by,
            action="snapshot.decide",
            subject=f"snapshot {snapshot_id}",
            detail={"verdict": verdict, "reason": reason, "scope": list(_scope(snapshot))},
        )
    return signals.tell_of_arrival(moment)


def _check_waiting(snapshot: Snapshot, verdict: str) -> None:
    stands = with_verdict().values_list("verdict", flat=True).get(pk=snapshot.pk)
    is_taken_back = stands == "superseded" and verdict == "replacement"
    if stands != "waiting" and not is_taken_back:
        raise ValueError(f"snapshot {snapshot.pk} does not wait for a decision: it is {stands}")


def _carry_out(snapshot: Snapshot, verdict: str, by: str, at: datetime, reason: str) -> None:
    current = _others(snapshot, "current")
    if verdict == "refused":
        _say(snapshot, "refused", by, at, reason)
        return
    if verdict == "parts":
        twice = [one.pk for one in current if overlap(one, snapshot)]
        if twice:
            raise ValueError(
                f"snapshot {snapshot.pk} overlaps the current snapshot {twice[0]}: as more parts "
                "the same time would count twice; say replacement, or refuse it"
            )
    else:
        for older in current:
            _say(older, "superseded", by, at, f"replaced by snapshot {snapshot.pk}: {reason}")
    _say(snapshot, "current", by, at, reason)
