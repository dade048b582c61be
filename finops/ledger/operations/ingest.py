"""Taking documents in: keep the bytes, parse, post, account for every row (method §3.1, §3.2).

The files given in one call are one delivery. Its charges are posted in one transaction; readings
and usage records in one transaction a document. What is refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import DataError

from finops.ledger.models import Document, Source
from finops.ledger.operations import (
    charges,
    discounts,
    documents,
    inputs,
    manifests,
    pairing,
    parsing,
    parts,
    rate_cards,
    reach,
    sets,
    terms,
)
from finops.ledger.operations.catching_up import catch_up
from finops.ledger.operations.locks import lock
from finops.ledger.operations.manifests import Verdict
from finops.ledger.operations.memory_evidence import post_memory_evidence
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.readings import post_readings
from finops.ledger.operations.usage import post_usage
from finops.ledger.queries.documents import known, refusal, report, set_aside
from finops.ledger.which import atomic
from finops.sources import registry
from finops.sources.records import (
    Account,
    ChargeRecord,
    EngineStartRecord,
    ModelConfigRecord,
    Parsed,
    RateCardRecord,
    Refused,
    Rejection,
    SeriesReadings,
    UsageRecord,
)
from finops.trail import operations as trail

BOTH_LEDGERS = ("default", "sample")
MEMORY_EVIDENCE = (EngineStartRecord, ModelConfigRecord)
WITHOUT_SOURCE = (*MEMORY_EVIDENCE, *terms.KINDS)
ONE_BY_ONE = (SeriesReadings, UsageRecord, *MEMORY_EVIDENCE)

Progress = Callable[[str], None]
Outcome = Document | Refused | None  # None: the ledger holds these bytes already


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that is in the store and whose format is known."""

    kept: documents.Kept
    format: str
    kind: type[object] | None
    said: Verdict = field(default_factory=Verdict)  # by its manifest, if it has one

    def parse(self) -> Parsed:
        """A fresh reading of the stored bytes."""
        return parsing.parse(self.kept, self.format)


def ingest(
    paths: Sequence[str],
    *,
    by: str,
    at: datetime,
    format: str | None = None,
    source: str = "files",
    progress: Progress | None = None,
    found: Sequence[inputs.Found | inputs.NotFound] | None = None,
) -> list[dict[str, Any]]:
    """Takes in files, folders, globs and URLs; one account a file, in the contract's shape.

    Bytes that the ledger in use already holds are `unchanged`. A document that cannot be read, or
    a path where nothing is, is `rejected` with its reason, and the others go on. `source` names
    where readings and usage records come from; `found` is what was found under the paths already.
    """
    tell = progress or (lambda text: None)
    found = inputs.find(paths) if found is None else found
    verdicts, unreadable = manifests.judge([one for one in found if isinstance(one, inputs.Found)])
    results = [refusal(path, None, Refused(reason)) for path, reason in unreadable.items()]
    results += [_set_aside(p, v) for p, v in verdicts.items() if v.status != manifests.TAKE]
    entries = [_keep(one, tell, verdicts) for one in found if _is_read(one, verdicts)]
    kept = {one.sha256: one for _, one in entries if isinstance(one, documents.Kept)}
    said = {
        one.sha256: verdicts[path]
        for path, one in entries
        if isinstance(one, documents.Kept) and path in verdicts
    }
    broken = {
        verdicts[path].manifest: path
        for path, one in entries
        if isinstance(one, Refused) and path in verdicts
    }
    outcomes = _post(kept, said, broken, by=by, at=at, format=format, source=source, tell=tell)
    told = set[str]()
    for path, one in entries:
        if isinstance(one, Refused | inputs.NotFound):
            results.append(refusal(path, None, one))
            continue
        first = one.sha256 not in told
        told.add(one.sha256)
        results.append(_result(path, one, outcomes[one.sha256], first))
    return results


def is_fine(results: Sequence[dict[str, Any]]) -> bool:
    """Whether every document was taken whole; one that is unchanged was judged before."""
    return all(
        one["status"] == "unchanged" or (one["status"] != "rejected" and not one["rows_rejected"])
        for one in results
    )


def _set_aside(path: str, verdict: Verdict) -> dict[str, Any]:
    if verdict.status == manifests.REFUSE:
        return refusal(path, None, Refused(f"{path}: {verdict.reason}"))
    return set_aside(
        path, "waiting" if verdict.status == manifests.WAIT else "unchanged", verdict.reason
    )


def _is_read(found: inputs.Found | inputs.NotFound, verdicts: Mapping[str, Verdict]) -> bool:
    """Manifests, and files that a manifest sets aside, are not read as data."""
    if isinstance(found, inputs.NotFound):
        return True
    is_set_aside = verdicts.get(found.path, Verdict()).status != manifests.TAKE
    return not found.is_manifest and not is_set_aside


def _keep(
    found: inputs.Found | inputs.NotFound, tell: Progress, verdicts: Mapping[str, Verdict]
) -> tuple[str, documents.Kept | Refused | inputs.NotFound]:
    """The bytes of one file, in the store."""
    if isinstance(found, inputs.NotFound):
        return str(found).split(": ", 1)[0], found
    tell(f"reading {found.path}")
    try:
        with found.open() as stream:
            kept = documents.keep_stream(stream, found.name, found.origin)
        kept = replace(kept, archive=found.archive)
    except Exception as error:  # noqa: BLE001 - stores behind URLs fail in their own ways
        reason = (
            getattr(error, "strerror", None)
            or f"{type(error).__name__}: {inputs.masked(str(error))}"
        )
        return found.path, Refused(f"{found.path}: cannot be read ({reason})")
    wanted = verdicts.get(found.path, Verdict()).size_bytes
    if wanted is not None and wanted != kept.size_bytes:
        documents.forget(kept, is_known=_is_known)
        reason = f"its manifest says {wanted} bytes, {kept.size_bytes} are here"
        return found.path, Refused(f"{found.path}: {reason}")
    return found.path, kept


def _post(
    kept: dict[str, documents.Kept],
    said: Mapping[str, Verdict],
    broken: dict[str, str],
    *,
    by: str,
    at: datetime,
    format: str | None,
    source: str,
    tell: Progress,
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    candidates: list[_Candidate] = []
    held: list[sets.Held] = []
    for sha256, one in kept.items():
        verdict = said.get(sha256, Verdict())
        if (document := known(sha256)) is not None:
            held.append(sets.Held(one, verdict, document))
            outcomes[sha256] = None
            continue
        looked = _look(one, format or verdict.format, verdict)
        if isinstance(looked, _Candidate):
            candidates.append(looked)
        else:
            outcomes[sha256] = looked
            broken.setdefault(verdict.manifest, one.name)
    for candidate in [one for one in candidates if one.said.manifest in broken.keys() - {""}]:
        manifest = candidate.said.manifest
        outcomes[candidate.kept.sha256] = _of_broken(
            candidate, sets.reason(manifest, broken[manifest])
        )
        candidates.remove(candidate)
    for kinds in (terms.KINDS, None, ONE_BY_ONE):  # rate cards come before what they price
        if kinds is None:
            for delivery in _deliveries(candidates):
                outcomes |= _post_charges(delivery, held, by=by, at=at, tell=tell)
            continue
        for candidate in candidates:
            if candidate.kind in kinds:
                tell(f"posting {candidate.kept.name}")
                outcomes[candidate.kept.sha256] = _post_one(candidate, source, by=by, at=at)
    if any(one.kind is RateCardRecord for one in candidates):
        catch_up(by=by, at=at)
    for sha256, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            documents.forget(kept[sha256], is_known=_is_known)
    return outcomes


def _is_known(sha256: str) -> bool:
    """Both ledgers share the store of documents."""
    return any(Document.objects.using(name).filter(pk=sha256).exists() for name in BOTH_LEDGERS)


def _deliveries(candidates: Sequence[_Candidate]) -> Iterator[list[_Candidate]]:
    """The documents of each delivery that manifests part, in their order; mostly there is one."""
    for place in sorted({one.said.delivery for one in candidates}):
        yield [one for one in candidates if one.said.delivery == place]


def _look(kept: documents.Kept, format: str | None, said: Verdict) -> _Candidate | Refused:
    """The document's format and, by its first record, what it holds."""
    try:
        chosen = parsing.exact(format or registry.detect(kept.path, kept.name), kept.name)
        records = parsing.parse(kept, chosen).records
        first = next((one for one in records if not isinstance(one, Rejection)), None)
        if isinstance(records, Iterator) and hasattr(records, "close"):
            records.close()
    except Refused as refused:
        return refused
    return _Candidate(kept, chosen, None if first is None else type(first), said)


def _post_charges(
    candidates: Sequence[_Candidate],
    held: Sequence[sets.Held],
    *,
    by: str,
    at: datetime,
    tell: Progress,
) -> dict[str, Outcome]:
    """The delivery's charges, and documents without any record, in one transaction.

    A set of a manifest of which one part is refused is refused whole, and the others posted anew.
    """
    mine = [one for one in candidates if one.kind in (ChargeRecord, None)]
    outcomes: dict[str, Outcome] = {}
    while mine:
        said = {one.kept.sha256: (one.kept.name, one.said) for one in mine}
        again = list(sets.parts_held({sets.set_of(one.kept, one.said) for one in mine}, held))
        try:
            with atomic():
                posted = _post_delivery(mine, again, by=by, at=at, tell=tell)
                sets.check_whole(posted, said)
            return outcomes | posted
        except sets.Broken as broken:
            lost = [one for one in mine if one.said.manifest in broken.reasons]
            outcomes |= {
                one.kept.sha256: posted[one.kept.sha256]
                if isinstance(posted[one.kept.sha256], Refused)
                else _of_broken(one, broken.reasons[one.said.manifest])
                for one in lost
            }
            mine = [one for one in mine if one not in lost]
        except Refused as refused:  # a document to be read again could not be: nothing is kept
            return outcomes | {one.kept.sha256: refused for one in mine}
    return outcomes


def _of_broken(candidate: _Candidate, reason: str) -> Refused:
    return Refused(f"{candidate.kept.name}: {reason}")


def _post_delivery(
    mine: Sequence[_Candidate],
    held: Sequence[sets.Held],
    *,
    by: str,
    at: datetime,
    tell: Progress,
) -> dict[str, Outcome]:
    given = [(one.kept, one.format) for one in mine] + [(one.kept, one.format) for one in held]
    of_two_views = {
        kept.sha256: (kept, format) for kept, format in given if pairing.is_of_two_views(format)
    }
    plan = pairing.plan(of_two_views) if of_two_views else pairing.Plan()
    taken = [one for one in mine if one.kept.sha256 not in plan.refused]
    formats = discounts.net_formats({one.kept.sha256: (one.kept, one.format) for one in taken})
    formats |= plan.formats
    under, known_cards = reach.Reach(), rate_cards.cards()
    read_as = {one.kept.sha256: formats.get(one.kept.sha256, one.format) for one in taken}

    def offered(readers: parts.Readers) -> Iterator[charges.Offered]:
        for one in taken:
            tell(f"posting {one.kept.name}")
            yield _offer(one, read_as[one.kept.sha256], under, readers)
        yield from (one.offered(under) for one in held)
        again = {one.kept.sha256 for one in held}
        yield from (one for one in plan.again if one.kept.sha256 not in again)

    given = [(one.kept, read_as[one.kept.sha256]) for one in taken]
    with parts.Readers(given, under.rules, known_cards) as readers:
        outcomes = charges.post_charges(
            offered(readers),
            by=by,
            at=at,
            origin=", ".join(one.kept.origin for one in mine[:20]),
            digests=[one.kept.sha256 for one in taken],
            paired=plan.paired,
            reach=under,
            price=Pricer(known_cards),
        )
    for outcome in outcomes.values():
        if isinstance(outcome, Document):
            _note(outcome, by=by, at=at)
    digests = {one.kept.sha256 for one in mine}
    return outcomes | {sha256: one for sha256, one in plan.refused.items() if sha256 in digests}


def _offer(
    one: _Candidate, format: str, under: reach.Reach, readers: parts.Readers
) -> charges.Offered:
    """A new document and how it is read: by a process beside, in bulk, or line by line."""
    spooled = readers.of(one.kept.sha256)
    if spooled is not None:
        parsed = Parsed(Account(format), iter(()))
    elif reach.keeps_sums(one.kept):
        parsed = reach.parse(one.kept, format, under)
    else:
        parsed = parsing.parse(one.kept, format)
    return charges.Offered(
        one.kept,
        parsed.account.format,
        parsed,
        rows=one.said.rows,
        exported_at=one.said.exported_at,
        spooled=spooled,
    )


def _post_one(candidate: _Candidate, source: str, *, by: str, at: datetime) -> Outcome:
    """One document of readings or usage records, in a transaction of its own."""
    try:
        with atomic():
            lock("document", candidate.kept.sha256)
            if known(candidate.kept.sha256):
                return None
            document = _post_series(candidate, source, by=by, at=at)
            _note(document, by=by, at=at)
            return document
    except Refused as refused:
        return refused
    except DataError as error:
        said = str(error).splitlines()[0]
        return Refused(f"{candidate.kept.name}: a value does not fit into the ledger ({said})")


def _post_series(candidate: _Candidate, source: str, *, by: str, at: datetime) -> Document:
    """Posts the records, then the document's row with its final counts.

    The row comes last because it can never be changed; foreign keys to it are checked at the end
    of the transaction.
    """
    place = None if candidate.kind in WITHOUT_SOURCE else _source(source, by=by, at=at)
    parsed = candidate.parse()
    rejections: list[Rejection] = []
    records = _without_rejections(parsed, candidate.kind, rejections)
    document = charges.document_of(candidate.kept, candidate.format, parsed.account, by=by, at=at)
    more: dict[str, Any]
    if candidate.kind in terms.KINDS:
        told = terms.post_terms(document, candidate.kind, records, by=by, at=at)
        rejections += told.refused
        more, unnamed = {"evidence_records": told.records, "warnings": told.warnings}, 0
    else:
        more, unnamed = _post_records(document, place, candidate.kind, records, rejections, at)
    final = charges.document_of(candidate.kept, candidate.format, parsed.account, by=by, at=at)
    document.rows_read, document.version = final.rows_read, final.version
    warnings = [*final.account["warnings"], *more.pop("warnings", [])]
    document.account = final.account | more | {"warnings": warnings}
    document.rows_rejected = len(rejections) + unnamed
    document.save(force_insert=True)
    charges.keep_rejections(document.sha256, rejections)
    return document


def _source(name: str, *, by: str, at: datetime) -> Source:
    made = {"kind": "files", "created_at": at, "created_by": by}
    return Source.objects.get_or_create(name=name, defaults=made)[0]


def _post_records(
    document: Document,
    place: Source | None,
    kind: type[object] | None,
    records: Iterator[Any],
    rejections: list[Rejection],
    at: datetime,
) -> tuple[dict[str, Any], int]:
    """What to say of the postings, and how many rows were refused beyond those named."""
    if place is None:
        return {"evidence_records": post_memory_evidence(document, records, at=at)}, 0
    if kind is SeriesReadings:
        read = post_readings(document, place, records, at=at)
        document.readings = read.readings
        rejections += read.refused
        unnamed = read.refused_count - len(read.refused)
        return {"series": read.series, "ignored_metrics": dict(read.ignored_metrics)}, unnamed
    used = post_usage(document, place, records)
    rejections += used.refused
    repeated = {"repeated": used.repeated} if used.repeated else {}
    return {"records": used.records, "warnings": used.warnings} | repeated, 0


def _without_rejections(
    parsed: Parsed, kind: type[object] | None, rejections: list[Rejection]
) -> Iterator[Any]:
    for record in parsed.records:
        if isinstance(record, Rejection):
            rejections.append(record)
        elif isinstance(record, kind or object):
            yield record
        else:
            raise Refused(f"{type(record).__name__} among other kinds of records in one document")


def _note(document: Document, *, by: str, at: datetime) -> None:
    trail.record(
        at=at,
        actor=by,
        action="document.ingest",
        subject=document.sha256,
        detail={
            "name": charges.storable(document.name),
            "format": document.format,
            "rows_read": document.rows_read,
            "charges": document.charges,
            "rows_summed": document.account.get("rows_summed", 0),
            "readings": document.readings,
            "rows_rejected": document.rows_rejected,
        },
    )


def _result(path: str, kept: documents.Kept, outcome: Outcome, first: bool) -> dict[str, Any]:
    if isinstance(outcome, Refused):
        return refusal(path, kept.sha256, outcome)
    document = outcome or known(kept.sha256)
    if document is None:
        return refusal(path, kept.sha256, Refused(f"{path}: was taken out while it was posted"))
    return report(document, path, is_new=first and outcome is not None)
