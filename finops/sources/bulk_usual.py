"""Texts that all lines of a piece of CSV have in common, so that the next need not be told apart by them.

Most bills name one issuer, account, currency, billing period and invoice. That each line of a piece has
the texts of those before is soon seen; to group by them takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from finops.sources.bulk_engine import Engine
from finops.sources.bulk_sums import Texts, engine_name

MOST_CHANGES: Final = 8
"""After so many pieces that were unlike those before, no more are hoped to be alike."""
LONGEST_BYTES: Final = 200


class Usual:
    """The texts of the columns `names` that all lines so far have in common; none before the first piece."""

    def __init__(self, engine: Engine, names: Sequence[str]) -> None:
        self._engine, self._names = engine, tuple(names)
        self._pieces = 0
        self.texts: Texts = {}

    def learn(self, table: str) -> None:
        """Takes what the rows of a piece have in common, which was not as usual; a column that differs
        within a piece is not looked at again."""
        self._pieces += 1
        if self._pieces > MOST_CHANGES or not self._names:
            self.texts = {}
            return
        columns = map(engine_name, self._names)
        common = (
            f"CASE WHEN min({c}) = max({c}) AND strlen(min({c})) <= {LONGEST_BYTES} THEN min({c}) END"
            for c in columns
        )
        (found,) = self._engine.rows(f"SELECT {', '.join(common)} FROM {table}")  # noqa: S608
        self.texts = {n: t for n, t in zip(self._names, found, strict=True) if t is not None}
        self._names = tuple(self.texts)
