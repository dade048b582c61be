"""Which stores may be asked, and how: URLs, addresses and the names of secrets, checked.

Pure: nothing here opens a socket or reads a secret.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

SECRET_PREFIX: Final = "HEADROOM_SECRET_"  # noqa: S105 - the beginning of a name
ONLY_FOR: Final = "__ONLY_FOR"  # ends the name of the variable that says where a secret may go
ENCODINGS: Final = ("identity", "gzip")
PRODUCTS: Final = {
    "": "found by asking",
    "prometheus": "Prometheus",
    "victoriametrics": "VictoriaMetrics",
    "thanos": "Thanos",
    "mimir": "Mimir or Cortex",
    "amp": "Amazon Managed Service for Prometheus",
    "gmp": "Google Cloud Managed Service for Prometheus",
    "azure": "Azure Monitor workspace",
}

_SECRET_NAME: Final = re.compile(SECRET_PREFIX + r"[A-Z0-9_]{1,80}")
_TENANT: Final = re.compile(r"[A-Za-z0-9!\-_.*'()|]{1,150}")
_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_SHOWN_CHARACTERS: Final = 300


class FetchFailed(Exception):
    """A store that could not be asked; the message says what happened, without any secret."""


class AddressRefused(FetchFailed):
    """An address that no metrics store has any business at."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to come to a store: its base URL and the NAME of the variable that holds the secret."""

    url: str
    secret_name: str = ""
    user: str = ""
    accept_encoding: str = "identity"
    tenant: str = ""
    product: str = ""
    region: str = ""
    keeps_replicas: bool = False
    remote_read: bool = False

    def parameters(self) -> tuple[tuple[str, str], ...]:
        """What every query must say to this product so that raw, whole answers come.

        Thanos would else answer with downsampled or partial data; it merges replicas unless the
        source tells them apart itself.
        """
        if self.product != "thanos":
            return ()
        return (
            ("max_source_resolution", "0s"),
            ("partial_response", "false"),
            ("dedup", "false" if self.keeps_replicas else "true"),
        )


def checked_url(url: str) -> str:
    """A store's base URL without a closing slash; FetchFailed when it may not be used."""
    text = url.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise FetchFailed("this is no URL; write one like http://prometheus:9090") from None
    if parts.scheme not in ("http", "https"):
        raise FetchFailed(f"only http and https are asked, not {shown(parts.scheme) or 'nothing'}")
    if "@" in parts.netloc:
        raise FetchFailed(
            "a URL must not hold a user or password: give the user by itself, and the secret in a "
            f"variable named {SECRET_PREFIX}…"
        )
    host = parts.netloc.removesuffix(f":{parts.port}")
    if not _HOST.fullmatch(host) or len(host) > 253 or max(map(len, host.split("."))) > 63:
        raise FetchFailed("the URL names no host; write one like http://prometheus:9090")
    if parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise FetchFailed("give the base URL only, without ? or # and without blanks")
    return text


def checked_secret_name(name: str) -> str:
    """The name, when it is one of the variables that hold secrets for stores; else FetchFailed.

    Whoever may add a source must not be able to read any other variable of the service.
    """
    if not _SECRET_NAME.fullmatch(name):
        # What was given is not shown: it may be the secret itself.
        raise FetchFailed(
            f"a secret is named by its environment variable, which must begin with {SECRET_PREFIX} "
            "(capital letters, digits, _); what was given does not"
        )
    return name


def checked_for(name: str, url: str, only_for: str) -> None:
    """FetchFailed where a secret is for other stores than this one.

    `only_for` holds base URLs, with commas between: whoever may add a source could otherwise have
    a secret sent to a server of their own.
    """
    allowed = [one.strip().rstrip("/") for one in only_for.split(",") if one.strip()]
    if allowed and not any(url == one or url.startswith(one + "/") for one in allowed):
        raise FetchFailed(f"{name} is not for {url}: see the variable {name}{ONLY_FOR}")


def checked_product(product: str, tenant: str, region: str) -> None:
    """FetchFailed for a product that is not known, or a tenant or region that cannot be sent."""
    if product not in PRODUCTS:
        raise FetchFailed(f"the product is one of {', '.join(filter(None, PRODUCTS))}")
    if tenant and not _TENANT.fullmatch(tenant):
        raise FetchFailed("a tenant holds letters, digits and ! - _ . * ' ( ) |, up to 150")
    if (product == "amp") != bool(region):
        raise FetchFailed("the region is given for the product amp, and only for it")
    if region and not _REGION.fullmatch(region):
        raise FetchFailed(f"{shown(region)!r} is no region like eu-west-1")


def refuse_address(address: str) -> None:
    """AddressRefused for link-local, metadata, multicast, unspecified and reserved addresses.

    Loopback and private addresses are where metrics stores live and are allowed.
    """
    seen = ipaddress.ip_address(address.partition("%")[0])
    for one in (seen, *_embedded(seen)):
        if (
            one in _METADATA
            or one.is_link_local
            or one.is_multicast
            or one.is_unspecified
            or (one.version == 4 and one.is_reserved)
        ):
            raise AddressRefused(f"the address {seen} is not asked: it is no metrics store's")


def _embedded(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if address.version == 4:
        return []
    found = [address.ipv4_mapped, address.sixtofour]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def shown(text: str) -> str:
    """Text for a message: short and printable."""
    return "".join(c if c.isprintable() else " " for c in text)[:_SHOWN_CHARACTERS].strip()
