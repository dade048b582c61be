"""The exceptions register: everything a reader must know, derived from the facts (method §11)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

from .allocation import SHARED, UNASSIGNED
from .baseline import AGEING_AFTER
from .exchanged import exchange_notices
from .facts import Facts, Notice, WorkloadFacts
from .money import plain
from .period import Period
from .tokens import Tokens
from .wording import counted_text


def exceptions(facts: Facts) -> list[dict[str, str | None]]:
    """The register's lines in a stable order, each with an id that outlives a new computation."""
    found = [*facts.notices, *_money(facts)]
    for workload in facts.workloads:
        found += [*_readings(workload), *_pairing(workload), *_baseline(workload, facts.period.end)]
        found += _memory(workload)
    lines = {identity(notice, facts.period): notice for notice in found}
    ordered = sorted(lines.items(), key=lambda item: (item[1].kind, item[1].subject, item[0]))
    return [_line(name, notice) for name, notice in ordered]


def _line(name: str, notice: Notice) -> dict[str, str | None]:
    return {
        "id": name,
        "kind": notice.kind,
        "subject": notice.subject,
        "text": notice.text,
        "amount": None if notice.amount is None else plain(notice.amount),
        "currency": notice.currency,
    }


def identity(notice: Notice, period: Period) -> str:
    """A stable name of an exception: digest of its kind, subject, currency and period."""
    parts = (
        notice.kind,
        notice.subject,
        notice.currency or "",
        period.start.isoformat(),
        period.end.isoformat(),
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def _readings(workload: WorkloadFacts) -> Iterator[Notice]:
    tokens = workload.tokens
    if tokens is None:
        return
    slug = workload.slug
    for kind, count, text in _counts(tokens):
        if count:
            yield Notice(kind, slug, f"{slug}: {text}")
    if tokens.delivered_twice:
        both = (tokens.delivered_prompt or 0) + (tokens.delivered_generation or 0)
        yield Notice(
            "delivered-counted-twice",
            slug,
            f"{slug}: its engines count {both - tokens.delivered_beside:,} delivered tokens, and a "
            f"gateway or usage records {tokens.delivered_beside:,}, perhaps of the same requests. "
            "Let a rule put one of them out of scope; until then nothing is compared on the "
            "delivered basis.",
        )
    if workload.old_engine and workload.preemptions:
        yield Notice(
            "preempted-prompts-counted-twice",
            slug,
            f"{slug}: this engine version counts a prompt again when a preempted request is "
            f"recomputed; {workload.preemptions:,} preemptions in the period.",
        )


def _counts(tokens: Tokens) -> list[tuple[str, int, str]]:
    """The kinds of disturbance of readings, how many of each, and what to say of it."""
    seconds = tokens.unobserved_ms // 1000
    weak = tokens.unmarked_restarts
    return [
        ("gaps", tokens.gaps, f"{counted_text(tokens.gaps, 'gap')} in the readings, {seconds:,} s unobserved, "
         f"coverage {tokens.coverage} of the whole week (figures beside prices count only the hours with cost). A gap without a restart loses nothing."),
        ("restarts", tokens.restarts, f"{counted_text(tokens.restarts, 'restart')}; what was counted between the "
         "last reading and the restart is inside the printed bounds."),
        ("hidden-resets", tokens.hidden_resets, f"{counted_text(tokens.hidden_resets, 'reset')} that no fall of the "
         "counter shows; found by the start of the process."),
        ("weak-restart-evidence", weak, f"{counted_text(weak, 'restart')} told only by a fall of the counter: "
         "the engine gives no start time."),
        ("unplaced-openings", tokens.unplaced_openings, f"{counted_text(tokens.unplaced_openings, 'counter')} "
         f"first seen with {tokens.opening_tokens:,} tokens of unknown time; none of them is booked."),
        ("alternations", tokens.alternations, f"{counted_text(tokens.alternations, 'alternation')}: more than one "
         "process answered behind one address."),
        ("edges-unread", tokens.unread_edges, f"{counted_text(tokens.unread_edges, 'time')} an engine was not read "
         "over an edge of the week: what the first reading after it shows may lie on either side, inside the printed bounds."),
    ]  # fmt: skip


def _pairing(workload: WorkloadFacts) -> Iterator[Notice]:
    slug = workload.slug
    counted = workload.tokens
    moved = counted is not None and any(
        (counted.prompt, counted.generation, counted.delivered_prompt)
    )
    if workload.purpose != "inference":
        return
    if moved and not workload.charges and not workload.cost:
        yield Notice("tokens-without-cost", slug, f"{slug}: tokens, but no charge reaches it.")
    if workload.cost and not moved and workload.basis == "processed":
        yield Notice(
            "cost-without-tokens", slug, f"{slug}: cost, but no token was counted in the period."
        )
    for currency, amount in sorted(workload.other_currencies.items()):
        yield Notice(
            "currencies-mixed",
            f"{slug} {currency}",
            f"{slug}: a part of its cost is in {currency} and was not converted. It has no unit cost "
            "until it is.",
            amount,
            currency,
        )


def _baseline(workload: WorkloadFacts, end: datetime) -> Iterator[Notice]:
    terms = workload.baseline
    if terms and terms.age(end) > AGEING_AFTER:
        yield Notice(
            "ageing-baseline",
            workload.slug,
            f"{workload.slug}: the baseline is {terms.age(end).days} days old (over 180).",
        )
    if terms and not terms.approver:
        yield Notice(
            "baseline-not-approved",
            workload.slug,
            f"{workload.slug}: its baseline was registered by {terms.author} and no second person "
            "has approved it. The report compares with it all the same.",
        )
    if terms and terms.newer_waiting:
        yield Notice(
            "baseline-waits",
            workload.slug,
            f"{workload.slug}: {counted_text(terms.newer_waiting, 'newer baseline')} waiting for "
            "approval; the report compares with the approved one.",
        )


def _memory(workload: WorkloadFacts) -> Iterator[Notice]:
    stale = sum(engine.figures.stale_ms for engine in workload.memory if engine.counts) // 1000
    if stale:
        yield Notice(
            "stale-gauges",
            workload.slug,
            f"{workload.slug}: the cache gauge stood still for {stale:,} s while no token moved; "
            "left out of averages.",
        )


def _money(facts: Facts) -> Iterator[Notice]:
    for place in facts.places:
        if place.kind == UNASSIGNED and place.charges:
            yield Notice(
                "unassigned-charges",
                place.currency,
                f"{counted_text(place.charges, 'charge')} that no rule reaches.",
                place.effective,
                place.currency,
            )
        if place.kind == SHARED and place.charges:
            yield Notice(
                "shared-not-yet-split",
                f"{place.target} {place.currency}",
                f"The key {place.target} has nothing to split by in this period.",
                place.effective,
                place.currency,
            )
    yield from exchange_notices(facts)
    for total in facts.as_written:
        for count, name in (
            (total.without_effective, "effective"),
            (total.without_billed, "billed"),
        ):
            if count:
                text = f"{counted_text(count, 'charge')} in {total.currency} without {name} cost in the source."
                yield Notice("missing-amounts", f"{name} {total.currency}", text)
