"""Where a request comes from, as the trail and the sign-in note it."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The client's address; behind a proxy (HEADROOM_BEHIND_PROXY) the one that the proxy added
    last. What a client writes into the header itself is never taken, nor what is no address."""
    peer = str(request.META.get("REMOTE_ADDR") or "")
    if not settings.SECURE_PROXY_SSL_HEADER:
        return peer
    last = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(last))
    except ValueError:
        return peer
