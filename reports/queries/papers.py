"""Where printed reports are kept, by a digest of all that they show."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from finops.core.canonical import canonical_bytes, digest
from reports import sheet
from reports.queries.standing import Standing

BUILD = "3"  # raised when the look of the paper changes


def key_of(stand: Standing, size: str) -> str:
    """The name of the sheets: the same for the same bytes, people, decisions and paper size."""
    shown = {
        "build": BUILD,
        "size": size,
        "stand": sheet.as_sealed(stand),
        "dispositions": stand.dispositions,
        "software": str(stand.statement.get("software_version")),
    }
    return digest(canonical_bytes(shown))


def folder() -> Path:
    """The folder of printed reports, made when absent."""
    path: Path = settings.DATA / "paper"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def path_of(key: str, kind: str = "pdf") -> Path:
    """The file of a key: the `pdf`, or the `failed` note of a rendering that did not succeed."""
    return folder() / f"{key}.{kind}"
