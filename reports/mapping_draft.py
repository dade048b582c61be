"""A CSV mapping while a person makes it: the file's columns, guesses, and a preview of its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from finops.core.money import plain
from finops.core.period import rfc3339
from finops.sources import csv_mapping
from finops.sources.records import ChargeRecord, Refused, Rejection
from finops.sources.rows import table_rows

MOST_COLUMNS = 100
ROWS_SHOWN = 3
ROWS_TRIED = 20
SAME = "BilledCost+EffectiveCost"
Content = dict[str, Any]

# What a reader of invoices calls a column, grouped as the choice offers it.
GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Money",
        (
            (SAME, "Cost, billed and effective alike"),
            ("BilledCost", "Cost as billed"),
            ("EffectiveCost", "Cost after commitments (effective)"),
            ("ListCost", "Cost at list prices"),
            ("ContractedCost", "Cost at contracted prices"),
            ("BillingCurrency", "Currency"),
        ),
    ),
    (
        "Time",
        (
            ("ChargePeriodStart", "Usage date or start"),
            ("ChargePeriodEnd", "Usage end"),
            ("BillingPeriodStart", "Billing period start"),
            ("BillingPeriodEnd", "Billing period end"),
        ),
    ),
    (
        "What was bought",
        (
            ("ServiceName", "Service"),
            ("SkuId", "Article (SKU)"),
            ("SkuMeter", "Meter"),
            ("ChargeDescription", "Description"),
            ("ChargeCategory", "Kind (Usage, Tax, Credit …)"),
            ("ChargeClass", "Correction or not"),
            ("ConsumedQuantity", "Quantity"),
            ("ConsumedUnit", "Unit"),
            ("ResourceId", "Resource"),
            ("ResourceName", "Resource name"),
            ("ResourceType", "Resource type"),
            ("RegionId", "Region"),
        ),
    ),
    (
        "Who and which invoice",
        (
            ("InvoiceId", "Invoice number"),
            ("InvoiceIssuerName", "Issuer of the invoice"),
            ("ProviderName", "Provider"),
            ("BillingAccountId", "Billing account"),
            ("SubAccountId", "Sub account or project"),
            ("SubAccountName", "Name of the sub account"),
            ("Tags", "Tags (JSON)"),
        ),
    ),
)
KNOWN = {name for _, group in GROUPS for name, _ in group}
NAMES = {name: label for _, group in GROUPS for name, label in group}

# Words of a heading that give a column away; the first that fits and is not taken is the guess.
_SIGNS: tuple[tuple[str, str], ...] = (
    (r"invoice.*(id|no|number|nr)|rechnung.*(nr|nummer)|^invoice$", "InvoiceId"),
    (r"currency|währung|waehrung", "BillingCurrency"),
    (r"(end|until|bis).*|.*\bto\b.*", "ChargePeriodEnd"),
    (r".*(date|datum|start|from|day|period).*", "ChargePeriodStart"),
    (r".*(cost|amount|betrag|charge|total|price|net|spend|usd|eur).*", SAME),
    (r".*(quantity|hours|menge|stunden|usage).*", "ConsumedQuantity"),
    (r".*(unit|einheit).*", "ConsumedUnit"),
    (r".*(account|konto|customer|kunde).*", "BillingAccountId"),
    (r".*(project|team|cost ?cent).*", "SubAccountId"),
    (r".*(service|product|leistung).*", "ServiceName"),
    (r".*(sku|article|artikel|gpu|instance).*", "SkuId"),
    (r".*(description|text|beschreibung|item).*", "ChargeDescription"),
    (r".*(region|location|standort).*", "RegionId"),
    (r".*(resource|host|node|server|machine).*", "ResourceId"),
)


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a file: headings, and a few rows as they are written."""

    columns: list[str]
    rows: list[list[str]]

    def examples(self, column: str) -> list[str]:
        """The column's first values."""
        at = self.columns.index(column)
        return [row[at][:60] for row in self.rows if at < len(row) and row[at]]


def head_of(path: Path, name: str) -> Head:
    """The head of a CSV or Parquet file. Refused says why it cannot be mapped."""
    rows = table_rows(path, name)
    _, header = next(rows, (1, ()))
    columns = [(one or "").strip() for one in header]
    if not any(columns):
        raise Refused(f"{name}: line 1: there are no headings")
    if len(columns) > MOST_COLUMNS:
        raise Refused(
            f"{name}: line 1: {len(columns)} columns; here {MOST_COLUMNS} can be mapped, "
            "more by the command `mapping`"
        )
    if len(columns) == 1:
        raise Refused(f"{name}: line 1: one column only; a comma, semicolon or tab parts columns")
    twice = next((one for one in columns if columns.count(one) > 1), None)
    if twice is not None:
        raise Refused(f"{name}: line 1: the heading {twice!r} is there more than once")
    shown = [[str(cell or "") for cell in cells] for _, cells in islice(rows, ROWS_SHOWN)]
    return Head(columns, shown)


def guesses(columns: Sequence[str]) -> dict[str, str]:
    """For each heading the FOCUS column it most likely stands for; nothing is guessed twice."""
    found: dict[str, str] = {}
    for column in columns:
        name = next((n for n in KNOWN if n.lower() == re.sub(r"[ _-]", "", column.lower())), None)
        if name and name not in found.values():
            found[column] = name
    for column in columns:
        if column in found:
            continue
        for sign, name in _SIGNS:
            taken = set(found.values()) & ({name} | set(name.split("+")))
            if re.fullmatch(sign, column.lower()) and not taken:
                found[column] = name
                break
    return found


def content_of(chosen: Mapping[str, str], constants: Mapping[str, str], dates: str, decimal: str) -> Content:  # fmt: skip
    """The mapping that the form's choices describe, in the shape that is saved."""
    targets = {c: n.split("+") if "+" in n else n for c, n in chosen.items() if n}
    content: Content = {"columns": targets, "decimal": decimal}
    given = {name: text for name, text in constants.items() if text}
    if given:
        content["constants"] = given
    if dates:
        content["dates"] = dates
    return content


def choice_of(targets: str | list[str]) -> str:
    """A saved target as the form's choice."""
    names = [targets] if isinstance(targets, str) else targets
    return "+".join(sorted(names))


def preview(path: Path, name: str, content: Content) -> dict[str, Any]:
    """The first rows as the mapping reads them: charges, and rows that would be rejected.

    ValueError or Refused says what keeps the mapping from being used.
    """
    mapping = csv_mapping.mapping_of(content)
    parsed = csv_mapping.parse(path, name, f"{csv_mapping.PREFIX}preview", mapping)
    records = list(islice(parsed.records, ROWS_TRIED))
    return {
        "charges": [_charge(one) for one in records if isinstance(one, ChargeRecord)],
        "rejected": [one for one in records if isinstance(one, Rejection)],
        "tried": len(records),
        "all": len(records) < ROWS_TRIED,
        "warnings": list(parsed.account.warnings),
    }


def _charge(one: ChargeRecord) -> dict[str, Any]:
    return {
        "line": one.line,
        "start": rfc3339(one.charge_period_start),
        "end": rfc3339(one.charge_period_end),
        "billed": None if one.billed_cost is None else plain(one.billed_cost),
        "effective": None if one.effective_cost is None else plain(one.effective_cost),
        "currency": one.currency,
        "issuer": one.issuer,
        "account": one.billing_account,
        "service": one.service or one.sku or one.description or "",
        "gpu": one.gpu_model or "",
    }


# How dates are written: pattern, an example. The first is read as FOCUS writes dates.
DATES = (
    ("", "2026-10-28 or 2026-10-28T13:05:00Z"),
    ("%d.%m.%Y", "28.10.2026"),
    ("%d/%m/%Y", "28/10/2026"),
    ("%m/%d/%Y", "10/28/2026"),
    ("%Y/%m/%d", "2026/10/28"),
    ("%Y%m%d", "20261028"),
    ("%d.%m.%Y %H:%M", "28.10.2026 13:05"),
    ("%d/%m/%Y %H:%M", "28/10/2026 13:05"),
    ("%m/%d/%Y %H:%M", "10/28/2026 13:05"),
    ("%Y-%m-%d %H:%M", "2026-10-28 13:05"),
    ("%d %b %Y", "28 Oct 2026"),
)


def dates_of(examples: Sequence[str]) -> str:
    """The first way of writing dates that reads most of the examples; the plain one when none
    reads more than half."""
    read = {p: sum(_reads(text, p) for text in examples) for p, _ in DATES[1:]}
    best = max(read, key=lambda pattern: read[pattern])
    return best if 2 * read[best] > len(examples) else ""


def _reads(text: str, pattern: str) -> bool:
    if not text.isascii():
        return False
    try:
        datetime.strptime(text.strip(), pattern)  # noqa: DTZ007 - only whether it reads
    except ValueError:
        return False
    return True


def decimal_of(examples: Sequence[str]) -> str:
    """The sign before the decimals, by amounts: a comma where it comes last and alone."""
    commas = [
        t for t in examples if re.fullmatch(r"-?[0-9.]*,[0-9]{1,2}|-?[0-9]+,[0-9]{4,}", t.strip())
    ]
    return "," if commas else "."
