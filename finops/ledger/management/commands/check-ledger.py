"""`check-ledger`: computes the ledger a second time from its documents and says what differs."""  # noqa: N999 - the command's name

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from finops.ledger.cli import Command as Base
from finops.ledger.operations import charge_check, readings
from finops.ledger.operations.documents import digest_of, stored
from finops.ledger.queries import check
from finops.trail.fingerprints import changed_rows
from finops.trail.guards import missing_guards
from finops.trail.operations import verify
from finops.trail.queries import head

MOST_PROBLEMS = 1000


class Command(Base):
    """Exit 1 when anything is not as it was recorded."""

    help = "Recompute digests, counts, control totals, charges and token hours; verify the trail."

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        older: Counter[str] = Counter()
        checks: dict[str, Iterable[str]] = {
            "bytes": check.missing_bytes(stored, digest_of),
            "counts": check.miscounted_documents(),
            "control totals": check.changed_totals(),
            "charges": charge_check.differing(older),
            "snapshots": check.miscounted_snapshots(),
            "token hours": check.rederived(readings.recheck),
            "trail": verify(),
            "fixed rows": changed_rows(),
            "guards": missing_guards(),
        }
        problems: list[str] = []
        for name, found in checks.items():
            self.progress(f"checking {name}")
            problems += [f"{name}: {problem}" for problem in found]
        last = head()
        return {
            "checked": check.size() | {"trail_entries": last[0] if last else 0},
            "trail_head": last[1] if last else None,
            "problems": problems[:MOST_PROBLEMS],
            "notices": charge_check.older_reading(older)[:MOST_PROBLEMS],
            "ok": not problems,
        }, not problems
