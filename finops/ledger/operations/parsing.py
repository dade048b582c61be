"""Reading documents of the store: by their format, a saved mapping, or as they were read before."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from finops.core.period import parse_instant
from finops.ledger.models import CsvMapping, Document
from finops.ledger.operations.documents import Kept, keep, stored
from finops.sources import aws_cur, csv_mapping, fastchat, registry, sql_dump
from finops.sources.azure_cost import ACTUAL, AMORTISED, FORMAT
from finops.sources.records import Parsed, Refused

_DIGEST = re.compile(r"[0-9a-f]{64}")
_VIEWS = {ACTUAL: f"{FORMAT}-actual", AMORTISED: f"{FORMAT}-amortized"}


def parse(kept: Kept, format: str, version: int | None = None) -> Parsed:
    """A fresh reading of stored bytes; `version` is a mapping's, by default the newest.

    Refused when the bytes cannot be read so, or no mapping has the name.
    """
    if format.startswith(fastchat.PREFIX):
        tokenizer = stored(format.removeprefix(fastchat.PREFIX))
        return fastchat.parse_with(kept.path, kept.name, format, tokenizer)
    if format.startswith(sql_dump.PREFIX):
        columns_of = stored(format.removeprefix(sql_dump.PREFIX))
        return sql_dump.parse_with(kept.path, kept.name, format, columns_of)
    if not format.startswith(csv_mapping.PREFIX):
        return registry.parse(kept.path, kept.name, format)
    name = format.removeprefix(csv_mapping.PREFIX)
    rows = CsvMapping.objects.filter(name=name)
    if version is not None:
        rows = rows.filter(version=version)
    row = rows.order_by("-version").first()
    if row is None:
        raise Refused(f"{kept.name}: there is no mapping {name!r}; save one with `mapping {name}`")
    columns = csv_mapping.mapping_of(row.content, row.version)
    return csv_mapping.parse(kept.path, kept.name, format, columns)


def unknown_name(format: str) -> str | None:
    """Why nothing can be read as this format; None when its name, or its mapping's, is known."""
    if format.startswith((fastchat.PREFIX, sql_dump.PREFIX)):
        return None
    if format.startswith(csv_mapping.PREFIX):
        name = format.removeprefix(csv_mapping.PREFIX)
        if CsvMapping.objects.filter(name=name).exists():
            return None
        return f"there is no mapping {name!r}; save one with `mapping {name}`"
    if format in registry.formats():
        return None
    return f"{format} is no known format; known are {', '.join(registry.formats())} and csv:NAME"


def otherwise(document: Document, format: str) -> str | None:
    """Why a document that the ledger holds cannot be read as `format`; None when it was read so."""
    if _is_same(document, format):
        return None
    version = f" version {document.version}" if document.version else ""
    return (
        f"{document.name}: these bytes were read as {document.format}{version} on "
        f"{document.received_at:%Y-%m-%d}, from {document.origin}, and a document is read once. To have it read as "
        f"{format}, hand it over as a newer export: a file of other bytes, be it by an empty line at "
        "its end, is a newer delivery and replaces this one"
    )


def _is_same(document: Document, format: str) -> bool:
    if not format.startswith(csv_mapping.PREFIX) or document.format != format:
        view = _VIEWS.get(document.version) if document.format == FORMAT else None
        net = document.format + aws_cur.NET if document.version.endswith(aws_cur.NET) else None
        beside = (fastchat.PREFIX, sql_dump.PREFIX)  # the file beside is named by its digest
        of_beside = document.format.startswith(beside) and format.startswith(beside)
        return format in (document.format, view, net) or of_beside
    newest = CsvMapping.objects.filter(name=format.removeprefix(csv_mapping.PREFIX))
    return document.version == str(newest.order_by("-version").values_list("version", flat=True)[0])


def exact(format: str, name: str) -> str:
    """The format as it is kept: a tokenizer's or mapping's file is kept too, and named by its
    digest, so that the same can be read again. Refused when the file cannot be read."""
    for prefix, what in ((fastchat.PREFIX, "tokenizer"), (sql_dump.PREFIX, "mapping")):
        beside = format.removeprefix(prefix)
        if beside == format or _DIGEST.fullmatch(beside):
            continue
        path = Path(beside)
        try:
            return prefix + keep(path, path.name, str(path)).sha256
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Refused(f"{name}: the {what} {path} cannot be read ({reason})") from None
    return format


def parse_again(document: Document) -> tuple[Kept, Parsed]:
    """A document as it was read when it came, from the same bytes."""
    kept = kept_of(document)
    if document.format.startswith(csv_mapping.PREFIX):
        return kept, parse(kept, document.format, int(document.version or 0))
    if document.format in aws_cur.FORMATS and document.version.endswith(aws_cur.NET):
        return kept, parse(kept, document.format + aws_cur.NET)
    if document.format == FORMAT:
        return kept, parse(kept, _VIEWS.get(document.version, FORMAT))
    return kept, parse(kept, document.format)


def exported_at(document: Document) -> datetime | None:
    """The export's own time, as it was known when the document came."""
    told = document.account.get("exported_at")
    return parse_instant(told) if told else None


def kept_of(document: Document) -> Kept:
    """A document's place in the store."""
    sha256 = document.sha256
    return Kept(sha256, document.size_bytes, stored(sha256), False, document.name, document.origin)
