"""`up`: the whole service in one command: databases, web server, workers, schedule.

It prepares (servers, tables, sample, static files), starts the processes, prints the address, and
then keeps everything running until Ctrl-C or SIGTERM.
"""

import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, connections

from finops import embedded, first_login, service
from finops.ledger.cli import Sentences, whole_number
from finops.processes import Keeper

CANNOT_RUN = 2
CHECK_SECONDS = 0.5


class Command(Sentences):
    help = "Starts Headroom: database, web server, workers and schedule. Ctrl-C stops it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-sample", action="store_true", help="without the sample company")
        parser.add_argument(
            "--port", type=whole_number, default=settings.PORT, help="default: %(default)s"
        )
        parser.add_argument(
            "--host", default=settings.HOST, help="default: %(default)s, this machine only"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stops = 0
        os.environ["HEADROOM_DATA"] = str(settings.DATA)  # the processes run in another folder
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_signal)
        try:
            lock = service.take_data_folder(settings.DATA)
        except service.AlreadyRuns as other:
            raise CommandError(
                f"Headroom already runs on {settings.DATA}, at {other}.", returncode=CANNOT_RUN
            ) from other
        try:
            self._prepare(options)
            self._serve(lock, options)
        except (embedded.CannotStart, OperationalError, OSError) as error:
            raise CommandError(str(error).strip(), returncode=CANNOT_RUN) from error
        except Stopped:
            self._say("Stopped before it was up.")

    def _prepare(self, options: dict[str, Any]) -> None:
        self.embedded = not os.environ.get("DATABASE_URL"), not os.environ.get("REDIS_URL")
        if self.embedded[0]:
            embedded.ensure_database(settings.DATA)
        if self.embedded[1]:
            embedded.ensure_broker(settings.DATA)
        self._step(lambda: call_command("prepare", stdout=self.stderr))
        if not self._step(service.collect_static):
            self._say("The static files could not be compressed; they are served as they are.")
        if not options["no_sample"]:
            self._step(self._make_sample)

    def _step(self, work: Any) -> Any:
        """Does one step of the preparation unless a signal asked to stop meanwhile."""
        if self.stops:
            raise Stopped
        return work()

    def _make_sample(self) -> None:
        made = settings.DATA / service.SAMPLE_MADE
        if made.exists():
            return
        self._say("Making the sample organisation, once (without it: ./run --no-sample) …")
        began = time.monotonic()
        if service.manage("demo") != 0:
            self._say("The sample organisation could not be made; the service starts without it.")
            return
        made.touch()
        self._say(f"The sample organisation is ready ({time.monotonic() - began:.0f} s).")

    def _serve(self, lock: int, options: dict[str, Any]) -> None:
        listener = self._step(lambda: service.listen(options["host"], options["port"]))
        address = service.address_of(listener)
        port = listener.getsockname()[1]
        if port != options["port"]:
            self._say(f"Port {options['port']} is taken; using {port}.")
        logs = settings.DATA / "log"
        logs.mkdir(mode=0o755, exist_ok=True)
        keeper = Keeper(service.children(listener, logs), self._say)
        keeper.start()
        try:
            service.note_address(lock, address)
            if service.wait_for_web(address):
                self._welcome(address)
            else:
                self._say(f"The web server does not answer yet; its log: {logs / 'web.log'}")
            while not self.stops:
                time.sleep(CHECK_SECONDS)
                for name in embedded.keep() if any(self.embedded) else []:
                    self._say(f"The embedded {name} had died and runs again.")
                keeper.check()
            self._say("Stopping …")
        finally:
            keeper.stop(hurry=lambda: self.stops > 1)
            listener.close()
            connections.close_all()
        embedded.release_all()
        self._say("Stopped.")

    def _welcome(self, address: str) -> None:
        self.stdout.write(f"\nHeadroom runs at {address}/")
        path = first_login.path_for_owner()
        connections.close_all()  # this process sleeps from now on; a server that restarts cuts it
        if path:
            self.stdout.write(
                f"First login (works once, within a day): {settings.URL or address}{path}"
            )
        self.stdout.write(f"Data: {settings.DATA}   Ctrl-C stops it.\n")
        self.stdout.flush()

    def _say(self, text: str) -> None:
        self.stderr.write(text, self.style.NOTICE)
        self.stderr.flush()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1
        if self.stops > 2:  # somebody insists
            sys.exit(128 + number)


class Stopped(Exception):
    """A signal asked to stop during the preparation."""
