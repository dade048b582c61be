"""Ways in that need more than a fixed secret: short-lived tokens, and signed requests.

A secret's variable may hold the token itself, `file:PATH` of a token that something else renews, or
the JSON of an OAuth 2 client (`token_url`, `client_id`, `client_secret`, `scope`), as Entra ID asks
for Azure Monitor. Amazon's store wants each request signed (SigV4), which botocore does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import requests

from .access import FetchFailed, checked_url, shown

SERVICE: Final = "aps"
MOST_TOKEN_BYTES: Final = 65_536
_CLIENT: Final = ("token_url", "client_id", "client_secret", "scope")


def token_of(secret: str, session: requests.Session, limits: Any) -> str:
    """The token that a secret stands for, asked for or read anew; the secret itself otherwise.

    Raises FetchFailed, without any secret in its words.
    """
    if secret.startswith("file:"):
        return _read(Path(secret.removeprefix("file:")))
    if secret.startswith("{"):
        return _asked(_client(secret), session, limits)
    return secret


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FetchFailed(f"the token file cannot be read ({type(error).__name__})") from None
    if not text or len(text) > MOST_TOKEN_BYTES or not text.isprintable():
        raise FetchFailed("the token file holds no token")
    return text


def _client(secret: str) -> dict[str, str]:
    try:
        client = json.loads(secret)
    except (ValueError, RecursionError):
        raise FetchFailed("the secret begins like JSON and is none") from None
    if not isinstance(client, dict) or not all(isinstance(client.get(n), str) for n in _CLIENT):
        raise FetchFailed(f"an OAuth 2 client needs {', '.join(_CLIENT)}, each as text")
    return {name: client[name] for name in _CLIENT}


def _asked(client: dict[str, str], session: requests.Session, limits: Any) -> str:
    """An access token for a client's own credentials (RFC 6749, client credentials grant)."""
    url = checked_url(client["token_url"])
    form = {name: client[name] for name in _CLIENT[1:]} | {"grant_type": "client_credentials"}
    try:
        answer = session.post(
            url,
            data=form,
            timeout=(limits.connect_seconds, limits.read_seconds),
            allow_redirects=False,
            auth=_no_auth,
        )
        token = answer.json().get("access_token") if answer.status_code == 200 else None
    except (requests.RequestException, ValueError, AttributeError) as error:
        raise FetchFailed(f"{url}: no token ({type(error).__name__})") from None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise FetchFailed(f"{url}: status {answer.status_code}, no access token in the answer")
    return token


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def signer(region: str) -> Callable[[requests.PreparedRequest], requests.PreparedRequest]:
    """What signs each request for Amazon's store with the credentials botocore finds.

    Raises FetchFailed where botocore is not installed or finds none.
    """
    try:
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
        from botocore.session import get_session  # type: ignore[import-untyped]
    except ImportError:
        raise FetchFailed(
            "signing for Amazon needs the Python package botocore, which is not installed in .venv"
        ) from None
    try:
        credentials = get_session().get_credentials()
    except Exception as error:  # noqa: BLE001 - botocore raises many kinds, all mean the same
        raise FetchFailed(f"botocore finds no credentials: {shown(str(error))}") from None
    if credentials is None:
        raise FetchFailed("botocore finds no credentials for Amazon")

    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        kept = {"content-type": request.headers.get("Content-Type")}
        wanted = AWSRequest(
            method=request.method,
            url=request.url,
            data=request.body,
            headers={name: value for name, value in kept.items() if value},
        )
        SigV4Auth(credentials, SERVICE, region).add_auth(wanted)
        request.headers.update(dict(wanted.headers))
        return request

    return sign
