"""Which addresses the stores of invoices may be at: public ones, and networks that a setting names.

A URL names a store, but a name or a redirect may lead anywhere: to the cloud's metadata service, to a
database beside the service. So each address is looked at when it is connected to. Sources of readings
(`access`) stand in private networks by nature and follow a wider rule of their own.
"""

from __future__ import annotations

import ipaddress
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from django.conf import settings

from .access import AddressRefused, refuse_address

SCHEMES: Final = frozenset(
    ["s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "http", "https", "memory", "file", "local"]
)
STORE_THREAD: Final = "fsspecIO"  # in which the file systems of all clouds do their work
_SETTING: Final = "HEADROOM_STORE_NETWORKS"
_here = threading.local()


def refuse_store_address(address: str) -> None:
    """AddressRefused for an address that is not public and in no network of the setting."""
    seen = ipaddress.ip_address(address.partition("%")[0])
    if any(seen.version == one.version and seen in one for one in _allowed()):
        return
    refuse_address(address)
    mapped = getattr(seen, "ipv4_mapped", None) or seen
    if not mapped.is_global:
        raise AddressRefused(
            f"the address {seen} is not public; name its network in {_SETTING} if invoices are there"
        )


def _allowed() -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return networks(settings.STORE_NETWORKS)


@cache
def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Networks such as `10.1.0.0/16`, with commas between. ValueError naming one that is none."""
    return tuple(ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip())


def checked_scheme(url: str) -> str:
    """The URL's scheme. AddressRefused for one that no store of invoices is reached by.

    Chains (`zip::s3://…`) are refused: what is inside an archive is read by ourselves.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        known = ", ".join(f"{one}://" for one in sorted(SCHEMES - {"memory", "local"}))
        raise AddressRefused(f"{scheme}:// is not read; read are {known}")
    return scheme


@contextmanager
def guarded() -> Iterator[None]:
    """Looks at every address that this thread, or a cloud's file system for it, connects to."""
    _install()
    before = getattr(_here, "on", False)
    _here.on = True
    try:
        yield
    finally:
        _here.on = before


@cache
def _install() -> None:
    sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    if not getattr(_here, "on", False) and threading.current_thread().name != STORE_THREAD:
        return
    address = arguments[1]
    if isinstance(address, tuple) and address:  # a socket of a file system's path has text
        refuse_store_address(str(address[0]))
