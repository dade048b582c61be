"""What `doctor` looks at: each check gives what was found and, where it is bad, what to do."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connections

from finops import embedded, service
from finops.ledger import tables
from finops.ledger.queries.exchange_rates import ledger_currencies

OLDEST_POSTGRES = 150_000
LEAST_FREE_BYTES = 2 * 2**30
CLOCK_SECONDS = 5  # method §2.1 allows marks this much clock skew
PANGO = ("libpango-1.0", "libpangoft2-1.0", "libharfbuzz-subset")


@dataclass(frozen=True)
class Finding:
    """One check: what was found, whether that is well, and else what to do."""

    name: str
    ok: bool
    found: str
    advice: str | None = None


def all_findings() -> Iterator[Finding]:
    """Every check, in the order in which they build on each other."""
    for check in (python, pango, disk, secret_key, zone):
        yield check()
    yield (there := attempt("database", database, "Start PostgreSQL, or correct DATABASE_URL."))
    if there.ok:
        yield attempt("tables", current_tables, "Type: ./run migrate_all")
        yield attempt("currencies", currencies, "Type: ./run migrate_all")
        yield attempt("clock", clock, "Set this machine's clock by NTP.")
    yield attempt("broker", broker, "Start Valkey or Redis, or correct REDIS_URL.")
    yield attempt("workers", workers, "Start the service: ./run")
    yield invoice_folder()


def attempt(name: str, check: Callable[[], Finding], advice: str) -> Finding:
    """The finding, also when the check itself fails: then the failure is what was found."""
    try:
        return check()
    except (DatabaseError, OSError, embedded.CannotStart) as error:
        return Finding(name, False, str(error).strip().splitlines()[0], advice)
    except Exception as error:  # noqa: BLE001 - a client library's own "cannot connect"
        return Finding(name, False, f"{type(error).__name__}: {error}", advice)


def python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    ok = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return Finding("python", ok, found, None if ok else "Use Python 3.11 to 3.14.")


def pango() -> Finding:
    missing = [name for name in PANGO if not _loads(name)]
    if not missing:
        return Finding("pango", True, "found; PDFs can be made")
    advice = (
        "Type: brew install pango"
        if sys.platform == "darwin"
        else "Type: sudo apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
    )
    return Finding("pango", False, f"missing: {', '.join(missing)}; no PDF can be made", advice)


def _loads(name: str) -> bool:
    if sys.platform == "darwin":
        folders = ("", "/opt/homebrew/lib/", "/usr/local/lib/")
        files = [f"{folder}{name}.{end}" for folder in folders for end in ("dylib", "0.dylib")]
    else:
        files = [f"{name}.so.0"]
    for file in files:
        try:
            ctypes.CDLL(file)
        except OSError:
            continue
        return True
    return False


def disk() -> Finding:
    free = shutil.disk_usage(settings.DATA).free
    found = f"{free / 2**30:.1f} GiB free at {settings.DATA}"
    if not os.access(settings.DATA, os.W_OK):
        return Finding("disk", False, f"{settings.DATA} cannot be written", "Correct its owner.")
    ok = free >= LEAST_FREE_BYTES
    return Finding("disk", ok, found, None if ok else "Make room, or move HEADROOM_DATA.")


def secret_key() -> Finding:
    if os.environ.get("SECRET_KEY"):
        return Finding("secret key", True, "from SECRET_KEY")
    path = settings.DATA / "secret-key"
    mode = path.stat().st_mode & 0o777
    ok = mode & 0o077 == 0
    return Finding(
        "secret key", ok, f"{path}, mode {mode:04o}", None if ok else f"Type: chmod 600 '{path}'"
    )


def zone() -> Finding:
    return Finding("time zone", True, f"{settings.ORGANISATION_ZONE.key} (HEADROOM_TIME_ZONE)")


def database() -> Finding:
    if not os.environ.get("DATABASE_URL"):
        embedded.ensure_database(settings.DATA)
    for name in settings.DATABASES:
        with connections[name].cursor() as cursor:
            cursor.execute("select current_setting('server_version_num')::int, version()")
            number, version = cursor.fetchone()
            cursor.execute("select pg_size_pretty(pg_database_size(current_database()))")
            (size,) = cursor.fetchone()
    kind = "external" if os.environ.get("DATABASE_URL") else "embedded"
    ok = number >= OLDEST_POSTGRES
    found = f"{kind}, {' '.join(version.split()[:2])}, sample {size}"
    return Finding("database", ok, found, None if ok else "Use PostgreSQL 15 or newer.")


def current_tables() -> Finding:
    missing = [f"{name}: {item}" for name in settings.DATABASES for item in tables.pending(name)]
    if not missing:
        return Finding("tables", True, "up to date in both databases")
    return Finding("tables", False, f"missing {', '.join(missing[:5])}", "Type: ./run migrate_all")


def currencies() -> Finding:
    """The report currency, and whether one must be chosen because charges are in several (§3.9)."""
    found = ledger_currencies()
    chosen: str = settings.REPORT_CURRENCY
    shown = f"charges in {', '.join(found)}" if found else "no charges yet"
    if chosen:
        return Finding("currencies", True, f"{shown}; reports in {chosen}")
    ok = len(found) < 2
    advice = None if ok else "Choose the reports' currency: HEADROOM_REPORT_CURRENCY=USD, say."
    return Finding("currencies", ok, shown, advice)


def clock() -> Finding:
    with connections["default"].cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        (there,) = cursor.fetchone()
    seconds = abs((datetime.now(UTC) - there).total_seconds())
    ok = seconds <= CLOCK_SECONDS
    advice = None if ok else "Set the clocks of this machine and the database by NTP."
    return Finding("clock", ok, f"{seconds:.1f} s from the database's", advice)


def broker() -> Finding:
    import redis

    if not os.environ.get("REDIS_URL"):
        embedded.ensure_broker(settings.DATA)
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5)
    try:
        client.ping()
        version = client.info("server")["redis_version"]
    finally:
        client.close()
    kind = "external" if os.environ.get("REDIS_URL") else "embedded"
    return Finding("broker", True, f"{kind}, answers (Redis protocol of {version})")


def workers() -> Finding:
    """Who takes tasks. With the embedded broker and no service running there is nobody to ask."""
    if not os.environ.get("REDIS_URL") and not _service_runs():
        return Finding("workers", True, "the service does not run; ./run starts it")
    from finops.celery import QUEUES, app

    answers = app.control.inspect(timeout=3).active_queues() or {}
    served = {queue["name"] for queues in answers.values() for queue in queues}
    needed = set(QUEUES) - (set() if settings.BULK_PROCESSES > 1 else {"parts"})
    missing = needed - served
    found = f"{len(answers)} answer, for the queues {', '.join(sorted(served)) or 'none'}"
    advice = f"Start workers for {', '.join(sorted(missing))}; see docs/operations.md."
    return Finding("workers", not missing, found, advice if missing else None)


def _service_runs() -> bool:
    try:
        os.close(service.take_data_folder(settings.DATA))
    except service.AlreadyRuns:
        return True
    return False


def invoice_folder() -> Finding:
    folder: Path = settings.INVOICE_FOLDER
    if not folder.exists():
        return Finding("invoice folder", True, f"{folder} is not there; uploads work all the same")
    ok = os.access(folder, os.R_OK | os.X_OK)
    advice = None if ok else "Let the user who runs Headroom read it."
    return Finding("invoice folder", ok, f"{folder}{'' if ok else ' cannot be read'}", advice)
