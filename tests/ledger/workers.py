"""Real Celery workers for tests, whose children can be killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.paths import REPOSITORY


@dataclass
class Worker:
    """A worker process with two children, and the name that it answers to."""

    process: subprocess.Popen[bytes]
    name: str

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def kill_children(self) -> None:
        self.signal_children(signal.SIGKILL)

    def signal_children(self, number: int) -> None:
        for pid in self.children():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """kill -9 of the worker and of all its children."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


_numbers = itertools.count(1)


@contextmanager
def started(log: Path, queues: str, environment: Mapping[str, str], *more: str) -> Iterator[Worker]:
    """A worker for some queues, two at once; it may not be ready yet."""
    name = f"worker-{next(_numbers)}@test"
    with log.open("ab") as file:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "celery", "-A", "finops.celery", "worker", "-c", "2",
                "-n", name, "-Q", queues, "--without-mingle", "--without-gossip", "-l", "INFO", *more,
            ],
            cwd=REPOSITORY, env=environment, stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
        try:
            yield Worker(process, name)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(10)
