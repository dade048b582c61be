"""Against the legacy stack: what this period's tokens would have cost there (method §6).

The comparison is made on the baseline's own basis, processed or delivered; where that basis is not
known for this period there is no saving, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from .exchange import Rate
from .money import EXACT, divide, round_half_even
from .unit_cost import MILLION, Counted, per_million

AGEING_AFTER = timedelta(days=180)
CHANGES = ("-25", "-10", "10", "25")  # per cent


@dataclass(frozen=True, slots=True)
class Quoted:
    """A price per million as a baseline's own currency has it, and the rate that converted it."""

    rate: Rate
    cost_per_million_tokens: Decimal | None


@dataclass(frozen=True, slots=True)
class Terms:
    """A baseline as it was frozen. `classes` holds prices per million by class, where known."""

    workload: str
    kind: str
    basis: str
    quality: str
    currency: str
    frozen_at: datetime
    author: str
    approver: str = ""
    cost: Decimal | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generation_tokens: int | None = None
    declared_price: Decimal | None = None
    classes: Mapping[str, Decimal] = field(default_factory=dict)
    model: str = ""
    tokenizer: str = ""
    legacy: str = ""
    period_start: datetime | None = None
    period_end: datetime | None = None
    documents: tuple[str, ...] = ()
    note: str = ""
    quoted: Quoted | None = None
    newer_waiting: int = 0

    @property
    def day(self) -> date:
        """The UTC day whose rate converts it: that on which its period began, else on which it was
        frozen. So a saving does not move with the exchange rate of later weeks (method §3.9)."""
        return (self.period_start or self.frozen_at).astimezone(UTC).date()

    def converted(self, rate: Rate) -> Terms:
        """The baseline in the rate's target currency; `quoted` keeps what its document says."""

        def changed(amount: Decimal | None) -> Decimal | None:
            return None if amount is None else rate.convert(amount)

        return replace(
            self,
            currency=rate.target,
            cost=changed(self.cost),
            declared_price=changed(self.declared_price),
            classes={name: rate.convert(price) for name, price in self.classes.items()},
            quoted=Quoted(rate, self.cost_per_million_tokens()),
        )

    @property
    def tokens(self) -> int:
        """Prompt and generation tokens of a measured baseline."""
        return (self.prompt_tokens or 0) + (self.generation_tokens or 0)

    def cost_per_million_tokens(self) -> Decimal | None:
        """The declared price, else cost ÷ tokens × 10⁶; None when neither is there."""
        if self.declared_price is not None:
            return self.declared_price
        if self.cost is None or not self.tokens:
            return None
        return per_million(self.cost, self.tokens)

    def age(self, instant: datetime) -> timedelta:
        """How old the baseline is: since its period ended, else since it was declared."""
        return instant - (self.period_end or self.frozen_at)


@dataclass(frozen=True, slots=True)
class Comparison:
    """This period against a baseline; `reason` says why there is no saving."""

    cost_per_million_tokens: Decimal | None
    counterfactual: Decimal | None = None
    actual: Decimal | None = None
    saving: Decimal | None = None
    saving_lower: Decimal | None = None
    saving_upper: Decimal | None = None
    break_even: Decimal | None = None
    sensitivity: tuple[tuple[str, Decimal], ...] = ()
    by_class: bool = False
    reason: str | None = None
    bounds_reason: str | None = None

    @property
    def saving_share(self) -> Decimal | None:
        """Saving ÷ counterfactual: by so much the baseline could be lower until nothing is saved."""
        if self.saving is None or not self.counterfactual:
            return None
        return divide(self.saving, self.counterfactual)


def compare(
    terms: Terms, counted: Counted | None, actual: Decimal | None, currency: str
) -> Comparison:
    """Counterfactual, saving, interval, sensitivity and break-even (method §6).

    `counted` are this period's tokens on the baseline's basis, None where they are not known on it.
    """
    price = terms.cost_per_million_tokens()
    reason = _why_not(terms, price, counted, actual, currency)
    if reason or counted is None or actual is None or price is None:
        return Comparison(price, actual=actual, reason=reason)
    by_class = {"prompt", "generation"} <= terms.classes.keys()
    if by_class:
        counterfactual = _by_class(terms.classes, counted)
    else:
        counterfactual = _blended(terms, price, counted.total)
    saving = EXACT.subtract(counterfactual, actual)
    lower, upper, why = _interval(counterfactual, actual, counted)
    return Comparison(
        cost_per_million_tokens=price,
        counterfactual=counterfactual,
        actual=actual,
        saving=saving,
        saving_lower=lower,
        saving_upper=upper,
        break_even=per_million(actual, counted.total),
        sensitivity=tuple(
            (change, EXACT.subtract(_changed(counterfactual, change), actual)) for change in CHANGES
        ),
        by_class=by_class,
        bounds_reason=why,
    )


def _why_not(
    terms: Terms,
    price: Decimal | None,
    counted: Counted | None,
    actual: Decimal | None,
    currency: str,
) -> str | None:
    if terms.currency != currency:
        return (
            f"the baseline is in {terms.currency}, the report in {currency}, and there is no "
            f"exchange rate of {terms.day}"
        )
    if price is None:
        return "the baseline has no price per million tokens"
    if counted is None:
        return f"the workload has no {terms.basis} tokens in this period"
    if actual is None:
        return "the workload has no cost in hours that have tokens"
    return "the workload had no tokens in this period" if counted.total == 0 else None


def _blended(terms: Terms, price: Decimal, tokens: int) -> Decimal:
    if terms.declared_price is None and terms.cost is not None and terms.tokens:
        return divide(EXACT.multiply(terms.cost, Decimal(tokens)), Decimal(terms.tokens))
    return _times(price, tokens)


def _times(price: Decimal, tokens: int) -> Decimal:
    return divide(EXACT.multiply(price, Decimal(tokens)), MILLION)


def _by_class(prices: Mapping[str, Decimal], counted: Counted) -> Decimal:
    known = counted.by_class()
    total = Decimal(0)
    for name, tokens in known.items():
        price = prices.get(name, prices["prompt"])  # no price of its own: the price of a prompt
        total = EXACT.add(total, _times(price, tokens))
    return total


def _changed(amount: Decimal, per_cent: str) -> Decimal:
    return divide(EXACT.multiply(amount, Decimal(100) + Decimal(per_cent)), Decimal(100))


def _interval(
    counterfactual: Decimal, actual: Decimal, counted: Counted
) -> tuple[Decimal | None, Decimal | None, str | None]:
    """The saving at the lower and the upper token count, at the same mix of classes."""
    if counted.lower is None or counted.upper is None:
        return None, None, "the tokens have no bounds on this basis"
    total = Decimal(counted.total)

    def at(tokens: int) -> Decimal:
        scaled = divide(EXACT.multiply(counterfactual, Decimal(tokens)), total)
        return EXACT.subtract(scaled, actual)

    return at(counted.lower), at(counted.upper), None


def notes(terms: Terms, *, model: str, cached_known: bool, end: datetime) -> list[str]:
    """What a reader must know of the comparison: never smoothed over (method §6)."""
    found = []
    if terms.model and terms.model != model:
        found.append(f"Different models: the baseline ran {terms.model}, this workload {model}.")
    if terms.tokenizer and terms.tokenizer != model:
        found.append(
            f"The baseline's tokens are of the tokenizer {terms.tokenizer}; the same text may have "
            f"another number of tokens under {model}."
        )
    elif not terms.tokenizer and terms.model != model:
        found.append("The baseline's tokenizer is not recorded; token counts may differ by it.")
    if cached_known and terms.cached_tokens is None and "cached_prompt" not in terms.classes:
        found.append(
            "This workload tells cached prompt tokens, the baseline does not: its price treats all "
            "prompt tokens alike."
        )
    if not terms.approver:
        found.append(
            f"The baseline is not approved yet: {terms.author} registered it, and nobody else has "
            "examined it."
        )
    if terms.quality != "measured":
        found.append(f"The baseline's tokens are {terms.quality}, not measured.")
    if terms.age(end) > AGEING_AFTER:
        found.append(f"The baseline is {terms.age(end).days} days old: it is ageing.")
    if terms.quoted:
        found.append(_in_words(terms.quoted))
    if terms.note:
        found.append(terms.note)
    return found


def _in_words(quoted: Quoted) -> str:
    rate = quoted.rate
    shown = round_half_even(rate.value, 6)
    return (
        f"The baseline is in {rate.source}: converted at {shown} {rate.target} for one "
        f"{rate.source}, by the rates of {rate.day}."
    )


__all__ = ["AGEING_AFTER", "CHANGES", "Comparison", "Terms", "compare", "notes"]
