"""The first questions an auditor asks of a saving, answered from the sealed statement (method §6).

Are both sides counted alike, who stands for the baseline, and what if it were wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reports import figures

BASES = {
    "processed": "processed tokens, all that the engines worked on",
    "delivered": "delivered tokens, those of requests that finished",
}


def questions(row: Mapping[str, Any], zone: str = "UTC") -> list[tuple[str, str]]:
    """Question and answer, in the order in which they are asked; none where there is no saving."""
    if row.get("saving") is None:
        return []
    return [
        ("Are both sides counted alike?", _alike(row, zone)),
        ("Who stands for the baseline?", _people(row, zone)),
        ("What if the baseline were wrong?", _wrong(row)),
    ]


def _alike(row: Mapping[str, Any], zone: str) -> str:
    period = row.get("period")
    basis = BASES.get(row["basis"], row["basis"])
    if row["kind"] == "measured" and period:
        legacy = row.get("legacy") or "the legacy workload"
        there = (
            f"the effective cost of {legacy} in the ledger from {figures.day(period['start'], zone)} "
            f"to {figures.day(period['end'], zone)}, its share of shared charges included"
        )
    else:
        count = len(row.get("document_digests") or ())
        papers = "its document states" if count == 1 else f"its {count} documents state"
        there = f"the price that {papers}; what it includes is theirs to say"
    text = (
        f"In tokens yes: both count {basis}. In money, the baseline is {there}; this week's cost is "
        "effective cost, idle time included, in the hours that have both cost and tokens."
    )
    unlike = [note for note in row.get("notes") or () if note.startswith(UNLIKE)]
    return f"{text} {'What differs stands below.' if unlike else 'No other difference is known.'}"


UNLIKE = (
    "Different models",
    "The baseline's tokens are of",
    "The baseline's tokenizer",
    "This workload tells cached",
)


def _people(row: Mapping[str, Any], zone: str) -> str:
    on = figures.day(row["frozen_at"], zone) if row.get("frozen_at") else ""
    author, approver = row.get("author"), row.get("approver")
    named = f"{author} registered it" + (f" on {on}" if on else "") if author else "It was frozen"
    if approver:
        return f"{named}; {approver} approved it."
    return f"{named}; nobody else has approved it yet."


def _wrong(row: Mapping[str, Any]) -> str:
    share = figures.decimal(row.get("saving_share"))
    table = "The table gives the saving at a baseline 10 % and 25 % lower or higher."
    if share is None:
        return table
    if share <= 0:
        return f"There is no saving to lose: this week cost more than the baseline. {table}"
    if share >= Decimal(1):
        return table
    return f"The saving is gone when the baseline is {figures.percent(share, 1)} lower. {table}"
