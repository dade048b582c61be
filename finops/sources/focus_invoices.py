"""The data sets of FOCUS 1.4 beside Cost and Usage: InvoiceDetail and BillingPeriod (§3.8, §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from finops.sources.parquet import has_columns, is_parquet
from finops.sources.records import (
    Account,
    BillingPeriodRecord,
    InvoiceDetailRecord,
    Parsed,
    Refused,
    Rejection,
)
from finops.sources.rows import Fault, Row, Rows, header_of, table_rows

DETAIL: Final = "focus-invoice-detail"
PERIOD: Final = "focus-billing-period"
FORMATS: Final[tuple[str, ...]] = (DETAIL, PERIOD)

_COLUMNS: Final = {
    DETAIL: """
        BilledCost BillingAccountId BillingCurrency BillingPeriodEnd BillingPeriodStart
        ChargeCategory InvoiceDetailId InvoiceDetailLastUpdated InvoiceId InvoiceIssueDate
        InvoiceIssueStatus InvoiceIssuerName
    """,
    PERIOD: """
        BillingPeriodStart BillingPeriodEnd BillingPeriodStatus BillingPeriodCreated
        BillingPeriodLastUpdated InvoiceIssuerName
    """,
}
_SIGNS: Final = {
    DETAIL: ("InvoiceDetailId", "InvoiceIssuerName", "BilledCost"),
    PERIOD: ("BillingPeriodStatus", "InvoiceIssuerName", "BillingPeriodStart"),
}
_STATUSES: Final = ("Open", "Issued", "Voided")
_PERIOD_STATUSES: Final = ("Open", "Closed")

Record = InvoiceDetailRecord | BillingPeriodRecord


def recognises(head: bytes, name: str) -> str | None:
    """The data set whose columns stand in the header; Cost and Usage is told by charge periods."""
    if is_parquet(head):
        if has_columns(head, "ChargePeriodStart"):
            return None
        signs = {one: [sign.encode() for sign in _SIGNS[one]] for one in FORMATS}
        return next((f for f in FORMATS if all(sign in head for sign in signs[f])), None)
    header = [column.strip() for column in header_of(head)]
    if "ChargePeriodStart" in header:
        return None
    return next((f for f in FORMATS if all(sign in header for sign in _SIGNS[f])), None)


def parse(path: Path, name: str, format: str) -> Parsed:
    """The records of one file. Refused when its columns are of another data set."""
    rows = table_rows(path, name)
    header = [(column or "").strip() for column in next(rows, (1, ()))[1]]
    places = {column: at for at, column in enumerate(header)}
    if absent := [sign for sign in _SIGNS[format] if sign not in places]:
        raise Refused(f"{name}: line 1: no column {absent[0]}", line=1, column=absent[0])
    if len(places) < len(header):
        twice = next(column for column in header if header.count(column) > 1)
        raise Refused(
            f"{name}: line 1: the column {twice} stands more than once", line=1, column=twice
        )
    wanted = _COLUMNS[format].split()
    account = Account(
        format,
        version="1.4",
        unknown_columns=tuple(column for column in header if column not in wanted),
        missing_columns=tuple(column for column in wanted if column not in places),
    )
    build = _detail if format == DETAIL else _period
    return Parsed(account, _records(rows, header, places, account, build))


def _records(
    rows: Rows,
    header: Sequence[str],
    places: dict[str, int],
    account: Account,
    build: Callable[[Row], Record],
) -> Iterator[Record | Rejection]:
    for line, cells in rows:
        account.rows_read += 1
        if len(cells) != len(header):
            reason = f"the row has {len(cells)} fields, the header {len(header)}"
            yield Rejection.of(line, None, len(cells), reason)
            continue
        row = Row(cells, places, line)
        try:
            yield build(row)
        except Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)
            if build is _detail:
                with suppress(Fault):
                    yield _of_invoice(row)


def _detail(row: Row) -> InvoiceDetailRecord:
    amount = row.money("BilledCost", required=True)
    status = _one_of(row, "InvoiceIssueStatus", _STATUSES, "Issued")
    return replace(_of_invoice(row), amount=amount, status=status)


def _of_invoice(row: Row) -> InvoiceDetailRecord:
    """Which invoice a line belongs to, without its amount."""
    updated = "InvoiceDetailLastUpdated"
    return InvoiceDetailRecord(
        line=row.line,
        issuer=row.required("InvoiceIssuerName"),
        invoice=row.required("InvoiceId"),
        billing_account=row.text("BillingAccountId"),
        billing_period_start=row.moment("BillingPeriodStart"),
        billing_period_end=row.moment("BillingPeriodEnd"),
        currency=row.currency("BillingCurrency"),
        category=row.text("ChargeCategory"),
        amount=None,
        status="",
        detail=row.text("InvoiceDetailId"),
        updated_at=_moment_or_none(row, updated),
    )


def _moment_or_none(row: Row, column: str) -> datetime | None:
    """An instant that is no condition of taking the line: None where it is absent or unreadable."""
    try:
        return row.moment(column)
    except Fault:
        return None


def _period(row: Row) -> BillingPeriodRecord:
    updated = "BillingPeriodLastUpdated"
    return BillingPeriodRecord(
        line=row.line,
        issuer=row.required("InvoiceIssuerName"),
        billing_period_start=row.moment("BillingPeriodStart"),
        billing_period_end=row.moment("BillingPeriodEnd"),
        status=_one_of(row, "BillingPeriodStatus", _PERIOD_STATUSES, None),
        updated_at=row.moment(updated) if row.text(updated) else None,
    )


def _one_of(row: Row, column: str, known: Sequence[str], absent: str | None) -> str:
    if absent is not None and not row.has(column):
        return absent
    text = row.required(column)
    if text not in known:
        raise Fault(column, text, f"must be one of {', '.join(known)}")
    return text
