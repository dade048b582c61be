"""Few heaps for many threads: memory that one thread lets go of is there for the next one.

glibc gives each thread a heap of its own, up to eight for each processor. Answers of some megabytes
are made by one thread and let go of by another, so that every heap grows to hold them: a seventh
of the memory of collecting. One heap is enough, for the threads here wait for each other.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

M_ARENA_MAX: Final = -8  # malloc.h


@cache
def one_heap() -> bool:
    """Asks the C library for no more heaps from now on; whether it heard. Others have no such
    thing, and need none."""
    try:
        return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False
