"""KV cache reserved and active, and what the reservation bought (method §8.3, §8.4, §8.7).

Sums are whole numbers (blocks × milliseconds); a mean is one division at the end. What is reserved
and not referenced is neither waste nor free: it may hold prefixes that later requests reuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from .money import EXACT, divide, grouped
from .period import instant_of, milliseconds
from .presence import Span, spans_of

NULL_BLOCK = " (one block of the pool never holds a request, so it is taken off)"


@dataclass(frozen=True, slots=True)
class CacheRow:
    """One engine's KV cache in one hour, as the ledger keeps it.

    `blocks` is the engine's own share of the pool: front-ends of data-parallel engines export the
    sum on every engine, and that sum is never added up. The pool is that of the hour's end;
    `reserved_block_ms` tells what was reserved while it was observed where it changed in the hour.
    """

    hour: datetime
    blocks: int | None
    block_size: int | None
    pool_tokens: int | None
    max_model_len: int | None
    observed_ms: int
    active_block_ms: Decimal | None
    peak_blocks: int | None
    peak_ms: int | None
    peak_running: int | None
    stale_ms: int
    reserved_block_ms: Decimal | None = None
    first_ms: int | None = None
    """The first reading of an hour that stands alone: nothing was read in those beside it."""


@dataclass(frozen=True, slots=True)
class KvFigures:
    """One engine's KV cache over a period: tokens, and bytes where a token's bytes are known.

    `reserved_tokens` is the pool of the last hour. The means are of the observed time:
    `reserved_bytes_mean` = `active_bytes_mean` + `unreferenced_bytes_mean` to the last digit.
    """

    first_seen: datetime
    last_seen: datetime
    reserved_tokens: int | None
    reserved_bytes: int | None
    reserved_tokens_mean: Decimal | None
    reserved_bytes_mean: Decimal | None
    active_tokens_mean: Decimal | None
    active_bytes_mean: Decimal | None
    unreferenced_bytes_mean: Decimal | None
    peak_active_tokens: int | None
    peak_at: datetime | None
    peak_running: int | None
    contiguous_slots: int | None
    max_model_len: int | None
    observed_ms: int
    stale_ms: int
    null_block: bool = False
    """Whether the block that holds no request decides how many slots there are."""


def kv_figures(
    rows: Iterable[CacheRow],
    bytes_per_token: int | None = None,
    max_model_len: int | None = None,
) -> KvFigures | None:
    """One engine's figures over its hours, None without rows.

    `max_model_len` is the longest request as a person stated it, for engines that do not tell it.

    Means are weighted by observed time, stale time left out (§8.9). The reservation is that of the
    last hour; where the pool changed in the period, the means follow each hour's own pool.
    """
    known = sorted(rows, key=lambda row: row.hour)
    if not known:
        return None
    last = next((row for row in reversed(known) if pool_tokens(row) is not None), known[-1])
    pool, longest = pool_tokens(last), last.max_model_len or max_model_len
    counted = [row for row in known if row.active_block_ms is not None and row.block_size]
    observed = sum(row.observed_ms for row in counted)
    active = sum(active_token_ms(row) for row in counted)
    mean = divide(Decimal(active), Decimal(observed)) if observed else None
    reserved = None if pool is None or bytes_per_token is None else pool * bytes_per_token
    held = _reserved_token_ms(counted)
    peak = _peak(known)
    running = [row.peak_running for row in known if row.peak_running is not None]
    seen = sorted(presence(known).values())
    return KvFigures(
        first_seen=instant_of(seen[0][0]),
        last_seen=instant_of(seen[-1][1]),
        reserved_tokens=pool,
        reserved_bytes=reserved,
        reserved_tokens_mean=divide(Decimal(held), Decimal(observed)) if held else None,
        reserved_bytes_mean=_bytes(held, bytes_per_token, observed),
        active_tokens_mean=mean,
        active_bytes_mean=_bytes(active, bytes_per_token, observed),
        unreferenced_bytes_mean=_bytes(
            None if held is None else held - active, bytes_per_token, observed
        ),
        peak_active_tokens=peak[0] if peak else None,
        peak_at=peak[1] if peak else None,
        peak_running=max(running) if running else None,
        contiguous_slots=_slots(last, longest),
        max_model_len=longest,
        observed_ms=sum(row.observed_ms for row in known),
        stale_ms=sum(row.stale_ms for row in known),
        null_block=bool(pool and longest and _slots(last, longest) != pool // longest),
    )


def pool_tokens(row: CacheRow) -> int | None:
    """Tokens the pool was reserved for: as the engine says, else blocks × block size (§8.3)."""
    if row.pool_tokens is not None:
        return row.pool_tokens
    if row.blocks is None or row.block_size is None:
        return None
    return row.blocks * row.block_size


def _slots(row: CacheRow, longest: int | None) -> int | None:
    """How many requests of the longest length fit; the null block holds none (§8.4, §8.7)."""
    pool = pool_tokens(row)
    if pool is None or not longest:
        return None
    if row.blocks is not None and row.block_size and pool == row.blocks * row.block_size:
        pool -= row.block_size
    return pool // longest


def _tokens_of(row: CacheRow, blocks: Decimal) -> int:
    """Tokens that so many blocks (or block-milliseconds) stand for.

    A pool that layers of several kinds share has a `block_size` that is not its own (the least of
    its groups, or stale): there use is a share of the pool's tokens (§8.3).
    """
    size = row.block_size or 0
    if row.pool_tokens is not None and row.blocks and row.pool_tokens != row.blocks * size:
        return int(divide(blocks * row.pool_tokens, Decimal(row.blocks)).to_integral_value())
    return int((blocks * size).to_integral_value())


def active_token_ms(row: CacheRow) -> int:
    """Active token-milliseconds of an hour, whole."""
    return _tokens_of(row, row.active_block_ms or Decimal(0))


def reserved_token_ms(row: CacheRow) -> int | None:
    """Token-milliseconds reserved while an hour was observed, whole; None where the pool is not known."""
    pool = pool_tokens(row)
    if pool is None:
        return None
    if row.reserved_block_ms is None:
        return pool * row.observed_ms
    return _tokens_of(row, row.reserved_block_ms)


def presence(rows: Iterable[CacheRow]) -> dict[int, Span]:
    """When an engine was there, by hour, in milliseconds since 1970."""
    return spans_of(
        (milliseconds(row.hour), row.observed_ms + row.stale_ms, row.first_ms) for row in rows
    )


def _bytes(token_ms: int | None, bytes_per_token: int | None, observed: int) -> Decimal | None:
    if token_ms is None or bytes_per_token is None or not observed:
        return None
    return divide(Decimal(token_ms * bytes_per_token), Decimal(observed))


def _reserved_token_ms(rows: list[CacheRow]) -> int | None:
    """Token-milliseconds reserved while the use was observed; None where a pool is not known."""
    held = [reserved_token_ms(row) for row in rows]
    return None if any(one is None for one in held) else sum(one or 0 for one in held)


def _peak(rows: list[CacheRow]) -> tuple[int, datetime] | None:
    best: tuple[int, datetime] | None = None
    for row in rows:
        if row.peak_blocks is None or row.block_size is None or row.peak_ms is None:
            continue
        tokens = _tokens_of(row, Decimal(row.peak_blocks))
        if best is None or tokens > best[0]:
            best = tokens, instant_of(row.peak_ms)
    return best


def ran_together(requests: int) -> str:
    """How many requests ran at the busiest moment, in words: one does not run together."""
    if requests == 1:
        return "a single request ran"
    return f"{grouped(requests)} requests ran together"


def sentence(figures: KvFigures) -> str:
    """What the reservation bought, in plain words (method §8.7)."""
    if figures.reserved_tokens is None:
        return "The engine does not tell how large its cache is: not measured."
    text = (
        f"The engine reserved memory for the working notes (KV cache) of "
        f"{grouped(figures.reserved_tokens)} tokens at its start"
    )
    if figures.active_tokens_mean is not None and figures.reserved_tokens_mean:
        hundredfold = EXACT.multiply(figures.active_tokens_mean, Decimal(100))
        share = divide(hundredfold, figures.reserved_tokens_mean)
        text += f"; on average live requests used {share:.1f} % of it"
    text += "."
    if figures.contiguous_slots is not None and figures.peak_running is not None:
        ran = ran_together(figures.peak_running)
        text += (
            f" At the busiest moment {ran}; an allocator "
            f"that keeps one slot of the longest allowed request ({grouped(figures.max_model_len or 0)} tokens) "
            f"for each could have held {grouped(figures.contiguous_slots)} in the same memory{NULL_BLOCK if figures.null_block else ''}."
        )
    return text + " What live requests do not use may hold earlier text that is reused."
