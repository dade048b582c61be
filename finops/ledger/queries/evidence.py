"""Which start-up log and which configuration tell of an engine (method §8.2, §8.3).

A person's link decides, else the model's name. A log whose pool is not the engine's own at that
time is of another start and is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Max, Q

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.kv import FULL_BYTES, kv_shape
from finops.core.kv_agreement import HALF_UNIT_BYTES, Agreement, agreement
from finops.core.money import divide
from finops.core.period import Period
from finops.core.plainly import when
from finops.ledger.models import (
    CacheHour,
    EngineStart,
    EvidenceLink,
    ModelConfig,
    Series,
    Workload,
)

from .as_of import known_by

BY_POD = 3
MOST_CONFIGS = 100


@dataclass(frozen=True, slots=True)
class KvBytes:
    """KV bytes of one token on one GPU, and who tells them."""

    bytes_per_token: int
    source: str


class Evidence:
    """Every log and configuration of the ledger, read once, with the links that hold."""

    def __init__(
        self, as_of: datetime | None = None, shown: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """`shown` are the models that each workload's engines name on their metrics."""
        self.shown = shown or {}
        before = Q() if as_of is None else Q(posted_at__lte=as_of)
        self.starts = list(EngineStart.objects.filter(before).order_by("pk"))
        self.configs = list(ModelConfig.objects.filter(before).order_by("pk"))
        self.links = _newest_links(as_of)

    # -- which start an engine had -------------------------------------------------------------

    def start_of(
        self,
        labels: Mapping[str, str],
        first: datetime,
        last: datetime,
        *,
        slug: str | None,
        model: str | None = None,
        pool_tokens: int | None = None,
        engine: str = "",
    ) -> EngineStart | None:
        """The start of an engine with these labels; None when no log tells.

        A start comes before the first reading of the process (`first`), and the nearest one counts;
        one that a person linked to the pod comes before the last reading. A log without an instant
        is used where none with one is found.
        """
        best: tuple[tuple[int, bool, datetime], EngineStart] | None = None
        for one in self.starts:
            rank = self._rank(one, labels, slug, model)
            if not rank or one.has_failed or not _fits(one, pool_tokens, engine):
                continue
            if one.started_at is not None and one.started_at > (last if rank == BY_POD else first):
                continue
            key = (rank, one.started_at is not None, one.started_at or one.posted_at)
            if best is None or key > best[0]:
                best = key, one
        return best[1] if best else None

    def _rank(
        self, one: EngineStart, labels: Mapping[str, str], slug: str | None, model: str | None
    ) -> int:
        link = self.links.get(one.document_id)
        if link is not None:
            if link.workload.slug != slug:
                return 0
            pod = labels.get("exported_pod") or labels.get("pod", "")
            return (BY_POD if link.pod == pod else 0) if link.pod else 2
        names = {one.model, *one.served_names} - {""}
        return int(bool(names & {labels.get("model_name"), model}))

    # -- bytes of a token ----------------------------------------------------------------------

    def kv_bytes(self, workload: Workload, start: EngineStart | None = None) -> KvBytes | None:
        """KV bytes of one token on one GPU: by the model's configuration, else by a log, else as
        people stated them; None where the model's layers are of several kinds or nothing tells.

        `start` is the engine's own: engines of one model may be spread over different numbers of
        GPUs. Without it the newest of the workload counts.
        """
        starts = self._starts_of(workload)
        own = start or (starts[0] if starts else None)
        config = self._config_of(workload)
        if config is not None:
            return self._by_config(config, own) or _stated(workload)
        # The log of one rank may leave out what another of its kind prints.
        alike = [one for one in starts if own is not None and _spread(one) == _spread(own)]
        told = (_by_log(one) for one in (own, *alike))
        return next(filter(None, told), None) or _stated(workload)

    def _starts_of(self, workload: Workload) -> list[EngineStart]:
        """The starts of a workload's engines, newest first."""
        mine = [one for one in self.starts if not one.has_failed and self._is_of(one, workload)]
        return sorted(mine, key=lambda one: one.started_at or one.posted_at, reverse=True)

    def _is_of(self, one: EngineStart, workload: Workload) -> bool:
        link = self.links.get(one.document_id)
        if link is not None:
            return link.workload_id == workload.pk
        return bool({one.model, *one.served_names} & self._names(workload))

    def _names(self, workload: Workload) -> set[str]:
        """The model's names: as people gave it and as the engines show it."""
        return {workload.model, *self.shown.get(workload.slug, ())} - {""}

    def _config_of(self, workload: Workload) -> ModelConfig | None:
        linked = [c for c in self.configs if self._links_to(c.document_id, workload)]
        named = [c for c in self.configs if c.document_id not in self.links]
        return next(reversed(linked), None) or next(
            (c for c in reversed(named) if c.model in self._names(workload)), None
        )

    def agreement_of(self, start: EngineStart) -> Agreement | None:
        """A start's pool as its log and as the model's configuration tell it; None where either
        does not, or layers are of several kinds."""
        worker, config = first_worker(start), self._config_for(start)
        told = self._by_config(config, start) if config is not None else None
        return agreement(
            told.bytes_per_token if told else None,
            worker.get("kv_tokens"),
            worker.get("kv_bytes"),
            worker.get("block_size"),
        )

    def _config_for(self, start: EngineStart) -> ModelConfig | None:
        link = self.links.get(start.document_id)
        if link is not None:
            return self._config_of(link.workload)
        names = {start.model, *start.served_names} - {""}
        for one in reversed(self.configs):
            whose = self.links.get(one.document_id)
            if names & (
                {one.model} if whose is None else {one.model, *self._names(whose.workload)}
            ):
                return one
        return None

    def _links_to(self, document: str, workload: Workload) -> bool:
        link = self.links.get(document)
        return link is not None and link.workload_id == workload.pk

    def _by_config(self, config: ModelConfig, start: EngineStart | None) -> KvBytes | None:
        link = self.links.get(config.document_id)
        told: Mapping[str, Any] = start.figures if start else {}
        kv_dtype = (link.kv_dtype if link else "") or told.get("kv_dtype") or "auto"
        if kv_dtype != "auto" and kv_dtype not in FULL_BYTES:
            return None
        shape = kv_shape(
            config.config,
            tensor_parallel=_parallel(link, "tensor_parallel", told),
            pipeline_parallel=_parallel(link, "pipeline_parallel", told),
            kv_dtype=kv_dtype,
        )
        if not shape.is_single_group or not shape.bytes_per_token_per_gpu:
            return None
        name = f"model configuration {config.document_id[:12]}"
        return KvBytes(shape.bytes_per_token_per_gpu, name)


def _newest_links(as_of: datetime | None) -> dict[str, EvidenceLink]:
    before = Q() if as_of is None else Q(at__lte=as_of)
    rows = EvidenceLink.objects.filter(before).select_related("workload").order_by("pk")
    return {row.document_id: row for row in rows}


def _parallel(link: EvidenceLink | None, name: str, told: Mapping[str, Any]) -> int:
    return int((getattr(link, name) if link else None) or told.get(name) or 1)


def _spread(one: EngineStart) -> tuple[Any, ...]:
    """What decides the bytes of a token of one model on one GPU."""
    told = one.figures
    names = ("tensor_parallel", "pipeline_parallel", "kv_dtype")
    return tuple(told.get(name) or None for name in names)


def _fits(one: EngineStart, pool_tokens: int | None, engine: str) -> bool:
    """Whether a start may be that of an engine: the same data-parallel rank and the same pool."""
    rank = one.data_parallel_rank
    if rank is not None and engine and str(rank) != engine:
        return False
    tokens = first_worker(one).get("kv_tokens")
    return pool_tokens is None or tokens is None or tokens == pool_tokens


def first_worker(one: EngineStart | None) -> Mapping[str, Any]:
    """The figures of a start's first worker; empty where the log tells none."""
    workers = one.figures.get("workers") if one else None
    return workers[0] if workers else {}


def _by_log(start: EngineStart | None) -> KvBytes | None:
    """Bytes of a token by a log that prints the cache in bytes and in tokens.

    GiB are printed with two decimals: of the whole numbers that rounding allows the roundest is
    taken, since layers × heads × sizes have many factors of two.
    """
    worker = first_worker(start)
    size, tokens = worker.get("kv_bytes"), worker.get("kv_tokens")
    hybrid = start is not None and any("several kinds" in n for n in start.figures["notes"])
    if start is None or not size or not tokens or hybrid:
        return None
    found = _roundest(size - HALF_UNIT_BYTES, size + HALF_UNIT_BYTES, tokens)
    if found is None:
        return None
    return KvBytes(found, f"start-up log {start.document_id[:12]}")


def _roundest(low: int, high: int, tokens: int) -> int | None:
    least, most = max(1, -(-low // tokens)), high // tokens
    for power in range(24, -1, -1):
        unit = 1 << power
        first = -(-least // unit) * unit
        if first <= most:
            return first
    return None


def _stated(workload: Workload) -> KvBytes | None:
    value = workload.kv_bytes_per_token
    return None if value is None else KvBytes(value, "stated by a person")


def stated_memory(
    workloads: Iterable[Workload],
    as_of: datetime | None = None,
    shown: Mapping[str, frozenset[str]] | None = None,
) -> dict[str, tuple[int | None, int | None]]:
    """By workload: KV bytes of a token on one GPU, and the longest request where people state it."""
    evidence = Evidence(as_of, shown)
    found = {}
    for one in workloads:
        known = evidence.kv_bytes(one)
        found[one.slug] = (known.bytes_per_token if known else None, one.max_model_len)
    return found


def names_shown(
    period: Period, assign: Assigner, as_of: datetime | None = None
) -> dict[str, frozenset[str]]:
    """By workload, the models that its engines name on the metrics of their cache in a period."""
    hours = CacheHour.objects.filter(known_by(as_of), hour__gte=period.start, hour__lt=period.end)
    last = dict(hours.order_by().values_list("series_id").annotate(Max("hour")))
    found: dict[str, set[str]] = {}
    for one in Series.objects.filter(pk__in=last).select_related("target__source"):
        place, model = assign(one.rule_labels, last[one.pk]), one.labels.get("model_name")
        if place.kind == WORKLOAD and place.target and model:
            found.setdefault(place.target, set()).add(model)
    return {slug: frozenset(names) for slug, names in found.items()}


def evidence_rows() -> list[dict[str, Any]]:
    """Logs and configurations with whose evidence they are, newest first, as plain values."""
    evidence = Evidence()
    rows = [_start_row(one, evidence) for one in evidence.starts]
    rows += [_config_row(one, evidence) for one in evidence.configs]
    return sorted(rows, key=lambda row: row["posted_at"] or "", reverse=True)


def stored_configs() -> dict[int, tuple[str, dict[str, Any]]]:
    """The newest configurations by number: what each calls itself with its file's name, and it."""
    newest = ModelConfig.objects.select_related("document").order_by("-pk")[:MOST_CONFIGS]
    return {
        one.pk: (" · ".join(filter(None, (one.model, one.document.name))), one.config)
        for one in newest
    }


def _start_row(one: EngineStart, evidence: Evidence) -> dict[str, Any]:
    worker = first_worker(one)
    failure = one.figures.get("failure") or {}
    return _linked(one.document_id, evidence) | {
        "kind": "engine-log",
        "model": one.model or None,
        "engine_version": one.engine_version or None,
        "started_at": when(one.started_at),
        "failure": failure.get("kind"),
        "kv_bytes": worker.get("kv_bytes"),
        "kv_tokens": worker.get("kv_tokens"),
        "agreement": agreed.as_json() if (agreed := evidence.agreement_of(one)) else None,
        "posted_at": when(one.posted_at),
    }


def _config_row(one: ModelConfig, evidence: Evidence) -> dict[str, Any]:
    return _linked(one.document_id, evidence) | {
        "kind": "model-config",
        "model": one.model or None,
        "engine_version": None,
        "started_at": None,
        "failure": None,
        "kv_bytes": None,
        "kv_tokens": None,
        "agreement": None,
        "posted_at": when(one.posted_at),
    }


def _linked(document: str, evidence: Evidence) -> dict[str, Any]:
    link = evidence.links.get(document)
    return {
        "document": document,
        "workload": link.workload.slug if link else None,
        "pod": link.pod or None if link else None,
    }


def bytes_of_a_block(size: int | None, blocks: int | None) -> Decimal | None:
    """Bytes of one block on one GPU, to 60 digits (§1); None where either is not known."""
    return divide(Decimal(size), Decimal(blocks)) if size and blocks else None
