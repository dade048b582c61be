"""Writing what a URL gives into a file: a delivery of invoices or readings, of any size within bounds."""

from __future__ import annotations

import os
import time
from typing import BinaryIO, Final

import requests

from .access import FetchFailed, shown
from .connecting import FileAdapter
from .fetch import Limits

_CHUNK_BYTES: Final = 1 << 20


def save(url: str, target: BinaryIO, limits: Limits) -> None:
    """Writes what a URL gives into a file, by the rules above; FetchFailed says why not.

    User and password of the URL are sent as basic authentication. No redirect is followed.
    """
    ends = time.monotonic() + limits.total_seconds
    given = 0
    with requests.Session() as session:
        session.trust_env = False
        session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
        session.mount("http://", FileAdapter())
        session.mount("https://", FileAdapter())
        pauses = (limits.connect_seconds, limits.read_seconds)
        head = {"Accept-Encoding": "identity", "User-Agent": "headroom"}
        try:
            with session.get(
                url, stream=True, timeout=pauses, allow_redirects=False, headers=head
            ) as answer:
                if answer.is_redirect:
                    raise FetchFailed("it leads elsewhere; give the address it leads to")
                if answer.status_code != requests.codes.ok:
                    raise FetchFailed(f"the answer is {answer.status_code} {shown(answer.reason)}")
                for chunk in answer.iter_content(_CHUNK_BYTES):
                    given += len(chunk)
                    if given > limits.answer_bytes:
                        raise FetchFailed(f"it has more than {limits.answer_bytes} bytes")
                    if time.monotonic() > ends:
                        raise FetchFailed(f"it took more than {limits.total_seconds:g} s")
                    target.write(chunk)
        except requests.RequestException as error:
            raise FetchFailed(type(error).__name__) from None
