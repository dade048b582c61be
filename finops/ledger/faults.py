"""What went wrong between us and a store, in plain words, and whether to ask again."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

import urllib3
from urllib3.util.retry import Retry

from .access import FetchFailed, shown


class Again(FetchFailed):
    """A failure that another attempt may cure."""

    def __init__(self, words: str, after_seconds: float | None = None) -> None:
        super().__init__(words)
        self.after_seconds = after_seconds


def retry_after(text: str | None) -> float | None:
    """The seconds of a Retry-After header, as seconds or as a date; None when it cannot be read."""
    if not text:
        return None
    try:
        return Retry().parse_retry_after(text)
    except (ValueError, OverflowError, urllib3.exceptions.InvalidHeader):
        return None


_REASONS: Final = (
    (socket.gaierror, "the host's name is not known"),
    (ConnectionRefusedError, "nothing listens there (connection refused)"),
    (urllib3.exceptions.ProtocolError, "the connection broke in the middle of the answer"),
)


def reason_of(error: BaseException) -> str:
    """The plain reason inside a nest of connection errors, when there is one."""
    seen: list[BaseException] = [error]
    for one in seen:  # the list grows while it is walked
        inner = [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
        seen += [x for x in inner if isinstance(x, BaseException) and x not in seen]
    for kind, words in _REASONS:
        if any(isinstance(one, kind) for one in seen):
            return words
    return ""


def place_of(location: str) -> str:
    """Scheme and host of a redirect; the rest may hold what should not be shown."""
    try:
        parts = urlsplit(location)
        return shown(f"{parts.scheme}://{parts.hostname}" if parts.hostname else "another path")
    except ValueError:
        return "another place"
