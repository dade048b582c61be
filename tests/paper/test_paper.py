"""The printed report: same bytes each time, archival, every font inside, nothing fetched."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pikepdf
import pytest

from reports import paper
from reports.queries.standing import Standing, standing
from tests.reports.example import statement
from tests.reports.helpers import make_report, seal_report

pytestmark = pytest.mark.django_db


@pytest.fixture
def sealed() -> Standing:
    report = make_report()
    seal_report(report)
    return standing(report)


HEAD_POINTS = 19 / 25.4 * 72
"""So far down a sheet only the words of the running head begin."""


def fonts_of(page: pikepdf.Page) -> list[pikepdf.Object]:
    return list((page.resources.get("/Font") or {}).values())


def test_same_report_gives_the_same_bytes_and_is_archival(sealed: Standing, tmp_path: Path) -> None:
    content = paper.pdf(sealed)
    assert paper.pdf(sealed) == content
    with pikepdf.open(io.BytesIO(content)) as document:
        root = document.Root
        assert len(root.OutputIntents) == 1
        assert str(root.Lang) == "en-GB"
        assert bool(root.MarkInfo.Marked)
        metadata = document.open_metadata()
        assert metadata["pdfaid:part"] == "3"
        assert metadata["pdfaid:conformance"] == "A"
        assert "/JavaScript" not in (root.get("/Names") or {})
        fonts = [font for page in document.pages for font in fonts_of(page)]
        assert fonts
        for font in fonts:
            descriptor = font.DescendantFonts[0].FontDescriptor
            assert "/FontFile2" in descriptor or "/FontFile3" in descriptor, font.BaseFont
            assert any(name in str(font.BaseFont) for name in ("Inter", "Plex")), font.BaseFont
    if shutil.which("qpdf"):
        path = tmp_path / "report.pdf"
        path.write_bytes(content)
        check = subprocess.run(["qpdf", "--check", str(path)], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout + check.stderr


def test_every_sheet_bears_number_state_and_digest(sealed: Standing, tmp_path: Path) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed")
    path = tmp_path / "report.pdf"
    path.write_bytes(paper.pdf(sealed))
    text = subprocess.run(
        ["pdftotext", "-layout", str(path), "-"], capture_output=True, text=True, check=True
    ).stdout
    sheets = text.rstrip("\f").split("\f")
    assert len(sheets) > 2
    for number, sheet in enumerate(sheets, start=1):
        flat = " ".join(sheet.split())
        assert "Report 2026-W47/1" in flat
        assert "SAMPLE DATA" in flat
        assert "Final" in flat
        assert f"SHA-256 {sealed.digest}" in flat
        assert f"Page {number} of {len(sheets)}" in flat
    assert sealed.statement["headline"][:40] in " ".join(sheets[0].split())


@pytest.mark.parametrize("size", paper.SIZES)
def test_nothing_runs_into_a_sheets_head(sealed: Standing, tmp_path: Path, size: str) -> None:
    """What a sheet's end cuts in an unlucky place may be set above the next sheet's first line."""
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed")
    path = tmp_path / "report.pdf"
    path.write_bytes(paper.pdf(sealed, size=size))
    boxes = subprocess.run(
        ["pdftotext", "-bbox", str(path), "-"], capture_output=True, text=True, check=True
    ).stdout
    sheets = boxes.split("<page ")[1:]
    assert len(sheets) > 2
    heads = set()
    for sheet in sheets:
        words = re.findall(r'yMin="([0-9.]+)".*?>([^<]+)</word>', sheet)
        heads.add(" ".join(sorted(word for top, word in words if float(top) < HEAD_POINTS)))
    (head,) = heads
    assert "Report" in head and "Final" in head


@pytest.mark.parametrize("size", paper.SIZES)
def test_the_head_of_a_long_table_stands_on_each_of_its_sheets(tmp_path: Path, size: str) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed")
    (first, *_) = statement("2026-W47")["rules"]
    rules = [first | {"number": n, "target": f"service-{n}"} for n in range(1000, 1150)]
    report = make_report(rules=rules)
    seal_report(report)
    path = tmp_path / "report.pdf"
    path.write_bytes(paper.pdf(standing(report), size=size))
    text = subprocess.run(
        ["pdftotext", "-layout", str(path), "-"], capture_output=True, text=True, check=True
    ).stdout
    sheets = [sheet for sheet in text.split("\f") if re.search(r"service-1\d{3}\b", sheet)]
    assert len(sheets) > 2
    for sheet in sheets:
        assert re.search(r"Order +Rule +Matches +Goes to", sheet), sheet[:300]
    rows = re.findall(r"service-1\d{3}\b", "".join(sheets))
    assert len(set(rows)) == 150


@pytest.mark.parametrize("size", paper.SIZES)
def test_names_without_a_blank_stay_on_the_sheet(tmp_path: Path, size: str) -> None:
    """People, teams, models, documents and texts of 150 signs, the longest that a name may have."""
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed")
    value, long = statement("2026-W47"), "Wm" * 75
    for one in value["workloads"]:
        one |= {"team": long, "model": long}
    for one in value["exceptions"]:
        one |= {"subject": long, "text": long}
    for one in value["annotations"]:
        one |= {"text": long, "author": long}
    for one in value["control_totals"]["documents"]:
        one |= {"name": long}
    names = ("workloads", "exceptions", "annotations", "control_totals")
    report = make_report(by="P" + long[1:], organisation=long, **{n: value[n] for n in names})
    seal_report(report, approver="A" + long[1:])
    path = tmp_path / "report.pdf"
    path.write_bytes(paper.pdf(standing(report), size=size))
    boxes = subprocess.run(
        ["pdftotext", "-bbox", str(path), "-"], capture_output=True, text=True, check=True
    ).stdout
    for sheet in boxes.split("<page ")[1:]:
        width = re.match(r'width="([0-9.]+)"', sheet)
        assert width
        margin = float(width[1]) - 17 / 25.4 * 72  # of paper.css
        words = re.findall(r'xMax="([0-9.]+)".*?>([^<]+)</word>', sheet)
        assert [word for right, word in words if float(right) > margin + 1] == [], sheet[:40]


def test_letter_paper(sealed: Standing) -> None:
    with pikepdf.open(io.BytesIO(paper.pdf(sealed, size="Letter"))) as document:
        assert [int(v) for v in document.pages[0].mediabox] == [0, 0, 612, 792]
    with pytest.raises(ValueError, match="paper size"):
        paper.pdf(sealed, size="B5")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x.css",
        "file:///etc/passwd",
        "https://static.invalid/../finops/settings.py",
        "https://static.invalid/css/none.css",
    ],
)
def test_the_fetcher_opens_nothing_but_static_files(url: str) -> None:
    with pytest.raises(Exception, match=r"refused|no static file|outside|located"):
        paper.closed_fetcher().fetch(url)


def test_a_file_of_its_own_asks_for_nothing(sealed: Standing) -> None:
    page = paper.html(sealed, alone=True)
    assert "<link" not in page
    assert "src=" not in page
    assert 'url("../' not in page
    assert "data:font/woff2;base64," in page


def test_the_style_sheets_hold_nothing_that_paper_does_not_know(
    sealed: Standing, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="weasyprint"):
        paper.pdf(sealed)
    assert [record.getMessage() for record in caplog.records] == []
