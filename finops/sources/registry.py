"""The one list of sources: which module reads which document."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Final

from finops.sources import (
    aws_cur,
    azure_cost,
    coreweave_focus,
    engine_log,
    fastchat,
    focus,
    focus_invoices,
    fx_ecb,
    gcp_billing,
    model_config,
    oci_cost,
    openmetrics,
    prometheus,
    rate_card,
    samples,
    sql_dump,
    usage_records,
)
from finops.sources.files import MAX_COLUMNS, read_head
from finops.sources.records import Parsed, Refused

MODULES: Final[tuple[ModuleType, ...]] = (
    samples,
    rate_card,
    model_config,
    prometheus,
    focus,
    coreweave_focus,
    focus_invoices,
    aws_cur,
    azure_cost,
    gcp_billing,
    oci_cost,
    fx_ecb,
    fastchat,
    sql_dump,
    usage_records,
    openmetrics,
    engine_log,
)

_HINT: Final = (
    "not a document of a known format; known are {known}. A CSV of another shape needs a saved "
    "mapping (see `mapping`), then `--as csv:NAME`"
)


def formats() -> tuple[str, ...]:
    """Every format name a document can be read as."""
    return tuple(name for module in MODULES for name in module.FORMATS)


def detect(path: Path, name: str) -> str:
    """The format of a document by its content; Refused with a hint when none fits."""
    head = read_head(path, name)
    for module in MODULES:
        found: str | None = module.recognises(head, name)
        if found is not None:
            return found
    if head[257:262] == b"ustar":
        raise Refused(f"{name}: this is a tar archive; unpack it and ingest the files inside")
    first = head.split(b"\n", 1)[0]
    if max(map(first.count, (b",", b";", b"\t"))) > MAX_COLUMNS:
        raise Refused(
            f"{name}: line 1: over {MAX_COLUMNS} columns; this is no table of charges", line=1
        )
    raise Refused(f"{name}: {_HINT.format(known=', '.join(formats()))}")


def parse(path: Path, name: str, format: str | None = None) -> Parsed:
    """The records of a document, read as `format` or as what its content shows it to be."""
    chosen = detect(path, name) if format is None else format
    for module in MODULES:
        if chosen in module.FORMATS:
            parsed: Parsed = module.parse(path, name, chosen)
            return parsed
    raise Refused(f"{name}: {chosen} is no known format; known are {', '.join(formats())}")
