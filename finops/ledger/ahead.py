"""Answers that come ahead of whoever reads them: a store goes on working while its last one is read.

One thread asks and puts each answer in, another takes them out in the same order. What waits is
bounded by its bytes; who asks waits while there is more. A failure is raised where it would have been met.
`in_order` asks for several at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import Any


class Closed(Exception):
    """Nobody takes answers out any more."""


class Ahead:
    """Answers on their way from the thread that asks to the one that reads, who meets Closed where
    they were let go of."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Any, int]] = deque()
        self._held_bytes = 0
        self._is_whole = self._is_closed = False
        self._failure: BaseException | None = None
        self._changed = Condition()

    def put(self, answer: Any, size_bytes: int = 0) -> None:
        """Hands an answer over, once there is room; an answer larger than all the room goes alone.
        Closed where nobody takes it."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(size_bytes))
            if self._is_closed:
                raise Closed
            self._waiting.append((answer, size_bytes))
            self._held_bytes += size_bytes
            self._changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        return not self._held_bytes or self._held_bytes + size_bytes <= self._most_bytes

    def _has_news(self) -> bool:
        return bool(self._waiting) or self._is_whole or self._is_closed

    def end(self, failure: BaseException | None = None) -> None:
        """Nothing more comes; with a failure, that is raised after what came before."""
        with self._changed:
            self._is_whole, self._failure = True, failure
            self._changed.notify_all()

    def close(self) -> None:
        """Lets go of what waits, and of whoever waits to put more in."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._held_bytes = 0
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_news)
                if self._is_closed:
                    raise Closed
                if not self._waiting:
                    break
                answer, size_bytes = self._waiting.popleft()
                self._held_bytes -= size_bytes
                self._changed.notify_all()
            yield answer
        if self._failure is not None:
            raise self._failure


def in_order(asking: Sequence[Callable[[], Any]], at_once: int) -> Iterator[Any]:
    """What each of these gives, in their order; so many are under way while one is taken.

    Whatever one of them raises is raised in its place, and those not begun by then never are.
    """
    asker = ThreadPoolExecutor(at_once)
    under_way: deque[Future[Any]] = deque()
    try:
        for number, ask in enumerate(asking):
            answer = under_way.popleft().result() if number >= at_once else None
            under_way.append(asker.submit(ask))
            if number >= at_once:
                yield answer
        while under_way:
            yield under_way.popleft().result()
    finally:
        asker.shutdown(cancel_futures=True)
