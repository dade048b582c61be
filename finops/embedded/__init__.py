"""The embedded PostgreSQL and Valkey, used when DATABASE_URL and REDIS_URL are not set.

`ensure_database()` and `ensure_broker()` start a server unless it runs already and keep it for the
life of this process; `database_url()` and `broker_url()` only say where it is or would be.
"""

import atexit
import os
from pathlib import Path

from finops.embedded.places import CannotStart, find
from finops.embedded.postgres import Postgres
from finops.embedded.server import Server
from finops.embedded.valkey import Valkey

__all__ = [
    "CannotStart",
    "broker_url",
    "choose_place",
    "database_url",
    "ensure_broker",
    "ensure_database",
    "keep",
    "release_all",
]

_in_use: dict[tuple[str, Path], Server] = {}


def data_folder() -> Path:
    """HEADROOM_DATA, else `data` beside the program."""
    from finops import environment

    return environment.data_folder(Path(__file__).resolve().parent.parent.parent / "data")


def database_url(data: Path) -> str:
    """Where the embedded database of a data folder is, running or not."""
    return Postgres(find(data)).url()


def broker_url(data: Path) -> str:
    """Where the embedded broker of a data folder is, running or not."""
    return Valkey(find(data)).url()


def ensure_database(data: Path | None = None) -> str:
    """The URL of the running embedded database, started if need be. Raises CannotStart."""
    # Tests may lose their data in a power cut.
    server = Postgres(find(data or data_folder(), make=True), durable=not _testing())
    _use(server)
    return server.url()


def ensure_broker(data: Path | None = None) -> str:
    """The URL of the running embedded broker, started if need be. Raises CannotStart."""
    server = Valkey(find(data or data_folder(), make=True))
    _use(server)
    return server.url()


def choose_place() -> None:
    """Settles where the servers' files are. Comes before the settings, which say where they look."""
    find(data_folder(), make=True)


def keep() -> list[str]:
    """Starts servers in use that have died again; gives their names."""
    return [server.name for server in _in_use.values() if server.keep()]


def release_all() -> None:
    """Gives back every server this process uses; the last user of one stops it."""
    while _in_use:
        _in_use.popitem()[1].release()


def _testing() -> bool:
    return os.environ.get("HEADROOM_TEST") == "1"


def _use(server: Server) -> None:
    server.outlives_us = not _testing()
    key = (server.name, server.place.base)
    if key in _in_use:
        _in_use[key].keep()
        return
    if not _in_use:
        atexit.register(release_all)
    server.use()
    _in_use[key] = server
