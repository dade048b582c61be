"""`collect`: reads the sources' stores: what is missing, or a period anew."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from finops.core.period import Period, parse_instant
from finops.ledger import cli
from finops.ledger.models import Source
from finops.ledger.operations.collect import collect_source
from finops.ledger.operations.sources import SourceRefused, source_for_url
from finops.ledger.queries.sources import active_sources


class Command(cli.Command):
    """Fetches raw samples; the same window again adds only what is new."""

    help = "Read the Prometheus sources: what is missing, or a period anew."
    writes = True

    def arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--source", metavar="NAME", help="one source (else all active ones)")
        which.add_argument(
            "--url", help="a store's base URL; its source is made when there is none"
        )
        parser.add_argument("--from", dest="start", metavar="T", help="asked anew from here")
        parser.add_argument("--to", dest="end", metavar="T", help="to here (else to now)")
        parser.add_argument("--by", default=None, help="who asks (else the system's user)")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        at, by = datetime.now(UTC), options["by"] or getpass.getuser()
        period = self._period(options["start"], options["end"], at)
        found = [
            collect_source(source, by=by, at=at, period=period, progress=self.progress)
            for source in self._sources(options, by, at)
        ]
        self.progress("")
        fine = all(one.ok for one in found)
        return {"sources": [one.as_json() for one in found], "ok": fine}, fine

    def _sources(self, options: dict[str, Any], by: str, at: datetime) -> list[Source]:
        if options["url"]:
            try:
                return [source_for_url(options["url"], by=by, at=at)]
            except SourceRefused as error:
                raise cli.CannotRun(str(error)) from None
        if options["source"]:
            source = Source.objects.filter(name=options["source"], kind="prometheus").first()
            if source is None:
                raise cli.CannotRun(f"There is no Prometheus source named {options['source']!r}.")
            return [source]
        sources = active_sources()
        if not sources:
            raise cli.CannotRun(
                "There is no source to collect. Add one with `sources add NAME URL`, or collect "
                "at once with `collect --url URL`."
            )
        return sources

    def _period(self, start: str | None, end: str | None, at: datetime) -> Period | None:
        if start is None and end is None:
            return None
        try:
            until = at + timedelta(minutes=1) if end is None else parse_instant(end)
            if start is None:
                raise cli.CannotRun("Say --from as well: there is no telling how far back to ask.")
            return Period(parse_instant(start), until)
        except cli.CannotRun:
            raise
        except ValueError as error:
            raise cli.CannotRun(str(error)) from None
