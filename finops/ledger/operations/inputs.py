"""Finding what was named: files, folders, globs, zips and fsspec URLs, each as a stream to read.

Within a folder or a zip, hidden files, manifests and files of no data kind are passed over; a file
named outright is always taken.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit, urlunsplit

from finops.ledger import guard
from finops.ledger.access import FetchFailed
from finops.ledger.fetch import Limits
from finops.ledger.operations.documents import digest_of
from finops.ledger.saving import save
from finops.sources import zips
from finops.sources.records import Refused

DATA_SUFFIXES = frozenset(
    [
        ".csv",
        ".tsv",
        ".gz",
        ".parquet",
        ".json",
        ".jsonl",
        ".ndjson",
        ".prom",
        ".om",
        ".openmetrics",
        ".txt",
        ".log",
        ".metrics",
        ".xml",
        ".sql",
        ".zip",
    ]
)
URL_SECRETS = re.compile(r"(://)[^/\s@'\"]*@|\?[^\s'\"]+")
WEB_LIMITS = Limits(total_seconds=3600, answer_bytes=64 << 30)
MANIFESTS = ("manifest.json", "manifest.csv", "_success")


@dataclass(frozen=True, slots=True)
class Found:
    """One file to take in: how it is shown, its name, and how to open it.

    `archive` is the digest of the zip it came in, if it came in one.
    """

    path: str
    name: str
    origin: str
    open: Callable[[], BinaryIO]
    is_manifest: bool = False
    archive: str = ""


class NotFound(ValueError):
    """Nothing is there under a name that was given; the text says which and why."""


class Unreadable(NotFound):
    """An archive that is there and must not or cannot be read; the text says why."""


def find(paths: Sequence[str]) -> list[Found | NotFound]:
    """The files that the paths stand for, in the order given, folders sorted by name."""
    found: list[Found | NotFound] = []
    for path in paths:
        try:
            found.extend(_at_url(path) if "://" in path else _on_disk(path))
        except NotFound as missing:
            found.append(missing)
        except OSError as error:
            found.append(NotFound(f"{path}: cannot be read ({error.strerror})"))
    return found


def _on_disk(path: str) -> Iterator[Found | NotFound]:
    place = Path(path)
    if not path:
        raise NotFound("an empty name is no path")
    if place.is_dir():
        closed: list[OSError] = []
        files = sorted(_within(place, closed))
        if not files and not closed:
            raise NotFound(f"{path}: no data files in this folder")
        for one in files:
            yield from _in_folder(one)
        yield from (NotFound(f"{one.filename}: cannot be read ({one.strerror})") for one in closed)
    elif place.is_file():
        yield from _local(place)
    elif place.exists():
        raise NotFound(f"{path}: neither a file nor a folder")
    elif matches := sorted(glob.glob(path, recursive=True)):
        for match in matches:
            yield from _on_disk(match)
    else:
        raise NotFound(f"{path}: no such file or folder")


def _in_folder(path: Path) -> Iterator[Found | NotFound]:
    """Opening a pipe would wait for ever: what is neither a file nor a broken link is named."""
    if path.exists() and not path.is_file():
        yield NotFound(f"{path}: neither a file nor a folder")
    else:
        yield from _local(path)


def _within(folder: Path, closed: list[OSError]) -> Iterator[Path]:
    """The data files below a folder; folders that cannot be read are added to `closed`."""
    for parent, folders, names in os.walk(folder, onerror=closed.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in names if is_data(name) or is_manifest(name))


def is_data(name: str) -> bool:
    """Whether a file met in a folder is taken for data, by its name."""
    lower = name.lower()
    if lower.startswith((".", "_")) or lower.endswith(MANIFESTS):
        return False
    return PurePosixPath(lower).suffix in DATA_SUFFIXES


def is_manifest(name: str) -> bool:
    """Whether a file says what an export consists of, by its name; it is never read as data."""
    return name.lower().endswith("manifest.json")


def _local(path: Path) -> Iterator[Found | NotFound]:
    place = str(path.absolute())
    try:
        packed = zips.is_zip(path)
    except OSError:
        packed = False  # named with its reason when it is read
    if packed:
        yield from _members(path, str(path), place)
    else:
        name = path.name
        yield Found(str(path), name, place, lambda: path.open("rb"), is_manifest(name))


def _members(zip_file: Path, shown: str, origin: str) -> Iterator[Found | NotFound]:
    """The data files and manifests of a zip; the only file of a zip is taken whatever its name."""
    try:
        names = zips.members(zip_file, shown)
    except Refused as refused:
        yield Unreadable(str(refused))
        return
    digest = digest_of(zip_file)
    inside = {name: PurePosixPath(name.replace("\\", "/")) for name in names}
    wanted = [
        name
        for name, place in sorted(inside.items())
        if not any(part.startswith((".", "__MACOSX")) for part in place.parts)
        and (is_data(place.name) or is_manifest(place.name) or len(names) == 1)
    ]
    if not wanted:
        yield Unreadable(f"{shown}: no data files in this zip")
    for name in wanted:
        place = inside[name]
        yield Found(
            f"{shown}/{place}",
            place.name,
            f"{origin} (zip {digest}): {place}",
            _member_opener(zip_file, name),
            is_manifest(place.name),
            digest,
        )


def _member_opener(zip_file: Path, name: str) -> Callable[[], BinaryIO]:
    return lambda: zips.open_member(zip_file, name)


def _at_url(url: str) -> Iterator[Found | NotFound]:
    shown = without_secrets(url)
    try:
        if guard.checked_scheme(url) in ("http", "https"):
            yield from _at_web(url, shown)
            return
        import fsspec

        with guard.guarded():
            system, place = fsspec.core.url_to_fs(url)
            places = _remote_places(system, place)
    except FetchFailed as refused:
        raise NotFound(f"{shown}: {refused}") from None
    except ImportError as error:
        hint = "install the package named, then try again"
        raise NotFound(f"{shown}: {masked(str(error))}; {hint}") from None
    except Exception as error:  # noqa: BLE001 - each kind of store fails in its own way
        reason = f"{type(error).__name__}: {masked(str(error))}"
        raise NotFound(f"{shown}: cannot be reached ({reason})") from None
    if not places:
        raise NotFound(f"{shown}: nothing is there")
    for one in places:
        path = shown if one == place else f"{shown.split('*')[0].rstrip('/')} → {one}"
        name = PurePosixPath(urlsplit(one).path if "://" in one else one).name or one
        if name.lower().endswith(".zip"):
            yield from _remote_members(_opener(system, one), path)
        else:
            yield Found(path, name, path, _opener(system, one), is_manifest(name))


def _remote_places(system: Any, place: str) -> list[str]:
    if any(sign in place for sign in "*["):
        return sorted(system.glob(place))
    if system.isdir(place):
        names = {one: PurePosixPath(one).name for one in system.find(place)}
        return sorted(one for one, name in names.items() if is_data(name) or is_manifest(name))
    return [place]


def _opener(system: Any, place: str) -> Callable[[], BinaryIO]:
    def opened() -> BinaryIO:
        with guard.guarded():
            return cast(BinaryIO, system.open(place, "rb"))

    return opened


def _at_web(url: str, shown: str) -> Iterator[Found | NotFound]:
    """A file of the web, copied here for as long as it is read; it may be a zip."""
    name = PurePosixPath(urlsplit(url).path).name or "file"
    copy = tempfile.NamedTemporaryFile(prefix="headroom-web-")  # noqa: SIM115
    save(url, cast(BinaryIO, copy), WEB_LIMITS)
    copy.flush()
    place = Path(copy.name)
    if zips.is_zip(place):
        for one in _members(place, shown, shown):
            yield _holding(one, copy) if isinstance(one, Found) else one
        return
    found = Found(shown, name, shown, lambda: place.open("rb"), is_manifest(name))
    yield _holding(found, copy)


def _remote_members(opened: Callable[[], BinaryIO], shown: str) -> Iterator[Found | NotFound]:
    """The members of a zip in another store, copied here for as long as they are read."""
    copy = tempfile.NamedTemporaryFile(prefix="headroom-zip-", suffix=".zip")  # noqa: SIM115
    try:
        with opened() as stream:
            shutil.copyfileobj(stream, copy, zips.CHUNK_BYTES)
        copy.flush()
    except Exception as error:  # noqa: BLE001 - stores behind URLs fail in their own ways
        yield NotFound(f"{shown}: cannot be read ({type(error).__name__}: {masked(str(error))})")
        return
    for one in _members(Path(copy.name), shown, shown):
        yield _holding(one, copy) if isinstance(one, Found) else one


def _holding(found: Found, copy: object) -> Found:
    """The member with the copy it is read from, which goes away with the last of them."""
    opened = found.open

    def open_held(held: object = copy) -> BinaryIO:
        return opened()

    return replace(found, open=open_held)


def masked(text: str) -> str:
    """A message of a library as it may be shown: URLs in it lose user, password and query."""
    return URL_SECRETS.sub(r"\1", text)


def without_secrets(url: str) -> str:
    """A URL as it may be shown and kept: without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
