"""The evidence pack: one zip, the same bytes for the same seal, made of what was sealed (§11)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from finops.core.canonical import canonical_bytes
from finops.ledger.operations import documents
from finops.ledger.queries.export_table import table
from reports.models import Seal
from reports.operations.refused import NotAllowed
from reports.queries.standing import Standing

from . import dictionary, texts
from .parquet import parquet_files
from .sealed import DICTIONARY, Gone, csv_bytes, sealed_files, zip_bytes

SUMS = "SHA256SUMS"
WORDS = ("IPE.md", "README.md")


@dataclass(frozen=True, slots=True)
class Packed:
    """A pack's bytes, their digest, and the names of its files."""

    content: bytes
    sha256: str
    names: list[str]


def pack(stand: Standing, *, printed: bytes | None, with_documents: bool = False) -> Packed:
    """The evidence pack of a sealed report; `printed` is its PDF, left out when None.

    Raises NotAllowed for a report that is not sealed, and Gone when its evidence is missing or is
    not what was sealed.
    """
    record = stand.seal
    if record is None:
        raise NotAllowed(
            f"Report {stand.number} is {stand.state}; only a sealed report has an evidence pack."
        )
    files = sealed_files(record)
    files |= parquet_files(files)
    files |= beside(stand)
    if printed is not None:
        files["report.pdf"] = printed
    files |= told(stand, files)
    if with_documents:
        files |= dict(_documents(stand.statement))
    files[SUMS] = sums_of(files)
    content = zip_bytes(files, compressed=False)
    return Packed(content, hashlib.sha256(content).hexdigest(), sorted(files))


def beside(stand: Standing) -> dict[str, bytes]:
    """What stands beside the sealed rows: the record, its statement, the chain, the lists."""
    record = stand.seal or {}
    seal = Seal.objects.get(number=record["number"])
    return {
        "seal.json": bytes(seal.record),
        "statement.json": canonical_bytes(record["statement"]),
        "seals.csv": seals_csv(seal),
        "documents.csv": documents_csv(stand.statement),
        "parameters.csv": parameters_csv(stand.statement),
    }


def told(stand: Standing, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a pack says of itself, in the words of this version: no seal tells of it. Reports
    sealed before the dictionary was sealed with the rows have this version's."""
    found = {
        "IPE.md": texts.ipe_sheet(stand, files).encode(),
        "README.md": texts.readme(stand, files).encode(),
    }
    evidence = (stand.seal or {}).get("evidence") or {}
    if DICTIONARY not in evidence.get("files", {}):
        found[DICTIONARY] = csv_bytes(dictionary.as_table())
    return found


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS of all other files."""
    names = sorted(set(files) - {SUMS})
    lines = [f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in names]
    return "".join(lines).encode()


def seals_csv(last: Seal) -> bytes:
    """The chain of seals up to one, first to last."""
    columns = ("number", "week", "revision", "digest", "previous_digest", "at", "by")
    rows = Seal.objects.filter(number__lte=last.number).order_by("number")
    names = ("number", "report__week", "report__revision", *columns[3:])
    return csv_bytes(table("seals", columns, rows.values_list(*names)))


def documents_csv(statement: Mapping[str, Any]) -> bytes:
    """The documents behind the report, by digest."""
    rows = statement["control_totals"]["documents"]
    columns = tuple(sorted(rows[0])) if rows else ("sha256",)
    return csv_bytes(table("documents", columns, ([row[c] for c in columns] for row in rows)))


def parameters_csv(statement: Mapping[str, Any]) -> bytes:
    """What the figures were computed with."""
    values = {
        "method_version": statement["method_version"],
        "software_version": statement["software_version"],
        "organisation": statement["organisation"],
        "zone": statement["period"]["zone"],
        "currency": statement["currency"],
        **{f"weight_{name}": value for name, value in sorted(statement["weights"].items())},
        **dict(sorted(statement["parameters"].items())),
    }
    return csv_bytes(table("parameters", ("name", "value"), values.items()))


def _documents(statement: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    found = []
    for one in statement["control_totals"]["documents"]:
        path = documents.stored(one["sha256"])
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Gone(f"{one['name']}: its bytes are not in the store ({error})") from error
        if hashlib.sha256(content).hexdigest() != one["sha256"]:
            raise Gone(f"{one['name']}: its bytes in the store are not those received")
        found.append((f"documents/{one['sha256']}", content))
    return found
