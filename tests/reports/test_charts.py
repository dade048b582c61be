"""Charts: deterministic, well formed, with a text alternative, and the same figures for Plotly."""

from __future__ import annotations

from decimal import Decimal
from xml.etree import ElementTree as Xml

from reports import charts

from .example import statement

SVG = "{http://www.w3.org/2000/svg}"


def test_all_charts_of_a_report_are_well_formed_and_say_what_they_show() -> None:
    found = charts.of_statement(statement())
    assert set(found) == {"trend", "memory", "bridge"}
    ids: list[str] = []
    for chart in found.values():
        text = charts.svg(chart)
        assert text == charts.svg(chart)
        root = Xml.fromstring(text)
        assert root.get("role") == "img"
        title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None and title.text == chart.title
        assert words is not None and words.text
        ids += [element.get("id") or "" for element in root.iter() if element.get("id")]
        assert not root.findall(f".//{SVG}linearGradient")
        for shape in root.iter(f"{SVG}rect"):
            assert Decimal(shape.get("height") or "-1") >= 0
            assert Decimal(shape.get("width") or "-1") >= 0
    assert len(ids) == len(set(ids))


def test_names_from_outside_are_escaped() -> None:
    chart = charts.Bars("m", "<script>", "GiB", [("<b>&", Decimal(2), Decimal(1))])
    text = charts.svg(chart)
    assert "<script>" not in text and "<b>" not in text
    Xml.fromstring(text)


def test_columns_are_as_tall_as_their_values() -> None:
    chart = charts.Columns("c", "t", "u", ["a", "b", "c"], [Decimal(2), None, Decimal(4)])
    heights = [
        Decimal(shape.get("height") or 0)
        for shape in Xml.fromstring(charts.svg(chart)).iter(f"{SVG}rect")
    ]
    assert heights == [Decimal(67), Decimal(134)]


def test_plotly_gets_the_same_values() -> None:
    chart = charts.of_statement(statement())["bridge"]
    trace = charts.to_plotly(chart)["data"][0]
    values = [Decimal(text) for text in trace["y"]]
    assert sum(values[:-1]) == values[-1] == Decimal("1.832914006")
