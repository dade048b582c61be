"""A bound on the memory of a process while it does one thing, held by the kernel."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TooMuchMemory(Exception):
    """What was done took more memory than it may. No MemoryError: of such a one in a worker's child
    Celery ends the whole worker."""


@contextmanager
def bounded_memory(more_bytes: int) -> Iterator[None]:
    """Lets this process take so many bytes more than it has: TooMuchMemory beyond.

    What it shares with others or has mapped from files does not count. Linux alone bounds this;
    elsewhere the work is done all the same.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _own_bytes() + more_bytes
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    except MemoryError:
        raise TooMuchMemory(f"it took more than {more_bytes >> 20:,} MiB") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _own_bytes() -> int:
    """What the process has now, as the bound counts it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmData:")[2].split()[0]) * 1024
