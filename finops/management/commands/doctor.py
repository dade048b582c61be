"""`doctor`: checks everything Headroom needs, and says what to do."""

from dataclasses import asdict
from typing import Any

from finops import checkup
from finops.ledger.cli import Command as Base


class Command(Base):
    help = "Checks everything Headroom needs, and says what to do."
    writes = True  # it asks no ledger which one is meant: there may be none yet

    def prepare(self) -> None:
        """The tables are looked at, not made."""

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        findings = list(checkup.all_findings())
        fine = all(finding.ok for finding in findings)
        return {"checks": [asdict(finding) for finding in findings], "ok": fine}, fine

    def render(self, result: dict[str, Any]) -> str:
        lines = []
        for check in result["checks"]:
            lines.append(f"{'ok  ' if check['ok'] else 'BAD '} {check['name']}: {check['found']}")
            if check["advice"]:
                lines.append(f"     → {check['advice']}")
        return "\n".join([*lines, "All is well." if result["ok"] else "Something needs attention."])
