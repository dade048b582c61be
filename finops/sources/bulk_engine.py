"""The database engine while one document is read in bulk: its bounds, and who works in it when.

A document that is whole is never refused because the engine's memory is bounded. What the engine
cannot spill, it is asked for again once nobody else is at work, and only then with more memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

from finops.sources.records import Refused

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LIMITS: Final = ("256MB", "384MB", "640MB", "1GB")
"""The engine's memory: the first, and the next ones for a document that cannot be read in less, up
to what the reading of single lines may take."""
_FETCHED_ROWS: Final = 2_000
_SETTINGS: Final = {
    "threads": "1",  # each thread of ours asks its own questions
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@dataclass(slots=True)
class Side:
    """A connection of its own to the engine, for one thread at a time; its place among those there are,
    and the number after which its tables are called.

    What it is asked may fail for want of memory.
    """

    connection: DuckDBPyConnection
    place: int
    number: int
    _views: dict[str, str] = field(default_factory=dict)

    def view(self, query: str) -> str:
        """The name of a view of a query, whose text need not be read again then."""
        if query not in self._views:
            name = f"asked_{self.number}_{len(self._views)}"
            self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
            self._views[query] = name
        return self._views[query]

    def renew(self, connection: DuckDBPyConnection, number: int) -> None:
        """Takes another connection and number instead of its own."""
        self.connection.close()
        self.connection, self.number = connection, number
        self._views.clear()


class Engine:
    """The engine as the one who reads the document asks it.

    `wait` is what waits until no side is at work.
    """

    def __init__(self, connection: DuckDBPyConnection, folder: str) -> None:
        self._connection = connection
        self._limit = 0
        self._sides = count()
        self.folder = folder
        self.wait: Callable[[], None] = lambda: None

    def execute(self, query: str, values: Sequence[Any] | dict[str, Any] | None = None) -> None:
        """Does what a statement says."""
        self.rows(query, values)

    def rows(
        self, query: str, values: Sequence[Any] | dict[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """What a statement gives, all at once."""
        import duckdb

        is_alone = False
        while True:
            try:
                found: list[tuple[Any, ...]] = self._connection.execute(query, values).fetchall()
                return found
            except duckdb.OutOfMemoryException:
                if not self._made_room(is_alone):
                    raise
                is_alone = True

    def streamed(
        self, query: str, values: Sequence[Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """What a query gives, some thousand rows at a time; other questions may be asked meanwhile.

        The query must give its rows in the same order each time.
        """
        import duckdb

        given, is_alone = 0, False
        while True:
            try:
                for row in islice(self._fetched(query, values), given, None):
                    given += 1
                    yield row
                return
            except duckdb.OutOfMemoryException:
                if not self._made_room(is_alone):
                    raise
                is_alone = True

    def _fetched(self, query: str, values: Sequence[Any] | None) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            while batch := cursor.fetchmany(_FETCHED_ROWS):
                yield from batch

    def _made_room(self, is_alone: bool) -> bool:
        """Waits for the others to finish; with more memory where that was done before."""
        if is_alone:
            return self.widen()
        self.wait()
        return True

    def side(self, place: int) -> Side:
        """One more connection."""
        return Side(self._connection.cursor(), place, next(self._sides))

    def renew(self, side: Side) -> None:
        """Gives a side that had no room another connection and number: where the engine had none left
        to take a table back either, nobody can make one of that name again."""
        import duckdb

        for table in ("found", "others", "whole"):
            with suppress(duckdb.Error):
                side.connection.execute(f"DROP TABLE IF EXISTS {table}_{side.number}")
        side.renew(self._connection.cursor(), next(self._sides))

    def widen(self) -> bool:
        """Gives the engine more memory for the rest of the document; False when it has all."""
        if self._limit + 1 >= len(LIMITS):
            return False
        self._limit += 1
        self._connection.execute(f"SET memory_limit = '{LIMITS[self._limit]}'")
        return True

    def only_in_folder(self, *paths: str) -> None:
        """Lets the engine open what lies in its own folder, and these paths, alone."""
        marks = ", ".join("?" * len(paths))
        self.execute("SET allowed_directories = [?]", [self.folder])
        self.execute(f"SET allowed_paths = [{marks}]", list(paths))
        self.execute("SET enable_external_access = false")


@contextmanager
def engine(name: str) -> Iterator[Engine]:
    """The engine with a folder of its own for what leaves memory; its errors become Refused."""
    import duckdb  # kept out of start-up: only invoices need it

    with tempfile.TemporaryDirectory(prefix="headroom-bulk-") as folder:
        settings = _SETTINGS | {"memory_limit": LIMITS[0], "temp_directory": folder}
        try:
            with duckdb.connect(":memory:", config=dict(settings)) as connection:
                yield Engine(connection, folder)
        except duckdb.Error as error:
            first = str(error).splitlines()[0].replace(folder, name)
            raise Refused(f"{name}: not readable ({first[:200]})") from None
