"""One embedded server and the processes that share it.

Every process that needs the server holds a shared lock on `users.lock` for as long as it lives.
Starting and stopping happen under an exclusive lock on `start.lock`. Whoever comes first starts the
server; whoever leaves last stops it. The kernel drops the locks of a killed process, so a server
without users is simply taken over, and in the end stopped, by the next process that needs it.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from finops.embedded.places import Account, CannotStart, Place
from finops.processes import stop_with_parent

RETRY_SECONDS = 15  # how long what a killed server left behind may take to go away
START_SECONDS = 600  # recovery of a large ledger after a crash takes its time
STOP_SECONDS = 60
LOG_BYTES = 10 * 2**20


class Server(ABC):
    """What PostgreSQL and Valkey have in common; a subclass says how to start, ask and stop."""

    name = ""
    # False in tests only: a killed test run leaves no server behind. In earnest the server stays,
    # since other processes may be using it.
    outlives_us = True

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder = place.base / self.name
        self.log = place.base / "log" / f"{self.name}.log"
        self._users: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # What a subclass says.

    @abstractmethod
    def prepare(self) -> None:
        """Makes the server's files when they are not there, and checks them."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server's command line; it must stay in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes requests now."""

    @abstractmethod
    def pid(self) -> int | None:
        """The process that serves this folder, if one lives."""

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Tells the server to stop; returns at once."""

    def ready(self) -> None:  # noqa: B027 - most servers have nothing to do then
        """Runs after the server answers, still under the start lock."""

    def stale(self, output: str) -> bool:
        """Whether `output` of a failed start tells of remains that go away by themselves."""
        return False

    def clear_remains(self) -> bool:
        """The last resort after RETRY_SECONDS of `stale`; True when there was something to clear."""
        return False

    # What every server does.

    def use(self) -> None:
        """Starts the server unless it runs, and keeps it running until `release`."""
        with self._starting():
            self._users = self._open("users")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._start_if_needed()

    def release(self) -> None:
        """Gives the server back; the last user stops it."""
        if self._users is None:
            return
        with self._starting():
            users, self._users = self._users, None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # others still use it, and the last of them will stop it
            finally:
                os.close(users)
            self.stop()

    def keep(self) -> bool:
        """Starts the server again if it has died; True when it had. For a long-lived user."""
        if self._process is not None:
            self._process.poll()  # takes the exit status, so that no zombie holds the pid
        if self.pid() is not None:
            return False
        with self._starting():
            return self._start_if_needed()

    def stop(self) -> None:
        """Stops the server and waits until it has gone."""
        pid = self.pid()
        if pid is None:
            return
        self.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None:
                self._process.poll()
            # It takes its own note of its pid away a moment before it ends.
            if self.pid() is None and not lives(pid, _BETWEEN_WORDS):
                return
            time.sleep(0.02)
        print(f"{self.name} has not stopped after {STOP_SECONDS} s.", file=sys.stderr)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        lock = self._open("start")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _open(self, kind: str) -> int:
        path = self.place.base / f"{self.name}.{kind}.lock"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotStart(f"{path} cannot be opened: {error.strerror}.") from error

    def _start_if_needed(self) -> bool:
        if self.answers():
            self.ready()
            return False
        self.prepare()
        self._start()
        self.ready()
        return True

    def _start(self) -> None:
        retry_until = time.monotonic() + RETRY_SECONDS
        while True:
            output = self._try_to_start()
            if output is None:
                return
            if not self.stale(output):
                break
            if time.monotonic() > retry_until and not self.clear_remains():
                break
            time.sleep(0.3)
        raise CannotStart(f"{self.name} does not start. {self.log} ends with:\n{output.strip()}")

    def _try_to_start(self) -> str | None:
        """One attempt: None when the server answers, else what it said before it gave up."""
        begins_at = self._rotate_log()
        with self.log.open("ab") as log:
            self._process = run_as(self.place.account, self.command(), log, self.outlives_us)
        began = time.monotonic()
        told = False
        while self._process.poll() is None:
            if self.answers():
                return None
            waited = time.monotonic() - began
            if waited > 5 and not told:
                print(f"Waiting for {self.name} (recovery may take a while) …", file=sys.stderr)
                told = True
            if waited > START_SECONDS:
                self.ask_to_stop()
                return f"no answer after {START_SECONDS} s"
            time.sleep(0.02 if waited < 2 else 0.25)
        with self.log.open("rb") as log:
            log.seek(begins_at)
            return log.read()[-4000:].decode(errors="replace")

    def _rotate_log(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
            return self.log.stat().st_size if self.log.exists() else 0
        return 0


def run_as(
    account: Account, command: list[str], output: IO[bytes], outlives_us: bool
) -> subprocess.Popen[bytes]:
    """Starts a program as the account, in a session of its own (Ctrl-C is for us to handle)."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        start_new_session=True,
        preexec_fn=None if outlives_us else stop_with_parent(os.getpid(), signal.SIGINT),
        **as_account(account),
    )


def as_account(account: Account) -> dict[str, Any]:
    """The arguments that make subprocess run a program as the account."""
    if account.uid == os.geteuid():
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


_BETWEEN_WORDS = "\0"
"""What stands in the command line of any process that runs, of no zombie's."""


def lives(pid: int, words: str) -> bool:
    """Whether the process `pid` runs, is no zombie, and has `words` in its command line."""
    process = Path(f"/proc/{pid}")
    if Path("/proc/self").exists():
        try:
            command = (process / "cmdline").read_bytes()  # empty for a zombie
        except OSError:
            return False
        return os.fsencode(words) in command
    shown = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return words in shown.stdout
