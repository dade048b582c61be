"""What `ingest` tells a person at a terminal: a paragraph for each document, only what there is."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from finops.core.wording import counted_text

COUNTS = (
    ("charges", "charge", ""),
    ("rows_summed", "line", " kept in sums"),
    ("readings", "reading", ""),
    ("records", "record", ""),
    ("rows_in_parent", "line", " inside another line"),
    ("rows_rejected", "line", " rejected"),
)
AMOUNTS = (
    ("totals", "All lines"),
    ("gpu_totals", "of which GPUs"),
    ("gpu_unrecognised_totals", "of which look like GPUs, to be reviewed"),
    ("priced_totals", "of which priced by rate card, not invoiced"),
)
MARKS = {"posted": "✓", "unchanged": "=", "waiting": "…", "rejected": "✗"}
SHOWN = 10


def render(documents: list[dict[str, Any]]) -> str:
    """The documents' accounts (the contract's `documents`) as text."""
    return "\n".join(_one(line) for document in documents for line in _paragraph(document))


def _one(line: str) -> str:
    """One line, whatever a file's name holds: it must not look like another account."""
    return line.replace("\n", "\\n")


def _paragraph(document: dict[str, Any]) -> Iterator[str]:
    what = " ".join(str(document[key]) for key in ("format", "version") if document.get(key))
    status = document["status"]
    name = PurePath(document["path"]).name or document["path"]
    yield f"{MARKS.get(status, '·')} {name}: {status}{f' ({what})' if what else ''}"
    yield from (f"    {line}" for line in _details(document))


def _details(document: dict[str, Any]) -> Iterator[str]:
    counts = [
        counted_text(document[key], noun) + rest for key, noun, rest in COUNTS if document.get(key)
    ]
    if document.get("rows_read"):
        yield f"{counted_text(document['rows_read'], 'line')} read: {', '.join(counts) or 'nothing kept'}"
    elif counts:
        yield ", ".join(counts)
    for key, words in AMOUNTS:
        for currency, bases in (document.get(key) or {}).items():
            yield f"{words}: {_money(currency, bases)}"
    for snapshot in document.get("snapshots") or []:
        parts = (snapshot["issuer"], snapshot["billing_account"], snapshot["billing_period"])
        state = "current" if snapshot["current"] else "not current"
        yield f"Delivery: {' · '.join(str(part or '–') for part in parts)}, {state}"
    yield from _listed("Unknown columns", document.get("unknown_columns"))
    yield from _listed("Missing columns", document.get("missing_columns"))
    for place in (document.get("origins") or [])[1:]:
        source = f", named source {place['source']}" if place["source"] else ""
        yield f"The same bytes came from {place['origin']} on {place['at'][:10]}{source}: read once"
    for warning in document.get("warnings") or []:
        yield f"Note: {warning}"
    yield from _rejections(document.get("rejections") or [])


def _money(currency: str, bases: dict[str, Any]) -> str:
    known = [f"{basis} {Decimal(amount):,f}" for basis, amount in bases.items() if amount]
    return f"{currency} {', '.join(known) or 'no amounts'}"


def _listed(words: str, names: list[str] | None) -> Iterator[str]:
    if names:
        more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        yield f"{words}: {', '.join(names[:SHOWN])}{more}"


def _rejections(rejections: list[dict[str, Any]]) -> Iterator[str]:
    for rejection in rejections[:SHOWN]:
        where = [
            f"line {rejection['line']:,}" if rejection.get("line") else "",
            f"column {rejection['column']}" if rejection.get("column") else "",
            repr(rejection["value"]) if rejection.get("value") else "",
        ]
        place = " ".join(part for part in where if part)
        yield f"Rejected: {f'{place}: ' if place else ''}{rejection['reason']}"
    if len(rejections) > SHOWN:
        yield f"… and more: {len(rejections) - SHOWN:,} shown by --json"
