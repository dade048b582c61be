"""The spool: long part files of a delivery that others may read, and who is at which (method §3.2).

A delivery has a folder `spool/<key>` in the data folder. Whoever posts it holds the lock of the
file `caller` in it, and whoever reads a part holds the lock of the part's file. Locks are the
kernel's: they end with the process that holds them, however it ends. So a part whose reader was
killed can be had by the next at once, and a folder whose caller was killed is known as such, by
its readers and by the next sweep.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

_KEY = re.compile(r"[0-9a-f]{32}")
_CALLER, _GUARD = "caller", ".guard"


def spool() -> Path:
    """The folder of all deliveries that are being read; made when absent."""
    folder = Path(settings.DATA) / "spool"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for one delivery, its caller's lock held; it is gone afterwards.

    Folders that killed callers left are swept first.
    """
    with _guarded():
        _sweep()
        folder = spool() / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        caller = _open(folder / _CALLER)
        fcntl.flock(caller, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(caller)


def folder_of(key: str) -> Path | None:
    """The folder of a delivery, None when it is gone; `key` is checked to be one."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key[:60]!r} is not the key of a delivery")
    folder = spool() / key
    return folder if folder.is_dir() else None


def is_awaited(folder: Path) -> bool:
    """Whether the delivery's caller is still there."""
    return (folder / _CALLER).exists() and not _is_free(folder / _CALLER)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a file's lock, the file made when absent; waits while another process holds it."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Holds a file's lock, the file made when absent; False at once while another holds it."""
    handle = _open(path)
    try:
        yield _took(handle)
    finally:
        os.close(handle)


def sweep() -> None:
    """Removes the folders of callers that were killed."""
    with _guarded():
        _sweep()


def _sweep() -> None:
    for folder in spool().iterdir():
        if _KEY.fullmatch(folder.name) and _is_free(folder / _CALLER):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _guarded() -> Iterator[None]:
    """One at a time makes folders or sweeps, so that no folder is met without its lock."""
    with held(spool() / _GUARD):
        yield


def _is_free(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return _took(handle)
    finally:
        os.close(handle)


def _took(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
