"""Which charge periods a document has left behind, so that their sums need not wait for its end.

Most bills stand in the order of their hours. What such a bill says of an hour is whole once its lines
are of later ones. A document that comes back to a period which was left behind has no such order, and
nothing more of it is left behind: each of its sums then comes in two rows at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MOST_OPEN: Final = 20_000
"""Of more periods than these it is not worth the time to look which are over."""
_SHARE: Final = 4
"""A period is over when the last quarter of the lines read last has none of it."""


class Order:
    """The charge periods of one document while it is read, by their numbers."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._left: set[int] = set()
        self._over_before = 0
        self._is_kept = True

    def seen(self, last_lines: Mapping[int, int], lines: int) -> None:
        """Some more lines: the last one of each period, and how many there were of all."""
        if not self._is_kept or not last_lines:
            return
        if len(self._last) > MOST_OPEN or not self._left.isdisjoint(last_lines):
            self._is_kept = False
            self._last.clear()
            return
        self._last |= last_lines
        self._over_before = max(last_lines.values()) - lines // _SHARE

    def over(self) -> list[int]:
        """The periods that seem to be over and were not left behind yet."""
        return [number for number, last in self._last.items() if last < self._over_before]

    def leave(self, numbers: Iterable[int]) -> None:
        """Leaves periods behind."""
        for number in numbers:
            del self._last[number]
            self._left.add(number)
