"""`series --from T --to T`: every counter series of a period, with its tokens and its workload."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.period import instant_of
from finops.ledger.arguments import add_period, period_of
from finops.ledger.cli import Command as Base
from finops.ledger.queries.series import series_of


class Command(Base):
    """Lists the series of a period."""

    help = "The counter series of a period: tokens, restarts, coverage, workload."

    def arguments(self, parser: CommandParser) -> None:
        add_period(parser)

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        rows = [
            {
                "metric": row.metric,
                "labels": row.labels,
                "source": row.source,
                "role": row.role,
                "workload": row.workload,
                "first": instant_of(row.first_ms),
                "last": instant_of(row.last_ms),
                "readings": row.readings,
                "tokens": row.tokens,
                "restarts": row.restarts,
                "hidden_resets": row.hidden_resets,
                "coverage": row.coverage,
            }
            for row in series_of(period_of(options))
        ]
        return {"rows": rows}, True
