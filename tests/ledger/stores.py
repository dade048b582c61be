"""Metrics stores for the tests: a real Prometheus, and a server that answers as it is told.

The replay server speaks the same API over our recording, so that the tests run where Prometheus is
not installed, and can answer as badly as any network does.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from tests.paths import RECORDED, SAMPLES

PROMETHEUS = shutil.which("prometheus")
SNAPSHOT = SAMPLES / "vllm-recorded" / "tsdb-snapshot-5s.tar.gz"
RAW_SAMPLES = RECORDED / "raw-samples-5s.json.gz"

KNOWN_PATHS = ("/api/v1/status/buildinfo", "/api/v1/series", "/api/v1/query")

_RANGE = re.compile(r'\{__name__=~"([^"]*)"(.*)\}\[(\d+)ms\]')
_MATCHER = re.compile(r',(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')


@dataclass
class Reply:
    """One answer (to all but what a store is asked about itself): a status, a body or a writer of one, and headers."""

    body: bytes | Callable[[Any], None] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Store:
    """A running replay server: its URL, the requests it saw, and answers to give first."""

    url: str = ""
    seen: list[tuple[str, dict[str, list[str]], dict[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    replies: list[Reply | None] = field(default_factory=list)
    warn: list[str] = field(default_factory=list)
    left_open: bool = False  # ranges of Prometheus 3 and later leave their left edge out
    series: list[dict[str, Any]] = field(default_factory=list)
    delay_seconds: float = 0.0
    silences: dict[str, list[float]] = field(default_factory=dict)
    """By path, for how many seconds each of the next requests gets no answer."""
    gone: threading.Event = field(default_factory=threading.Event)


def recorded() -> list[dict[str, Any]]:
    """The series of our recording, as Prometheus itself answered them."""
    return json.loads(gzip.decompress(RAW_SAMPLES.read_bytes()))["data"]["result"]


@contextmanager
def replay(series: list[dict[str, Any]] | None = None) -> Iterator[Store]:
    """A server of the series (else of the recording) on a free port of the loopback."""
    store = Store(series=recorded() if series is None else series)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(parse_qs(urlsplit(self.path).query))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            store.bodies.append(body := self.rfile.read(length))
            self._serve(parse_qs(body.decode("utf-8", "replace")))

        def _serve(self, form: dict[str, list[str]]) -> None:
            path = urlsplit(self.path).path
            store.seen.append((path, form, dict(self.headers.items())))
            about_itself = path.startswith(("/api/v1/status/", "/api/v1/stores", "/api/v1/label"))
            reply = store.replies.pop(0) if store.replies and not about_itself else None
            if store.delay_seconds:
                time.sleep(store.delay_seconds)
            if store.silences.get(path):
                store.gone.wait(store.silences[path].pop(0))
            if reply is None and path not in KNOWN_PATHS:
                reply = Reply(b'{"status": "error", "error": "no such path"}', 404)
            if reply is None:
                reply = Reply(json.dumps(_answer(store, path, form)).encode())
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if callable(reply.body):
                self.end_headers()
                reply.body(self.wfile)
                self.close_connection = True
                return
            if "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the client has seen enough
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield store
    finally:
        store.gone.set()
        server.shutdown()
        server.server_close()


def _answer(store: Store, path: str, form: dict[str, list[str]]) -> dict[str, Any]:
    if path == "/api/v1/status/buildinfo":
        return {"status": "success", "data": {"version": "replay"}}
    if path == "/api/v1/series":
        names, rest = re.fullmatch(r'\{__name__=~"([^"]*)"(.*)\}', form["match[]"][0]).groups()
        start, end = float(form["start"][0]), float(form["end"][0])
        rows: Any = [
            row["metric"]
            for row in _chosen(store, names, rest)
            if any(start <= at <= end for at, _ in row["values"])
        ][: int(form.get("limit", ["1000000"])[0])]
    else:
        names, rest, reach_ms = _RANGE.fullmatch(form["query"][0]).groups()
        end_ms = round(float(form["time"][0]) * 1000)
        start_ms = end_ms - int(reach_ms) + (1 if store.left_open else 0)
        cut = [
            {"metric": row["metric"], "values": values}
            for row in _chosen(store, names, rest)
            if (values := [v for v in row["values"] if start_ms <= round(v[0] * 1000) <= end_ms])
        ]
        rows = {"resultType": "matrix", "result": cut}
    return {"status": "success", "data": rows} | ({"warnings": store.warn} if store.warn else {})


def _chosen(store: Store, names: str, rest: str) -> Iterator[dict[str, Any]]:
    wanted = set(names.split("|"))
    matchers = _MATCHER.findall(rest)
    for row in store.series:
        if row["metric"]["__name__"] in wanted and all(
            (re.fullmatch(value.replace("\\\\", "\\"), row["metric"].get(label, "")) is not None)
            if sign == "=~"
            else row["metric"].get(label, "") == value
            for label, sign, value in matchers
        ):
            yield row


def from_snapshot(folder: Path) -> Path:
    """The TSDB as Prometheus itself wrote it while the recording was made."""
    with tarfile.open(SNAPSHOT) as archive:
        archive.extractall(folder, filter="data")
    return folder / "tsdb-5s"


def from_samples(folder: Path, series: list[dict[str, Any]] | None = None) -> Path:
    """A TSDB that promtool makes of the series, else of the recording's raw samples."""
    text, storage = folder / "samples.om", folder / "tsdb"
    rows = sorted(series or recorded(), key=lambda row: row["metric"]["__name__"])
    with text.open("w") as file:
        for row in rows:
            labels = ",".join(
                f"{name}={json.dumps(value)}"
                for name, value in row["metric"].items()
                if name != "__name__"
            )
            for at, value in row["values"]:
                file.write(f"{row['metric']['__name__']}{{{labels}}} {value} {at:.3f}\n")
        file.write("# EOF\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, storage],
        check=True,
        capture_output=True,
    )
    return storage


@contextmanager
def prometheus(
    folder: Path, storage: Path, settings: str = "scrape_configs: []\n"
) -> Iterator[str]:
    """A real Prometheus over a TSDB, scraping nothing unless its settings say so; its URL."""
    assert PROMETHEUS is not None
    (configuration := folder / "prometheus.yml").write_text(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={storage}",
                "--storage.tsdb.retention.time=10y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_ready(process, url, folder / "log")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            with urlopen(url + "/-/ready", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"Prometheus did not come up:\n{log.read_text()[-2000:]}")
