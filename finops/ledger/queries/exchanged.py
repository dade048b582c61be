"""What conversion did to a period's charges: original sums, rates used, and what had none (§3.9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from finops.core.exchange import Exchanged, Rate, Unconverted
from finops.core.money import EXACT

from .money import ChargePart, day_of

ZERO = Decimal(0)


@dataclass(slots=True)
class Tally:
    """Charges of one currency and rate: how many, of which days, their amounts before and after."""

    charges: int = 0
    days: set[date] = field(default_factory=set)
    billed: Decimal = ZERO
    effective: Decimal = ZERO
    converted_billed: Decimal = ZERO
    converted_effective: Decimal = ZERO

    def add(self, part: ChargePart, billed: Decimal | None, effective: Decimal | None) -> None:
        """Adds a charge's part; `billed` and `effective` are those of its own currency."""
        self.charges += 1
        self.days.add(day_of(part.start))
        self.billed = EXACT.add(self.billed, billed or ZERO)
        self.effective = EXACT.add(self.effective, effective or ZERO)
        self.converted_billed = EXACT.add(self.converted_billed, part.billed or ZERO)
        self.converted_effective = EXACT.add(self.converted_effective, part.effective or ZERO)


@dataclass(slots=True)
class Conversions:
    """Sums of the charges that are not in the report's currency, by currency and rate."""

    tallies: dict[tuple[str, Rate | None], Tally] = field(default_factory=dict)

    def add(self, part: ChargePart) -> None:
        """Counts a charge's part when it is of another currency."""
        original = part.original
        if original is not None:
            tally = self.tallies.setdefault((original.currency, original.rate), Tally())
            tally.add(part, original.billed, original.effective)

    def rates(self) -> tuple[Exchanged, ...]:
        """Each rate that was used, by currency and day."""
        used = [(rate, tally) for (_, rate), tally in self.tallies.items() if rate is not None]
        return tuple(
            Exchanged(rate, t.charges, min(t.days), max(t.days), t.billed, t.effective,
                      t.converted_billed, t.converted_effective)
            for rate, t in sorted(used, key=lambda one: (one[0].source, one[0].day))
        )  # fmt: skip

    def missing(self) -> tuple[Unconverted, ...]:
        """What stays in its own currency, because no rate was published."""
        return tuple(
            Unconverted(currency, t.charges, min(t.days), max(t.days), t.billed, t.effective)
            for (currency, rate), t in sorted(self.tallies.items(), key=lambda one: one[0][0])
            if rate is None
        )

    def last_days(self) -> dict[str, date]:
        """The last day of each other currency's charges."""
        found: dict[str, date] = {}
        for (currency, _), tally in self.tallies.items():
            found[currency] = max(max(tally.days), found.get(currency, date.min))
        return found

    def documents(self) -> set[str]:
        """The documents of the rates that were used."""
        return {sha for _, rate in self.tallies if rate is not None for sha in rate.documents}
