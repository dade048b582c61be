"""What may be counted twice, or not be what it looks like: each with its numbers (method §2).

Nothing here is decided silently. What the method itself decides (a disaggregated service counts
prompts in its prefill role and generated tokens in its decode role; routers' repetitions are left
out) is said with the amounts left out; the rest waits for a person, who decides by a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import combinations
from typing import TypeVar

from finops.core.facts import Notice
from finops.core.period import Period, milliseconds
from finops.core.series import Row
from finops.core.wording import counted_text
from finops.ledger.models import ReadingBlock, Series
from finops.sources.engines import role_of

from .as_of import known_by
from .changed_labels import changed_back
from .counts import preemptions
from .source_hours import DELIVERED_ALONE
from .token_rows import Known
from .tokens import TokenLedger
from .two_writers import two_writers

TELLING_APART = frozenset({"is_streaming", "model_name", "WorkerId", "ReplicaId", "cache_source"})
"""Labels by which one engine's own series differ without counting anything twice."""
K = TypeVar("K")
MOSTLY = Fraction(1, 2)
_SAID = ("prompt", "generation", "cached_prompt", "delivered_prompt", "delivered_generation")


def counted_twice(
    period: Period, ledger: TokenLedger, as_of: datetime | None = None
) -> Iterator[Notice]:
    """Everything in a period's readings by which a token may stand in the ledger twice."""
    found = [known for known in ledger.known if known.rows]
    yield from _duplicate_targets(found)
    yield from _unknown_replicas(found)
    yield from changed_back(found)
    yield from two_writers([one for one in _prompt_counters(found) if not one.is_gateway], as_of)
    yield from _halves(found)
    yield from _transfers(found)
    yield from _several_answers(found)
    yield from _re_exports(period, as_of)
    yield from _caveats(found)
    yield from _cached_caveats(found, preemptions(period, as_of))


def _prompt_counters(found: Iterable[Known]) -> list[Known]:
    """The counter that tells an engine's or a gateway's prompts: of delivered ones where it has no
    other."""
    return [
        one
        for one in found
        if one.series.role == "prompt"
        or (one.series.role == "delivered_prompt" and one.series.metric in DELIVERED_ALONE)
    ]


def _booked(found: Iterable[Known], *roles: str) -> int:
    return sum(row.tokens for one in found if one.series.role in roles for row in one.rows)


def _grouped(found: Iterable[Known], key: Callable[[Known], K]) -> dict[K, list[Known]]:
    groups: dict[K, list[Known]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return groups


def _duplicate_targets(found: Sequence[Known]) -> Iterator[Notice]:
    """One target seen under two jobs or sources: two scrape jobs, or an HA pair of stores that are
    two sources (method §2.7)."""
    prompts = _prompt_counters(found)
    engines = _grouped(prompts, lambda one: (one.series.target.instance, one.series.engine,
                                             one.labels.get("model_name", "")))  # fmt: skip
    for (instance, engine, model), known in sorted(engines.items()):
        jobs = _grouped(known, lambda one: (one.series.target.job, one.source))
        if len(jobs) > 1:
            told = ", ".join(
                f"job {job} of {source}: {_booked(ones, 'prompt', 'delivered_prompt'):,}"
                for (job, source), ones in sorted(jobs.items())
            )
            yield Notice(
                "duplicate-series",
                f"{instance} {engine} {model}".strip(),
                f"{instance} is read under {len(jobs)} jobs or sources; prompt tokens by {told}. If "
                "they are one engine, its tokens are counted more than once: put all but one out "
                "of scope by a rule on job or source.",
            )


def _unknown_replicas(found: Sequence[Known]) -> Iterator[Notice]:
    """Series of one engine that differ by a label nobody declared as a replica label. Gateways have
    a series for each key, team or user, which are no replicas."""
    prompts = [one for one in _prompt_counters(found) if not one.is_gateway]
    engines = _grouped(prompts, lambda one: (one.engine, one.labels.get("model_name", "")))
    for known in engines.values():
        names = sorted({name for one in known for name in one.series.labels})
        differing = [
            name
            for name in names
            if name not in TELLING_APART and len({one.labels.get(name) for one in known}) > 1
        ]
        if len(known) < 2 or not differing or not _at_once(known):
            continue
        target = known[0].series.target
        told = ", ".join(
            f"{_by(one, differing)}: {_booked([one], 'prompt', 'delivered_prompt'):,}"
            for one in known
        )
        yield Notice(
            "replicas-suspected",
            f"{target.instance} {differing[0]} ({known[0].source})",
            f"{target.instance}: {len(known)} prompt counters at once that differ only by "
            f"{', '.join(differing)} ({told}). If they are replicas of one store, the tokens are "
            f"counted {len(known)} times: add the source with --replica-label {differing[0]}, or "
            "put all but one out of scope by a rule on that label.",
        )


def _by(one: Known, names: Iterable[str]) -> str:
    return ",".join(f"{name}={one.labels.get(name, '')}" for name in names)


def _at_once(known: Sequence[Known]) -> bool:
    """Whether two series were read in the same time: one that begins where another of its target ends
    goes on with its counter, which a pair's second replica may still read in that hour (method §2.4)."""
    by_hour: dict[int, list[tuple[int, Row]]] = {}
    for one in known:
        for row in one.rows:
            by_hour.setdefault(row.hour_ms, []).append((one.series.pk, row))
    return any(
        one.first_ms <= other.last_ms
        and other.first_ms <= one.last_ms
        and not (_goes_on(one, others) or _goes_on(other, mine))
        for rows in by_hour.values()
        for (mine, one), (others, other) in combinations(rows, 2)
    )


def _goes_on(row: Row, series: int) -> bool:
    """Whether a series goes on, from this hour on, with the counter that another one left."""
    return "continues" in row.facts and row.facts["continues"][0] == series


def _halves(found: Sequence[Known]) -> Iterator[Notice]:
    """What is left out because the other half of a disaggregated service counts it."""
    left = [one for one in found if one.is_left_out]
    prompt = _booked((o for o in left if o.half == "decode"), "prompt")
    generation = _booked((o for o in left if o.half == "prefill"), "generation")
    if prompt or generation:
        yield Notice(
            "prefill-and-decode",
            "role",
            f"Prefill and decode run apart: {prompt:,} prompt tokens of decode engines and "
            f"{generation:,} generation tokens of prefill engines are left out; the other half "
            "counts them.",
        )


def _transfers(found: Sequence[Known]) -> Iterator[Notice]:
    """Engines whose prompts came mostly from elsewhere, with no label that says their role."""
    for key, known in sorted(_grouped(found, lambda one: one.engine).items(), key=str):
        moved, prompt = _booked(known, "external_prompt"), _booked(known, "prompt")
        if moved and not known[0].half and Fraction(moved) >= MOSTLY * prompt:
            target = known[0].series.target
            yield Notice(
                "prefill-and-decode-undecided",
                f"{target.job} {target.instance} {key[1]} ({known[0].source})".strip(),
                f"{target.instance}: the KV cache of {moved:,} of its {prompt:,} prompt tokens came "
                "from another engine, as in decode roles. If a prefill engine counts the same "
                "prompts, put this one's out of scope by a rule such as "
                f'__name__="vllm:prompt_tokens_total",instance="{target.instance}".',
            )


def _several_answers(found: Sequence[Known]) -> Iterator[Notice]:
    """Requests that asked for several answers: their prompt is counted once for each."""
    for (job, source), known in sorted(
        _grouped(found, lambda one: (one.series.target.job, one.source)).items()
    ):
        answers, requests = _booked(known, "answers"), _booked(known, "answered")
        if answers > requests > 0:
            yield Notice(
                "several-choices",
                f"{job} ({source})",
                f"{job}: {requests:,} requests asked for {answers:,} answers. An engine counts the "
                "prompt once for each answer; clients are told of it once.",
            )


def _re_exports(period: Period, as_of: datetime | None) -> Iterator[Notice]:
    """Routers that repeat their engines' figures under the engines' names; never counted."""
    received = known_by(as_of, "document__received_at")
    blocks = (
        ReadingBlock.objects.filter(received, series__role="re_export")
        .touching(milliseconds(period.start), milliseconds(period.end))
        .order_by()
    )
    series = Series.objects.filter(pk__in=blocks.values("series_id").distinct())
    groups: dict[tuple[str, str], set[str]] = {}
    for one in series.select_related("target__source"):
        key = (one.target.job, one.target.source.name)
        groups.setdefault(key, set()).add(one.metric)
    for (job, source), metrics in sorted(groups.items()):
        yield Notice(
            "router-re-exports",
            f"{job} ({source})",
            f"{job} repeats {counted_text(len(metrics), 'figure')} of its engines "
            f"({', '.join(sorted(metrics))}); left out. Keep the job out by the source's matchers.",
        )


def _caveats(found: Sequence[Known]) -> Iterator[Notice]:
    """What the counters of an engine or gateway leave out or count otherwise, where one is used."""
    caveats: dict[tuple[str, str], int] = {}
    for one in found:
        role = role_of(one.series.metric, one.labels)
        # vLLM's own hold for old versions only and are said where they apply.
        if role and role.caveat and role.engine != "vllm" and one.series.role in _SAID:
            key = (role.engine, role.caveat)
            caveats[key] = caveats.get(key, 0) + _booked([one], *_SAID)
    for (engine, caveat), tokens in sorted(caveats.items()):
        yield Notice("engine-caveat", f"{engine}: {caveat}"[:200], f"{caveat} ({tokens:,} tokens).")


def _cached_caveats(
    found: Sequence[Known], preempted: Mapping[tuple[int, str], int]
) -> Iterator[Notice]:
    """What prefix-cache hits of vLLM may count otherwise, where cached prompt tokens rest on them:
    the older name may count blocks, and hits are counted again after a preemption by versions
    before 0.11.1, which do not tell their version here."""
    told = {one.engine for one in found if one.series.role == "cached_prompt"}
    caveats: dict[str, int] = {}
    hits = [one for one in found if one.series.role == "prefix_hits" and one.engine not in told]
    for engine, known in _grouped(hits, lambda one: one.engine).items():
        roles = [(role_of(one.series.metric), one) for one in known]
        rank = min(role.alias_rank for role, _ in roles if role)
        for role, one in roles:
            applies = rank > 0 or preempted.get(engine)
            if role and role.caveat and role.alias_rank == rank and applies:
                caveats[role.caveat] = caveats.get(role.caveat, 0) + _booked([one], "prefix_hits")
    for caveat, tokens in sorted(caveats.items()):
        yield Notice(
            "engine-caveat",
            f"cached prompt tokens: {caveat}"[:200],
            f"Cached prompt tokens rest on prefix-cache hits: {caveat} ({tokens:,} tokens).",
        )
