"""Saved mappings of CSV columns (method §3.3)."""

from __future__ import annotations

from finops.ledger.models import CsvMapping


def names() -> list[str]:
    """The names of the own ledger's mappings, which is where documents are always taken in."""
    rows = CsvMapping.objects.using("default").order_by("name")
    return list(rows.values_list("name", flat=True).distinct())
