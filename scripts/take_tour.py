"""Takes the pictures of docs/tour.md from a running product that shows its sample.

    .venv/bin/python scripts/take_tour.py http://127.0.0.1:8000 NAME PASSWORD

NAME is a person with the role of an administrator. Needs Chromium and the developers' packages;
pictures go to docs/tour/, with at most 64 colours each so that they stay small.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "tour"
LIMIT_BYTES = 150_000
WEEK = "2026-W47"
PICTURES = (
    ("overview", "/", 1280, "light", ""),
    ("report", f"/reports/{WEEK}/", 1280, "light", ""),
    ("report-bridge", f"/reports/{WEEK}/", 1280, "light", "#h-bridge"),
    ("report-workloads", f"/reports/{WEEK}/", 1280, "light", "#h-workloads"),
    ("report-memory", f"/reports/{WEEK}/", 1280, "light", "#h-memory"),
    ("report-tieouts", f"/reports/{WEEK}/", 1280, "light", "#h-tieouts"),
    ("report-dark", f"/reports/{WEEK}/", 1280, "dark", "#h-memory"),
    ("report-phone", f"/reports/{WEEK}/", 360, "light", ""),
    ("reports", "/reports/", 1280, "light", ""),
    ("compare", "/reports/compare/", 1280, "light", ""),
    ("exceptions", "/exceptions/?week=2026-W46", 1280, "light", ""),
    ("workload", "/workloads/chat-70b/", 1280, "light", "#h-memory"),
    ("hours", "/workloads/chat-70b/hours/", 1280, "light", ""),
    ("annotations", "/annotations/", 1280, "light", ""),
    ("imports", "/imports/", 1280, "light", ""),
    ("sources", "/sources/", 1280, "light", ""),
    ("rules", "/rules/", 1280, "light", ""),
    ("style", "/style/", 1280, "light", "#h-charts"),
)  # fmt: skip


def main(address: str, name: str, password: str) -> None:
    """Signs in and takes each picture."""
    FOLDER.mkdir(exist_ok=True)
    chromium = shutil.which("chromium")
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for picture, path, width, scheme, at in PICTURES:
            size = {"width": width, "height": 740 if width < 700 else 860}
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.goto(f"{address}/login/")
            page.locator("#id_username").fill(name)
            page.locator("#id_password").fill(password)
            page.locator("main button").first.click()
            page.wait_for_url(f"{address}/")
            page.goto(address + path)
            take(page, at, FOLDER / f"{picture}.png")
        browser.close()


def take(page: Any, at: str, path: Path) -> None:
    """One picture of what a visitor sees, from an element on when `at` names one."""
    if at:
        page.locator(at).evaluate("element => element.scrollIntoView()")
    page.wait_for_timeout(2500)  # charts are drawn again once they are in view
    if at:
        page.locator(at).evaluate("element => element.scrollIntoView()")
    page.screenshot(path=path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(64).save(path, optimize=True)
    if path.stat().st_size > LIMIT_BYTES:
        raise SystemExit(f"{path.name} has {path.stat().st_size} bytes, more than {LIMIT_BYTES}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
