"""Texts of a FOCUS CSV file in which the sieve has found no GPU, so that it need not look again.

Ten million lines name some hundred machines. What is in no line's text yet known is searched as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from finops.sources.bulk_engine import Engine
from finops.sources.bulk_sieve import gpu_text, looks_like_gpu

MOST_TEXTS: Final = 4_000
"""Of more it takes as long to know them as to search them."""
LONGEST_BYTES: Final = 2_000
_EVERY: Final = 4
"""Learned of the first piece, and of one as many times further on each time."""


class Harmless:
    """The harmless texts of one document while it is read; `marks` adds `known` to a line's columns."""

    known: Final = "is_harmless"

    def __init__(self, engine: Engine, cells: Mapping[str, str]) -> None:
        self._engine = engine
        self._text, self._is_gpu = gpu_text(cells), looks_like_gpu(cells, together=True)
        self.marks = f", {self._text} IN (SELECT text FROM harmless) AS {self.known}"  # noqa: S608
        self._pieces, self._next, self._count = 0, 1, 0
        engine.execute("CREATE TABLE harmless (text VARCHAR)")

    def learn(self, source: str) -> None:
        """Looks at the lines of one more piece, now and then. No cell of them holds a line feed."""
        self._pieces += 1
        if self._pieces < self._next or self._count > MOST_TEXTS:
            return
        self._next *= _EVERY
        self._engine.execute(
            f"INSERT INTO harmless SELECT DISTINCT {self._text} FROM {source} "  # noqa: S608
            f"WHERE NOT {self.known} AND NOT ({self._is_gpu}) "
            f"AND strlen({self._text}) <= {LONGEST_BYTES} LIMIT {MOST_TEXTS + 1}"
        )
        ((self._count,),) = self._engine.rows("SELECT count(*) FROM harmless")
        if self._count > MOST_TEXTS:
            self._engine.execute("TRUNCATE harmless")
