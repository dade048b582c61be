"""Saving CSV mappings, each change a new version (method §3.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from finops.core import signs
from finops.ledger.models import CsvMapping
from finops.ledger.operations.locks import lock
from finops.ledger.which import atomic
from finops.sources.csv_mapping import mapping_of
from finops.trail import operations as trail

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")


def save_mapping(name: str, content: Mapping[str, Any], *, by: str, at: datetime) -> CsvMapping:
    """Adds the newest version of a mapping; the same content again adds none.

    ValueError says what is wrong with the name or the content.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name: small letters, digits, - and _ (at most 80)")
    mapping_of(dict(content))
    for column, text in (content.get("constants") or {}).items():  # names of columns are the file's
        if reason := signs.refusal(text):
            raise ValueError(f"{column}: {reason}")
    with atomic():
        lock("mapping", name)
        newest = CsvMapping.objects.filter(name=name).order_by("-version").first()
        if newest is not None and newest.content == content:
            return newest
        row = CsvMapping.objects.create(
            name=name,
            version=newest.version + 1 if newest else 1,
            content=dict(content),
            at=at,
            by=by,
        )
        detail = {"version": row.version, "content": dict(content)}
        trail.record(at=at, actor=by, action="mapping.save", subject=name, detail=detail)
    return row
