"""Windows on their way: one is posted, the next one read, and the one after that asked for.

Store, reader and ledger each take their time, and none need wait for another. What is held is bounded:
the samples of two windows (or shards of one), and of the answers of a third as many as have room (`store.AHEAD_BYTES`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Final, Generic, TypeVar

from finops.ledger.ahead import Ahead
from finops.ledger.operations.arenas import one_heap
from finops.ledger.store import Gathered, asked_ahead

TURN_SECONDS: Final = 0.0005
"""How long a thread that computes goes on while others wait for their turn. Who asks the store has
little to do and often: at the usual 5 ms the store waits for it."""

Wanted = TypeVar("Wanted", bound=Hashable)
"""What is read in one go: a window, or a shard of one."""


class ReadingAhead(Generic[Wanted]):
    """Reads windows in their order, each in good time. A context manager for one thread.

    `ask` asks the store for a window, `read` takes its samples from the answers; each is called in a
    thread of its own. `is_asked_early` is whether a window is asked for before the one before it is read.
    `give_up` ends what is being asked where the run ends by a failure: nobody waits for a silent store.
    """

    def __init__(
        self,
        windows: Sequence[Wanted],
        ask: Callable[[Wanted, Ahead], None],
        read: Callable[[Wanted, Ahead], Gathered],
        *,
        is_asked_early: bool,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._following = dict(pairwise(windows))
        self._ask_for, self._read_from, self._is_asked_early = ask, read, is_asked_early
        self._give_up = give_up
        self._asking, self._reading = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._answers: dict[Wanted, Ahead] = {}
        self._found: dict[Wanted, Future[Gathered]] = {}

    def __enter__(self) -> ReadingAhead[Wanted]:
        one_heap()
        self._turn_before = sys.getswitchinterval()
        sys.setswitchinterval(TURN_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        sys.setswitchinterval(self._turn_before)
        if kind is not None:
            self._give_up()
        for answers in self._answers.values():
            answers.close()
        self._asking.shutdown(cancel_futures=True)
        self._reading.shutdown(cancel_futures=True)

    def read(self, window: Wanted) -> Gathered:
        """A window's samples; whatever `read` raises. The windows after it are on their way."""
        found = self._begin(window).result()
        del self._found[window], self._answers[window]
        following = self._following.get(window)
        if following is not None:
            self._begin(following)
            after = self._following.get(following)
            if after is not None and self._is_asked_early:
                self._ask(after)
        return found

    def _begin(self, window: Wanted) -> Future[Gathered]:
        """Has a window read, once those before it are."""
        if window not in self._found:
            self._found[window] = self._reading.submit(self._read_from, window, self._ask(window))
        return self._found[window]

    def _ask(self, window: Wanted) -> Ahead:
        """Has a window asked for, once those before it are."""
        if window not in self._answers:
            answers = self._answers[window] = asked_ahead()
            self._asking.submit(self._ask_for, window, answers)
        return self._answers[window]
