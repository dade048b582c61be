"""Saved mappings of CSV columns (method §3.3)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import Count

from finops.ledger.models import CsvMapping, Document
from finops.sources.csv_mapping import PREFIX


def names() -> list[str]:
    """The names of the own ledger's mappings, which is where documents are always taken in."""
    rows = CsvMapping.objects.using("default").order_by("name")
    return list(rows.values_list("name", flat=True).distinct())


def mappings() -> list[dict[str, Any]]:
    """Each mapping with its versions, newest first, and how many documents each version read."""
    counted = Document.objects.using("default").filter(format__startswith=PREFIX)
    used = {
        (format.removeprefix(PREFIX), version): count
        for format, version, count in counted.order_by()
        .values_list("format", "version")
        .annotate(count=Count("pk"))
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for row in CsvMapping.objects.using("default").order_by("name", "-version"):
        documents = used.get((row.name, str(row.version)), 0)
        found.setdefault(row.name, []).append({"row": row, "documents": documents})
    return [{"name": name, "versions": versions} for name, versions in found.items()]


def newest(name: str) -> CsvMapping | None:
    """The newest version of a mapping."""
    rows = CsvMapping.objects.using("default").filter(name=name)
    return rows.order_by("-version").first()


def fitting(columns: Collection[str]) -> CsvMapping | None:
    """The mapping whose every column a file has: the one that reads most of them, then the latest kept."""
    rows = CsvMapping.objects.using("default").order_by("name", "-version").distinct("name")
    fit = [row for row in rows if set(row.content["columns"]) <= set(columns)]
    return max(fit, key=lambda row: (len(row.content["columns"]), row.pk), default=None)
