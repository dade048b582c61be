"""Posting what start-up logs and model configurations say, and whose evidence they are (§8.2–8.3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from finops.core.engine_start import EngineStart as Start
from finops.core.kv import KV_DTYPES
from finops.ledger.models import Document, EngineStart, EvidenceLink, ModelConfig
from finops.ledger.which import atomic
from finops.sources.records import EngineStartRecord, ModelConfigRecord
from finops.trail import operations as trail

from .charges import storable
from .workloads import NotAccepted, workload_named

FORMATS = ("engine-log", "model-config")
CLOCK_SKEW = timedelta(days=1)


def post_memory_evidence(
    document: Document, records: Iterable[EngineStartRecord | ModelConfigRecord], *, at: datetime
) -> int:
    """Posts the starts or the configuration of a document; how many records there were.

    To be called inside the ledger's transaction.
    """
    count = 0
    for record in records:
        if isinstance(record, EngineStartRecord):
            _start(document, count, record.engine, at).save(force_insert=True)
        else:
            model = storable(record.model or "")
            ModelConfig.objects.create(
                document=document, model=model, config=dict(record.config), posted_at=at
            )
        count += 1
    return count


def _start(document: Document, number: int, start: Start, at: datetime) -> EngineStart:
    return EngineStart(
        document=document,
        number=number,
        engine_version=start.engine_version or "",
        model=start.model or "",
        served_names=start.served_names,
        data_parallel_rank=start.data_parallel_rank,
        started_at=instant_in_log(start.started, at),
        has_failed=start.failure is not None,
        figures=start.as_json(),
        posted_at=at,
    )


def instant_in_log(text: str | None, at: datetime) -> datetime | None:
    """The instant that a log prints, read as UTC; without a year, the last such day before it was
    handed over. None when it prints none, or none that exists."""
    if text is None:
        return None
    try:
        if len(text) > 14:
            return datetime.fromisoformat(text.replace("Z", "+00:00")[:19]).replace(tzinfo=UTC)
        for year in (at.year + 1, at.year, at.year - 1):
            found = datetime.fromisoformat(f"{year}-{text.replace(' ', 'T')}").replace(tzinfo=UTC)
            if found <= at + CLOCK_SKEW:
                return found
    except ValueError:
        pass
    return None


def link_evidence(
    sha256: str,
    slug: str,
    *,
    by: str,
    at: datetime,
    pod: str = "",
    tensor_parallel: int | None = None,
    pipeline_parallel: int | None = None,
    kv_dtype: str = "",
) -> EvidenceLink:
    """Says whose evidence a log or configuration is. NotAccepted says what is wrong with it."""
    document = Document.objects.filter(pk=sha256, format__in=FORMATS).first()
    if document is None:
        raise NotAccepted(f"no start-up log or model configuration with the digest {sha256[:12]}…")
    if kv_dtype and kv_dtype not in KV_DTYPES:
        raise NotAccepted(f"kv-dtype is one of {', '.join(KV_DTYPES)}, not {kv_dtype!r}")
    for name, value in (("tp", tensor_parallel), ("pp", pipeline_parallel)):
        if value is not None and not 1 <= value <= 4096:
            raise NotAccepted(f"{name} must be from 1 to 4096, not {value}")
    with atomic():
        link = EvidenceLink.objects.create(
            document=document,
            workload=workload_named(slug),
            pod=storable(pod),
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            kv_dtype=kv_dtype,
            at=at,
            by=by,
        )
        detail = {"workload": slug, "pod": link.pod, "kv_dtype": kv_dtype}
        detail |= {"tp": str(tensor_parallel or ""), "pp": str(pipeline_parallel or "")}
        trail.record(at=at, actor=by, action="evidence linked", subject=sha256, detail=detail)
    return link
