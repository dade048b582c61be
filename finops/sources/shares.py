"""The parts that a store's series are shared out in, so that several workers can read one window.

An instance belongs to exactly one part, by a digest of its name: whoever asks, whenever, gives the
same answer. All series of a target share its instance, so nothing that the count of a target
depends on lies in two parts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Part `part` of `parts`, counted from 1. ValueError for a part that there is not."""

    part: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.part <= self.parts:
            raise ValueError(f"there is no part {self.part} of {self.parts}")

    @property
    def is_whole(self) -> bool:
        """Whether the part is everything."""
        return self.parts == 1

    def holds(self, instance: str) -> bool:
        """Whether the series of an instance belong to the part."""
        digest = hashlib.sha256(instance.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8]) % self.parts == self.part - 1

    def __str__(self) -> str:
        return f"part {self.part} of {self.parts}"


WHOLE = Share()


def shares(parts: int) -> list[Share]:
    """All the parts, in order: together they hold every instance once."""
    return [Share(part, parts) for part in range(1, parts + 1)]
