"""The European Central Bank's files as it publishes them, and files that only look like them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from finops.sources import fx_ecb
from finops.sources.records import FxRateRecord, Refused, Rejection

CODES = [
    "USD",
    "JPY",
    "BGN",
    "CYP",
    "CZK",
    "DKK",
    "EEK",
    "GBP",
    "HUF",
    "LTL",
    "LVL",
    "MTL",
    "PLN",
    "ROL",
    "RON",
    "SEK",
    "SIT",
    "SKK",
    "CHF",
    "ISK",
    "NOK",
    "HRK",
    "RUB",
    "TRL",
    "TRY",
    "AUD",
    "BRL",
    "CAD",
    "CNY",
    "HKD",
    "IDR",
    "ILS",
    "INR",
    "KRW",
    "MXN",
    "MYR",
    "NZD",
    "PHP",
    "SGD",
    "THB",
    "ZAR",
]


def parsed(path: Path) -> list[FxRateRecord | Rejection]:
    return list(fx_ecb.parse(path, path.name, "fx-ecb").records)  # type: ignore[arg-type]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_daily_file_with_its_spaces_and_its_written_date(tmp_path: Path) -> None:
    text = "Date, USD, JPY, CAD, \n16 November 2026, 1.1200, 171.02, 1.5400, \n"
    assert fx_ecb.recognises(text.encode(), "eurofxref.csv") == "fx-ecb"
    found = parsed(written(tmp_path, "eurofxref.csv", text))
    assert {
        (one.currency, one.day, one.rate) for one in found if isinstance(one, FxRateRecord)
    } == {
        ("USD", date(2026, 11, 16), Decimal("1.1200")),
        ("JPY", date(2026, 11, 16), Decimal("171.02")),
        ("CAD", date(2026, 11, 16), Decimal("1.5400")),
    }


def test_currencies_that_are_gone_stand_as_not_available(tmp_path: Path) -> None:
    text = "Date,USD,CYP,EEK,\n2026-11-16,1.1200,N/A,,\n1999-01-04,1.1789,0.58231,15.6466,\n"
    found = list(parsed(written(tmp_path, "hist.csv", text)))
    assert [(one.currency, one.day.year) for one in found if isinstance(one, FxRateRecord)] == [
        ("USD", 2026), ("USD", 1999), ("CYP", 1999), ("EEK", 1999),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ("2026-11-16,0,1,1,", "USD", "0"),
        ("2026-11-16,-1.12,1,1,", "USD", "-1.12"),
        ("2026-11-16,NaN,1,1,", "USD", "NaN"),
        ("2026-11-16,1e400,1,1,", "USD", "1e400"),
        ("2026-11-16,\"1,12\",1,1,", "USD", "1,12"),
        ("2026-13-16,1.12,1,1,", "Date", "2026-13-16"),
    ],
)  # fmt: skip
def test_a_cell_that_is_no_rate_is_refused_by_line_column_and_value(
    tmp_path: Path, row: str, column: str, value: str
) -> None:
    found = parsed(written(tmp_path, "odd.csv", f"Date,USD,JPY,CAD,\n{row}\n"))
    refused = [one for one in found if isinstance(one, Rejection)]
    assert refused and (refused[0].line, refused[0].column, refused[0].value) == (2, column, value)


def test_what_holds_no_rates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="the first column is 'Day'"):
        parsed(written(tmp_path, "day.csv", "Day,USD,JPY,CAD\n2026-11-16,1,1,1\n"))
    with pytest.raises(Refused, match="no rates"):
        parsed(written(tmp_path, "none.xml", "<Envelope><Cube/></Envelope>"))


def test_lines_of_xml_are_named_and_entities_are_never_followed(tmp_path: Path) -> None:
    text = (
        '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]>\n'
        '<Cube time="2026-11-16">\n<Cube currency="USD" rate="&y;"/>\n'
        '<Cube currency="CAD" rate="1.54"/></Cube>\n'
    )
    refused, kept = parsed(written(tmp_path, "evil.xml", text))
    assert isinstance(refused, Rejection) and (refused.line, refused.value) == (4, "&y;")
    assert isinstance(kept, FxRateRecord) and kept.line == 5


def test_the_whole_history_as_csv_and_as_xml_says_the_same(tmp_path: Path) -> None:
    """27 years of 41 currencies, as large as the bank's own files; every line is counted once."""
    days = [date(1999, 1, 4) + timedelta(days=7 * n // 5) for n in range(7000)]
    rate = {code: f"{number}.{number:04d}" for number, code in enumerate(CODES, start=1)}
    head = ",".join(["Date", *CODES]) + ",\n"
    row = ",".join(rate.values()) + ",\n"
    table = head + "".join(f"{day.isoformat()},{row}" for day in days)
    cubes = "".join(f'<Cube currency="{code}" rate="{text}"/>\n' for code, text in rate.items())
    envelope = "".join(f'<Cube time="{day.isoformat()}">\n{cubes}</Cube>\n' for day in days)
    by_csv = parsed(written(tmp_path, "eurofxref-hist.csv", table))
    by_xml = parsed(written(tmp_path, "eurofxref-hist.xml", f"<x>\n{envelope}</x>"))
    assert len(by_csv) == len(by_xml) == 7000 * len(CODES)

    def said(rows: list[FxRateRecord | Rejection]) -> list[tuple[str, date, Decimal]]:
        return [(r.currency, r.day, r.rate) for r in rows if isinstance(r, FxRateRecord)]

    assert said(by_csv) == said(by_xml)
    last = by_xml[-1]
    assert last.line == 1 + 7000 * (len(CODES) + 2) - 1
