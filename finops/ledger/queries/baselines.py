"""Baselines as they were frozen (method §6)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from finops.core.baseline import Terms
from finops.core.plainly import text_of, when
from finops.ledger.models import Baseline


def newest_baselines(as_of: datetime | None = None) -> dict[str, Terms]:
    """The newest baseline of each workload, by slug."""
    rows = Baseline.objects.select_related("workload", "legacy_workload").order_by("at", "pk")
    if as_of is not None:
        rows = rows.filter(at__lte=as_of)
    return {row.workload.slug: terms(row) for row in rows}


def terms(row: Baseline) -> Terms:
    """A baseline's row as the core takes it."""
    return Terms(
        workload=row.workload.slug,
        kind=row.kind,
        basis=row.basis,
        quality=row.quality,
        currency=row.currency,
        frozen_at=row.at,
        author=row.by,
        approver=row.approved_by,
        cost=row.cost,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        generation_tokens=row.generation_tokens,
        declared_price=row.cost_per_million_tokens,
        classes={name: Decimal(price) for name, price in sorted(row.classes.items())},
        model=row.model,
        tokenizer=row.tokenizer,
        legacy=row.legacy_workload.slug if row.legacy_workload else "",
        period_start=row.period_start,
        period_end=row.period_end,
        documents=tuple(row.documents),
        note=row.note,
    )


def baseline_rows() -> list[dict[str, Any]]:
    """All baselines as plain values, newest last."""
    rows = Baseline.objects.select_related("workload", "legacy_workload").order_by("at", "pk")
    return [baseline_value(row) for row in rows]


def baseline_value(row: Baseline) -> dict[str, Any]:
    """One baseline as plain values."""
    found = terms(row)
    return {
        "number": row.pk,
        "workload": found.workload,
        "kind": found.kind,
        "basis": found.basis,
        "quality": found.quality,
        "currency": found.currency,
        "cost_per_million_tokens": text_of(found.cost_per_million_tokens()),
        "classes": {name: text_of(price) for name, price in found.classes.items()},
        "cost": text_of(found.cost),
        "prompt_tokens": found.prompt_tokens,
        "cached_tokens": found.cached_tokens,
        "generation_tokens": found.generation_tokens,
        "legacy_workload": found.legacy or None,
        "model": found.model,
        "tokenizer": found.tokenizer,
        "from": when(found.period_start),
        "to": when(found.period_end),
        "documents": list(found.documents),
        "note": found.note,
        "at": when(found.frozen_at),
        "by": found.author,
        "approved_by": found.approver or None,
    }
