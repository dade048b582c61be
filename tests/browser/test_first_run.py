"""From an empty system to the first report and its PDF, in a real browser, by two people."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.product import Up, manage, up
from tests.ledger.focus_files import focus_file, hours
from tests.paths import RECORDED

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PASSWORD = "a password of four words"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def service() -> Iterator[Up]:
    # Not in pytest's own folder, which the embedded database's user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="headroom-first-run-"))
    folder.chmod(0o711)
    try:
        with up(folder / "data", HEADROOM_PORT="8731") as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Person:
    """A person at a browser of their own, who notices errors and requests that leave the site."""

    def __init__(self, browser: Any, address: str) -> None:
        self.address = address
        self.page = browser.new_context(accept_downloads=True).new_page()
        self.problems: list[str] = []
        self.page.on("console", self._listen)
        self.page.on("request", self._watch)

    def _listen(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.problems.append(message.text)

    def _watch(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:")):
            self.problems.append(request.url)

    def go(self, path: str) -> None:
        self.page.goto(self.address + path)

    def press(self, label: str) -> None:
        self.page.get_by_role("button", name=label, exact=True).first.click()

    def sees(self, text: str) -> None:
        playwright.expect(self.page.locator("main")).to_contain_text(text, timeout=30_000)


def test_the_first_report_and_its_pdf(service: Up, browser: Any, tmp_path: Path) -> None:
    ada = Person(browser, service.address)
    _first_login(ada, service.first_login)
    ada.sees("From nothing to the first report")
    _hand_files_over(ada, tmp_path)
    _name_and_place(ada)
    _annotate(ada)
    _test_a_source(ada)
    ada.go("/reports/")
    ada.page.locator("#week").fill("2026-W48")
    ada.press("Close week")
    ada.sees("A million tokens cost")
    ada.sees("utilization lowered")
    ada.sees("Not complete yet")
    _add_ben(ada)
    _ben_reviews(Person(browser, service.address))
    _download(ada, tmp_path)
    assert ada.problems == []
    report = json.loads(manage(service.data, "report", "2026-W48", "--json").stdout)
    assert report["figures"]["cost_per_million_tokens"] is not None
    assert report["sample"] is False


def _first_login(ada: Person, link: str) -> None:
    ada.page.goto(link)
    ada.sees("Welcome to Headroom")
    ada.press("Sign in")
    ada.page.locator("#id_new_password1").fill(PASSWORD)
    ada.page.locator("#id_new_password2").fill(PASSWORD)
    ada.press("Keep this password")


def _hand_files_over(ada: Person, folder: Path) -> None:
    invoice = focus_file(
        folder / "november.csv",
        hours(
            "2026-11-23T00",
            "2026-11-30T00",
            BillingPeriodStart="2026-11-01T00:00:00Z",
            BillingPeriodEnd="2026-12-01T00:00:00Z",
            BilledCost="1680.00",
            EffectiveCost="1680.00",
            InvoiceId="",
        ),
    )
    for path in (invoice, RECORDED / "raw-samples-5s.json.gz"):
        ada.go("/imports/")
        ada.page.locator("#id_chosen").set_input_files(str(path))
        assert ada.page.locator("form .upload-progress progress").count() == 1
        ada.press("Upload and read")
        ada.sees("posted")
    ada.go("/imports/")
    ada.page.locator("#id_chosen").set_input_files(
        {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}
    )
    ada.press("Upload and read")
    ada.sees("rejected")


def _name_and_place(ada: Person) -> None:
    ada.go("/workloads/add/")
    ada.page.locator("#id_slug").fill("chat-7b")
    ada.page.locator("#id_model").fill("Qwen2.5-7B")
    ada.press("Add")
    for subject, matchers, moved in (
        ("charge", "service=Compute", "would move 1 charge"),
        ("series", "namespace=llm-prod", "would move"),
    ):
        ada.go("/rules/")
        ada.page.locator("#id_subject").select_option(subject)
        ada.page.locator("#id_matchers").fill(matchers)
        ada.page.locator("#id_target").select_option("chat-7b")
        ada.press("Preview what it would move")
        ada.sees(moved)
        ada.press("Keep the rule")
        ada.sees("was added")


def _annotate(ada: Person) -> None:
    ada.go("/annotations/")
    ada.page.locator("#id_at").fill("2026-11-29T14:40")
    ada.page.locator("#id_text").fill("utilization lowered <b>a little</b>")
    ada.press("Write")
    ada.sees("utilization lowered <b>a little</b>")


def _test_a_source(ada: Person) -> None:
    ada.go("/sources/")
    ada.page.locator("#id_name").fill("prod")
    ada.page.locator("#id_url").fill("http://127.0.0.1:9")
    ada.press("Test")
    ada.sees("It cannot be used as it is.")
    ada.press("Add")
    ada.sees("prod")


def _add_ben(ada: Person) -> None:
    ada.go("/people/")
    ada.page.locator("#id_username").fill("ben")
    ada.page.locator("#id_password").fill(PASSWORD)
    ada.page.get_by_label("finance: ").check()
    ada.press("Add")
    ada.sees("ben may sign in now")


def _ben_reviews(ben: Person) -> None:
    """He approves; the seal is refused with what stands against it."""
    ben.go("/login/")
    ben.page.locator("#id_username").fill("ben")
    ben.page.locator("#id_password").fill(PASSWORD)
    ben.press("Sign in")
    ben.sees("Waiting for you")
    assert ben.page.get_by_role("link", name="People").count() == 0
    ben.go("/reports/2026-W48/")
    ben.press("Approve")
    ben.sees("was approved")
    ben.sees("do not reach the end of the week")
    ben.go("/people/")
    ben.sees("Your role does not allow this")
    assert ben.problems == []


def _download(ada: Person, folder: Path) -> None:
    ada.go("/reports/2026-W48/")
    with ada.page.expect_download(timeout=60_000) as waiting:
        ada.page.get_by_role("link", name="Download PDF").click()
    path = folder / "report.pdf"
    waiting.value.save_as(path)
    assert path.read_bytes().startswith(b"%PDF-")
    assert waiting.value.suggested_filename == "report-2026-W48-1-in-review.pdf"


def test_pages_fit_a_phone_and_work_from_the_keyboard(service: Up, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, java_script_enabled=True)
    page = context.new_page()
    page.goto(f"{service.address}/login/")
    page.locator("#id_username").fill("owner")
    page.locator("#id_password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{service.address}/", timeout=90_000)
    page.goto(f"{service.address}/help/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for path in ("/", "/reports/", "/reports/2026-W48/", "/imports/", "/rules/", "/invoices/",
                 "/exceptions/", "/workloads/chat-7b/", "/people/"):  # fmt: skip
        page.goto(service.address + path)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0, path
        assert page.locator("h1").count() == 1, path


def test_pages_are_whole_without_javascript(service: Up, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{service.address}/login/")
    page.locator("#id_username").fill("owner")
    page.locator("#id_password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{service.address}/", timeout=90_000)
    page.goto(f"{service.address}/reports/2026-W48/")
    playwright.expect(page.locator("svg.chart").first).to_be_visible()
