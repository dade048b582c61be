"""Small FOCUS files for tests, with sensible values where a test does not care."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

ROW = {
    "BilledCost": "1.00",
    "EffectiveCost": "1.00",
    "ListCost": "1.00",
    "ContractedCost": "1.00",
    "BillingCurrency": "USD",
    "BillingAccountId": "012345678901",
    "BillingAccountName": "Payer",
    "SubAccountId": "team-a",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargePeriodStart": "2026-10-05T10:00:00Z",
    "ChargePeriodEnd": "2026-10-05T11:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeDescription": "instance hours",
    "ChargeFrequency": "Usage-Based",
    "InvoiceIssuerName": "Cloud Ltd",
    "ProviderName": "Cloud Ltd",
    "ServiceName": "Compute",
    "ServiceCategory": "Compute",
    "InvoiceId": "INV-1",
    "CommitmentDiscountId": "",
    "CommitmentDiscountStatus": "",
    "ResourceId": "i-1",
    "Tags": "",
}


def focus_text(rows: Iterable[Mapping[str, str]]) -> str:
    """A FOCUS 1.2 CSV whose rows are `ROW` with the given cells changed, further columns last."""
    rows = list(rows)

    class Lines(list[str]):
        def write(self, text: str) -> None:
            self.append(text)

    lines = Lines()
    writer = csv.DictWriter(lines, columns_of(rows), lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow(ROW | row)
    return "".join(lines)


def columns_of(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """The columns of a file of these rows."""
    return list(dict.fromkeys([*ROW, *(column for row in rows for column in row)]))


def focus_file(path: Path, *rows: Mapping[str, str]) -> Path:
    """Writes such a CSV and returns its path."""
    path.write_text(focus_text(rows))
    return path


def hours(start: str, end: str, **cells: str) -> dict[str, str]:
    """A row for a charge period, given like `2026-10-05T10`."""
    return {"ChargePeriodStart": f"{start}:00:00Z", "ChargePeriodEnd": f"{end}:00:00Z", **cells}
