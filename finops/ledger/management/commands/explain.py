"""`explain SERIES HOUR`: the readings behind one ledger row."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import hour_of, parse_instant, rfc3339
from finops.ledger.cli import CannotRun, known
from finops.ledger.cli import Command as Base
from finops.ledger.queries.explain import Unknown, bounds, explain, series_named


class Command(Base):
    """Leads a row back to its readings and documents."""

    help = "The readings behind one ledger row, the arithmetic, the document digests."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("series", help='number, or metric{label="value",…}')
        parser.add_argument("hour", help="2026-11-29T14:00:00Z")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        try:
            series = series_named(options["series"])
            hour = hour_of(parse_instant(options["hour"]))
            found = explain(series, hour)
            told = {"source": series.target.source.name, "bounds": bounds(series, hour)}
            return found | told, True
        except (Unknown, ValueError) as error:
            raise CannotRun(str(error)) from error

    def render(self, result: dict[str, Any]) -> str:
        lines = [
            result["series"],
            f"{result['tokens']:,} tokens in the hour from {rfc3339(result['hour'])}, "
            f"told by {result['source']}",
            f"  {result['arithmetic']}",
            *_exactness(result["bounds"]),
            f"  revision {result['revision']}, posted {rfc3339(result['posted_at'])}",
            "",
            f"{'at':<28} {'value':>16}  {'born':<28} document",
        ]
        lines += [
            f"{one['at']:<28} {one['value']:>16,}  {one['mark'] or '–':<28} {one['document'][:12]}"
            for one in result["readings"]
        ]
        return "\n".join([*lines, "", *(f"document {digest}" for digest in result["documents"])])


def _exactness(bounds: dict[str, Any] | None) -> list[str]:
    if bounds is None or bounds["exact"]:
        return [] if bounds is None else ["  exact"]
    return [
        f"  at least {bounds['lower']:,}, at most {known(bounds['upper'])}",
        *(f"  {why}" for why in bounds["why"]),
    ]
