"""Right-sizing an engine's share of GPU memory, from how its KV cache was used (method §9).

Percentiles come from the time spent at each half per cent of use, summed over the window; they are
never averaged. A level is told by its upper edge: use was at most that for the share of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final

from .cache import LEVELS
from .money import EXACT, divide, plain, round_half_even

DAY_MS: Final = 86_400_000
_SHARE: Final = re.compile(r"[0-9]*\.?[0-9]+")
LEAST_DAYS: Final = 7
LEAST_COVERAGE: Final = Decimal("0.95")
LOWER_BAND: Final = Decimal("0.60")
UPPER_BAND: Final = Decimal("0.85")
STEP: Final = Decimal("0.05")
HIGHEST: Final = Decimal("0.95")
LEAST: Final = Decimal("0.05")
PEAK_MARGIN: Final = Decimal("1.2")

AT_RISK, FITS, TIGHT = "at risk", "fits", "tight"
OVER_RESERVED, NOT_ENOUGH = "over-reserved", "not enough data"


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen of one engine over a window, and its present setting. Bytes are of one GPU.

    `block_bytes` is what one block takes on one GPU; `total_bytes` the memory that the setting is
    a share of. None where nothing tells it.
    """

    levels_ms: Mapping[str, int]
    window_ms: int
    seen_ms: int
    blocks: int | None = None
    block_size: int | None = None
    max_model_len: int | None = None
    peak_blocks: int | None = None
    peak_running: int | None = None
    peak_waiting: int | None = None
    preemptions: int | None = None
    utilization: Decimal | None = None
    total_bytes: int | None = None
    block_bytes: Decimal | None = None
    sized_by_hand: bool = False

    @property
    def coverage(self) -> Decimal:
        """The share of the window that readings cover."""
        return min(Decimal(1), divide(Decimal(self.seen_ms), Decimal(self.window_ms)))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a setting would give: blocks, p99 of use, requests of the observed and longest length.

    `fits` tells whether the pool stays above one longest request and the measured peak × 1.2.
    """

    utilization: Decimal
    blocks: int
    p99: Decimal | None
    concurrency: int | None
    longest_requests: int | None
    change_bytes: int
    fits: bool

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "utilization": plain(self.utilization),
            "kv_blocks": self.blocks,
            "p99": None if self.p99 is None else plain(self.p99),
            "concurrency": self.concurrency,
            "longest_requests": self.longest_requests,
            "change_bytes": self.change_bytes,
            "fits": self.fits,
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """The verdict on an engine's setting, with its numbers, and what is proposed."""

    verdict: str
    why: str
    p50: Decimal | None
    p95: Decimal | None
    p99: Decimal | None
    peak: Decimal | None
    proposal: Prediction | None
    no_proposal: str | None
    steps: tuple[Prediction, ...]


def share_in(text: str | None) -> Decimal | None:
    """A share of memory as a label or a log writes it, in plain digits; None for any other text."""
    return Decimal(text) if text and _SHARE.fullmatch(text) else None


def percentile(levels_ms: Mapping[str, int], share: Decimal) -> Decimal | None:
    """The use that was not exceeded for this share of the time; None without any time.

    A level of use holds from its number to the next in half per cents; the upper edge is given.
    """
    total = sum(levels_ms.values())
    if total <= 0:
        return None
    reached, wanted = 0, share * total
    for level in sorted(map(int, levels_ms)):
        reached += levels_ms[str(level)]
        if reached >= wanted:
            return min(Decimal(1), Decimal(level + 1) / LEVELS)
    return Decimal(1)


def summed(levels: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The time at each level over several hours."""
    found: dict[str, int] = {}
    for one in levels:
        for level, held_ms in one.items():
            found[level] = found.get(level, 0) + held_ms
    return found


def advise(window: Window, lower: Decimal = LOWER_BAND, upper: Decimal = UPPER_BAND) -> Advice:
    """The verdict and proposal for one engine (method §9)."""
    p50, p95, p99 = (percentile(window.levels_ms, Decimal(q)) for q in ("0.50", "0.95", "0.99"))
    peak = None
    if window.peak_blocks is not None and window.blocks and window.blocks > 1:
        peak = divide(Decimal(window.peak_blocks), Decimal(window.blocks - 1))
    verdict, why = _verdict(window, p99, lower, upper)
    steps = _steps(window, p99)
    proposal, no_proposal = _proposal(window, verdict, steps, upper)
    return Advice(verdict, why, p50, p95, p99, peak, proposal, no_proposal, steps)


def _verdict(
    window: Window, p99: Decimal | None, lower: Decimal, upper: Decimal
) -> tuple[str, str]:
    days = Decimal(window.window_ms) / DAY_MS
    if days < LEAST_DAYS or window.coverage < LEAST_COVERAGE or p99 is None:
        seen = round_half_even(window.coverage * 100, 1)
        return NOT_ENOUGH, (
            f"Readings cover {plain(seen)} % of {plain(round_half_even(days, 1))} days of the "
            f"present setting; {LEAST_DAYS} days with 95 % are needed."
        )
    use = f"for 99 % of the time at most {_percent(p99)} of the cache was in use"
    if window.preemptions:
        return (
            AT_RISK,
            f"{window.preemptions:,} requests were pushed out and computed again; {use}.",
        )
    if window.peak_waiting and p99 > upper:
        return AT_RISK, f"Up to {window.peak_waiting:,} requests waited while {use}."
    if p99 > upper:
        return TIGHT, f"Nothing waited and nothing was pushed out, but {use}."
    if p99 < lower:
        return OVER_RESERVED, f"{_sentence(use)}."
    return FITS, f"{_sentence(use)}."


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _percent(share: Decimal) -> str:
    return f"{plain((share * 100).normalize())} %"


def predict(window: Window, utilization: Decimal, p99: Decimal | None = None) -> Prediction | None:
    """What another setting would give at the load seen; None where a figure for it is not known.

    The change of the setting × device memory goes to the pool whole: weights, activations and the
    rest stay. Blocks are rounded down; use scales with blocks less the null block (§8.4).
    """
    now, total, a_block = window.utilization, window.total_bytes, window.block_bytes
    if now is None or total is None or not a_block or not window.blocks or window.sized_by_hand:
        return None
    change = int(((utilization - now) * total).to_integral_value(ROUND_FLOOR))
    blocks = int(((window.blocks * a_block + change) / a_block).to_integral_value(ROUND_FLOOR))
    blocks = max(0, blocks)
    use = None
    if p99 is not None and blocks > 1:
        use = round_half_even(p99 * (window.blocks - 1) / (blocks - 1), 4)
    return Prediction(
        utilization=utilization,
        blocks=blocks,
        p99=use,
        concurrency=_concurrency(window, blocks),
        longest_requests=_longest(window, blocks),
        change_bytes=change,
        fits=blocks >= _least_blocks(window),
    )


def _concurrency(window: Window, blocks: int) -> int | None:
    """Requests of the length seen at the peak that the pool would hold."""
    if not window.peak_running or not window.peak_blocks:
        return None
    return max(0, blocks - 1) * window.peak_running // window.peak_blocks


def _longest(window: Window, blocks: int) -> int | None:
    if not window.max_model_len or not window.block_size:
        return None
    return max(0, blocks - 1) * window.block_size // window.max_model_len


def _least_blocks(window: Window) -> int:
    """One longest request (and the null block), and the measured peak × 1.2 (method §9)."""
    one = 0
    if window.max_model_len and window.block_size:
        one = -(-window.max_model_len // window.block_size) + 1
    peak = Decimal(window.peak_blocks or 0) * PEAK_MARGIN
    return max(one, int(peak.to_integral_value(ROUND_CEILING)) + 1)


def _steps(window: Window, p99: Decimal | None) -> tuple[Prediction, ...]:
    """Every setting in steps of 0.05 from the present one, lowest first."""
    now = window.utilization
    if now is None:
        return ()
    count = int((now - LEAST) / STEP)
    settings = [now + STEP * n for n in range(-count, 20) if now + STEP * n <= max(HIGHEST, now)]
    found = [predict(window, setting, p99) for setting in settings]
    return tuple(one for one in found if one is not None)


def _proposal(
    window: Window, verdict: str, steps: tuple[Prediction, ...], upper: Decimal
) -> tuple[Prediction | None, str | None]:
    if verdict in (FITS, NOT_ENOUGH):
        return None, None if verdict == FITS else "Wait until enough was seen."
    if window.sized_by_hand:
        return None, "The cache was sized by hand; the share of memory has no effect on it."
    if not steps or window.utilization is None:
        return None, _missing(window)
    good = [s for s in steps if s.fits and s.p99 is not None and s.p99 <= upper]
    if verdict == OVER_RESERVED:
        lower = [s for s in good if s.utilization < window.utilization]
        if not lower:
            return None, "One step lower would leave too little for a longest request or the peak."
        return lower[0], None
    higher = [s for s in good if s.utilization > window.utilization]
    if not higher:
        return None, (
            "No higher share of this card is enough: fewer tokens in flight (--max-num-seqs), an "
            "8-bit KV cache, another replica or a larger card would be."
        )
    return higher[0], None


def _missing(window: Window) -> str:
    """What would have to be known for a proposal, and what tells it."""
    names = [
        text
        for text, known in (
            ("the GPU's memory (start-up log or GPU metrics)", window.total_bytes),
            ("the present setting (start-up log)", window.utilization),
            ("the bytes of a block (start-up log or the model's config.json)", window.block_bytes),
        )
        if not known
    ]
    return "No setting can be proposed without " + ", ".join(names or ["the pool's size"]) + "."


def money_sentence(
    *,
    freed_bytes: int,
    total_bytes: int,
    gpus: int,
    engines_on_card: int | None,
    cost: Decimal | None,
    currency: str | None,
) -> str:
    """What lowering a setting saves, in plain words: by itself nothing (method §9).

    Bytes are of one GPU; `cost` is what was paid for all GPUs of the engine.
    """
    gib = plain(round_half_even(Decimal(freed_bytes) / (1 << 30), 1))
    share = plain(round_half_even(Decimal(freed_bytes) * 100 / total_bytes, 1))
    one = gpus == 1
    use = f"{'serves' if one else 'serve'} this engine"
    if engines_on_card is not None and engines_on_card > 1:
        use = f"{engines_on_card} engines share {'it' if one else 'them'}"
    text = (
        f"{'The card is' if one else f'The {gpus} cards are'} billed whole and {use}: a lower "
        f"setting saves nothing by itself. It frees {gib} GiB, {share} % of "
        f"{'the card' if one else 'each card'}. Money is saved by smaller or fewer cards, or by a "
        "second engine in the freed memory"
    )
    if cost is None or currency is None:
        return text + "; what they cost is not known here."
    worth = divide(EXACT.multiply(cost, Decimal(freed_bytes)), Decimal(total_bytes))
    paid = round_half_even(cost, 2)
    return text + (
        f": of the {paid:,f} {currency} paid in this window, the freed share is "
        f"{round_half_even(worth, 2):,f} {currency}."
    )
