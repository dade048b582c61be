"""COPY's text form: a text as one field of a line."""

from __future__ import annotations


def text_field(text: str | bytes) -> bytes:
    """A text as one field of a line: what COPY would take for something else is escaped."""
    raw = text.encode() if isinstance(text, str) else text
    if b"\\" in raw or b"\t" in raw or b"\n" in raw or b"\r" in raw:
        for plain, escaped in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r")):
            raw = raw.replace(plain, escaped)
    return raw
