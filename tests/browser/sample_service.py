"""The product with its sample organisation, people of each role, and a browser for each."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.house.product import Up, environment, python_here
from tests.paths import REPOSITORY

PASSWORD = "a password of four words"
PEOPLE = {"mira": "admin", "ben": "finance", "emil": "engineer", "ines": "auditor"}
MAKE_PEOPLE = f"""
from django.contrib.auth.models import Group, User
from reports.roles import ensure_groups
ensure_groups()
for name, role in {PEOPLE!r}.items():
    user = User.objects.create_user(name, password={PASSWORD!r})
    user.groups.set(Group.objects.filter(name=role))
"""


@contextmanager
def sample_service(port: int) -> Iterator[Up]:
    """A running product that shows its sample; its data is removed afterwards."""
    # Not in pytest's own folder, which the embedded database's user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="headroom-sample-"))
    folder.chmod(0o711)
    command = [python_here(), str(REPOSITORY / "manage.py")]
    around = environment(folder / "data", HEADROOM_PORT=str(port))
    process = subprocess.Popen(
        [*command, "up"], env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd="/",
    )  # fmt: skip
    running = Up(process, folder / "data")
    try:
        running.read_until("Ctrl-C stops it", seconds=600)
        subprocess.run(
            [*command, "shell", "-v0", "-c", MAKE_PEOPLE], env=around, check=True, cwd="/"
        )
        yield running
    finally:
        if process.poll() is None:
            running.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Visitor:
    """A signed-in person at a browser, who notices errors and requests that leave the site."""

    def __init__(self, browser: Any, address: str, name: str, **options: Any) -> None:
        self.address = address
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._listen)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._watch)
        self.go("/login/")
        self.page.locator("#id_username").fill(name)
        self.page.locator("#id_password").fill(PASSWORD)
        self.press("Sign in")
        self.page.wait_for_url(f"{address}/")

    def _listen(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.problems.append(f"{self.page.url}: {message.text}")

    def _watch(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:")):
            self.problems.append(request.url)

    def go(self, path: str) -> None:
        """Opens a page of the site."""
        self.page.goto(self.address + path)

    def press(self, label: str) -> None:
        """Presses the first button of a name in the page's content."""
        self.page.locator("main").get_by_role("button", name=label, exact=True).first.click()

    def choose(self, label: str) -> None:
        """Follows the first link of a name in the page's content."""
        self.page.locator("main").get_by_role("link", name=label, exact=True).first.click()

    def text(self) -> str:
        """The content as it reads."""
        return str(self.page.locator("main").inner_text())
