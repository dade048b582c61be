"""Charts: deterministic, well formed, with a text alternative, and the same figures for Plotly."""

from __future__ import annotations

from decimal import Decimal
from xml.etree import ElementTree as Xml

from reports import charts
from reports.against import Against

from .example import statement

SVG = "{http://www.w3.org/2000/svg}"


def test_all_charts_of_a_report_are_well_formed_and_say_what_they_show() -> None:
    found = charts.of_statement(statement())
    assert set(found) == {"trend", "memory:chat-70b", "bridge", "saving"}
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
    assert sum(values[:-1]) == values[-1] == Decimal("-0.222485994")
    # Each column floats on the sum of those before it; the change stands on the floor.
    floats = [sum(values[:at], Decimal(0)) for at in range(len(values) - 1)]
    assert [Decimal(text) for text in trace["base"]] == [*floats, Decimal(0)]


def test_areas_leave_unread_hours_empty_and_stand_to_scale() -> None:
    chart = charts.of_statement(statement())["memory:chat-70b"]
    root = Xml.fromstring(charts.svg(chart))
    paths = [(p.get("class"), p.get("d") or "") for p in root.iter(f"{SVG}path")]
    # The hours 100 to 103 were not read: two runs of the active part, one of the reservation.
    assert [tone for tone, _ in paths] == ["pale", "accent", "accent", "line"]
    # The chart ends at 72 GiB, 106 units above the floor at 136: 58,860 MiB are 84.6 units.
    assert paths[0][1].startswith("M0 136H0V51.4")
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "1" in texts and "Mon 16" in texts and "72.0 in use on the GPU, at the end" in texts
    traces = charts.to_plotly(chart)["data"]
    assert [t["name"] for t in traces] == ["active", "reserved, unreferenced", "in use on the GPU"]
    assert Decimal(traces[0]["y"][1]) + Decimal(traces[1]["y"][1]) == Decimal(58_860) / 1024
    assert traces[0]["y"][100] is None and traces[1]["y"][100] is None


def test_what_a_script_reads_cannot_end_its_element() -> None:
    chart = charts.Columns("c", "t", "</script><b>&", ["</script>"], [Decimal(1)])
    text = charts.on_screen(chart)
    block = text.partition('data-chart="c">')[2]
    assert block.count("<") == 1 and block.endswith("</script>")


def test_a_saving_is_drawn_solid_against_outlined_to_one_scale() -> None:
    rows = [("chat", Decimal(100), Decimal(250)), ("code", Decimal(50), Decimal(25))]
    shapes = list(Xml.fromstring(charts.svg(Against("s", "t", "USD", rows))).iter(f"{SVG}rect"))
    solid = [s for s in shapes if s.get("class") == "accent"]
    outlined = [s for s in shapes if s.get("class") == "outline"]
    assert len(solid) == len(outlined) == 2 and {s.get("fill") for s in outlined} == {"none"}
    long = [Decimal(s.get("width", "")) for s in (*solid, *outlined)]
    assert long == [Decimal(160), Decimal(80), Decimal(400), Decimal(40)]
