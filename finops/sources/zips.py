"""Zip archives of export files: what is in one, and its members as streams, read safely.

An archive is one file: it is taken whole or refused whole. Names that lead outside, archives in
archives, locked members, two members of one name and archives that unpack to far more than they are
(bombs) are refused before anything of them is kept; nothing is ever written under a member's name.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, cast

from finops.sources.files import BOMB_FLOOR_BYTES, BOMB_RATIO
from finops.sources.records import Refused

MAGIC: Final = b"PK\x03\x04"
MOST_MEMBERS: Final = 1000
LARGEST_DIRECTORY_BYTES: Final = 4 * 1024 * 1024
CHUNK_BYTES: Final = 1 << 20

_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_BYTES: Final = 20
_END_64: Final = b"PK\x06\x06"
_END_64_BYTES: Final = 56
_LONGEST_COMMENT_BYTES: Final = 0xFFFF
_LOCKED: Final = 0x1
_ARCHIVES: Final = (".zip", ".tar", ".tgz", ".7z", ".rar", ".jar")
_WORKBOOK: Final = "[Content_Types].xml"
_OUTSIDE: Final = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)")


def is_zip(path: Path) -> bool:
    """Whether a file starts as zip archives do. OSError when it cannot be read."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) in (MAGIC, _END)


def members(path: Path, name: str) -> list[str]:
    """The names of an archive's files, every byte of them read once and found sound.

    Refused, with the member that is to blame, when the archive must not or cannot be read.
    """
    try:
        _check_directory(path, name)
        with zipfile.ZipFile(path) as archive:
            infos = [one for one in archive.infolist() if not one.is_dir()]
            _check_names(infos, name)
            _check_sizes(infos, path.stat().st_size, name)
            for one in infos:
                _read_through(archive, one, name)
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, RuntimeError) as error:
        raise Refused(f"{name}: the zip archive is damaged ({error})") from None
    except OSError as error:
        raise Refused(f"{name}: the zip archive cannot be read ({error.strerror})") from None
    return [one.filename for one in infos]


def open_member(path: Path, member: str) -> BinaryIO:
    """A stream of a member's plain bytes; closing it closes the archive."""
    with zipfile.ZipFile(path) as archive:
        return cast(BinaryIO, archive.open(member))  # keeps the file open for itself


def _check_directory(path: Path, name: str) -> None:
    """The list of members is read into memory whole, so its size is looked at beforehand."""
    size = path.stat().st_size
    with path.open("rb") as file:
        reach = min(size, _END_BYTES + _LONGEST_COMMENT_BYTES + _LOCATOR_BYTES)
        file.seek(size - reach)
        tail = file.read(reach)
        at = tail.rfind(_END)
        if at < 0 or len(tail) - at < _END_BYTES:
            raise Refused(f"{name}: the zip archive is cut off: it has no list of its members")
        count, directory_bytes = struct.unpack_from("<HL", tail, at + 10)
        locator = tail[at - _LOCATOR_BYTES : at] if at >= _LOCATOR_BYTES else b""
        if locator.startswith(_LOCATOR):
            file.seek(struct.unpack_from("<Q", locator, 8)[0])
            end = file.read(_END_64_BYTES)
            if end.startswith(_END_64):
                count, directory_bytes = struct.unpack_from("<QQ", end, 32)
    if count > MOST_MEMBERS or directory_bytes > LARGEST_DIRECTORY_BYTES:
        raise Refused(f"{name}: {count} members; an archive of over {MOST_MEMBERS} is not read")


def _check_names(infos: Sequence[zipfile.ZipInfo], name: str) -> None:
    if len(infos) > MOST_MEMBERS:
        raise Refused(f"{name}: {len(infos)} members; over {MOST_MEMBERS} are not read")
    seen = set[str]()
    for one in infos:
        shown = f"{name}: the member {one.orig_filename[:200]!r}"
        if one.filename == _WORKBOOK:
            raise Refused(f"{name}: this is an Excel workbook; save its sheet as CSV")
        if _OUTSIDE.search(one.orig_filename) or _is_link(one):
            raise Refused(f"{shown} leads outside the archive")
        if one.flag_bits & _LOCKED:
            raise Refused(f"{shown} is locked by a password; unpack it and hand over its files")
        if one.filename.lower().endswith(_ARCHIVES):
            raise Refused(f"{shown} is an archive itself; unpack it first")
        if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused(
                f"{shown} is packed by method {one.compress_type}; pack it anew (deflate)"
            )
        if one.filename in seen:
            raise Refused(f"{shown} stands more than once")
        seen.add(one.filename)


def _is_link(one: zipfile.ZipInfo) -> bool:
    return (one.external_attr >> 16) & 0o170000 == 0o120000


def _check_sizes(infos: Sequence[zipfile.ZipInfo], archive_bytes: int, name: str) -> None:
    """What the archive says of itself; the same is looked at again while its bytes are read."""
    packed = sum(one.compress_size for one in infos)
    if packed > archive_bytes:
        raise Refused(f"{name}: its members share bytes: {packed} packed in {archive_bytes}")
    _check_proportion(name, sum(one.file_size for one in infos), archive_bytes)
    for one in infos:
        _check_proportion(f"{name}: {one.filename}", one.file_size, one.compress_size)


def _check_proportion(name: str, plain_bytes: int, packed_bytes: int) -> None:
    if plain_bytes > BOMB_FLOOR_BYTES and plain_bytes > BOMB_RATIO * max(1, packed_bytes):
        raise Refused(
            f"{name}: {packed_bytes} packed bytes give {plain_bytes}; what unpacks to over "
            f"{BOMB_RATIO} times its size is not read"
        )


def _read_through(archive: zipfile.ZipFile, one: zipfile.ZipInfo, name: str) -> None:
    """Every byte once: a damaged member must not leave a delivery half complete."""
    start, given = b"", 0
    with archive.open(one) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            start = start or chunk[: len(MAGIC)]
            given += len(chunk)
    if start == MAGIC:
        raise Refused(f"{name}: the member {one.filename!r} is an archive itself; unpack it first")
    if given != one.file_size:
        raise Refused(f"{name}: the member {one.filename!r} has {given} bytes, not {one.file_size}")
