"""Reading one long part of a delivery, up to rows ready for COPY, by whoever takes it.

A job lies in the delivery's spool folder. A worker, or the caller where none came, takes it, reads
the stored bytes, and writes rows, rejections and sums to a file beside it. Rules and rate cards come
with the job, so that every part is read under the same ones. A reader may be killed at any instant:
the part is read again and posted with the others, in one transaction (method §3.2).
"""

from __future__ import annotations

import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finops.core.allocation import Rule
from finops.core.rate_card import Card
from finops.ledger.operations import spool
from finops.ledger.operations.bulk_text import text_field
from finops.ledger.operations.charge_lines import (
    Completing,
    Scoped,
    Sums,
    batches,
    count,
    told_by,
)
from finops.ledger.operations.charge_rows import row_of
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.reach import parse
from finops.ledger.operations.reaching import Reaching, Scope
from finops.ledger.which import LedgerName, use_ledger
from finops.sources.bulk_table import Table
from finops.sources.records import Account, Refused, Rejection

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TAB, _NOTHING = "\0t", "\0n"


class NobodyWaits(Exception):
    """The delivery's caller is gone: its parts need not be read."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What every part of a delivery is read under."""

    ledger: LedgerName
    rules: Sequence[Rule]
    cards: Sequence[Card]
    paired: frozenset[Scope]
    threads: int


@dataclass(frozen=True, slots=True)
class Job:
    """One part: its stored bytes, how they are read, and the folder that the answer goes to."""

    kept: Kept
    format: str
    terms: Terms
    folder: Path

    @property
    def taken(self) -> Path:
        """The file whose lock the part's reader holds; there once somebody took the part."""
        return self.folder / f"{self.kept.sha256}.taken"

    @property
    def rows(self) -> Path:
        """The file of rows and rejections."""
        return self.folder / f"{self.kept.sha256}.rows"

    @property
    def answer(self) -> Path:
        """The file that is there once the part has been read to its end."""
        return self.folder / f"{self.kept.sha256}.answer"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one snapshot as lines of COPY's text form, without the snapshot's key in front.

    `snapshot` is the key that the part's own sums give it.
    """

    snapshot: int
    lines: bytes

    def of(self, key: int) -> bytes:
        """The lines with the snapshot's own key."""
        front = str(key).encode()
        return front + self.lines[:-1].replace(b"\n", b"\n" + front) + b"\n"


@dataclass(frozen=True, slots=True)
class TableRows:
    """Charges of a table as lines of COPY's text form, with the keys that the part gives to
    snapshots; `fields` are told before the ending."""

    fields: Sequence[str]
    lines: str

    def of(self, keys: Mapping[int, int], sha256: str) -> str:
        """The lines with the snapshots' own keys; no other cells stand so before the digest."""
        text = self.lines
        for own, key in keys.items():
            text = text.replace(f"\t{own}\t{sha256}\t", f"\t{key}\t{sha256}\t")
        return text


@dataclass(frozen=True, slots=True)
class Part:
    """A part that has been read: its account and sums, its rows and rejections in a file."""

    account: Account
    sums: Sums
    rows: Path

    def blocks(self) -> Iterator[Rows | TableRows | list[Rejection]]:
        """Rows and rejections in the order they were read, a few thousand at a time."""
        with self.rows.open("rb") as file:
            while (block := pickle.load(file)) is not None:  # noqa: S301 - our own process wrote it
                yield block


def leave(job: Job) -> None:
    """Leaves a job in its folder, for whoever takes it."""
    _job_in(job.folder, job.kept.sha256).write_bytes(pickle.dumps(job))


def read_left(folder: Path, sha256: str) -> bool:
    """Reads a part whose job lies in a folder; False when it is another's or nobody waits for it."""
    try:
        job = pickle.loads(_job_in(folder, sha256).read_bytes())  # noqa: S301 - in our own folder
        with spool.held_if_free(job.taken) as is_ours, _temporary_files_in(folder):
            if is_ours and not job.answer.exists():
                read_part(job)
            return is_ours
    except (FileNotFoundError, NobodyWaits):
        if folder.exists() and spool.is_awaited(folder):
            raise
        return False


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """What a killed worker leaves of temporary files goes with the delivery's folder."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _job_in(folder: Path, sha256: str) -> Path:
    if not _DIGEST.fullmatch(sha256):
        raise ValueError(f"{sha256[:80]!r} is not the digest of a part")
    return folder / f"{sha256}.job"


def read_part(job: Job) -> None:
    """Reads a part into its rows file, then writes the answer: a Part, or why it was refused.

    NobodyWaits when the caller is gone meanwhile.
    """
    name = job.kept.name
    try:
        with use_ledger(job.terms.ledger):
            answer: Part | Refused = _read(job)
    except Refused as refused:
        known = name in str(refused)
        answer = refused if known else refused.said(f"{name}: {refused}")
    whole = job.answer.with_suffix(".new")
    whole.write_bytes(pickle.dumps(answer))
    whole.replace(job.answer)


def answer_of(job: Job) -> Part:
    """What `read_part` found. Refused when the part was."""
    answer = pickle.loads(job.answer.read_bytes())  # noqa: S301 - our own process wrote it
    if isinstance(answer, Part):
        return answer
    assert isinstance(answer, Refused)
    raise answer


def _read(job: Job) -> Part:
    terms = job.terms
    reaching = Reaching(terms.rules)
    parsed = parse(job.kept, job.format, reaching, threads=terms.threads)
    completing = Completing(Pricer(terms.cards), terms.paired, reaching)
    sums = Sums()
    with job.rows.open("wb") as file:

        def take_table(table: Table) -> None:
            for lines in told_by(table, job.kept.sha256, sums, _own_key(sums)):
                _check_awaited(job)
                pickle.dump(TableRows(table.fields, lines), file)

        found = batches(parsed.records, completing, sums=True, take_table=take_table)
        for charges, rejections in found:
            _check_awaited(job)
            for rows in _rows(charges, job.kept.sha256, sums):
                pickle.dump(rows, file)
            if rejections:
                sums.rejected += len(rejections)
                pickle.dump(rejections, file)
        pickle.dump(None, file)
    return Part(parsed.account, sums, job.rows)


def _check_awaited(job: Job) -> None:
    if not spool.is_awaited(job.folder):
        raise NobodyWaits(job.kept.name)


def _own_key(sums: Sums) -> Callable[[Scope], int]:
    """What gives a snapshot its key within the part: below zero, as no key of the ledger is."""
    return lambda _: -1 - len(sums.lines)


def _rows(charges: Sequence[Scoped], sha256: str, sums: Sums) -> Iterator[Rows]:
    lines: dict[int, list[bytes]] = {}
    for charge, scope in charges:
        snapshot = count(charge, scope, sums, _own_key(sums))
        row = row_of(charge, snapshot, sha256)
        lines.setdefault(snapshot, []).append(_line(row[1:]))
    for snapshot, each in lines.items():
        yield Rows(snapshot, b"".join(each))


def _line(values: Sequence[Any]) -> bytes:
    """A row as a line of COPY's text form, with a tab in front.

    No text that can be stored holds a NUL, so NULs keep the places of tabs and of nothing while texts are
    escaped, all at once.
    """
    texts = [
        _NOTHING if value is None else value if value.__class__ is str else str(value)
        for value in values
    ]
    joined = _TAB.join(texts)
    if joined.count("\0") != len(texts) - 1 + texts.count(_NOTHING):
        raise Refused("a text with a NUL character cannot be stored")
    line = text_field(joined).replace(_TAB.encode(), b"\t")
    return b"\t" + line.replace(_NOTHING.encode(), b"\\N") + b"\n"
