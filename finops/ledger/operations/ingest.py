"""Taking documents in: keep the bytes, parse, post, account for every row (method §3.1, §3.2).

The files given in one call are one delivery. Its charges are posted in one transaction; readings
and usage records in one transaction a document. What is refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from finops.ledger import signals
from finops.ledger.models import Document
from finops.ledger.operations import (
    delivering,
    documents,
    inputs,
    issued,
    manifests,
    one_by_one,
    origins,
    parsing,
    sets,
    summing_again,
    terms,
)
from finops.ledger.operations.candidates import Candidate, Outcome, look, of_broken
from finops.ledger.operations.catching_up import catch_up
from finops.ledger.operations.delivering import Progress
from finops.ledger.operations.manifest_files import REFUSE, TAKE, WAIT, Verdict
from finops.ledger.queries.documents import known, refusal, report, set_aside
from finops.sources.records import RateCardRecord, Refused

BOTH_LEDGERS = ("default", "sample")


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

    Bytes that the ledger in use already holds are `unchanged`; where else they came from is kept.
    A document that cannot be read, or
    a path where nothing is, is `rejected` with its reason, and the others go on. `source` names
    where readings and usage records come from; `found` is what was found under the paths already.
    """
    tell = progress or (lambda text: None)
    found = inputs.find(paths) if found is None else found
    verdicts, unreadable = manifests.judge([one for one in found if isinstance(one, inputs.Found)])
    results = [refusal(path, None, Refused(reason)) for path, reason in unreadable.items()]
    results += [_set_aside(p, v) for p, v in verdicts.items() if v.status != TAKE]
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
    is_reread = _read_anew(outcomes, by=by, at=at, tell=tell)
    came_again = [
        one
        for _, one in entries
        if isinstance(one, documents.Kept) and not isinstance(outcomes[one.sha256], Refused)
    ]
    origins.record(came_again, source, by=by, at=at)
    told = set[str]()
    for path, one in entries:
        if isinstance(one, Refused | inputs.NotFound):
            results.append(refusal(path, None, one))
            continue
        first = one.sha256 not in told
        told.add(one.sha256)
        outcome = _told_of(one, kept[one.sha256].name, outcomes[one.sha256])
        results.append(_result(path, one, outcome, first))
    if is_reread or any(isinstance(outcome, Document) for outcome in outcomes.values()):
        signals.tell_of_arrival(at, tell)
    return results


def _read_anew(outcomes: dict[str, Outcome], *, by: str, at: datetime, tell: Progress) -> bool:
    """Reads documents that are held already again where today's catalogue of GPUs is another one.

    Whether any was; one that cannot be is told as refused, and its charges stay as they are.
    """
    again = False
    held = [digest for digest, outcome in outcomes.items() if outcome is None]
    for sha256 in summing_again.read_before(held):
        try:
            count = summing_again.read_anew([sha256], by=by, at=at)
        except Refused as refused:
            outcomes[sha256] = refused
            continue
        if count:
            tell(f"{count} documents read again: {summing_again.CATALOGUE}")
        again = again or bool(count)
    return again


def is_fine(results: Sequence[dict[str, Any]]) -> bool:
    """Whether every document was taken whole; one that is unchanged was judged before."""
    return all(
        one["status"] == "unchanged" or (one["status"] != "rejected" and not one["rows_rejected"])
        for one in results
    )


def _set_aside(path: str, verdict: Verdict) -> dict[str, Any]:
    if verdict.status == REFUSE:
        return refusal(path, None, Refused(f"{path}: {verdict.reason}"))
    return set_aside(path, "waiting" if verdict.status == WAIT else "unchanged", verdict.reason)


def _is_read(found: inputs.Found | inputs.NotFound, verdicts: Mapping[str, Verdict]) -> bool:
    """Manifests, and files that a manifest sets aside, are not read as data."""
    if isinstance(found, inputs.NotFound):
        return True
    is_set_aside = verdicts.get(found.path, Verdict()).status != TAKE
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
    candidates: list[Candidate] = []
    held: list[sets.Held] = []
    for sha256, one in kept.items():
        verdict = said.get(sha256, Verdict())
        if (document := known(sha256)) is not None:
            held.append(sets.Held(one, verdict, document))
            reason = parsing.otherwise(document, format) if format else None
            outcomes[sha256] = Refused(reason) if reason else None
            continue
        looked = look(one, format or verdict.format, verdict)
        if isinstance(looked, Candidate):
            candidates.append(looked)
        else:
            outcomes[sha256] = looked
            broken.setdefault(verdict.manifest, one.name)
    for candidate in [one for one in candidates if one.said.manifest in broken.keys() - {""}]:
        manifest = candidate.said.manifest
        outcomes[candidate.kept.sha256] = of_broken(
            candidate, sets.reason(manifest, broken[manifest])
        )
        candidates.remove(candidate)
    told = issued.told_by(candidates)
    for kinds in (terms.KINDS, None, one_by_one.KINDS):  # rate cards come before what they price
        if kinds is None:
            for delivery in _deliveries(candidates):
                outcomes |= delivering.post_charges(delivery, held, by=by, at=at, tell=tell)
            continue
        for candidate in candidates:
            if candidate.kind in kinds:
                tell(f"posting {candidate.kept.name}")
                outcomes[candidate.kept.sha256] = one_by_one.post_one(
                    candidate, source, told, by=by, at=at
                )
    if any(one.kind is RateCardRecord for one in candidates):
        catch_up(by=by, at=at)
    for sha256, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            documents.forget(kept[sha256], is_known=_is_known)
    return outcomes


def _is_known(sha256: str) -> bool:
    """Both ledgers share the store of documents."""
    return any(Document.objects.using(name).filter(pk=sha256).exists() for name in BOTH_LEDGERS)


def _deliveries(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """The documents of each delivery that manifests part, in their order; mostly there is one."""
    for place in sorted({one.said.delivery for one in candidates}):
        yield [one for one in candidates if one.said.delivery == place]


def _told_of(one: documents.Kept, read_as: str, outcome: Outcome) -> Outcome:
    """What was found of bytes, told of this file of theirs: files of the same bytes are read once,
    under the name of one of them."""
    if not isinstance(outcome, Refused) or not str(outcome).startswith(f"{read_as}: "):
        return outcome
    return outcome.said(one.name + str(outcome).removeprefix(read_as))


def _result(path: str, kept: documents.Kept, outcome: Outcome, first: bool) -> dict[str, Any]:
    if isinstance(outcome, Refused):
        return refusal(path, kept.sha256, outcome)
    document = outcome or known(kept.sha256)
    if document is None:
        return refusal(path, kept.sha256, Refused(f"{path}: was taken out while it was posted"))
    return report(document, path, is_new=first and outcome is not None)
