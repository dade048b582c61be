"""The ledger's doors as a user meets them: commands with `--json`."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from django.core.management import call_command


def command(name: str, *arguments: object) -> dict[str, Any]:
    """What a command prints with `--json`."""
    out = StringIO()
    call_command(name, *map(str, arguments), "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def ingested(*paths: object) -> list[dict[str, Any]]:
    """The documents' accounts that `ingest` prints."""
    documents: list[dict[str, Any]] = command("ingest", *paths, "--by", "Ada")["documents"]
    return documents
