"""Baselines as they were frozen, whether they are approved, and which of them count (method §6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from finops.core.baseline import AGEING_AFTER, Terms
from finops.core.plainly import text_of, when
from finops.ledger.models import Baseline

WAITING, APPROVED, REFUSED, WITHDRAWN = "waiting", "approved", "refused", "withdrawn"


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a baseline counts: its state, and who said so, when and why."""

    state: str
    by: str = ""
    at: datetime | None = None
    text: str = ""


def standing_of(row: Baseline, as_of: datetime | None = None) -> Standing:
    """The newest decision on a baseline; one that named its approver when it was kept is approved."""
    known = [d for d in row.decisions.all() if as_of is None or d.at <= as_of]
    if known:
        last = max(known, key=lambda one: one.pk)
        return Standing(last.verdict, last.by, last.at, last.text)
    return Standing(APPROVED, row.approved_by, row.at) if row.approved_by else Standing(WAITING)


def newest_baselines(as_of: datetime | None = None) -> dict[str, Terms]:
    """The baseline that counts of each workload, by slug: the newest approved one, else the newest
    that waits for approval. Refused and withdrawn ones never count (method §6)."""
    chosen: dict[str, Terms] = {}
    later: dict[str, int] = {}
    for row in _rows(as_of):
        stands, slug = standing_of(row, as_of), row.workload.slug
        if stands.state == APPROVED:
            chosen[slug], later[slug] = terms(row, stands), 0
        elif stands.state == WAITING:
            if slug not in chosen or not chosen[slug].approver:
                chosen[slug] = terms(row, stands)
            else:
                later[slug] = later.get(slug, 0) + 1
    return {slug: replace(one, newer_waiting=later.get(slug, 0)) for slug, one in chosen.items()}


def _rows(as_of: datetime | None = None) -> QuerySet[Baseline]:
    """Baselines with their decisions, oldest first."""
    rows = Baseline.objects.select_related("workload", "legacy_workload").order_by("at", "pk")
    rows = rows.prefetch_related("decisions")
    return rows if as_of is None else rows.filter(at__lte=as_of)


def terms(row: Baseline, stands: Standing) -> Terms:
    """A baseline's row as the core takes it; `stands` says who approved it."""
    return Terms(
        workload=row.workload.slug,
        kind=row.kind,
        basis=row.basis,
        quality=row.quality,
        currency=row.currency,
        frozen_at=row.at,
        author=row.by,
        approver=stands.by if stands.state == APPROVED else "",
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


def baseline_rows(at: datetime | None = None) -> list[dict[str, Any]]:
    """All baselines as plain values, newest last; ages as of `at`."""
    return [baseline_value(row, at) for row in _rows()]


def baseline_row(number: int) -> Baseline | None:
    """A baseline by its number."""
    return _rows().filter(pk=number).first()


def waiting_baselines() -> list[tuple[int, str, str]]:
    """Number, workload and author of the baselines that wait for approval, oldest first."""
    rows = Baseline.objects.filter(decisions__isnull=True, approved_by="").order_by("pk")
    return list(rows.values_list("pk", "workload__slug", "by"))


def counting_numbers() -> set[int]:
    """The numbers of the baselines that reports compare with."""
    counting: dict[str, tuple[bool, int]] = {}
    for row in _rows():
        state, slug = standing_of(row).state, row.workload.slug
        if state == APPROVED or (state == WAITING and not counting.get(slug, (False, 0))[0]):
            counting[slug] = (state == APPROVED, row.pk)
    return {number for _, number in counting.values()}


def baseline_value(row: Baseline, at: datetime | None = None) -> dict[str, Any]:
    """One baseline as plain values."""
    stands = standing_of(row)
    found = terms(row, stands)
    age = found.age(at) if at is not None else None
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
        "state": stands.state,
        "decided_by": stands.by or None,
        "decided_at": when(stands.at),
        "decision": stands.text,
        "age_days": None if age is None else age.days,
        "ageing": None if age is None else age > AGEING_AFTER,
    }
