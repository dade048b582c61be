"""Sixty digits of an amount stay inside their cell on a phone: no page grows wider than the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reports import paper
from reports.queries.standing import standing
from tests.browser.test_first_run import CHROMIUM
from tests.ledger.doors import ingested
from tests.ledger.focus_files import focus_file
from tests.paths import REPOSITORY
from tests.reports.conftest import client_of, person  # noqa: F401 - fixtures
from tests.reports.example import statement
from tests.reports.helpers import make_report

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
LONG = "-123456789012345678901234567890123456789012345678901234567890"
TOO_WIDE = """() => {
  const style = (one) => getComputedStyle(one);
  const scrolls = (one) => one && (['auto', 'scroll'].includes(style(one).overflowX) || scrolls(one.parentElement));
  const every = [...document.body.querySelectorAll('*')];
  const told = (one) => `${one.tagName}.${one.className} ${one.textContent.trim().slice(0, 60)}`;
  const cut = every.filter((one) => style(one).overflowX === 'hidden' && one.clientWidth > 1
    && !one.ownerSVGElement && one.scrollWidth > one.clientWidth + 1).map((one) => 'cut ' + told(one));
  if (document.documentElement.scrollWidth === document.documentElement.clientWidth) return cut;
  return [...cut, ...every.filter((one) => !scrolls(one.parentElement)
    && one.getBoundingClientRect().right > innerWidth + 1).map(told)];
}"""


def long_figures(value: Any) -> Any:
    """The same statement, with amounts of sixty digits wherever it tells an amount."""
    if isinstance(value, dict):
        return {name: long_figures(one) for name, one in value.items()}
    if isinstance(value, list):
        return [long_figures(one) for one in value]
    is_amount = isinstance(value, str) and re.fullmatch(r"-?[0-9]+\.[0-9]{2,}", value)
    return LONG if is_amount and not value.startswith("0.") else value


def alone(html: str) -> str:
    """The page with its own style sheets in it, each for its medium, and without scripts."""
    html = re.sub(r"<script[^>]*src=.*?</script>", "", html)
    return re.sub(
        r'<link rel="stylesheet" href="/static/(css/[a-z]+\.css)"([^>]*)>',
        lambda found: f"<style{found[2]}>{(REPOSITORY / 'static' / found[1]).read_text()}</style>",
        html,
    )


@pytest.fixture
def pages(client_of: Any, tmp_path: Path) -> Iterator[dict[str, str]]:  # noqa: F811
    given = long_figures(statement())
    changes = {name: given[name] for name in given if name not in ("period", "week")}
    report = make_report("2026-W47", **changes)
    make_report("2026-W46")
    ingested(focus_file(tmp_path / "a.csv", {"BilledCost": LONG, "EffectiveCost": LONG,
                                             "InvoiceId": "I" * 60}))  # fmt: skip
    client: Client = client_of("admin", "auditor", "finance", name="mira")
    addresses = {
        "report": reverse("report", args=["2026-W47"]),
        "overview": "/",
        "reports": "/reports/",
        "compare": "/reports/compare/?left=2026-W46&right=2026-W47",
        "tieout": reverse("tieout", args=["2026-10"]),
        "invoices": reverse("invoices"),
        "imports": reverse("imports"),
        "workload": f"/workloads/{given['workloads'][0]['slug']}/",
        "exceptions": "/exceptions/?week=2026-W47",
    }
    found = {name: client.get(at, follow=True) for name, at in addresses.items()}
    assert {one.status_code for one in found.values()} <= {200, 404}
    shown = {name: alone(one.content.decode()) for name, one in found.items()}
    shown["file"] = paper.html(standing(report), alone=True)
    yield shown


def test_no_page_is_wider_than_a_phone(pages: dict[str, str]) -> None:
    assert LONG[1:4] in pages["report"] and "<style>" in pages["report"]
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 360, "height": 740}).new_page()
        wide = {}
        for name, html in pages.items():
            page.set_content(html)
            if found := page.evaluate(TOO_WIDE):
                wide[name] = found
        browser.close()
    assert wide == {}, "\n".join(
        f"{name}: {one}" for name, them in wide.items() for one in them[-4:]
    )
