"""The connections that `fetch` and `saving` open: the address is looked at before and after, and those that
wait for an answer are known.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, ClassVar

import urllib3
from requests.adapters import HTTPAdapter

from .access import AddressRefused, refuse_address
from .guard import refuse_store_address
from .opened import Opened


def _resolved(host: str, port: int | None, refuse: Callable[[str], None]) -> None:
    """Refuse the host when any of its addresses is refused."""
    for entry in socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM):
        refuse(str(entry[4][0]))


class _Checked:
    """A connection that looks at the address before and after it connects.

    After, because a name may answer differently the second time it is asked.
    """

    opened: Opened | None = None

    def connect(self) -> None:
        """Connects, unless nobody waits for an answer any more."""
        super().connect()  # type: ignore[misc]
        if self.opened is not None:
            try:
                self.opened.take_in(self)
            except ConnectionError:
                self.close()  # type: ignore[attr-defined]
                raise

    def _refuse(self, address: str) -> None:
        refuse_address(address)

    def _new_conn(self) -> socket.socket:
        _resolved(self.host, self.port, self._refuse)  # type: ignore[attr-defined]
        connected: socket.socket = super()._new_conn()  # type: ignore[misc]
        try:
            self._refuse(str(connected.getpeername()[0]))
        except AddressRefused:
            connected.close()
            raise
        return connected


class _Http(_Checked, urllib3.connection.HTTPConnection):
    pass


class _Https(_Checked, urllib3.connection.HTTPSConnection):
    pass


class _Opening:
    """A pool whose connections are known: one that waits for an answer can be cut off."""

    opened: Opened | None = None

    def _new_conn(self) -> Any:
        connection = super()._new_conn()  # type: ignore[misc]
        connection.opened = self.opened
        return connection


class _HttpPool(_Opening, urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(_Opening, urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


class _Narrower:
    """The rule for files, which stand in public places unless a setting says otherwise."""

    def _refuse(self, address: str) -> None:
        refuse_store_address(address)


class _FileHttp(_Narrower, _Http):
    pass


class _FileHttps(_Narrower, _Https):
    pass


class _FileHttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _FileHttp


class _FileHttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _FileHttps


class Adapter(HTTPAdapter):
    """Requests' adapter on checked connections, without retries of its own."""

    pools: ClassVar[dict[str, type]] = {"http": _HttpPool, "https": _HttpsPool}

    def __init__(self, opened: Opened | None = None) -> None:
        self.opened = opened
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, **named)
        own = {"opened": self.opened}
        self.poolmanager.pool_classes_by_scheme = {
            scheme: type(pool.__name__, (pool,), own) for scheme, pool in self.pools.items()
        }


class FileAdapter(Adapter):
    """The same for files, by the narrower rule of `guard`."""

    pools: ClassVar[dict[str, type]] = {"http": _FileHttpPool, "https": _FileHttpsPool}
