#!/usr/bin/env python3
"""Headroom's commands. With no DATABASE_URL a command brings the embedded database along."""

import difflib
import json
import os
import signal
import sys
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand, ManagementUtility, get_commands

from finops import embedded

# These neither need a database nor should wait for one.
WITHOUT_DATABASE = {
    "help", "version", "--help", "-h", "--version", "collectstatic", "makemessages", "startapp",
    "diffsettings", "findstatic", "kv", "explain-log", "grafana_pack",
}  # fmt: skip
STARTS_SERVERS = {"up", "doctor"}


class Commands(ManagementUtility):
    """Django's commands and ours; one that does not exist could not run, which is exit code 2."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command of that name; else ends with a sentence that names the nearest."""
        names = get_commands()
        if subcommand not in names:
            near = difflib.get_close_matches(subcommand, names, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            refuse(ValueError(f"There is no command {subcommand!r}.{hint} `help` lists them all."))
        return super().fetch_command(subcommand)


def main() -> None:
    """Runs the command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")
    # Without a handler SIGTERM would end the process before the embedded database is given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        bring_servers(sys.argv[1] if len(sys.argv) > 1 else "help")
        import finops.celery  # noqa: F401 - makes it the application that commands send tasks to
    except (embedded.CannotStart, ImproperlyConfigured) as error:
        refuse(error)
    Commands(sys.argv).execute()


def bring_servers(command: str) -> None:
    """Starts the embedded database for a command that needs it; `up` and `doctor` do that themselves."""
    if {"-h", "--help"} & set(sys.argv[2:]):
        return
    if command in STARTS_SERVERS:
        if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
            embedded.choose_place()
    elif command not in WITHOUT_DATABASE and not os.environ.get("DATABASE_URL"):
        embedded.ensure_database()


def refuse(error: Exception) -> NoReturn:
    """Ends with exit code 2 and a sentence; with --json also as a document on stdout."""
    if "--json" in sys.argv:
        print(json.dumps({"ok": False, "error": str(error)}))
    print(error, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
