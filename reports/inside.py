"""The files inside a report's PDF: what it was printed from, and its tables (PDF/A-3, method §11).

All of them follow from the sealed record alone, so that the same seal gives the same PDF.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from finops.core.canonical import canonical_bytes
from reports.queries.standing import Standing

File = tuple[str, bytes, str]


def files(stand: Standing) -> Iterator[File]:
    """Name, bytes and description of each file, in a fixed order."""
    statement = stand.statement
    if stand.seal is not None:
        content = canonical_bytes(stand.seal)
        yield "seal.json", content, "The sealed record; its SHA-256 is printed on every page"
    yield "statement.json", canonical_bytes(statement), "The statement, canonical JSON"
    names = sorted({name for w in statement["workloads"] for name in w["figures"]})
    rows = [
        {"workload": w["slug"], "model": w["model"], **w["figures"]} for w in statement["workloads"]
    ]
    yield "workloads.csv", _csv(["workload", "model", *names], rows), "Exact figures by workload"
    yield (
        "invoices.csv",
        _csv(_names(statement["tieout"]["invoice"]), statement["tieout"]["invoice"]),
        "Invoice tie-out",
    )
    yield (
        "places.csv",
        _csv(_names(statement["allocation"]), statement["allocation"]),
        "Where the money of the week ended",
    )


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(rows[0]) if rows else ["none"]


def _csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """A value a spreadsheet takes as it is: text that looks like a formula gets a quote."""
    if isinstance(value, str) and value[:1] in ("=", "+", "@", "\t", "\r"):
        return f"'{value}"
    return value
