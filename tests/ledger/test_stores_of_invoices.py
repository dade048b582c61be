"""Invoices behind URLs: which addresses are asked, and files of the web and of clouds (§3.1)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from finops.ledger import guard
from finops.ledger.access import AddressRefused, FetchFailed
from finops.ledger.fetch import Limits
from finops.ledger.operations.inputs import NotFound, find
from finops.ledger.saving import save
from tests.ledger.doors import ingested
from tests.ledger.focus_files import focus_text
from tests.ledger.test_zips import packed

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


class Web(BaseHTTPRequestHandler):
    """Gives the files of a dictionary; `/away` leads elsewhere."""

    files: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        content = self.files.get(self.path.partition("?")[0])
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data")
            self.end_headers()
            return
        self.send_response(200 if content is not None else 404)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def web(files: dict[str, bytes]) -> Iterator[str]:
    Web.files = files
    server = HTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "127.0.0.1", "10.0.0.5", "192.168.1.1", "100.100.100.200", "::1", "fe80::1",
     "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "0.0.0.0", "224.0.0.1"],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        guard.refuse_store_address(address)


def test_public_addresses_and_named_networks_are_asked(settings: Any) -> None:
    guard.refuse_store_address("52.218.0.1")
    guard.refuse_store_address("2600:1fa0::1")
    settings.STORE_NETWORKS = "10.1.0.0/16, 169.254.169.254/32"
    guard.refuse_store_address("10.1.2.3")
    guard.refuse_store_address("169.254.169.254")
    with pytest.raises(AddressRefused):
        guard.refuse_store_address("10.2.0.1")


def test_a_file_of_the_web_is_a_document(settings: Any, tmp_path: Path) -> None:
    text = focus_text([{}]).encode()
    zipped = packed(tmp_path / "x.zip", ("a.csv", focus_text([{"BilledCost": "2"}]))).read_bytes()
    with web({"/a.csv": text, "/x": zipped}) as base:
        (refused,) = find([f"{base}/a.csv"])
        assert isinstance(refused, NotFound) and "is not public" in str(refused)
        settings.STORE_NETWORKS = "127.0.0.0/8"
        first, second = ingested(f"{base}/a.csv?sig=secret", f"{base}/x")
        assert (first["status"], first["path"]) == ("posted", f"{base}/a.csv")
        assert (second["status"], second["path"]) == ("posted", f"{base}/x/a.csv")
        assert second["archive_sha256"]
        (missing,) = find([f"{base}/b.csv"])
        assert "404" in str(missing)
        (away,) = find([f"{base}/away"])
        assert "leads elsewhere" in str(away)


def test_a_file_of_the_web_is_bounded(settings: Any) -> None:
    settings.STORE_NETWORKS = "127.0.0.0/8"
    with (
        web({"/a.csv": b"x" * 200_000}) as base,
        pytest.raises(FetchFailed, match="more than 100000 bytes"),
    ):
        save(f"{base}/a.csv", BytesIO(), Limits(answer_bytes=100_000))


@pytest.mark.parametrize(
    "url", ["ftp://host/x.csv", "github://a:b@/x", "zip::s3://b/x.zip", "sftp://h/x"]
)
def test_other_ways_are_refused(url: str) -> None:
    (refused,) = find([url])
    assert isinstance(refused, NotFound)
    assert "is not read; read are" in str(refused)


class Bucket(AsyncFileSystem):  # type: ignore[misc]
    """A cloud's file system: it connects in the thread in which those of all clouds do."""

    protocol = "s3"
    cachable = False
    endpoint: ClassVar[tuple[str, int]] = ("127.0.0.1", 9)
    held: ClassVar[MemoryFileSystem] = MemoryFileSystem()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as door:
            door.setblocking(False)
            await loop.sock_connect(door, self.endpoint)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        await self._connect()
        return dict(self.held.info(f"/{path}"))

    async def _isdir(self, path: str) -> bool:
        return (await self._info(path))["type"] == "directory"

    async def _find(self, path: str, **_: Any) -> list[str]:
        return [one.lstrip("/") for one in self.held.find(f"/{path}")]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self.held.open(f"/{path}", mode)


def test_a_clouds_file_system_connects_by_the_same_rule(settings: Any) -> None:
    fsspec.register_implementation("s3", Bucket, clobber=True)
    Bucket.held.pipe("/exports/october/a.csv", focus_text([{}]).encode())
    try:
        with web({}) as base:
            Bucket.endpoint = ("127.0.0.1", int(base.rpartition(":")[2]))
            (refused,) = find(["s3://exports/october"])
            assert isinstance(refused, NotFound)
            assert "127.0.0.1 is not public" in str(refused)
            settings.STORE_NETWORKS = "127.0.0.1/32"
            (document,) = ingested("s3://exports/october")
            assert (document["status"], document["charges"]) == ("posted", 1)
        Bucket.endpoint = ("169.254.169.254", 80)
        (refused,) = find(["s3://exports/october"])
        assert "169.254.169.254" in str(refused)
    finally:
        Bucket.held.rm("/exports", recursive=True)
        _registry.pop("s3", None)


def test_other_threads_and_sockets_are_left_alone() -> None:
    with web({}) as base, guard.guarded():
        place = ("127.0.0.1", int(base.rpartition(":")[2]))
        with pytest.raises(AddressRefused), socket.socket() as door:
            door.connect(place)
        reached: list[bool] = []

        def elsewhere() -> None:
            with socket.create_connection(place, 5):
                reached.append(True)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert reached == [True]
