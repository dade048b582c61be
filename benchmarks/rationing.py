"""Rationing processes: no more than a share of a core for each, by stopping them for a while.

    with rationed([pid, ...], share=0.25): ...

A machine of two cores cannot give two workers, their store and their database a core each. What two
workers gain where there are cores to spare shows on it all the same when each worker, with all it
has started, may use a fraction of a core and store and database are free: then it is the workers that
are waited for. The kernel's quota of a control group does this too, where one may be made; stopping
and continuing (SIGSTOP, SIGCONT) needs nobody's leave.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TICK_S = 0.004
SAVED_S = 0.02  # of its share, what a process that had to wait may catch up on


def descendants(pid: int) -> list[int]:
    """The living processes that a process has started, and those that they have."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [each for child in map(int, text.split()) for each in (child, *descendants(child))]


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, of its living descendants and of its children that ended."""
    own = 0.0
    for one in [pid, *descendants(pid)]:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own


def run_seconds(pid: int) -> float:
    """The processor time of one process so far, to the nanosecond; 0 of one that has ended."""
    with suppress(OSError):
        return time.clock_gettime(~pid << 3 | 2)  # the clock of a process, by its number (Linux)
    return 0.0


class _Ration:
    """One process with all that it has started, and how much of its share it has left."""

    def __init__(self, pid: int, share: float) -> None:
        self.pid, self.share = pid, share
        self.left_s, self.at = 0.0, time.monotonic()
        self.used = {one: run_seconds(one) for one in self._members()}
        self.is_stopped = False
        self.stopped: set[int] = set()  # what has lost its parent meanwhile is no longer a member

    def _members(self) -> list[int]:
        return [self.pid, *descendants(self.pid)]

    def look(self) -> None:
        """Takes what was used since the last look off its share; stops it where nothing is left."""
        members = self._members()
        used = {one: run_seconds(one) for one in members}
        now = time.monotonic()
        spent = sum(max(0.0, used[one] - self.used.get(one, 0.0)) for one in members)
        self.left_s = min(SAVED_S, self.left_s + self.share * (now - self.at) - spent)
        self.used, self.at = used, now
        if (self.left_s < 0) != self.is_stopped:
            self.is_stopped = self.left_s < 0
            self.send(signal.SIGSTOP if self.is_stopped else signal.SIGCONT)

    def send(self, number: int) -> None:
        goes_on = number == signal.SIGCONT
        for one in {*self._members(), *self.stopped} if goes_on else self._members():
            with suppress(ProcessLookupError):
                os.kill(one, number)
                self.stopped.add(one)
        if goes_on:
            self.stopped.clear()


@contextmanager
def rationed(pids: Sequence[int], share: float | None) -> Iterator[None]:
    """Gives each process, with all it has started, a share of a core; no bound where it is None."""
    if share is None:
        yield
        return
    done = threading.Event()
    rations = [_Ration(pid, share) for pid in pids]

    def watch() -> None:
        while not done.wait(TICK_S):
            for one in rations:
                one.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for one in rations:
            one.send(signal.SIGCONT)
