"""Exchange rates as a statement states them: which were used, on what, and what had none (§3.9)."""

from __future__ import annotations

from collections.abc import Iterator

from .exchange import Exchanged, Unconverted
from .facts import ExchangeFacts, Facts, Notice
from .money import plain
from .plainly import Value
from .wording import counted_text


def exchange_value(exchange: ExchangeFacts, currency: str) -> Value:
    """Amounts as the documents say them, the rates that converted them, and what had none."""
    return {
        "currency": currency,
        "originals": [
            {
                "currency": one.currency,
                "charges": one.charges,
                "billed": plain(one.billed),
                "effective": plain(one.effective),
            }
            for one in exchange.originals
        ],
        "rates": [_rate(one) for one in exchange.rates],
        "missing": [_missing(one) for one in exchange.missing],
    }


def _rate(one: Exchanged) -> Value:
    rate = one.rate
    return {
        "from": rate.source,
        "to": rate.target,
        "day": rate.day.isoformat(),
        "from_per_eur": plain(rate.source_per_base),
        "to_per_eur": plain(rate.target_per_base),
        "rate": plain(rate.value),
        "document_digests": list(rate.documents),
        "charges": one.charges,
        "first_day": one.first_day.isoformat(),
        "last_day": one.last_day.isoformat(),
        "billed": plain(one.billed),
        "effective": plain(one.effective),
        "converted_billed": plain(one.converted_billed),
        "converted_effective": plain(one.converted_effective),
    }


def _missing(one: Unconverted) -> Value:
    return {
        "currency": one.currency,
        "charges": one.charges,
        "first_day": one.first_day.isoformat(),
        "last_day": one.last_day.isoformat(),
        "billed": plain(one.billed),
        "effective": plain(one.effective),
    }


def exchange_notices(facts: Facts) -> Iterator[Notice]:
    """Charges without a rate, rates that end early, and currencies between which nobody chose."""
    currencies = [total.currency for total in facts.as_written]
    if facts.exchange is None:
        if len(currencies) > 1:
            text = (
                f"Charges in {', '.join(currencies)}; the report is in {facts.currency} and adds up "
                "nothing else, because no report currency was chosen (HEADROOM_REPORT_CURRENCY)."
            )
            yield Notice("currencies-mixed", "report", text)
        return
    for one in facts.exchange.missing:
        yield Notice(
            "exchange-rate-missing",
            one.currency,
            f"{counted_text(one.charges, 'charge')} in {one.currency} that begin from "
            f"{one.first_day} to {one.last_day}: no rate to {facts.currency} was published on that "
            "day or in the ten days before. They stand apart, and workloads that they reach have no "
            "unit cost.",
            one.effective,
            one.currency,
        )
    for currency, newest in sorted(facts.exchange.late.items()):
        yield Notice(
            "exchange-rates-end-early",
            currency,
            f"The rates of {currency} end on {newest}; charges of later days use that day's, until "
            "newer rates come.",
        )
