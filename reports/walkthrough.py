"""A walk-through sheet: for each sampled row, what it says and what its document says (§11)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from finops.core.allocation import KEPT_SUM
from finops.ledger.models import Document
from finops.ledger.operations import documents
from finops.ledger.queries.explain import Unknown
from reports import lineage

LONGEST_LINE = 400
GZIP = b"\x1f\x8b"


def steps(sampled: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each sampled row followed down to its document: found, whole, and the line or the readings.

    A document's bytes are digested once, however many rows lead to it.
    """
    document = cache(_document)
    return [one | _followed(one, document) for one in sampled]


def is_whole(walked: Iterable[dict[str, Any]]) -> bool:
    """Whether every row led to documents that are there and whole."""
    rows = list(walked)
    named = [d for one in rows for d in [one.get("document"), *one.get("documents", ())] if d]
    return all(one["bytes_whole"] for one in named) and not any("problem" in one for one in rows)


Named = Callable[[str], dict[str, Any]]


def _followed(one: dict[str, Any], document: Named) -> dict[str, Any]:
    kind = one["key"].split(" ", 1)[0]
    return (_charge if kind == "charge" else _hour)(one["row"], document)


def _charge(row: dict[str, Any], document: Named) -> dict[str, Any]:
    return {
        "document": document(row["document"]),
        "line_text": line_of(documents.stored(row["document"]), int(row["line"])),
        "lines_summed": int(row.get(KEPT_SUM) or 0) or None,  # of a kept sum: the first of them
    }


def _hour(row: dict[str, Any], document: Named) -> dict[str, Any]:
    try:
        found = lineage.hour(row["series"], row["hour"])
    except Unknown as error:
        return {"problem": str(error)}
    return {
        "series": found["series"],
        "arithmetic": found["arithmetic"],
        "readings": len(found["readings"]),
        "same": str(found["tokens"]) == row["tokens"],
        "documents": [document(sha256) for sha256 in found["documents"]],
    }


def _document(sha256: str) -> dict[str, Any]:
    known = Document.objects.filter(pk=sha256).first()
    path = documents.stored(sha256)
    whole = path.exists() and documents.digest_of(path) == sha256
    return {"sha256": sha256, "name": known.name if known else None, "bytes_whole": whole}


def line_of(path: Path, number: int) -> str | None:
    """The text of a line of a CSV or JSON-lines document; None where there is no such line."""
    try:
        with path.open("rb") as file:
            opened = gzip.open if file.read(2) == GZIP else open
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as text:
            line = next(islice(text, number - 1, number), None)
    except (OSError, EOFError):
        return None
    if line is None or (not line.isprintable() and "\x00" in line):
        return None
    return line.rstrip("\r\n")[:LONGEST_LINE]
