"""Posting usage records: what a gateway or application logged, summed by hour and label set (§6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from finops.core.period import hour_of
from finops.ledger.models import Document, Source, UsageHour
from finops.sources.records import Refused, Rejection, UsageRecord

from .charges import storable
from .locks import lock
from .naming import labels_digest
from .parsing import parse_again

BATCH = 500
LARGEST_TOKENS = 1 << 53
LARGEST_SUM = (1 << 63) - 1


@dataclass(slots=True)
class PostedUsage:
    """What became of a document's usage records."""

    records: int = 0
    repeated: int = 0
    unread: list[str] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """What to say of requests that an earlier document told already."""
        said = [
            f"{name} could not be read again: requests that stand in it too count twice"
            for name in self.unread
        ]
        if self.repeated:
            said.append(f"{self.repeated:,} requests stand in an earlier document and count once")
        return said


@dataclass(slots=True)
class _Sum:
    labels: dict[str, str]
    prompt: int = 0
    engine_prompt: int = 0
    cached: int | None = 0
    generation: int = 0
    requests: int = 0


def post_usage(document: Document, source: Source, records: Iterable[UsageRecord]) -> PostedUsage:
    """Sums a document's usage records by UTC hour, label set and quality, and posts the sums.

    A record whose request stands in the document already is a duplicate and named; one that an
    earlier document of the source holds is counted there, so that dumps may overlap. Cached tokens
    of a sum are unknown as soon as one of its records does not tell them. To be called inside the
    ledger's transaction.
    """
    lock("usage", source.name)  # one poster a source at a time: each must see the others' requests
    posted, sums = PostedUsage(), dict[tuple[datetime, str, str], _Sum]()
    earlier = _Earlier(source, posted.unread)
    seen: set[str] = set()
    for record in records:
        if record.request is not None and record.request in seen:
            posted.refused.append(
                Rejection.of(record.line, "id", record.request, "the request stands here already")
            )
            continue
        if fault := _fault(record):
            posted.refused.append(Rejection.of(record.line, *fault))
            continue
        if record.request is not None:
            seen.add(record.request)
            if earlier.holds(record.request, hour_of(record.at)):
                posted.repeated += 1
                continue
        _add(sums, record)
        posted.records += 1
    largest = max((max(t.engine_prompt, t.prompt, t.generation) for t in sums.values()), default=0)
    if largest > LARGEST_SUM:
        raise Refused(f"{document.name}: {largest} tokens in one hour are more than can be summed")
    UsageHour.objects.bulk_create(
        (_row(document, source, key, total) for key, total in sorted(sums.items(), key=_first)),
        batch_size=BATCH,
    )
    return posted


@dataclass(slots=True)
class _Earlier:
    """The requests that earlier documents of a source hold, read again from their own bytes when
    an hour of theirs is met. By digest: a set of names would be many times as large."""

    source: Source
    unread: list[str]
    hours: set[datetime] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    requests: set[int] = field(default_factory=set)

    def holds(self, request: str, hour: datetime) -> bool:
        """Whether an earlier document that tells of this hour holds the request."""
        if hour not in self.hours:
            self.hours.add(hour)
            rows = UsageHour.objects.filter(source=self.source, hour=hour)
            known = Document.objects.filter(pk__in=rows.values("document_id"))
            for document in known.exclude(pk__in=self.documents):
                self.documents.add(document.pk)
                try:
                    self.requests.update(_requests(document))
                except (Refused, OSError):  # its bytes are gone, or what reads them is
                    self.unread.append(document.name)
        return bool(self.requests) and _number(request) in self.requests


def _requests(document: Document) -> Iterator[int]:
    _, parsed = parse_again(document)
    for record in parsed.records:
        if isinstance(record, UsageRecord) and record.request is not None:
            yield _number(record.request)


def _number(request: str) -> int:
    return int.from_bytes(blake2b(request.encode(), digest_size=12).digest())


def _fault(record: UsageRecord) -> tuple[str, str, str] | None:
    """The column, value and reason of what no table can hold."""
    for name, value in (("model", record.model), *record.labels):
        if storable(value) != value:
            return name, storable(value), "holds a character that is no text"
    if record.prompt_tokens * record.choices > LARGEST_TOKENS:
        return "n", str(record.choices), "prompt tokens times choices are more than 2^53"
    return None


def _first(item: tuple[tuple[datetime, str, str], _Sum]) -> tuple[datetime, str, str]:
    return item[0]


def _add(sums: dict[tuple[datetime, str, str], _Sum], record: UsageRecord) -> None:
    labels = dict(record.labels) | {"model_name": record.model}
    key = (hour_of(record.at), labels_digest(labels), record.quality)
    total = sums.setdefault(key, _Sum(labels))
    total.prompt += record.prompt_tokens
    total.engine_prompt += record.prompt_tokens * record.choices
    total.generation += record.generation_tokens
    total.requests += 1
    if record.cached_tokens is None or total.cached is None:
        total.cached = None
    else:
        total.cached += record.cached_tokens


def _row(
    document: Document, source: Source, key: tuple[datetime, str, str], total: _Sum
) -> UsageHour:
    return UsageHour(
        document=document,
        source=source,
        hour=key[0],
        labels=total.labels,
        labels_digest=key[1],
        quality=key[2],
        prompt_tokens=total.prompt,
        engine_prompt_tokens=total.engine_prompt,
        cached_tokens=total.cached,
        generation_tokens=total.generation,
        requests=total.requests,
    )
