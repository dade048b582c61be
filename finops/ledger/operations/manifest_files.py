"""What one manifest of an export says: its files, what they must hold, of which run (method §3.2).

Amazon's names the files of an assembly; Azure's also says how many files, bytes and rows there are.
`manifests` judges by it which files count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from finops.core.period import parse_instant
from finops.ledger.operations.inputs import Found
from finops.sources.azure_cost import FORMAT as AZURE

LARGEST_BYTES = 16 * 1024 * 1024
TAKE, WAIT, OLD, REFUSE = "take", "wait", "old", "refuse"
_RUN = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)T(\d\d):?(\d\d):?(\d\d)(?:\.\d+)?Z")
_VIEWS = {"ActualCost": f"{AZURE}-actual", "AmortizedCost": f"{AZURE}-amortized"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a manifest says of one file; `rows`, `size_bytes` are what it must hold."""

    status: str = TAKE
    reason: str = ""
    rows: int | None = None
    size_bytes: int | None = None
    format: str | None = None
    exported_at: datetime | None = None
    delivery: int = 0
    manifest: str = ""


@dataclass(slots=True)
class ManifestSet:
    """The files of one manifest: named, governed, and of which run of which export.

    `kind`, `scope` and the days `first` to `last` (digits) tell which money it is of; `last` is
    empty where the manifest does not say it.
    """

    manifest: str
    named: dict[str, Verdict]
    governed: list[str]
    missing: list[str]
    export: tuple[str, ...] = ()
    run: str = ""
    problem: str = ""
    others: str = OLD
    kind: str = ""
    scope: str = ""
    first: str = ""
    last: str = ""
    exported_at: datetime | None = None


def _content(found: Found) -> Any:
    with found.open() as stream:
        content = stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError("a manifest of more than 16 MiB")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not readable as JSON ({error})") from None


def folder_of(path: str) -> str:
    """The part before the last slash. A URL is no path: its double slash has to stay."""
    return path.rpartition("/")[0]


def set_of(found: Found, data: Sequence[str]) -> ManifestSet | None:
    """The set a manifest describes of the files `data`; None for one of another kind, which governs
    nothing. ValueError says why it cannot be read."""
    path, content = found.path, _content(found)
    if not isinstance(content, dict):
        raise ValueError("not a manifest: no JSON object")
    if "reportKeys" in content:
        return _amazon(path, content, _texts(content, "reportKeys"), data)
    if "dataFiles" in content:
        return _amazon_export(path, content, _texts(content, "dataFiles"), data)
    if "blobs" in content:
        return _azure(path, content, data)
    return None


def _texts(content: Mapping[str, Any], name: str) -> list[str]:
    value = content[name]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} is not a list of names")
    return value


def _object(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def damaged(path: str, data: Iterable[str]) -> ManifestSet:
    """The set of a manifest that cannot be read: the files beside it wait."""
    folder = folder_of(path)
    governed = [one for one in data if folder_of(one) == folder]
    return ManifestSet(path, {}, governed, ["what it names cannot be read"])


def is_below(path: str, folder: str) -> bool:
    """Whether a file lies in a folder or deeper; "" is where the command was typed."""
    return path.startswith(f"{folder}/" if folder else "")


def tail(path: str, parts: int) -> tuple[str, ...]:
    """The last parts of a path."""
    return tuple(path.split("/")[-parts:])


def _amazon(
    path: str, content: Mapping[str, Any], keys: Sequence[str], data: Sequence[str]
) -> ManifestSet:
    """A report: the assembly that the manifest names, below its own folder."""
    folder = folder_of(path)
    governed = [one for one in data if is_below(one, folder)]
    exported_at = _told_by_name(content.get("assemblyId"))
    named: dict[str, Verdict] = {}
    missing = []
    for key in keys:
        same = [one for one in governed if tail(one, 2) == tail(key, 2)]
        same = same or [
            one for one in governed if folder_of(one) == folder and tail(one, 1) == tail(key, 1)
        ]
        if same:
            named[same[0]] = Verdict(exported_at=exported_at)
        else:
            missing.append(key)
    made = ManifestSet(path, named, governed, missing, kind="aws", exported_at=exported_at)
    months = content.get("billingPeriod")
    made.scope = str(content.get("account") or "")
    made.first = made.last = _day(months.get("start")) if isinstance(months, dict) else ""
    return made


def _amazon_export(
    path: str, content: Mapping[str, Any], files: Sequence[str], data: Sequence[str]
) -> ManifestSet:
    """An export of the newer kind: manifests and data stand in sibling folders by month.

    Where runs are kept, each has a folder of its own below the month's, in both.
    """
    months = {tail(one, 2)[0] for one in files}
    exported_at = _told_by_name(content.get("executionId"), *files)
    root, partition = _export_of(path)
    governed = [
        one for one in data if one.startswith(root) and tail(folder_of(one), 1)[0] in months
    ]
    named, missing = {}, []
    for name in files:
        same = [one for one in governed if tail(one, 2) == tail(name, 2)]
        if same:
            named[same[0]] = Verdict(exported_at=exported_at)
        else:
            missing.append(name)
    made = ManifestSet(path, named, governed, missing, exported_at=exported_at)
    if exported_at is not None:
        made.export, made.run = (root, partition), exported_at.isoformat()
    return made


def _export_of(path: str) -> tuple[str, str]:
    """The folder that an export's `metadata` and `data` stand in, and the manifest's month."""
    parts = path.split("/")
    if "metadata" not in parts[:-2]:
        return folder_of(folder_of(folder_of(path))), tail(folder_of(path), 1)[0]
    at = len(parts) - 1 - parts[::-1].index("metadata")
    return "/".join(parts[:at]), parts[at + 1]


def _azure(path: str, content: Mapping[str, Any], data: Sequence[str]) -> ManifestSet:
    blobs = content["blobs"]
    if not isinstance(blobs, list) or not all(isinstance(one, dict) for one in blobs):
        raise ValueError("blobs is not a list of files")
    config, run = (_object(content, name) for name in ("exportConfig", "runInfo"))
    exported_at = _instant(run.get("submittedTime"))
    folder = folder_of(path)
    governed = [one for one in data if folder_of(one) == folder]
    made = ManifestSet(path, {}, governed, [], others=REFUSE)
    made.run = str(run.get("submittedTime") or run.get("runId") or path)
    made.kind, made.exported_at = str(config.get("type") or ""), exported_at
    made.scope = str(config.get("resourceId") or "").lower().rpartition("/providers/")[0]
    made.first, made.last = _day(run.get("startDate")), _day(run.get("endDate"))
    names = (config.get("resourceId") or config.get("exportName"), config.get("type"))
    made.export = tuple(str(one) for one in (*names, run.get("startDate")) if one)
    count, total = _whole(content, "blobCount"), _whole(content, "dataRowCount")
    rows = [_whole(blob, "dataRowCount") for blob in blobs]
    of_files = sum(each or 0 for each in rows)
    if count is not None and count != len(blobs):
        made.problem = f"the manifest says {count} files and names {len(blobs)}"
    elif None not in (total, *rows) and total != of_files:
        made.problem = f"the manifest says {total} rows, those of its files are {of_files}"
    for blob in blobs:
        name = str(blob.get("blobName", ""))
        same = [one for one in governed if tail(one, 1) == tail(name, 1)]
        if not same:
            made.missing.append(name)
            continue
        made.named[same[0]] = Verdict(
            rows=_whole(blob, "dataRowCount"),
            size_bytes=_whole(blob, "byteCount"),
            format=_VIEWS.get(str(config.get("type"))),
            exported_at=exported_at,
        )
    return made


def _whole(content: Mapping[str, Any], name: str) -> int | None:
    """A count of the manifest, None where it has none; ValueError for what is no whole number."""
    value = content.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{name} is no whole number: {str(value)[:80]!r}")
    return value


def _day(value: object) -> str:
    """The eight digits of a date; empty when there are fewer."""
    digits = re.sub(r"\D", "", str(value or ""))[:8]
    return digits if len(digits) == len("20261001") else ""


def _told_by_name(*names: object) -> datetime | None:
    """The instant of a run that Amazon writes into the names of assemblies and executions."""
    for name in names:
        if found := _RUN.search(str(name or "")):
            year, month, day, hour, minute, second = (int(part) for part in found.groups())
            try:
                return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                continue
    return None


def _instant(value: object) -> datetime | None:
    try:
        return parse_instant(str(value)[:19]) if value else None
    except ValueError:
        return None
