"""The base of commands that look at one file and need no ledger: no database is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from finops.ledger.cli import CannotRun
from finops.ledger.cli import Command as Base
from finops.sources.records import Refused


class Command(Base):
    """A command of the contract that reads a file and nothing else."""

    writes = True  # the own ledger is not asked whether it holds a document

    def prepare(self) -> None:
        """Nothing to make ready."""

    def file_of(self, text: str) -> Path:
        """The file named on the command line. Raises CannotRun when it is none."""
        path = Path(text)
        if not path.is_file():
            raise CannotRun(f"{text}: no such file")
        return path

    def refused(self, error: Refused | ValueError) -> tuple[dict[str, Any], bool]:
        """The result for a file that cannot be read for what it should be."""
        return {"ok": False, "error": str(error)}, False
