"""`unrecognised`: the lines that look like GPU time and match nothing of the catalogue."""

from __future__ import annotations

from typing import Any

from finops.ledger.cli import Command as Base
from finops.ledger.queries.unrecognised import review_list


class Command(Base):
    """Exit 1 when there are any: their GPUs and hours are not known until a person looks."""

    help = "List charges that look like GPU time of a machine not in the catalogue."

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        rows, _ = review_list()
        return {"unrecognised": rows, "ok": not rows}, not rows
