"""Bounded HTTP requests to a metrics store: with `saving`, the only way to another machine.

What it keeps: http and https only, no redirect, no address of a cloud's metadata service (checked
for the address that is really connected to), bounded size and time, retries with a growing pause,
and secrets that stand in the request's head and nowhere else.
"""

from __future__ import annotations

import base64
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Any, Final

import cramjam
import orjson
import requests
import urllib3

from .access import (
    ONLY_FOR,
    Access,
    AddressRefused,
    FetchFailed,
    checked_for,
    checked_secret_name,
    checked_url,
    shown,
)
from .connecting import Adapter
from .faults import Again, place_of, reason_of, retry_after
from .opened import Opened
from .ways_in import signer, token_of

REQUESTS_AT_ONCE: Final = 2
"""How many requests a store is asked side by side: with one alone it waits for whoever takes its
answer. By its own default a Prometheus serves ten remote reads and twenty queries."""
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_CHUNK_BYTES: Final = 1 << 20
"""How much of an answer is taken at once: after each piece a thread waits for its turn to go on."""
_ATTEMPTS_BESIDE_QUERIES: Final = 2
"""How often a remote read is tried: where it fails, queries are asked instead."""
_SMALL_QUESTION: Final = "/api/v1/status/buildinfo"
"""What any store answers at once, be it by saying that it does not know the question."""
_SMALL_QUESTION_SECONDS: Final = 10
_REMOTE_READ: Final = {
    "Accept": "application/x-protobuf",
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much one request may take.

    `silent_seconds` is how long a store that has answered nothing yet is waited for before it is
    asked whether it is there at all.
    """

    connect_seconds: float = 10
    read_seconds: float = 130  # Prometheus gives a query up after 120 s by itself
    silent_seconds: float = 60
    total_seconds: float = 600
    answer_bytes: int = 256 << 20
    attempts: int = 4
    pause_seconds: float = 1
    longest_pause_seconds: float = 60


@dataclass
class Door:
    """A way to one store. Use it as a context manager. Threads may share a door: REQUESTS_AT_ONCE of
    them ask at a time, others wait for their turn.

    `without_remote_read` is whether remote read is not, or no longer, what the store is asked by: it
    failed before on this way, and is not tried anew with each window. `has_answered` is whether the
    store has answered anything at all. `listed` is the question and answer that the shards of a
    window share (`store.py`).
    """

    access: Access
    limits: Limits = field(default_factory=Limits)

    def __enter__(self) -> Door:
        self.base = checked_url(self.access.url)
        self.told: dict[str, str] = {}
        self.listed: tuple[Any, Any] | None = None
        self._secret = self._read_secret()
        self._turn = BoundedSemaphore(REQUESTS_AT_ONCE)
        self._opened = Opened()
        self.has_answered = False
        self._silence = ""
        self.without_remote_read = not self.access.remote_read
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc, no proxy: the secret goes to the store alone
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
        self._session.mount("http://", Adapter(self._opened))
        self._session.mount("https://", Adapter(self._opened))
        if self.access.product == "amp":
            self._session.auth = signer(self.access.region)
        try:
            self._secret = token_of(self._secret, self._session, self.limits)
            self._session.headers.update(self._head())
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def give_up(self) -> None:
        """Ends whatever is being asked, from another thread: nobody waits for its answer any more."""
        self._opened.give_up()

    def _read_secret(self) -> str:
        if not self.access.secret_name:
            if self.access.user:
                raise FetchFailed("basic authentication needs a secret beside the user")
            return ""
        name = checked_secret_name(self.access.secret_name)
        checked_for(name, self.base, os.environ.get(name + ONLY_FOR, ""))
        value = os.environ.get(name, "")
        if not value:
            raise FetchFailed(f"the environment variable {name} is not set")
        if not value.isprintable() or not value.isascii():
            raise FetchFailed(
                f"the environment variable {name} holds characters no header may hold"
            )
        return value

    def _head(self) -> dict[str, str]:
        head = {
            "Accept": "application/json",
            "Accept-Encoding": self.access.accept_encoding,
            "User-Agent": "headroom",
        }
        if self.access.tenant:
            head["X-Scope-OrgID"] = self.access.tenant
        if self._secret and self.access.user:
            pair = f"{self.access.user}:{self._secret}".encode()
            head["Authorization"] = "Basic " + base64.b64encode(pair).decode("ascii")
        elif self._secret:
            head["Authorization"] = "Bearer " + self._secret
        return head

    def post(
        self, path: str, form: list[tuple[str, str]], read: Callable[[bytes], Any] = orjson.loads
    ) -> Any:
        """The JSON answer to a form, as `get` gives it; or what `read` makes of its bytes."""
        return self._ask("POST", path, [*form, *self.access.parameters()], read)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON value that the store answers; FetchFailed after the last attempt."""
        return self._ask("GET", path, list((query or {}).items()))

    def text(self, path: str) -> str:
        """An answer that is plain text, as `get` gives JSON."""
        return str(self._ask("GET", path, [], _as_text))

    def remote_read(self, request: bytes) -> bytes:
        """The answer to a remote read, unpacked: protobuf in snappy, both ways."""
        return bytes(self.unpacked(self.remote_read_packed(request)))

    def remote_read_packed(self, request: bytes) -> bytes:
        """The same as it came, for `unpacked`."""
        content = bytes(cramjam.snappy.compress_raw(request))
        attempts = min(self.limits.attempts, _ATTEMPTS_BESIDE_QUERIES)
        found: bytes = self._ask("POST", "/api/v1/read", content, bytes, attempts)
        return found

    def unpacked(self, body: bytes, place: bytearray | None = None) -> bytes | bytearray:
        """The answer to a remote read that came as `body`, in `place` where one is given: memory
        that serves for one answer after the other. FetchFailed where it is none."""
        try:
            size = cramjam.snappy.decompress_raw_len(body)
            if size > self.limits.answer_bytes:
                raise FetchFailed(f"{self.base}: an answer of too many bytes once unpacked")
            if place is None:
                return bytes(cramjam.snappy.decompress_raw(body))
            if len(place) < size:
                place += bytes(size - len(place))
            else:
                del place[size:]
            cramjam.snappy.decompress_raw_into(body, place)
            return place
        except cramjam.DecompressionError as error:
            raise FetchFailed(f"{self.base}: the answer is no snappy ({error})") from None

    def _ask(
        self,
        method: str,
        path: str,
        content: list[tuple[str, str]] | bytes,
        read: Callable[[bytes], Any] = orjson.loads,
        attempts: int | None = None,
    ) -> Any:
        until, attempts = (
            time.monotonic() + self.limits.total_seconds,
            attempts or self.limits.attempts,
        )
        for attempt in range(1, attempts + 1):
            try:
                with self._turn:
                    if self._opened.is_given_up():
                        break
                    if self._silence:
                        raise FetchFailed(self._silence)
                    return self._once(method, path, content, until, read)
            except Again as failure:
                pause = self._pause(attempt, failure.after_seconds)
                if attempt == attempts or time.monotonic() + pause > until:
                    raise FetchFailed(f"{failure} (asked {attempt} times)") from None
                self._opened.pause(pause)
        raise FetchFailed(f"{self.base}: given up, for the run ended")

    def _pause(self, attempt: int, after_seconds: float | None) -> float:
        """What the store asks for, within bounds; else twice as long each time, a little mixed."""
        longest = self.limits.longest_pause_seconds
        if after_seconds is not None:
            return min(max(after_seconds, 0), longest)
        mixed = 0.5 + random.random() / 2  # noqa: S311 - spreads requests, guards nothing
        return float(min(self.limits.pause_seconds * 2 ** (attempt - 1) * mixed, longest))

    def _once(
        self,
        method: str,
        path: str,
        content: list[tuple[str, str]] | bytes,
        until: float,
        read: Callable[[bytes], Any],
    ) -> Any:
        patience = self._patience()
        try:
            with self._session.request(
                method,
                self.base + path,
                params=content if method == "GET" else None,
                data=content if method == "POST" else None,
                headers=_REMOTE_READ if isinstance(content, bytes) else None,
                timeout=(self.limits.connect_seconds, patience),
                allow_redirects=False,
                stream=True,
            ) as answer:
                self.has_answered = True
                body = self._body(answer, until)
                self.told = {name.lower(): value for name, value in answer.headers.items()}
        except AddressRefused:
            raise
        except requests.exceptions.ReadTimeout:
            self._refuse_silence(patience)
            raise Again(f"{self.base}: no answer in {patience:g} s") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._fault(error) from None
        return self._value(answer, body, read)

    def _patience(self) -> float:
        """How long to wait for a piece of an answer: less while nothing was ever answered."""
        limits = self.limits
        if self.has_answered:
            return limits.read_seconds
        return min(limits.silent_seconds, limits.read_seconds)

    def _refuse_silence(self, waited: float) -> None:
        """After a request that nothing came to: FetchFailed, now and for all that is still asked by
        this door, unless the store answers a small question. A slow one does, and is asked again."""
        seconds = min(_SMALL_QUESTION_SECONDS, waited)
        try:
            with self._session.get(
                self.base + _SMALL_QUESTION,
                timeout=(self.limits.connect_seconds, seconds),
                allow_redirects=False,
                stream=True,
            ):
                self.has_answered = True
        except requests.exceptions.Timeout:
            self._silence = (
                f"{self.base}: no answer in {waited:g} s, nor to a small question in {seconds:g} s"
            )
            raise FetchFailed(self._silence) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            pass  # it is not silent: another attempt tells more

    def _body(self, answer: requests.Response, until: float) -> bytes:
        """The whole body within the bounds of size and time."""
        whole = bytearray()
        while True:
            part = answer.raw.read1(_CHUNK_BYTES, decode_content=True)
            if not part:
                return bytes(whole)
            whole += part
            if len(whole) > self.limits.answer_bytes:
                raise FetchFailed(
                    f"{self.base}: an answer of more than {self.limits.answer_bytes} bytes; "
                    "narrow the source's matchers"
                )
            if time.monotonic() > until:
                raise FetchFailed(
                    f"{self.base}: the answer took longer than {self.limits.total_seconds:g} s"
                )

    def _fault(self, error: Exception) -> FetchFailed:
        """What to say of a broken connection, and whether another attempt may help."""
        if isinstance(error, requests.exceptions.SSLError):
            return FetchFailed(
                f"{self.base}: the certificate is not accepted: {self._clean(error)}"
            )
        if isinstance(error, requests.exceptions.Timeout | urllib3.exceptions.TimeoutError):
            return Again(f"{self.base}: no answer in {self.limits.read_seconds:g} s")
        return Again(f"{self.base}: {reason_of(error) or self._clean(error)}")

    def _value(self, answer: requests.Response, body: bytes, read: Callable[[bytes], Any]) -> Any:
        """What a good answer holds; FetchFailed or another attempt for every other."""
        status = answer.status_code
        if 300 <= status < 400:
            raise FetchFailed(
                f"{self.base}: redirects to {place_of(answer.headers.get('Location', ''))}, which is "
                "not followed; give the URL it should be asked at"
            )
        if status in _RETRIED:
            after = retry_after(answer.headers.get("Retry-After"))
            raise Again(f"{self.base}: status {status}{self._said(body)}", after)
        if status in (401, 403):
            raise FetchFailed(f"{self.base}: status {status}, the secret or its rights do not do")
        if status != 200:
            raise FetchFailed(f"{self.base}: status {status}{self._said(body)}")
        try:
            return read(body)
        except orjson.JSONDecodeError:
            raise FetchFailed(
                f"{self.base}: the answer is no JSON (it begins {self._clean(body[:40])!r})"
            ) from None

    def _said(self, body: bytes) -> str:
        """The store's own words of an error, when it has any."""
        try:
            words = orjson.loads(body).get("error")
        except (orjson.JSONDecodeError, AttributeError):
            words = body.decode("utf-8", "replace") if len(body) < 300 else ""
        return f": {self._clean(words)}" if words else ""

    def _clean(self, words: object) -> str:
        """Words for a message: short, printable, and without the secret."""
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        if self._secret:
            text = text.replace(self._secret, "***")
        return shown(text)


def _as_text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
