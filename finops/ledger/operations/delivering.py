"""Posting the charges of one delivery: its documents together, sets whole or not (method §3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from finops.ledger.models import Document
from finops.ledger.operations import (
    charges,
    discounts,
    pairing,
    parsing,
    parts,
    rate_cards,
    reach,
    sets,
)
from finops.ledger.operations.candidates import Candidate, Outcome, note, of_broken
from finops.ledger.operations.pricing import Pricer
from finops.ledger.which import atomic
from finops.sources.records import Account, ChargeRecord, Parsed, Refused

Progress = Callable[[str], None]


def post_charges(
    candidates: Sequence[Candidate],
    held: Sequence[sets.Held],
    *,
    by: str,
    at: datetime,
    tell: Progress,
) -> dict[str, Outcome]:
    """The delivery's charges, and documents without any record, in one transaction.

    A set of a manifest of which one part is refused is refused whole, and the others posted anew.
    """
    mine = [one for one in candidates if one.kind in (ChargeRecord, None)]
    outcomes: dict[str, Outcome] = {}
    while mine:
        said = {one.kept.sha256: (one.kept.name, one.said) for one in mine}
        again = list(sets.parts_held({sets.set_of(one.kept, one.said) for one in mine}, held))
        try:
            with atomic():
                posted = _post_delivery(mine, again, by=by, at=at, tell=tell)
                sets.check_whole(posted, said)
            return outcomes | posted
        except sets.Broken as broken:
            lost = [one for one in mine if one.said.manifest in broken.reasons]
            outcomes |= {
                one.kept.sha256: posted[one.kept.sha256]
                if isinstance(posted[one.kept.sha256], Refused)
                else of_broken(one, broken.reasons[one.said.manifest])
                for one in lost
            }
            mine = [one for one in mine if one not in lost]
        except Refused as refused:  # a document to be read again could not be: nothing is kept
            return outcomes | {one.kept.sha256: refused for one in mine}
    return outcomes


def _post_delivery(
    mine: Sequence[Candidate],
    held: Sequence[sets.Held],
    *,
    by: str,
    at: datetime,
    tell: Progress,
) -> dict[str, Outcome]:
    given = [(one.kept, one.format) for one in mine] + [(one.kept, one.format) for one in held]
    of_two_views = {
        kept.sha256: (kept, format) for kept, format in given if pairing.is_of_two_views(format)
    }
    plan = pairing.plan(of_two_views) if of_two_views else pairing.Plan()
    taken = [one for one in mine if one.kept.sha256 not in plan.refused]
    formats = discounts.net_formats({one.kept.sha256: (one.kept, one.format) for one in taken})
    formats |= plan.formats
    under, known_cards = reach.Reach(), rate_cards.cards()
    read_as = {one.kept.sha256: formats.get(one.kept.sha256, one.format) for one in taken}

    def offered(readers: parts.Readers) -> Iterator[charges.Offered]:
        for one in taken:
            tell(f"posting {one.kept.name}")
            yield _offer(one, read_as[one.kept.sha256], under, readers)
        yield from (one.offered(under) for one in held)
        again = {one.kept.sha256 for one in held}
        yield from (one for one in plan.again if one.kept.sha256 not in again)

    given = [(one.kept, read_as[one.kept.sha256]) for one in taken]
    with parts.Readers(given, under.rules, known_cards, plan.paired) as readers:
        outcomes = charges.post_charges(
            offered(readers),
            by=by,
            at=at,
            origin=charges.storable(", ".join(one.kept.origin for one in mine[:20])),
            digests=[one.kept.sha256 for one in taken],
            paired=plan.paired,
            reach=under,
            price=Pricer(known_cards),
        )
    for outcome in outcomes.values():
        if isinstance(outcome, Document):
            note(outcome, by=by, at=at)
    digests = {one.kept.sha256 for one in mine}
    return outcomes | {sha256: one for sha256, one in plan.refused.items() if sha256 in digests}


def _offer(
    one: Candidate, format: str, under: reach.Reach, readers: parts.Readers
) -> charges.Offered:
    """A new document and how it is read: by a worker, in bulk, or line by line."""
    spooled = readers.of(one.kept.sha256)
    if spooled is not None:
        parsed = Parsed(Account(format), iter(()))
    elif reach.keeps_sums(one.kept):
        parsed = reach.parse(one.kept, format, under)
    else:
        parsed = parsing.parse(one.kept, format)
    return charges.Offered(
        one.kept,
        parsed.account.format,
        parsed,
        rows=one.said.rows,
        exported_at=one.said.exported_at,
        spooled=spooled,
    )
