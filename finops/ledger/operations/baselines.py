"""Freezing baselines, a declared price or a measured period, and deciding on them (method §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db import IntegrityError

from finops.core import signs
from finops.core.allocation import WORKLOAD, Place
from finops.core.money import plain
from finops.core.period import Period, rfc3339
from finops.core.tokens import Tokens
from finops.core.unit_cost import CLASSES
from finops.ledger.models import Baseline, BaselineDecision, Workload
from finops.ledger.queries.baselines import (
    APPROVED,
    REFUSED,
    WAITING,
    WITHDRAWN,
    baseline_row,
    standing_of,
)
from finops.ledger.queries.costs import other_currencies
from finops.ledger.queries.reading import Reading, read
from finops.ledger.which import atomic
from finops.trail.operations import record

from .documents import Kept
from .papers import amount_over_zero, check_currency, papers, row_of_paper
from .workloads import NotAccepted, workload_named

LONGEST_TEXT = 2000
PAPER = "baseline-evidence"  # the format of documents that are kept for a baseline alone
PRICE = "price per million tokens"
POSSIBLE = {
    APPROVED: (WAITING,),
    REFUSED: (WAITING,),
    WITHDRAWN: (APPROVED,),
}
BASES = ("processed", "delivered")
QUALITIES = ("measured", "re-tokenised", "estimated")


def declare_baseline(
    slug: str,
    *,
    per_million: str,
    currency: str,
    document: Path,
    by: str,
    at: datetime,
    basis: str = "processed",
    quality: str = "measured",
    classes: Mapping[str, str] | None = None,
    model: str = "",
    tokenizer: str = "",
    note: str = "",
    approved_by: str = "",
    more: Sequence[Path] = (),
) -> Baseline:
    """A declared price per million tokens, with the document that says it and `more` beside it.

    `classes` holds prices per million by class where the document gives them. NotAccepted says
    what is wrong.
    """
    workload = workload_named(slug)
    price = amount_over_zero(per_million, PRICE)
    prices = {name: plain(amount_over_zero(text, PRICE)) for name, text in (classes or {}).items()}
    if unknown := sorted(set(prices) - set(CLASSES)):
        raise NotAccepted(f"there is no token class {unknown[0]!r}; there are {', '.join(CLASSES)}")
    _check(basis, quality, currency, by, approved_by)
    if not document.is_file():
        raise NotAccepted(f"{document}: there is no such file; a declared price needs its document")
    kept = papers([document, *more])
    row = Baseline(
        workload=workload,
        kind="declared",
        basis=basis,
        quality=quality,
        currency=currency,
        cost_per_million_tokens=price,
        classes=prices,
        model=model,
        tokenizer=tokenizer,
        documents=[one.sha256 for one in kept],
        note=note,
        at=at,
        by=by,
    )
    return _keep(row, kept, approved_by)


def measure_baseline(
    slug: str,
    *,
    legacy: str,
    period: Period,
    by: str,
    at: datetime,
    tokenizer: str = "",
    note: str = "",
    approved_by: str = "",
    documents: Sequence[Path] = (),
) -> Baseline:
    """Freezes the tokens and the effective cost of a legacy workload in a period of whole hours.

    `documents` are papers that stand beside the ledger's own, a memorandum for one.

    The basis is delivered where usage records tell of it, else processed. NotAccepted where the
    ledger has no tokens or no cost of the legacy workload in the period.
    """
    workload, old = workload_named(slug), workload_named(legacy)
    if old.pk == workload.pk:
        raise NotAccepted("a workload cannot be its own baseline")
    kept = papers(documents)
    reading = read(period)
    row = _measured(reading, old)
    row.documents = [*row.documents, *(p.sha256 for p in kept if p.sha256 not in row.documents)]
    row.workload, row.legacy_workload = workload, old
    row.model, row.tokenizer, row.note = old.model, tokenizer or old.model, note
    row.at, row.by = at, by
    _check(row.basis, row.quality, row.currency, by, approved_by)
    return _keep(row, kept, approved_by)


def decide_baseline(
    number: int, verdict: str, *, by: str, at: datetime, text: str = ""
) -> BaselineDecision:
    """Approves, refuses or withdraws a baseline (method §6).

    NotAccepted where there is none, where its author would approve it, where a refusal or a
    withdrawal says no reason, and where the word was said before.
    """
    row, text = baseline_row(number), text.strip()
    if row is None:
        raise NotAccepted(f"there is no baseline {number}")
    state = standing_of(row).state
    if state not in POSSIBLE[verdict]:
        raise NotAccepted(f"baseline {number} is {state}: it cannot be {verdict}")
    if verdict == APPROVED and _same_person(by, row.by):
        raise NotAccepted(
            f"a baseline is approved by another person than its author: {by} registered it"
        )
    if verdict != APPROVED and not text:
        raise NotAccepted(f"say why baseline {number} is {verdict}")
    if len(text) > LONGEST_TEXT or "\0" in text:
        raise NotAccepted(f"a reason has at most {LONGEST_TEXT:,} characters and no NUL")
    if refused := signs.refusal(text):
        raise NotAccepted(refused)
    return _decided(row, verdict, by=by, at=at, text=text)


def _same_person(one: str, other: str) -> bool:
    """Whether two names are one person's: other capitals or blanks make nobody a second one."""
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())


def _decided(
    row: Baseline, verdict: str, *, by: str, at: datetime, text: str = ""
) -> BaselineDecision:
    try:
        with atomic():
            decision = BaselineDecision.objects.create(
                baseline=row, verdict=verdict, text=text, at=at, by=by
            )
            record(at=at, actor=by, action=f"baseline {verdict}",
                   subject=f"baseline {row.pk} of {row.workload.slug}", detail={"text": text})  # fmt: skip
    except IntegrityError as error:  # another person was faster
        raise NotAccepted(f"baseline {row.pk}: {str(error).splitlines()[0]}") from None
    return decision


def _tokens(reading: Reading, slug: str) -> tuple[str, int, int | None, int]:
    """The basis, and prompt, cached prompt and generation tokens of a workload on it."""
    tokens = reading.tokens.get(Place(WORKLOAD, slug), Tokens())
    basis, prompt, made = "processed", tokens.prompt, tokens.generation
    cached = tokens.cached_prompt
    if prompt is None:
        basis, prompt, made = "delivered", tokens.delivered_prompt, tokens.delivered_generation
        cached = tokens.delivered_cached_prompt
    if prompt is None or made is None or not prompt + made:
        raise NotAccepted(f"the ledger has no tokens of {slug} in this period")
    return basis, prompt, cached, made


def _measured(reading: Reading, old: Workload) -> Baseline:
    basis, prompt, cached, made = _tokens(reading, old.slug)
    cost = reading.whole.cost(old.slug, reading.currency)
    if cost <= 0:
        raise NotAccepted(
            f"the ledger has no cost of {old.slug} in {reading.currency} in this period"
        )
    others = ", ".join(
        name for name, _ in other_currencies(reading.whole, old.slug, reading.currency)
    )
    if others:
        raise NotAccepted(f"a part of the cost of {old.slug} is in {others} and was not converted")
    _check_reach(reading)
    return Baseline(
        kind="measured",
        basis=basis,
        quality=_quality(reading, old.slug) if basis == "delivered" else "measured",
        currency=reading.currency,
        cost=cost,
        prompt_tokens=prompt,
        cached_tokens=cached,
        generation_tokens=made,
        period_start=reading.period.start,
        period_end=reading.period.end,
        documents=sorted(_documents(reading, old.slug)),
    )


def _check_reach(reading: Reading) -> None:
    reach = reading.cost_span.last
    if reach is None or reach < reading.period.end:
        until = "nowhere" if reach is None else rfc3339(reach)
        raise NotAccepted(f"cost reaches only to {until}, not to the end of the period")


def _quality(reading: Reading, slug: str) -> str:
    """The weakest quality of the usage records behind the tokens."""
    found = {
        row.quality
        for row in reading.ledger.usage
        if reading.series_places(row.rule_labels, row.hour).target == slug
    }
    return max(found, key=QUALITIES.index, default="measured")


def _documents(reading: Reading, slug: str) -> set[str]:
    """The documents of the legacy workload's usage records and charges."""
    usage = {
        row.document_id
        for row in reading.ledger.usage
        if reading.series_places(row.rule_labels, row.hour).target == slug
    }
    return usage | reading.whole.documents_of.get(slug, set())


def _check(basis: str, quality: str, currency: str, by: str, approved_by: str) -> None:
    if basis not in BASES:
        raise NotAccepted(f"a baseline's basis is {' or '.join(BASES)}, not {basis!r}")
    if quality not in QUALITIES:
        raise NotAccepted(f"a token quality is one of {', '.join(QUALITIES)}, not {quality!r}")
    check_currency(currency)
    if approved_by and _same_person(approved_by, by):
        raise NotAccepted("a baseline is approved by another person than its author")


def _keep(row: Baseline, evidence: Sequence[Kept], approved_by: str) -> Baseline:
    """Keeps a baseline with its documents; one whose approver is named is approved at once."""
    with atomic():
        for kept in evidence:
            row_of_paper(kept, PAPER, by=row.by, at=row.at)
        row.save(force_insert=True)
        record(at=row.at, actor=row.by, action="baseline added",
               subject=f"baseline {row.pk} of {row.workload.slug}", detail=_detail(row))  # fmt: skip
        if approved_by:
            _decided(row, APPROVED, by=approved_by, at=row.at)
    return row


def _detail(row: Baseline) -> dict[str, Any]:
    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else plain(amount)

    return {
        "kind": row.kind,
        "basis": row.basis,
        "quality": row.quality,
        "currency": row.currency,
        "cost": text(row.cost),
        "cost_per_million_tokens": text(row.cost_per_million_tokens),
        "prompt_tokens": row.prompt_tokens,
        "generation_tokens": row.generation_tokens,
        "legacy": row.legacy_workload.slug if row.legacy_workload else None,
        "documents": row.documents,
    }
