"""What a reader must know of a period's readings and documents (method §2, §11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, OuterRef

from finops.core.allocation import OUT_OF_SCOPE, UNASSIGNED, Assigner
from finops.core.facts import Notice
from finops.core.period import Period, rfc3339
from finops.core.series import Row
from finops.core.wording import counted_text
from finops.ledger.models import Fetch, UsageHour

from .answers import missing_hours
from .as_of import known_by
from .counted_twice import counted_twice
from .discovery import MODEL_LABELS
from .memory_notices import memory_notices
from .money_exceptions import money_exceptions
from .moved import moved
from .reaches import Span, after_hour
from .source_hours import DELIVERED_ALONE
from .tokens import TokenLedger


def notices(
    period: Period, ledger: TokenLedger, assign: Assigner, as_of: datetime | None = None
) -> tuple[Notice, ...]:
    """Everything the ledger itself can tell; the rest follows from a statement's figures."""
    return (
        *(
            Notice(one.kind, one.subject, one.text, one.amount, one.currency)
            for one in money_exceptions(period, as_of)
        ),
        *_series_without_workload(ledger, assign),
        *counted_twice(period, _in_scope(ledger, assign), as_of),
        *moved(ledger.known, assign, as_of),
        *_incomplete_fetches(period, as_of),
        *_missing_hours(period, as_of),
        *_several_choices(period, as_of),
        *_told_twice(period, as_of),
        *memory_notices(period, as_of),
    )


def _in_scope(ledger: TokenLedger, assign: Assigner) -> TokenLedger:
    """The ledger without the series that rules put out of scope in all of the period: they are in no
    figure, so that nothing is counted twice by them. That is how a person decides (method §2.7)."""
    found = []
    for known in ledger.known:
        place_of = assign.by_hour(known.labels)
        if any(place_of(row.hour_ms).kind != OUT_OF_SCOPE for row in known.rows):
            found.append(known)
    # What a decode role was sent is a part of its prompts: it goes with these.
    counting = {known.engine for known in found if known.series.role == "prompt"}
    told = copy(ledger)
    told.known = [
        known
        for known in found
        if known.series.role != "external_prompt" or known.engine in counting
    ]
    return told


@dataclass(slots=True)
class _Lost:
    """What no rule gives to a workload of one target, by what its counters are for; None where nothing
    of the kind was read."""

    prompt: int | None = None
    generation: int | None = None
    opening_tokens: int = 0
    alternations: int = 0

    def add(self, role: str, row: Row) -> None:
        """One more hour of one of its counters."""
        setattr(self, role, (getattr(self, role) or 0) + row.tokens)
        self.opening_tokens += row.opening_tokens
        if role == "prompt":  # once for each engine
            self.alternations += row.facts.get("alternations", 0)

    def told(self, delivered: str) -> str:
        """Its tokens, and what was not booked or may be of another process (method §2.1, §2.4)."""
        counts = [
            f"{count:,} {role}"
            for role, count in (("prompt", self.prompt), ("generation", self.generation))
            if count is not None
        ]
        text = f"{' and '.join(counts)} tokens{', delivered,' if delivered else ''} stand in no unit cost."
        if self.opening_tokens:
            text += f" {self.opening_tokens:,} tokens of unknown time are not booked."
        if self.alternations:
            text += (
                f" {counted_text(self.alternations, 'alternation')}: more than one process answered "
                "behind its address."
            )
        return text


def _series_without_workload(ledger: TokenLedger, assign: Assigner) -> Iterator[Notice]:
    """Targets whose tokens no rule gives to a workload, with how many tokens that is."""
    for delivered in ("", "delivered_"):
        for target, lost in _unassigned(ledger, assign, delivered):
            yield Notice(
                "series-without-workload",
                target,
                f"No rule gives {target} to a workload: {lost.told(delivered)}",
            )
    for usage in ledger.usage:
        if assign(usage.rule_labels, usage.hour).kind == UNASSIGNED:
            yield Notice(
                "series-without-workload",
                f"usage records {usage.labels.get('model_name', '')} {usage.source.name}",
                f"No rule gives the usage records of {usage.labels.get('model_name', 'an unnamed model')} "
                "to a workload.",
            )


def _unassigned(ledger: TokenLedger, assign: Assigner, delivered: str) -> list[tuple[str, _Lost]]:
    """What of each target no rule reaches, by its name: the processed tokens, or the delivered ones of
    what counts no others. What the other half of a pair counts is none of it (method §2.10)."""
    found: dict[str, _Lost] = {}
    for role in ("prompt", "generation"):
        for known in ledger.known:
            is_told = not delivered or known.series.metric in DELIVERED_ALONE
            if known.series.role != delivered + role or known.is_left_out or not is_told:
                continue
            place_of = assign.by_hour(known.labels)
            for row in known.rows:
                if place_of(row.hour_ms).kind == UNASSIGNED:
                    found.setdefault(_target(known.labels, known.source), _Lost()).add(role, row)
    return sorted(found.items(), key=lambda one: one[0])


def _target(labels: dict[str, str], source: str) -> str:
    model = next((labels[name] for name in MODEL_LABELS if labels.get(name)), "")
    return f"{labels.get('job', '')} {labels.get('instance', '')} {model} ({source})".strip()


def _incomplete_fetches(period: Period, as_of: datetime | None) -> Iterator[Notice]:
    """Windows that no complete fetch has covered since (method §2.8)."""
    better = Fetch.objects.filter(
        known_by(as_of, "at"),
        source=OuterRef("source"),
        complete=True,
        window_start__lte=OuterRef("window_start"),
        window_end__gte=OuterRef("window_end"),
    )
    rows = (
        Fetch.objects.filter(
            known_by(as_of, "at"),
            complete=False,
            window_start__lt=period.end,
            window_end__gt=period.start,
        )
        .exclude(Exists(better))
        .order_by("source__name", "window_start")
        .values_list("source__name", "window_start", "window_end")
        .distinct()
    )
    windows: dict[str, list[str]] = {}
    for name, start, end in rows:
        windows.setdefault(name, []).append(f"{rfc3339(start)} – {rfc3339(end)}")
    for name, known in sorted(windows.items()):
        yield Notice(
            "incomplete-fetches",
            name,
            f"{name} answered {counted_text(len(known), 'window')} incompletely, first {known[0]}; they are asked "
            "again, and never count as zero.",
        )


def _missing_hours(period: Period, as_of: datetime | None) -> Iterator[Notice]:
    """Hours between others of a source in which its store held nothing, or was not asked, and hours
    after the last one in which it held nothing."""
    for name, empty, unasked in missing_hours(period, as_of):
        for hours, what in (
            (empty, "the store answered with no reading at all, and no other target shows that it was "
             "at work; it was down then, no longer holds them, or there was nothing left to read"),
            (unasked, "were never fetched whole; `collect --from --to` asks for them if the store "
             "still holds them"),
        ):  # fmt: skip
            if hours:
                told = f"first {rfc3339(hours[0])}, last {rfc3339(hours[-1])}"
                yield Notice(
                    "hours-missing",
                    f"{name} {'empty' if hours is empty else 'not fetched'}",
                    f"{name}: {counted_text(len(hours), 'hour')} missing ({told}): {what}. Counters "
                    "that lived on lose nothing; engines that lived only then are not counted.",
                )


def late_sources(period: Period, spans: Mapping[str, Span]) -> Iterator[Notice]:
    """Sources whose readings end before the period while others go on."""
    reach = max((span.last for span in spans.values()), default=period.end)
    for name, span in sorted(spans.items()):
        if after_hour(span.last) < min(period.end, after_hour(reach)) and span.last >= period.start:
            what = "ended" if span.ended else "late"
            yield Notice(
                f"readings-{what}",
                name,
                f"{name}: readings reach only to {rfc3339(span.last)}; later hours of its workloads "
                "stand in no unit cost.",
            )


def _told_twice(period: Period, as_of: datetime | None) -> Iterator[Notice]:
    """Hours that two documents of usage records tell alike, to the last request: without names of
    requests nobody can say whether they are the same."""
    hours = UsageHour.objects.filter(
        known_by(as_of, "document__received_at"),
        hour__gte=period.start,
        hour__lt=period.end,
        requests__gt=0,
    )
    alike = (
        "source__name", "hour", "labels_digest", "quality",
        "requests", "prompt_tokens", "generation_tokens",
    )  # fmt: skip
    found: dict[str, list[int]] = {}
    rows = (
        hours.order_by()
        .values(*alike)
        .annotate(documents=Count("document"))
        .filter(documents__gt=1)
    )
    for row in rows:
        counts = found.setdefault(row["source__name"], [0, 0])
        counts[0] += 1
        tokens = row["prompt_tokens"] + row["generation_tokens"]
        counts[1] += tokens * (row["documents"] - 1)
    for name, (times, tokens) in sorted(found.items()):
        yield Notice(
            "usage-told-twice",
            name,
            f"{name}: two documents tell {counted_text(times, 'hour')} of usage alike, to the last "
            f"request, and nothing names the requests; {tokens:,} tokens may be counted twice.",
        )


def _several_choices(period: Period, as_of: datetime | None) -> Iterator[Notice]:
    """Requests with several answers: engines count their prompt once for each (method §2)."""
    hours = UsageHour.objects.filter(
        known_by(as_of, "document__received_at"), hour__gte=period.start, hour__lt=period.end
    )
    differing: dict[str, int] = {}
    for name, once, each in hours.values_list(
        "source__name", "prompt_tokens", "engine_prompt_tokens"
    ):
        if once != each:
            differing[name] = differing.get(name, 0) + each - once
    for name, tokens in sorted(differing.items()):
        yield Notice(
            "several-choices",
            name,
            f"{name}: requests asked for several answers; an engine counts their prompt once for each, "
            f"{tokens:,} tokens more than the records do.",
        )
