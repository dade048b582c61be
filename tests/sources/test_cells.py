"""Laws of cells: what is written exactly comes back exactly, everything else is a ValueError."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.sources.cells import instant, month_first_date, number, text_map, text_or_none

MONEY = st.decimals(
    allow_nan=False, allow_infinity=False, places=30, min_value=-(10**20), max_value=10**20
)
MOMENTS = st.datetimes(datetime(2000, 1, 2), datetime(2199, 12, 30), timezones=st.just(UTC))


@given(MONEY)
def test_numbers_come_back_exactly(value: Decimal) -> None:
    assert number(str(value)) == value
    assert number(f"{value:f}") == value
    assert number(f"{value:E}") == value


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    try:
        value = number(text)
    except ValueError:
        return
    assert value.is_finite()
    assert text.strip().isascii()


@given(MOMENTS, st.integers(-14 * 60, 14 * 60))
def test_instants_come_back_whatever_their_offset(moment: datetime, minutes: int) -> None:
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    local = datetime.fromtimestamp(moment.timestamp() + minutes * 60, UTC).replace(microsecond=0)
    written = f"{local:%Y-%m-%dT%H:%M:%S}{sign}{hours:02}:{rest:02}"
    assert instant(written) == moment.replace(microsecond=0)


@given(MOMENTS)
def test_instants_of_every_precision(moment: datetime) -> None:
    assert instant(moment.isoformat().replace("+00:00", "Z")) == moment
    assert instant(f"{moment:%Y-%m-%d %H:%M:%S}") == moment.replace(microsecond=0)


@given(st.text(alphabet="0123456789-:TZ+ ./", max_size=26))
def test_any_text_is_an_instant_or_a_value_error(text: str) -> None:
    for reader in (instant, month_first_date):
        try:
            assert reader(text).tzinfo is UTC
        except ValueError:
            continue


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=5))
def test_maps_come_back_from_python_and_json(tags: dict[str, str]) -> None:
    assert text_map(json.dumps(tags)) == tags
    assert text_map(json.dumps(tags, ensure_ascii=False)) == tags
    if tags:
        assert text_map(json.dumps(tags)[1:-1]) == tags
        assert text_map(repr(tags)) == tags


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "[" * 100_000, "x" * 300_000, "1", '"a"', "[1]", "a=b"]
)
def test_hostile_maps_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"map|keys"):
        text_map(text)


@pytest.mark.parametrize("cell", ["", " ", "NULL", "null", "None", None])
def test_what_stands_for_null(cell: str | None) -> None:
    assert text_or_none(cell) is None


def test_identifiers_keep_their_zeros() -> None:
    assert text_or_none(" 012345678901 ") == "012345678901"
