"""Whether a model's configuration and a start-up log tell the same KV cache (method §8.3).

Both describe one pool: tokens × bytes of a token by the configuration, and the bytes the engine
printed. The print is in GiB of two decimals, and a pool is whole blocks: what is left over of the
memory is less than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .engine_start import GIB, gib
from .money import grouped

HALF_UNIT_BYTES: Final = GIB // 200
"""A size printed in GiB with two decimals may be so much more or less."""
USUAL_BLOCK: Final = 16


@dataclass(frozen=True, slots=True)
class Agreement:
    """One pool as the configuration and as the log tell it, bytes on one GPU."""

    bytes_per_token: int
    tokens: int
    log_bytes: int
    block_size: int

    @property
    def config_bytes(self) -> int:
        """The pool's tokens by the configuration's bytes of a token."""
        return self.tokens * self.bytes_per_token

    @property
    def difference_bytes(self) -> int:
        """What the log has over the configuration, signed."""
        return self.log_bytes - self.config_bytes

    @property
    def holds(self) -> bool:
        """Whether rounding and the last block explain the difference."""
        most = HALF_UNIT_BYTES + self.block_size * self.bytes_per_token
        return -HALF_UNIT_BYTES <= self.difference_bytes <= most

    @property
    def sentence(self) -> str:
        """The comparison for people."""
        text = (
            f"By the model's configuration a token takes {grouped(self.bytes_per_token)} bytes on a "
            f"GPU, and {grouped(self.tokens)} tokens take {gib(self.config_bytes)}; the engine "
            f"printed {gib(self.log_bytes)}: "
        )
        if self.holds:
            return text + "they agree within what rounding and the last block explain."
        return (
            text + f"they differ by {gib(self.difference_bytes)}. The configuration, the cache's "
            "number type or the number of GPUs may be another engine's."
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "bytes_per_token": self.bytes_per_token,
            "tokens": self.tokens,
            "config_bytes": self.config_bytes,
            "log_bytes": self.log_bytes,
            "difference_bytes": self.difference_bytes,
            "agrees": self.holds,
        }


def agreement(
    bytes_per_token: int | None, tokens: int | None, log_bytes: int | None, block_size: int | None
) -> Agreement | None:
    """The comparison; None where one of the two does not tell."""
    if not bytes_per_token or not tokens or log_bytes is None:
        return None
    return Agreement(bytes_per_token, tokens, log_bytes, block_size or USUAL_BLOCK)
