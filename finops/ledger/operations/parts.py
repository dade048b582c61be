"""Long part files of one delivery, spread over Celery workers (method §3.2).

Each part is read by a worker up to rows ready for COPY; the caller posts them one after the other
in its one transaction, so that a refused part or a killed worker leaves nothing current. A part that
no worker takes, or whose worker was killed, the caller reads itself, by the same code: without
workers nothing is missing but their help.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType

from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

from finops.core.allocation import Rule
from finops.core.rate_card import Card
from finops.ledger.operations import spool
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.part_reading import Job, Part, Terms, answer_of, leave, read_part
from finops.ledger.operations.reach import keeps_sums
from finops.ledger.operations.reaching import Scope
from finops.ledger.which import ledger_name

TASK = "finops.ledger.tasks.read_part"
PATIENCE_SECONDS = 2.0  # from sending on, for workers to come; then the caller takes what is left
STALE_SECONDS = 3600  # after which no worker need look at a message any more
_LOOK_AGAIN_SECONDS = 0.01

logger = logging.getLogger(__name__)


class Readers:
    """The workers that read the long parts of one delivery; to be used in a `with`.

    There are as many as the setting BULK_PROCESSES says, and they share BULK_THREADS. All parts are
    read under the same rules, rate cards and paired scopes.
    """

    def __init__(
        self,
        given: Sequence[tuple[Kept, str]],
        rules: Sequence[Rule],
        cards: Sequence[Card],
        paired: frozenset[Scope] = frozenset(),
    ) -> None:
        self._parts = spread(given)
        processes = max(1, min(settings.BULK_PROCESSES, len(self._parts)))
        threads = max(1, settings.BULK_THREADS // processes)
        self._terms = Terms(ledger_name(), rules, cards, paired, threads)
        self._jobs: dict[str, Job] = {}
        self._last: Job | None = None
        self._until = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Readers:
        if self._parts:
            folder = self._stack.enter_context(spool.own_folder())
            for kept, format in self._parts:
                job = Job(kept, format, self._terms, folder)
                leave(job)
                self._jobs[kept.sha256] = job
            if _send(list(self._jobs.values())):
                self._until = time.monotonic() + PATIENCE_SECONDS
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def of(self, sha256: str) -> Callable[[], Part] | None:
        """What waits for a part's rows; None for a document that the caller reads itself.

        What it gives is to be posted before the next is waited for: then its rows are removed.
        """
        job = self._jobs.get(sha256)
        if job is None:
            return None

        def wait() -> Part:
            if self._last is not None:
                self._last.rows.unlink(missing_ok=True)
            self._last = job
            while not job.taken.exists() and time.monotonic() < self._until:
                time.sleep(_LOOK_AGAIN_SECONDS)
            with spool.held(job.taken):
                if not job.answer.exists():
                    read_part(job)
            return answer_of(job)

        return wait


def spread(given: Sequence[tuple[Kept, str]]) -> list[tuple[Kept, str]]:
    """The documents that are worth a worker each: long ones, where there are several."""
    if settings.BULK_PROCESSES < 2 or len(given) < 2:
        return []
    found = [one for one in given if keeps_sums(one[0])]
    return found if len(found) > 1 else []


def _send(jobs: Sequence[Job]) -> bool:
    """Tells workers of the parts; whether a broker took the messages."""
    try:
        for job in jobs:
            current_app.send_task(
                TASK,
                kwargs={"delivery": job.folder.name, "part": job.kept.sha256},
                expires=STALE_SECONDS,
                ignore_result=True,
                retry=False,
            )
    except OperationalError as error:
        logger.info("parts are read here, for no broker answers: %s", error)
        return False
    return True
