"""`demo`: the sample organisation in a database of its own, its newest complete week sealed."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils import timezone

from finops import service
from finops.core.period import parse_instant
from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.sample import demo


class Command(Base):
    """Made once; a second call says what is there."""

    help = "Make the sample organisation: twelve weeks, the newest complete one sealed."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--at", metavar="T", help="as of this instant; default: now")
        parser.add_argument("--again", action="store_true", help="remove it and make it anew")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            at = parse_instant(options["at"]) if options["at"] else timezone.now()
            sample = demo.make(at, again=options["again"], progress=self.progress)
        except (ValueError, demo.NotMade) as error:
            raise CannotRun(f"The sample organisation cannot be made: {error}") from error
        self.progress("")
        # Starting the service does not make it again.
        marker = settings.DATA / service.SAMPLE_MADE
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        return demo.as_json(sample), True

    def render(self, result: dict[str, Any]) -> str:
        """The result in one or two sentences."""
        done = f"made in {result['seconds']} s" if result["new"] else "there already"
        return (
            f"The sample organisation is {done}: {len(result['weeks'])} weeks to "
            f"{result['sealed_week']}, which is sealed.\nDigest {result['digest']}"
        )
