"""Pieces of a document that several threads work on, given back in the order of the document."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from finops.sources.bulk_engine import Engine, Side
from finops.sources.records import Refused

Piece = TypeVar("Piece")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Begun(Generic[Piece, Found]):
    """A piece, the side that works on it, and what waits for what it finds or raises."""

    piece: Piece
    side: Side
    result: Callable[[], Found]
    under_way: Future[Found] | None = None


class Ahead(Generic[Piece, Found]):
    """The pieces of a document, some being worked on before they are asked for.

    `take_piece` gives the next piece, None at the end; `work` finds what is wanted of a piece, by a
    side that nobody else uses until the next piece is asked for. With one thread nothing is done ahead.
    """

    def __init__(
        self,
        engine: Engine,
        threads: int,
        take_piece: Callable[[], Piece | None],
        work: Callable[[Piece, Side], Found],
    ) -> None:
        self._engine, self._take_piece, self._work = engine, take_piece, work
        count = threads + 1 if threads > 1 else 1
        self._free = [engine.side(place) for place in range(count)]
        self._threads = ThreadPoolExecutor(threads) if threads > 1 else None
        self._begun: deque[Begun[Piece, Found]] = deque()
        self._returned: Piece | None = None
        self._refused: Refused | None = None

    def __enter__(self) -> Ahead[Piece, Found]:
        self._engine.wait = self.wait
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def __iter__(self) -> Iterator[Begun[Piece, Found]]:
        while True:
            if self._returned is not None:
                piece, self._returned = self._returned, None
                self._begun.appendleft(self._begin(piece))
            self._fill()
            if not self._begun:
                self._fail()
                return
            one = self._begun.popleft()
            yield one
            self._free.append(one.side)

    def wait(self) -> None:
        """Waits until no thread is at work."""
        wait([one.under_way for one in self._begun if one.under_way is not None])

    def take(self) -> Piece | None:
        """The next piece, for whoever reads it otherwise: what was found of it is forgotten."""
        if self._returned is not None:
            piece, self._returned = self._returned, None
            return piece
        if not self._begun:
            self._fail()
            return self._take_piece()
        one = self._begun.popleft()
        if one.under_way is not None and not one.under_way.cancel():
            wait([one.under_way])
        self._free.append(one.side)
        return one.piece

    def put_back(self, piece: Piece) -> None:
        """What of a piece taken last was not read yet comes next."""
        self._returned = piece

    def _fill(self) -> None:
        while (
            self._refused is None and self._free and (self._threads is not None or not self._begun)
        ):
            try:
                piece = self._take_piece()
            except Refused as refused:
                self._refused = refused
                return
            if piece is None:
                return
            self._begun.append(self._begin(piece))

    def _fail(self) -> None:
        """Says why no more can be read, once all that stands before it has been."""
        if self._refused is not None:
            raise self._refused

    def _begin(self, piece: Piece) -> Begun[Piece, Found]:
        side = self._free.pop()
        if self._threads is None:
            return Begun(piece, side, lambda: self._work(piece, side))
        under_way = self._threads.submit(self._work, piece, side)
        return Begun(piece, side, under_way.result, under_way)
