"""What a process keeps of reports it has read: their bytes never change, so a digest says all.

Parsed statements, each workload's figures of a week, and rendered articles. Nothing here is a
source of truth: verifying, sealing and packing read the stored bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Any, Generic, TypeVar

import orjson

from reports.models import Report

T = TypeVar("T")
WORKLOAD_KEYS = ("slug", "figures", "reasons")


class Kept(Generic[T]):
    """The last values made, by key; the one longest unused goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> T | None:
        """The value, None when it is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: T) -> T:
        """Keeps a value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def made(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value, made when it is not kept."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found


# Statements of large organisations take megabytes each once parsed, so few are kept.
statements: Kept[dict[str, Any]] = Kept(4)
articles: Kept[str] = Kept(32)
contexts: Kept[dict[str, Any]] = Kept(64)
panels: Kept[list[dict[str, Any]]] = Kept(32)
_rows: Kept[dict[str, bytes]] = Kept(64)


def workload_weeks(reports: Iterable[Report], slug: str) -> list[dict[str, Any] | None]:
    """What each report says of a workload (slug, figures, reasons, service level), None where it is not in it.

    One query for all reports that were not read before.
    """
    wanted = list(reports)
    missing = [report.pk for report in wanted if _rows.get(report.digest) is None]
    found = {}
    for digest, content in Report.objects.filter(pk__in=missing).values_list("digest", "statement"):
        found[digest] = _rows.put(digest, _rows_of(orjson.loads(bytes(content))))
    texts = [(found.get(r.digest) or _rows.get(r.digest) or {}).get(slug) for r in wanted]
    return [None if text is None else orjson.loads(text) for text in texts]


def _rows_of(statement: dict[str, Any]) -> dict[str, bytes]:
    levels = {row["workload"]: row for row in statement.get("service_levels") or []}
    return {
        row["slug"]: orjson.dumps(
            {key: row[key] for key in WORKLOAD_KEYS} | {"level": levels.get(row["slug"])}
        )
        for row in statement["workloads"]
    }
