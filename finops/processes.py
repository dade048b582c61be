"""Child processes that are kept running: started again when they die, stopped together.

Each child leads a process group of its own, so that Ctrl-C reaches the supervisor alone and a dead
child's own children can be swept away. On Linux a child is told to stop when its supervisor dies.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0  # a child that ran this long begins again with short pauses
PATIENCE_SECONDS = 25.0  # what a running task gets to finish; a killed task is sent again anyway
LOG_BYTES = 10 * 2**20
PR_SET_PDEATHSIG = 1


@dataclass
class Child:
    """One process to keep: its command, its log, where it runs, and how it has fared."""

    name: str
    command: Sequence[str]
    log: Path
    folder: Path
    pass_fds: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    start_at: float = 0.0
    pause: float = 0.5
    deaths: int = field(default=0)

    def start(self) -> None:
        """Starts the process; its output goes to the end of the log."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.pass_fds,
                preexec_fn=stop_with_parent(os.getpid()),
            )
        self.started = time.monotonic()

    def signal_group(self, number: int) -> None:
        """Sends a signal to the process and to all that it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def signal(self, number: int) -> None:
        """Sends a signal to the process alone."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


def stop_with_parent(parent: int, number: int = signal.SIGTERM) -> Callable[[], None] | None:
    """What a new process does first, so that it gets a signal when its parent is killed (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def before_exec() -> None:
        libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return before_exec


class Keeper:
    """Keeps a set of children running until told to stop."""

    def __init__(self, children: Sequence[Child], say: Callable[[str], object]) -> None:
        self.children = children
        self.say = say

    def start(self) -> None:
        """Starts them all."""
        for child in self.children:
            child.start()

    def check(self) -> None:
        """Starts again whatever has died, after a pause that grows while it keeps dying."""
        now = time.monotonic()
        for child in self.children:
            if child.runs:
                continue
            if child.process is not None:
                self._bury(child, now)
            elif now >= child.start_at:
                child.start()

    def _bury(self, child: Child, now: float) -> None:
        assert child.process is not None
        code = child.process.returncode
        child.signal_group(signal.SIGKILL)  # whatever it leaves behind would do its work twice
        steady = now - child.started > STEADY_SECONDS
        child.pause = 0.5 if steady else min(child.pause * 2, LONGEST_PAUSE_SECONDS)
        child.start_at = now + child.pause
        child.process = None
        child.deaths += 1
        self.say(f"{child.name} ended ({how(code)}); starting it again. Its log: {child.log}")

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Asks all to stop, waits for running tasks a while, then kills what is left."""
        for child in self.children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(child.runs for child in self.children):
            if hurry() or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for child in self.children:
            child.signal_group(signal.SIGKILL)
            if child.process is not None:
                child.process.wait()


def how(code: int) -> str:
    """An exit code in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
