"""Rationing for benchmarks holds what a process has started, too, and lets go of it at the end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.rationing import descendants, rationed

PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
PATIENCE_S = 60


def state(pid: int) -> str:
    """`T` of a process that was stopped, another letter of one that was not."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def come(what: Callable[[], bool]) -> bool:
    """Whether something happens at last; how long it takes is not asked."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.002)
    return False


def test_a_child_is_stopped_with_its_parent_and_goes_on_at_the_end() -> None:
    """The parent waits and uses nothing: what is taken off its share is its child's work."""
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        try:
            assert come(lambda: bool(descendants(parent.pid)))
            (child,) = descendants(parent.pid)
            with rationed([parent.pid], share=0.01):
                assert come(lambda: state(child) == "T" and state(parent.pid) == "T")
            assert come(lambda: state(child) != "T" and state(parent.pid) != "T")
        finally:
            for pid in (*descendants(parent.pid), parent.pid):
                subprocess.run(["kill", "-KILL", str(pid)], check=False)
