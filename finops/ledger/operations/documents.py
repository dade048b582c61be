"""The store of documents: the bytes received, kept content-addressed by SHA-256 (method §3.1).

A document is written to a temporary file, flushed to disk and renamed to
`documents/ab/<sha256>` of the data folder, so that a name in the store always stands for whole
bytes with that digest. The store knows no rows: both ledgers keep their documents in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

CHUNK_BYTES = (
    256 * 1024
)  # of four times as many at once each takes the kernel more than twice as long
_MAKING = ".new-"
LEFT_SECONDS = 24 * 3600  # nobody writes to a file in the making that is as old as that


@dataclass(frozen=True, slots=True)
class Kept:
    """One document in the store: its digest, size, place, and whether it came new.

    `archive` is the digest of the zip it came in, else empty.
    """

    sha256: str
    size_bytes: int
    path: Path
    is_new: bool
    name: str = ""
    origin: str = ""
    archive: str = ""


def store() -> Path:
    """The folder that holds the documents; made when absent."""
    folder = Path(settings.DATA) / "documents"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def stored(sha256: str) -> Path:
    """Where a document's bytes are kept, whether or not they are there."""
    return store() / sha256[:2] / sha256


def keep(path: Path, name: str, origin: str) -> Kept:
    """Copies a file into the store. OSError when it cannot be read or written."""
    with path.open("rb") as source:
        return keep_stream(source, name, origin)


def keep_bytes(content: bytes, name: str, origin: str) -> Kept:
    """Keeps bytes already in memory, such as the samples of one fetch."""
    return _keep([content], name, origin)


def keep_stream(source: BinaryIO, name: str, origin: str) -> Kept:
    """Keeps what a stream gives, in constant memory."""
    return _keep(iter(lambda: source.read(CHUNK_BYTES), b""), name, origin)


def _keep(chunks: Iterable[bytes], name: str, origin: str) -> Kept:
    digest, size_bytes = hashlib.sha256(), 0
    handle, temporary = tempfile.mkstemp(prefix=_MAKING, dir=store())
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                size_bytes += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        target = stored(digest.hexdigest())
        is_new = not target.exists()
        target.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(temporary, target)
        _flush_folder(target.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Kept(digest.hexdigest(), size_bytes, target, is_new, name, origin)


def _flush_folder(folder: Path) -> None:
    """Makes a rename durable: the entry in the folder is data of its own."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def forget(kept: Kept, *, is_known: Callable[[str], bool]) -> None:
    """Takes a refused document out of the store again, unless a ledger knows its digest."""
    if kept.is_new and not is_known(kept.sha256):
        kept.path.unlink(missing_ok=True)


def sweep(now_seconds: float) -> None:
    """Removes files in the making that killed processes left."""
    for path in store().glob(f"{_MAKING}*"):
        with contextlib.suppress(FileNotFoundError):
            if now_seconds - path.stat().st_mtime > LEFT_SECONDS:
                path.unlink()


def digest_of(path: Path) -> str:
    """The SHA-256 of a file as it is now, read in constant memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
