"""Paper: the report as PDF/A-3, from the same template and the stored bytes alone.

WeasyPrint is imported only inside, so that web processes never load it. Its fetcher is closed: it
opens files of the static folders and nothing else, so no request leaves the machine. The same
report gives the same bytes, because every date comes from the report and fonts are shipped.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

from finops.core import signs
from reports import figures, inside, sheet
from reports.queries.standing import Standing

BASE = "https://static.invalid/"  # never asked: the fetcher below maps it to files
VARIANT = "pdf/a-3a"
SIZES = ("A4", "Letter")
TYPES = {".css": "text/css", ".woff2": "font/woff2", ".svg": "image/svg+xml"}
FONT_URL = re.compile(r'url\("\.\./(fonts/[a-z0-9-]+\.woff2)"\)')
ALONE = (
    "body{margin:0;background:var(--paper)}"
    "main.alone{max-width:1080px;margin:0 auto;padding:32px 24px 64px;overflow-wrap:break-word}"
    ".visually-hidden{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}"
    "dl.facts dd{min-width:0;overflow-wrap:anywhere}"
    "@media (max-width:760px){.strip,.pair,dl.facts{grid-template-columns:1fr}}"
)


def html(stand: Standing, *, size: str = "A4", alone: bool = False) -> str:
    """The report as a page of its own: for the PDF, or (`alone`) a file that needs no other. Signs
    that cannot be seen stand as their escapes; the sealed bytes keep them."""
    context = sheet.context(stand.statement, sheet.as_sealed(stand), stand.dispositions)
    context |= {
        "layout": "paper.html",
        "dated": _dated(stand).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "letter": size == "Letter",
        "inline_css": inline_css() if alone else "",
    }
    return signs.shown(render_to_string("reports/report.html", context))


def pdf(stand: Standing, *, size: str = "A4") -> bytes:
    """The report as PDF/A-3a on A4 or Letter paper. Raises ValueError for another size."""
    if size not in SIZES:
        raise ValueError(f"There is no paper size {size!r}; there are {' and '.join(SIZES)}.")
    import weasyprint

    with _source_date(_dated(stand)):
        document = weasyprint.HTML(
            string=html(stand, size=size), base_url=BASE, url_fetcher=closed_fetcher()
        )
        content: bytes = document.write_pdf(
            pdf_variant=VARIANT,
            pdf_identifier=bytes.fromhex(stand.digest),
            attachments=list(_attachments(stand)),
        )
    return content


def _attachments(stand: Standing) -> Iterator[Any]:
    """The bytes the report was printed from, inside it, with the report's own date."""
    from weasyprint import Attachment

    dated = _dated(stand)
    for name, content, text in inside.files(stand):
        yield Attachment(
            string=content,
            name=name,
            description=text,
            created=dated,
            modified=dated,
            relationship="Source" if name.endswith(".json") else "Data",
        )


def inline_css() -> str:
    """The report's style sheets as one text with the fonts inside it."""

    def with_font(match: re.Match[str]) -> str:
        content = base64.b64encode(_static(match[1]).read_bytes()).decode()
        return f'url("data:font/woff2;base64,{content}")'

    sheets = [_static(f"css/{name}.css").read_text() for name in ("faces", "tokens", "report")]
    return FONT_URL.sub(with_font, "\n".join(sheets)) + ALONE


def closed_fetcher() -> Any:
    """A WeasyPrint fetcher that gives static files and data: URLs and refuses all else."""
    from weasyprint.urls import URLFetcher, URLFetcherResponse

    class Closed(URLFetcher):
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url.startswith("data:"):
                return super().fetch(url, headers)
            if not url.startswith(BASE):
                raise ValueError(f"refused to open {url[:80]!r}")
            path = _static(url.removeprefix(BASE))
            kind = TYPES.get(path.suffix, "application/octet-stream")
            return URLFetcherResponse(url, path.read_bytes(), {"Content-Type": kind})

    return Closed()


def _static(name: str) -> Path:
    """The file of a static name; ValueError when it is not one of ours."""
    found = finders.find(name)
    if not isinstance(found, str):
        raise ValueError(f"no static file {name[:80]!r}")
    return Path(found)


def _dated(stand: Standing) -> datetime:
    """The date a report bears: of its seal, else of its preparation."""
    sealed = figures.as_datetime((stand.seal or {}).get("sealed_at"))
    return sealed or stand.report.created_at


@contextmanager
def _source_date(moment: datetime) -> Iterator[None]:
    """Font subsetting stamps the time unless SOURCE_DATE_EPOCH says which."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(int(moment.timestamp()))
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before
