"""Where the embedded servers keep their files and as whom they run.

A plain user's servers run as that user, inside the data folder. PostgreSQL refuses to run as root,
so root's servers run as `nobody` (or HEADROOM_PG_USER). That user must be able to reach its files;
where a closed parent folder (a home of mode 0700) is in the way we open nothing: the servers' files
then live in a folder of ours under /var/lib/headroom, and the data folder keeps a note of it.
"""

import contextlib
import hashlib
import os
import pwd
import secrets
import shutil
import stat
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# A socket's path must fit sockaddr_un: 104 bytes on macOS, 108 on Linux, with the closing zero.
SOCKET_PATH_BYTES = 100


class CannotStart(Exception):
    """An embedded server cannot be started; the text says why and what to do."""


@dataclass(frozen=True)
class Account:
    """A user of the machine: the one who runs the servers."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Place:
    """The folder of the servers' files, the folder of their sockets, and who owns both."""

    base: Path
    sockets: Path
    account: Account


def myself() -> Account:
    """The user this process runs as."""
    uid = os.geteuid()
    try:
        return Account(pwd.getpwuid(uid).pw_name, uid, os.getegid())
    except KeyError as error:
        raise CannotStart(
            f"This process runs as user id {uid}, which has no name on this machine; PostgreSQL needs "
            "one. Run as a named user, or set DATABASE_URL and REDIS_URL to servers of your own."
        ) from error


def unprivileged() -> Account:
    """Whom root's servers run as: HEADROOM_PG_USER, else `nobody`."""
    name = os.environ.get("HEADROOM_PG_USER") or "nobody"
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise CannotStart(
            f"There is no user {name!r} to run PostgreSQL as (it refuses to run as root). "
            "Name an existing unprivileged user in HEADROOM_PG_USER."
        ) from error
    if entry.pw_uid == 0:
        raise CannotStart(
            f"HEADROOM_PG_USER={name!r} is root, and PostgreSQL refuses to run as root."
        )
    return Account(name, entry.pw_uid, entry.pw_gid)


def find(data: Path, *, make: bool = False) -> Place:
    """The place that belongs to the data folder; with `make` its folders are made.

    Without `make` nothing is written: the settings ask for the address before anything runs.
    """
    account = myself() if os.geteuid() else _owner(_base(data, None)) or unprivileged()
    base = _base(data, account if make else None)
    place = Place(base, _sockets(base, account), account)
    if make:
        _make_folders(place)
    return place


def _base(data: Path, account: Account | None) -> Path:
    note = data / "servers-at"
    if note.exists():
        base = Path(note.read_text().strip())
        if not base.is_dir():
            raise CannotStart(
                f"The database files of {data} were at {base} and are not there any more. "
                f"Bring them back, or remove {note} to begin with an empty ledger."
            )
        return base
    if account is None or os.geteuid() or reachable(data, account):
        return data
    base = state_folder() / f"{data.name}-{secrets.token_hex(4)}"
    base.mkdir(mode=0o711, parents=True)
    note.write_text(f"{base}\n")
    print(
        f"{data} cannot be reached by the user {account.name}, who runs the database: "
        f"its files are kept in {base}.",
        file=sys.stderr,
    )
    return base


def _owner(base: Path) -> Account | None:
    """Who owns the database files already there: root's servers go on as that user."""
    try:
        owner = (base / "pg").stat()
    except FileNotFoundError:
        return None
    with contextlib.suppress(KeyError):
        return Account(pwd.getpwuid(owner.st_uid).pw_name, owner.st_uid, owner.st_gid)
    raise CannotStart(f"{base / 'pg'} belongs to user id {owner.st_uid}, which has no name here.")


def state_folder() -> Path:
    """The system's folder for what root's servers need outside the data folder."""
    folder = Path(os.environ.get("HEADROOM_STATE") or "/var/lib/headroom")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


def reachable(path: Path, account: Account) -> bool:
    """Whether the account may pass through `path` and every folder above it (by mode bits)."""
    for folder in (path, *path.parents):
        status = folder.stat()
        if status.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif status.st_gid == account.gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            return False
    return True


def _sockets(base: Path, account: Account) -> Path:
    folder = base / "run"
    if len(os.fsencode(folder / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES:
        return folder
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:12]
    return Path("/tmp") / f"headroom-{account.uid}-{digest}"  # noqa: S108 - checked when made


def _make_folders(place: Place) -> None:
    (place.base / "etc").mkdir(mode=0o755, exist_ok=True)  # the database's user reads it
    log = place.base / "log"  # the servers write to files that were opened for them
    log.mkdir(mode=0o700, exist_ok=True)
    log.chmod(0o700)
    private_folder(place.sockets, place.account)


def private_folder(folder: Path, account: Account) -> None:
    """Makes `folder` with mode 0700 for the account; refuses one that somebody else prepared."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if account.uid != os.geteuid():
            os.chown(folder, account.uid, account.gid)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o077:
        raise CannotStart(
            f"{folder} must be a folder of the user {account.name} alone (mode 0700). "
            "Remove it or put its owner and mode right."
        )


def package_folder(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(
            f"The package {package} is not installed: install requirements.txt, or set DATABASE_URL "
            "and REDIS_URL to servers of your own."
        )
    return Path(spec.submodule_search_locations[0])


def runnable(tree: Path, parts: list[str], version: str, account: Account) -> Path:
    """The folder from which the account can run the programs in `tree`/`parts`.

    That is `tree` itself, else a copy made once in the state folder (programs in root's home, say).
    """
    if os.geteuid() or all(reachable(tree / part, account) for part in parts):
        return tree
    target = state_folder() / "programs" / version
    if target.is_dir():
        return target
    target.parent.mkdir(mode=0o755, exist_ok=True)
    new = target.with_name(f".{version}-{secrets.token_hex(4)}")
    for part in parts:
        ignore = shutil.ignore_patterns("include", "*.a", "__pycache__")
        shutil.copytree(tree / part, new / part, symlinks=True, ignore=ignore)
    for path in (new, *new.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    with contextlib.suppress(OSError):  # another process has made the same copy
        new.rename(target)
    shutil.rmtree(new, ignore_errors=True)
    return target
