"""The shards of a store's series, so that several workers can read one window.

An instance belongs to exactly one shard, by a digest of its name: whoever asks, whenever, gives the
same answer. All series of a target share its instance, so nothing that the count of a target
depends on lies in two shards.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, from 1 on. ValueError for one that there is not."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"there is no shard {self.number} of {self.count}")

    @property
    def is_whole(self) -> bool:
        """Whether the shard is everything."""
        return self.count == 1

    def holds(self, instance: str) -> bool:
        """Whether the series of an instance belong to the shard."""
        return number_of(instance, self.count) == self.number

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"


def number_of(instance: str, count: int) -> int:
    """The number, from 1 on, of the shard among so many that the series of an instance belong to."""
    return _digest_of(instance) % count + 1


@lru_cache(maxsize=1 << 14)
def _digest_of(instance: str) -> int:
    digest = hashlib.sha256(instance.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8])


WHOLE = Shard()


def shards(count: int) -> list[Shard]:
    """All the shards, in order: together they hold every instance once."""
    return [Shard(number, count) for number in range(1, count + 1)]
