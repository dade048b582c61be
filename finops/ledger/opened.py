"""The connections that a door opened, so that all that is being asked can be ended at any instant."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Lock
from typing import Any
from weakref import WeakSet


class GivenUp(ConnectionError):
    """A connection that came to stand when nobody waits for an answer any more."""


class Opened:
    """Every open connection of one door, each taken in when it has come to stand.

    Taking in and giving up exclude each other: a connection is either known to who gives up, or it
    learns that it is not wanted. None is left to wait for an answer.
    """

    def __init__(self) -> None:
        self._turn = Lock()
        self._given_up = Event()
        self._connections: WeakSet[Any] = WeakSet()

    def take_in(self, connection: Any) -> None:
        """Notes a connection that has its socket; GivenUp once nobody waits any more."""
        with self._turn:
            if self._given_up.is_set():
                raise GivenUp("given up, for the run ended")
            self._connections.add(connection)

    def give_up(self) -> None:
        """Cuts off every connection, and lets no further one be opened."""
        with self._turn:
            self._given_up.set()
            known = list(self._connections)
        for connection in known:
            with suppress(OSError, AttributeError):  # it has no socket any more, or a closed one
                connection.sock.shutdown(socket.SHUT_RDWR)

    def is_given_up(self) -> bool:
        """Whether nobody waits any more."""
        return self._given_up.is_set()

    def pause(self, seconds: float) -> None:
        """Waits, but not longer than until it is given up."""
        self._given_up.wait(seconds)
