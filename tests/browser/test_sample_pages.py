"""Every page in a real browser, by people of each role: accessible, whole, and of this site alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.browser.sample_service import PEOPLE, Visitor, sample_service
from tests.house.product import Up

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# The newest of the sample's weeks was complete an hour ago; the others come before it.
TODAY = datetime.now(UTC) - timedelta(hours=1)
MONDAY = TODAY.date() - timedelta(days=TODAY.weekday() + 7)
WEEK, BEFORE = (f"{MONDAY - timedelta(days=days):%G-W%V}" for days in (0, 7))
GAP = f"{MONDAY + timedelta(days=1)}T03:00:00Z"
MONTH = f"{MONDAY - timedelta(days=30):%Y-%m}"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

PAGES = (
    "/", "/reports/", f"/reports/{WEEK}/", f"/reports/{BEFORE}/", "/reports/compare/",
    "/exceptions/", f"/exceptions/?week={BEFORE}", "/workloads/", "/workloads/chat-70b/",
    "/workloads/chat-70b/hours/", "/annotations/", "/imports/", "/sources/",
    "/sources/prometheus-eu-prod-1/", f"/sources/prometheus-eu-prod-1/hours/?at={GAP}",
    "/nodes/", "/invoices/", "/rules/",
    "/baselines/", "/prices/", "/catalogue/", "/help/", "/start/", "/style/", f"/invoices/{MONTH}/", "/mappings/",
    "/memory/", "/memory/hours/?workload=chat-70b", "/memory/?by=gpu", "/memory/log/", "/memory/kv/",
    "/rightsizing/?setting=0.80", "/training/", "/changes/",
)  # fmt: skip
OF_ADMINS = ("/people/",)
OF_AUDITORS = ("/verify/", "/trail/", "/sampler/", f"/sampler/{BEFORE}/1/?rows=3&seed=2026")
LONG = "W" * 100
OF_FINANCE = (f"/invoices/enter/?issuer={LONG}", f"/sampler/{BEFORE}/1/?rows=3&seed={LONG}")


@pytest.fixture(scope="module")
def service() -> Iterator[Up]:
    with sample_service(8737) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


FORM = """[...document.querySelector('main').querySelectorAll('*')]
    .filter(one => !one.closest('svg'))
    .map(one => [one.tagName, one.className, one.id, one.getAttribute('role'), one.type,
        !one.textContent.trim()].join())
    .join()"""
"""What a page's content is made of. Roles differ in the forms they get: what looks the same to two
of them is looked at once; their menus are looked at on their first pages."""


@pytest.fixture(scope="module")
def looked_at() -> set[tuple[str, str]]:
    """The pages that were found accessible, and what they are made of."""
    return set()


def _violations(page: Any) -> list[str]:
    """What axe finds on the page as it stands."""
    page.evaluate(AXE.read_text())  # a script element would not pass the site's policy
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("name", PEOPLE)
def test_every_page_is_accessible_to_every_role(
    service: Up, browser: Any, looked_at: set[tuple[str, str]], name: str
) -> None:
    visitor = Visitor(browser, service.address, name)
    more = (OF_ADMINS if PEOPLE[name] == "admin" else ()) + (
        () if PEOPLE[name] == "engineer" else OF_AUDITORS
    )
    for path in (*PAGES, *more):
        visitor.go(path)
        assert visitor.page.locator("h1").count() == 1, path
        assert "Sample organisation." in visitor.page.locator("body").inner_text(), path
        form = (path, visitor.page.evaluate(FORM))
        if path == PAGES[0] or form not in looked_at:
            assert _violations(visitor.page) == [], path
            looked_at.add(form)
    assert visitor.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_every_width_in_light_and_dark(service: Up, browser: Any, scheme: str) -> None:
    visitor = Visitor(browser, service.address, "mira", color_scheme=scheme)
    for path in (*PAGES, *OF_ADMINS, *OF_AUDITORS, *OF_FINANCE):
        visitor.page.set_viewport_size({"width": 360, "height": 900})
        visitor.go(path)
        for width in (360, 768, 1920):
            visitor.page.set_viewport_size({"width": width, "height": 900})
            too_wide = "document.documentElement.scrollWidth > innerWidth"
            assert not visitor.page.evaluate(too_wide), (path, width)
            if scheme == "dark" and width == 768:
                assert _violations(visitor.page) == [], path
    assert visitor.problems == []


def test_finance_compares_decides_and_approves(service: Up, browser: Any) -> None:
    ben = Visitor(browser, service.address, "ben")
    assert "Waits for approval" in ben.text()
    ben.go("/reports/")
    ben.page.locator("#state").select_option("preliminary")
    ben.press("Show")
    assert WEEK not in ben.text() and BEFORE in ben.text()
    with ben.page.expect_download() as waiting:
        ben.choose("CSV")
    assert Path(waiting.value.path()).read_text().startswith("week,revision,state")
    ben.go(f"/reports/compare/?left={BEFORE}&right={WEEK}")
    assert "Effective cost" in ben.text()
    ben.go(f"/exceptions/?week={BEFORE}")
    for box in ben.page.locator("input[name=exception]").all():
        box.check()
    if ben.page.locator("input[name=exception]").count():
        ben.page.locator("#text").fill("Looked into; acceptable.")
        ben.press("Write the decision")
        assert "Looked into; acceptable." in ben.text()
    ben.go(f"/reports/{BEFORE}/")
    ben.press("Approve")
    assert "was approved" in ben.text()
    assert ben.problems == []


def test_an_engineer_annotates_an_hour_of_the_chart(service: Up, browser: Any) -> None:
    emil = Visitor(browser, service.address, "emil", viewport={"width": 1280, "height": 900})
    assert "KV cache in use" in emil.text()
    emil.go("/workloads/chat-70b/")
    chart = emil.page.locator("#workload-memory-0")
    chart.scroll_into_view_if_needed()
    live = emil.page.locator("figure:has(#workload-memory-0) .live .draglayer .nsewdrag").first
    live.wait_for(timeout=20_000)
    # The SVG stays for people who do not see the drawing.
    assert chart.get_attribute("role") == "img"
    box = live.bounding_box()
    assert box is not None
    emil.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    emil.page.wait_for_timeout(300)
    emil.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    emil.page.wait_for_url("**/annotations/**")
    # The middle of the week is Thursday noon.
    thursday = MONDAY + timedelta(days=3)
    noon = (f"{thursday}T11:00", f"{thursday}T12:00")
    assert emil.page.locator("#id_at").input_value() in noon
    assert emil.page.locator("#id_workload").input_value() == "chat-70b"
    emil.page.locator("#id_text").fill("prefix caching switched on")
    emil.press("Write")
    assert "prefix caching switched on" in emil.text()
    emil.page.get_by_role("link", name="Edit prefix caching switched on").click()
    emil.page.locator("#id_text").fill("prefix caching on, with a larger block")
    emil.press("Write the new version")
    assert "Edited; before" in emil.text()
    emil.go("/sources/")
    assert "Coverage by the hour" in emil.text()
    assert emil.problems == []


def test_an_auditor_reads_all_and_changes_nothing(service: Up, browser: Any) -> None:
    ines = Visitor(browser, service.address, "ines")
    assert "Sealed reports" in ines.text()
    ines.go(f"/reports/{WEEK}/")
    assert "SHA-256" in ines.text() and "✓" in ines.text()
    with ines.page.expect_download(timeout=90_000) as waiting:
        ines.page.get_by_role("link", name="Download PDF").click()
    assert Path(waiting.value.path()).read_bytes().startswith(b"%PDF-")
    for path in PAGES:
        ines.go(path)
        forms = ines.page.locator("main form[method=post]").count()
        # Logs and configurations are handed over by POST, because they are long; nothing is kept.
        assert forms == (1 if path in ("/memory/log/", "/memory/kv/") else 0), path
    ines.go("/people/")
    assert "Your role does not allow this" in ines.text()


def test_an_admin_gives_a_role(service: Up, browser: Any) -> None:
    mira = Visitor(browser, service.address, "mira")
    mira.go("/people/")
    mira.page.locator("#id_username").fill("noor")
    mira.page.locator("#id_password").fill("a password of four words")
    mira.page.get_by_label("auditor: ").check()
    mira.press("Add")
    assert "noor may sign in now" in mira.text()
    noor = Visitor(browser, service.address, "noor")
    assert "Sealed reports" in noor.text()


def test_charts_stay_without_javascript_and_on_paper(service: Up, browser: Any) -> None:
    plain = Visitor(browser, service.address, "ines", java_script_enabled=False)
    plain.go(f"/reports/{WEEK}/")
    for chart in plain.page.locator("svg.chart").all():
        playwright.expect(chart).to_be_visible()
    assert plain.page.locator("svg.chart").count() >= 5
    scripted = Visitor(browser, service.address, "ines")
    scripted.go(f"/reports/{WEEK}/")
    scripted.page.locator("svg.chart").first.scroll_into_view_if_needed()  # drawn when reached
    scripted.page.locator(".live .main-svg").first.wait_for(timeout=20_000)
    scripted.page.emulate_media(media="print")
    assert scripted.page.locator(".live").first.is_hidden()
    assert scripted.page.locator("svg.chart").first.bounding_box()["width"] > 300


def test_paper_loses_no_column_and_the_keyboard_no_focus(service: Up, browser: Any) -> None:
    mira = Visitor(browser, service.address, "mira", viewport={"width": 703, "height": 1000})
    too_wide = """[...document.querySelectorAll('main .scroll')]
        .filter(one => one.scrollWidth > one.clientWidth + 1).length"""
    mira.page.emulate_media(media="print")
    for path in ("/memory/", "/memory/?by=gpu", "/memory/hours/", "/rightsizing/", "/training/"):
        mira.go(path)
        assert mira.page.evaluate(too_wide) == 0, path
        assert not any(one.is_visible() for one in mira.page.locator("main button").all()), path
    mira.page.emulate_media(media="screen")
    mira.page.set_viewport_size({"width": 1280, "height": 600})
    mira.go("/memory/")
    sign_out = mira.page.get_by_role("button", name="Sign out")
    sign_out.focus()
    place = sign_out.bounding_box()
    assert place is not None and 0 <= place["y"] <= 600 - place["height"]
    assert mira.problems == []
