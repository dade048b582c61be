"""Reading one long part of a delivery in a process of its own, up to rows ready for COPY.

The process gets a job, reads the stored bytes, and writes rows, rejections and sums to a spool file.
It knows no database and no settings: rules and rate cards come with the job. So it may be killed at
any instant; whoever started it reads the part again and posts it with the others, in one
transaction (method §3.2).
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finops.core.allocation import Rule
from finops.core.rate_card import Card
from finops.ledger.operations.bulk_text import text_field
from finops.ledger.operations.charge_lines import Completing, Scoped, Sums, batches, count
from finops.ledger.operations.charge_rows import row_of
from finops.ledger.operations.pricing import Pricer
from finops.ledger.operations.reaching import Reaching
from finops.sources import focus_bulk
from finops.sources.records import Account, Refused, Rejection

_TAB, _NOTHING = "\0t", "\0n"


@dataclass(frozen=True, slots=True)
class Job:
    """One part: its stored bytes, how it is read, and where the answer goes."""

    path: Path
    name: str
    sha256: str
    format: str
    rules: Sequence[Rule]
    cards: Sequence[Card]
    threads: int
    spool: Path

    @property
    def answer(self) -> Path:
        """The file that is there once the part has been read to its end."""
        return self.spool.with_suffix(".answer")


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
class Part:
    """A part that has been read: its account and sums, its rows and rejections in the spool."""

    account: Account
    sums: Sums
    spool: Path

    def blocks(self) -> Iterator[Rows | list[Rejection]]:
        """Rows and rejections in the order they were read, a few thousand at a time."""
        with self.spool.open("rb") as file:
            while (block := pickle.load(file)) is not None:  # noqa: S301 - our own process wrote it
                yield block


def read_part(job: Job) -> None:
    """Reads a part into its spool file, then writes the answer: a Part, or why it was refused."""
    try:
        answer: Part | str = _read(job)
    except Refused as refused:
        answer = str(refused)
    if isinstance(answer, str) and job.name not in answer:
        answer = f"{job.name}: {answer}"
    whole = job.answer.with_suffix(".new")
    whole.write_bytes(pickle.dumps(answer))
    whole.replace(job.answer)


def answer_of(job: Job) -> Part:
    """What `read_part` found. Refused when the part was."""
    answer = pickle.loads(job.answer.read_bytes())  # noqa: S301 - our own process wrote it
    if isinstance(answer, Part):
        return answer
    raise Refused(answer)


def _read(job: Job) -> Part:
    parsed = focus_bulk.parse(job.path, job.name, job.format, job.rules, job.threads)
    completing = Completing(Pricer(job.cards), frozenset(), Reaching(job.rules))
    sums = Sums()
    with job.spool.open("wb") as file:
        for charges, rejections in batches(parsed.records, completing, sums=True):
            for rows in _rows(charges, job.sha256, sums):
                pickle.dump(rows, file)
            if rejections:
                sums.rejected += len(rejections)
                pickle.dump(rejections, file)
        pickle.dump(None, file)
    return Part(parsed.account, sums, job.spool)


def _rows(charges: Sequence[Scoped], sha256: str, sums: Sums) -> Iterator[Rows]:
    lines: dict[int, list[bytes]] = {}
    for charge, scope in charges:
        snapshot = count(charge, scope, sums, lambda _: len(sums.lines) + 1)
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


def _end_with_starter() -> None:
    """Ends this process when whoever started it is gone, and standard input is closed."""
    os.read(0, 1)
    os._exit(1)


def main() -> None:
    """Reads the job on standard input, which stays open as long as the answer is wanted."""
    job = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    threading.Thread(target=_end_with_starter, daemon=True).start()
    read_part(job)
