"""Long part files of one delivery, read by several processes at once (method §3.2).

Each part is read by a process of its own up to rows ready for COPY; the caller posts them one after
the other in its one transaction, so that a refused part or a killed process leaves nothing current.
A part whose process was killed is read again, in the end by the caller itself.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from django.conf import settings

import finops
from finops.core.allocation import Rule
from finops.core.rate_card import Card
from finops.ledger.operations import part_reading
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.part_reading import Job, Part, answer_of, read_part
from finops.ledger.operations.reach import keeps_sums
from finops.sources import focus

_MAIN = f"from {part_reading.__name__} import main; main()"  # so that pickles name the module
ATTEMPTS = 2  # before the caller reads a part itself
_HERE = Path(finops.__file__).resolve().parent.parent


class Readers:
    """Processes that read the long parts of one delivery, oldest first; to be used in a `with`.

    There are as many as the setting BULK_PROCESSES says, and they share BULK_THREADS.
    """

    def __init__(
        self, given: Sequence[tuple[Kept, str]], rules: Sequence[Rule], cards: Sequence[Card]
    ) -> None:
        self._parts = spread(given)
        self._terms = (rules, cards)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._closed = threading.Lock(), False
        self._futures: dict[str, Future[Job]] = {}
        self._last: Job | None = None

    def __enter__(self) -> Readers:
        if not self._parts:
            return self
        processes = min(settings.BULK_PROCESSES, len(self._parts))
        self._pool = ThreadPoolExecutor(processes, "part")
        self._folder = tempfile.TemporaryDirectory(prefix="headroom-parts-")
        threads = max(1, settings.BULK_THREADS // processes)
        for kept, format in self._parts:
            spool = Path(self._folder.name) / f"{kept.sha256}.rows"
            at = (kept.path, kept.name, kept.sha256, format)
            job = Job(*at, *self._terms, threads, spool)
            self._futures[kept.sha256] = self._pool.submit(self._run, job)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._parts:
            return
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def of(self, sha256: str) -> Callable[[], Part] | None:
        """What waits for a part's rows; None for a document that the caller reads itself.

        What it gives is to be posted before the next is waited for: then its spool is removed.
        """
        future = self._futures.get(sha256)
        if future is None:
            return None

        def wait() -> Part:
            job = future.result()
            if self._last is not None:
                self._last.spool.unlink(missing_ok=True)
            self._last = job
            if not job.answer.exists():
                read_part(job)
            return answer_of(job)

        return wait

    def _run(self, job: Job) -> Job:
        """Starts a process for a part, again when it is killed; the answer is there or not."""
        for _ in range(ATTEMPTS):
            with self._lock:
                if self._closed:
                    return job
                process = _start(job)
                self._running.add(process)
            process.wait()
            with self._lock:
                self._running.discard(process)
            if process.stdin:
                process.stdin.close()
            if job.answer.exists():
                break
        return job


def spread(given: Sequence[tuple[Kept, str]]) -> list[tuple[Kept, str]]:
    """The documents that are worth a process each: long ones in bulk formats, where there are several."""
    if settings.BULK_PROCESSES < 2 or len(given) < 2:
        return []
    found = [one for one in given if one[1] in focus.FORMATS and keeps_sums(one[0])]
    return found if len(found) > 1 else []


def _start(job: Job) -> subprocess.Popen[bytes]:
    paths = [str(_HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # what fails here fails again in the caller, which tells it
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(job.spool.parent)},
    )
    try:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(job))
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it was killed at once
    return process
