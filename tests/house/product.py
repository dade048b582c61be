"""Starts the product as its user would, and looks at what it does."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import requests

from tests.paths import REPOSITORY
from tests.settings import OUTER_ENVIRONMENT, TEMPORARY


def environment(data: Path, **more: str) -> dict[str, str]:
    """The environment of a user who has set nothing but the data folder."""
    kept = {
        name: value
        for name, value in OUTER_ENVIRONMENT.items()
        if not name.startswith("HEADROOM_")
        and name not in {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY"}
    }
    state = str(TEMPORARY / "state")
    return kept | {"HEADROOM_DATA": str(data), "HEADROOM_STATE": state} | more


def python_here() -> str:
    """The Python of the environment the tests run in."""
    import sys

    return sys.executable


@dataclass
class Up:
    """A running `up` and what it has printed."""

    process: subprocess.Popen[str]
    data: Path
    output: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return re.search(r"runs at (\S+)/", "".join(self.output))[1]  # type: ignore[index]

    @property
    def first_login(self) -> str:
        return re.search(r"First login .*: (\S+)", "".join(self.output))[1]  # type: ignore[index]

    def read_until(self, words: str, seconds: float = 90) -> None:
        """Reads its output until a line holds the words."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("it ended:\n" + "".join(self.output))
            self.output.append(line)
            if words in line:
                return
        raise AssertionError(f"no {words!r} in {seconds} s:\n" + "".join(self.output))

    def healthy(self) -> bool:
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.address}/healthz", timeout=5).status_code == 200
        return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends the signal, waits, and gives the exit code; again only gives it."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            self.output.append(self.process.stdout.read())
            self.process.stdout.close()
        return code


@contextlib.contextmanager
def up(data: Path, *words: str, **more: str) -> Iterator[Up]:
    """A service that has printed its address."""
    process = subprocess.Popen(
        [python_here(), str(REPOSITORY / "manage.py"), "up", "--no-sample", *words],
        env=environment(data, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
    )
    running = Up(process, data)
    try:
        running.read_until("Ctrl-C stops it")
        yield running
    finally:
        if process.poll() is None:
            running.stop()


def manage(data: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command, from another folder."""
    return subprocess.run(
        [python_here(), str(REPOSITORY / "manage.py"), *words],
        env=environment(data, **more),
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
        check=False,
    )


def processes(words: str) -> dict[int, str]:
    """The living processes whose command line or environment holds the words, with their commands.

    The environment counts because gunicorn and Celery carry the data folder only there.
    """
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            seen = command + (folder / "environ").read_bytes()
            if os.fsencode(words) in seen and state != "Z":
                found[int(folder.name)] = command.replace(b"\0", b" ").decode()
    return found


def named(words: str, data: Path) -> list[int]:
    """The processes of the data folder whose command holds the words."""
    return [pid for pid, command in processes(str(data)).items() if words in command]


def wait_until(true: object, seconds: float = 60) -> None:
    """Waits until the function gives something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError(f"not true after {seconds} s")


def connect(url: str) -> psycopg.Connection:
    """A connection to the embedded database."""
    return psycopg.connect(url, autocommit=True)
