"""Reads the environment for the settings: each function takes text and gives a checked value.

Everything an operator may set is a variable named HEADROOM_…, or one of the customary DATABASE_URL,
REDIS_URL, SECRET_KEY and ALLOWED_HOSTS. A value that cannot be used stops the start with a sentence
that names the variable and says what is allowed.
"""

import os
import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from zoneinfo import ZoneInfo

from django.core.exceptions import ImproperlyConfigured

from finops.sources import currencies

HOUR = timedelta(hours=1)


def text(name: str, default: str = "") -> str:
    """The variable without surrounding blanks; `default` when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str) -> bool:
    """True for 1, true, yes or on; False for 0, false, no, off or unset."""
    value = text(name).lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"", "0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={value!r}: write 1 or 0.")


def whole_number(name: str, default: int, *, least: int = 0, most: int = 2**31) -> int:
    """The variable as an integer between `least` and `most`."""
    value = text(name)
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
        raise ImproperlyConfigured(f"{name}={value!r}: write a number from {least} to {most}.")
    return int(value)


def listed(name: str) -> list[str]:
    """The comma-separated parts of the variable, without empty ones."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


def currency(name: str) -> str:
    """The variable as a currency's code of ISO 4217; "" when it is unset."""
    value = text(name)
    if value and (reason := currencies.refusal(value)):
        raise ImproperlyConfigured(
            f"{name}={value!r} {reason}. Write a currency's code, like USD or EUR."
        )
    return value


def networks(name: str) -> str:
    """The comma-separated networks of the variable, each one like `10.1.0.0/16`."""
    for part in listed(name):
        try:
            ip_network(part)
        except ValueError:
            raise ImproperlyConfigured(
                f"{name}: {part!r} is no network; write one like 10.1.0.0/16."
            ) from None
    return ",".join(listed(name))


def organisation_zone(name: str) -> ZoneInfo:
    """The organisation's time zone; refused unless its offset is whole hours (method §1).

    The ledger's bucket is the UTC hour, so a week in a zone at +05:30 could not be cut exactly.
    """
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ImproperlyConfigured(
            f"HEADROOM_TIME_ZONE={name!r} is no IANA time zone; write one like Europe/Berlin or UTC."
        ) from error
    for month in range(12 * 20):  # both halves of each year from 2020 to 2039
        moment = datetime(2020 + month // 12, 1 + month % 12, 1, tzinfo=UTC)
        offset = moment.astimezone(zone).utcoffset()
        if offset is not None and offset % HOUR:
            raise ImproperlyConfigured(
                f"HEADROOM_TIME_ZONE={name!r} is {offset} from UTC in {moment:%B %Y}, not whole hours. "
                "Headroom books tokens in UTC hours, so its weeks can only be cut at whole hours: "
                "choose a zone with a whole-hour offset, for example UTC."
            )
    return zone


def secret_key(folder: Path) -> str:
    """SECRET_KEY, else the key kept in `folder`/secret-key, made there once with mode 0600."""
    given = text("SECRET_KEY")
    if given:
        return given
    path = folder / "secret-key"
    try:
        return _read_key(path)
    except FileNotFoundError:
        pass
    new = folder / f".secret-key-{os.getpid()}-{secrets.token_hex(4)}"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(64) + "\n")
    try:
        os.link(new, path)  # a process that starts at the same moment keeps the first one's key
    except FileExistsError:
        pass
    finally:
        new.unlink()
    return _read_key(path)


def _read_key(path: Path) -> str:
    try:
        key = path.read_text().strip()
    except PermissionError as error:
        raise ImproperlyConfigured(f"{path} belongs to another user and cannot be read.") from error
    if len(key) < 50:
        raise ImproperlyConfigured(
            f"{path} holds no key of 50 characters; remove it for a new one."
        )
    return key


def data_folder(default: Path) -> Path:
    """HEADROOM_DATA, made when absent: the folder that holds all that must be kept."""
    folder = Path(text("HEADROOM_DATA", str(default))).expanduser().resolve()
    try:
        # As root, others may pass through (the database runs as another user) but not list it.
        folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"HEADROOM_DATA={str(folder)!r} cannot be made: {error.strerror}."
        ) from error
    return folder


def database(url: str, *, suffix: str = "") -> dict[str, object]:
    """Django's settings for a `postgresql://` URL; `suffix` is added to the database's name."""
    parts = urlsplit(url)
    name = unquote(parts.path.lstrip("/"))
    if parts.scheme not in {"postgres", "postgresql"} or not name:
        raise ImproperlyConfigured(
            "DATABASE_URL must look like postgresql://user:password@host:5432/name."
        )
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = options.pop("host", "") or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name + suffix,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": options.pop("port", "") or str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }
