"""Adding, replacing and retiring allocation rules; each version is a row that stays (method §4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max

from finops.core.allocation import (
    OUT_OF_SCOPE,
    SHARED,
    WORKLOAD,
    Place,
    Rule,
    charge_matchers,
)
from finops.core.matching import Matcher, parse_matchers
from finops.ledger.models import Rule as RuleRow
from finops.ledger.queries.allocation import shared_keys
from finops.ledger.which import atomic
from finops.trail.operations import record

from .locks import lock
from .workloads import NotAccepted, shared_key_named, workload_named

DEFAULT_ORDER = 100
MOST_ORDER = 1_000_000
FIRST_YEAR, LAST_YEAR = 2000, 2200  # leave an end out for a rule that holds for good


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule as a person wrote it: checked, not yet kept."""

    subject: str
    place: Place
    matchers: tuple[Matcher, ...]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    order: int = DEFAULT_ORDER

    def numbered(self, number: int, version: int) -> Rule:
        """The rule it would become."""
        return Rule(number, version, self.order, self.subject, self.place, self.matchers,
                    self.valid_from, self.valid_to)  # fmt: skip


def draft(
    target: str,
    *,
    series: str | None = None,
    charge: str | None = None,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
    order: int = DEFAULT_ORDER,
) -> Draft:
    """A checked draft for a workload's slug, `shared:KEY` or `out-of-scope`.

    Give either `series` (labels) or `charge` (columns). NotAccepted says what is wrong.
    """
    if (series is None) == (charge is None):
        raise NotAccepted("say either which series or which charges the rule is for")
    subject = "series" if charge is None else "charge"
    place = _place(target)
    if subject == "series" and place.kind == SHARED:
        raise NotAccepted("only charges are shared; tokens belong to one workload")
    if valid_from and valid_to and valid_to <= valid_from:
        raise NotAccepted("the rule must end after it begins")
    for moment in (valid_from, valid_to):
        if moment and not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise NotAccepted(f"a rule begins and ends in the years {FIRST_YEAR} to {LAST_YEAR}")
    if not 0 <= order <= MOST_ORDER:
        raise NotAccepted(f"the order is a whole number from 0 to {MOST_ORDER}")
    try:
        matchers = parse_matchers((series if charge is None else charge) or "")
        if subject == "charge":
            matchers = charge_matchers(matchers)
    except ValueError as error:
        raise NotAccepted(str(error)) from None
    return Draft(subject, place, matchers, valid_from, valid_to, order)


def _place(target: str) -> Place:
    if target == "out-of-scope":
        return Place(OUT_OF_SCOPE)
    if target.startswith("shared:"):
        name = target.removeprefix("shared:")
        if name not in shared_keys():
            known = ", ".join(sorted(shared_keys()))
            raise NotAccepted(f"there is no shared key {name[:80]!r}; there are: {known}")
        return Place(SHARED, name)
    return Place(WORKLOAD, workload_named(target).slug)


def add_rule(new: Draft, *, by: str, at: datetime, number: int | None = None) -> RuleRow:
    """Keeps a draft as a new rule, or as the next version of the rule `number`."""
    with atomic():
        lock("rules")
        number, version = _next(number, new.subject)
        row = _row(new, number, version, by=by, at=at)
        row.save(force_insert=True)
        record(at=at, actor=by, action="rule added" if version == 1 else "rule changed",
               subject=f"rule {number}", detail=_detail(row, new.place))  # fmt: skip
    return row


def retire_rule(number: int, *, by: str, at: datetime) -> RuleRow:
    """Takes a rule out of force by a version that says so. NotAccepted for an unknown one."""
    with atomic():
        lock("rules")
        last = RuleRow.objects.filter(number=number).order_by("-version").first()
        if last is None or last.retired:
            raise NotAccepted(f"there is no rule {number} in force")
        last.pk, last._state.adding = None, True
        last.version, last.retired, last.at, last.by = last.version + 1, True, at, by
        last.save(force_insert=True)
        record(at=at, actor=by, action="rule retired", subject=f"rule {number}",
               detail={"version": last.version})  # fmt: skip
    return last


def next_number() -> int:
    """The number a new rule would get."""
    last = RuleRow.objects.aggregate(last=Max("number"))["last"]
    return (last or 0) + 1


def _next(number: int | None, subject: str) -> tuple[int, int]:
    if number is None:
        return next_number(), 1
    last = RuleRow.objects.filter(number=number).order_by("-version").first()
    if last is None:
        raise NotAccepted(f"there is no rule {number}")
    if last.subject != subject:
        raise NotAccepted(f"rule {number} is for {last.subject}; add another for {subject}")
    return number, last.version + 1


def _row(new: Draft, number: int, version: int, *, by: str, at: datetime) -> RuleRow:
    target = new.place.target or ""
    return RuleRow(
        number=number,
        version=version,
        order=new.order,
        subject=new.subject,
        place="out-of-scope" if new.place.kind == OUT_OF_SCOPE else new.place.kind,
        workload=workload_named(target) if new.place.kind == WORKLOAD else None,
        shared_key=shared_key_named(target, by=by, at=at) if new.place.kind == SHARED else None,
        matchers=[[m.name, m.op, m.value] for m in new.matchers],
        valid_from=new.valid_from,
        valid_to=new.valid_to,
        at=at,
        by=by,
    )


def _detail(row: RuleRow, place: Place) -> dict[str, Any]:
    return {
        "version": row.version,
        "order": row.order,
        "subject": row.subject,
        "place": str(place),
        "matchers": row.matchers,
        "valid_from": row.valid_from.isoformat() if row.valid_from else None,
        "valid_to": row.valid_to.isoformat() if row.valid_to else None,
    }
