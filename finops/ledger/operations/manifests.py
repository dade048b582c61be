"""Manifests of exports: which files are one delivery, and whether all of them are here (§3.2).

Amazon's manifest names the assembly that counts; older ones beside it are left alone. Azure's says how
many files, bytes and rows there are; of several runs of one export the latest counts. Two exports of
the same days are two deliveries, the later one after the earlier, so that no day counts twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from finops.core.period import parse_instant
from finops.ledger.operations.inputs import Found
from finops.sources.azure_cost import FORMAT as AZURE

LARGEST_BYTES = 16 * 1024 * 1024
TAKE, WAIT, OLD, REFUSE = "take", "wait", "old", "refuse"
_MONTH = re.compile(r"\d{8}-\d{8}")
_RUN = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)T(\d\d):?(\d\d):?(\d\d)(?:\.\d+)?Z")
_NEVER = datetime.min.replace(tzinfo=UTC)
_PAIR = {"ActualCost", "AmortizedCost"}
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
class _Set:
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


def judge(found: Sequence[Found]) -> tuple[dict[str, Verdict], dict[str, str]]:
    """Verdicts by path of the files that manifests govern, and manifests that cannot be read.

    A file that no manifest governs has no verdict: it is its own delivery.
    """
    data = [one.path for one in found if not one.is_manifest]
    sets: list[_Set] = []
    unreadable: dict[str, str] = {}
    for one in found:
        if not one.is_manifest:
            continue
        try:
            described = _set_of(one.path, _content(one), data)
        except ValueError as error:
            unreadable[one.path] = f"{one.path}: {error}"
            described = _damaged(one.path, data)
        if described is not None:
            sets.append(described)
    verdicts = _several_assemblies(data)
    for made in _outermost(sets):
        verdicts |= _verdicts(made)
    _keep_latest_runs(sets, verdicts)
    _part_deliveries(sets, verdicts)
    return verdicts, unreadable


def _several_assemblies(data: Sequence[str]) -> dict[str, Verdict]:
    """Amazon's folders with several assemblies of one month: only a manifest could tell which."""
    months: dict[str, dict[str, list[str]]] = {}
    for path in data:
        folder = _folder(path)
        month = _folder(folder)
        if _MONTH.fullmatch(_tail(month, 1)[0]):
            months.setdefault(month, {}).setdefault(folder, []).append(path)
    found: dict[str, Verdict] = {}
    for month, assemblies in months.items():
        if len(assemblies) > 1:
            reason = (
                f"{month} holds {len(assemblies)} assemblies and no manifest says which one counts; "
                "give its top-level manifest too, or the folder of one assembly alone"
            )
            found |= {p: Verdict(REFUSE, reason) for paths in assemblies.values() for p in paths}
    return found


def _content(found: Found) -> Any:
    with found.open() as stream:
        content = stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError("a manifest of more than 16 MiB")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not readable as JSON ({error})") from None


def _folder(path: str) -> str:
    """The part before the last slash. A URL is no path: its double slash has to stay."""
    return path.rpartition("/")[0]


def _set_of(path: str, content: Any, data: Sequence[str]) -> _Set | None:
    """The set a manifest describes; None for one of another kind, which governs nothing."""
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


def _damaged(path: str, data: Iterable[str]) -> _Set:
    folder = _folder(path)
    governed = [one for one in data if _folder(one) == folder]
    return _Set(path, {}, governed, ["what it names cannot be read"])


def _is_below(path: str, folder: str) -> bool:
    """Whether a file lies in a folder or deeper; "" is where the command was typed."""
    return path.startswith(f"{folder}/" if folder else "")


def _tail(path: str, parts: int) -> tuple[str, ...]:
    return tuple(path.split("/")[-parts:])


def _amazon(
    path: str, content: Mapping[str, Any], keys: Sequence[str], data: Sequence[str]
) -> _Set:
    """A report: the assembly that the manifest names, below its own folder."""
    folder = _folder(path)
    governed = [one for one in data if _is_below(one, folder)]
    exported_at = _told_by_name(content.get("assemblyId"))
    named: dict[str, Verdict] = {}
    missing = []
    for key in keys:
        same = [one for one in governed if _tail(one, 2) == _tail(key, 2)]
        same = same or [
            one for one in governed if _folder(one) == folder and _tail(one, 1) == _tail(key, 1)
        ]
        if same:
            named[same[0]] = Verdict(exported_at=exported_at)
        else:
            missing.append(key)
    made = _Set(path, named, governed, missing, kind="aws", exported_at=exported_at)
    months = content.get("billingPeriod")
    made.scope = str(content.get("account") or "")
    made.first = made.last = _day(months.get("start")) if isinstance(months, dict) else ""
    return made


def _amazon_export(
    path: str, content: Mapping[str, Any], files: Sequence[str], data: Sequence[str]
) -> _Set:
    """An export of the newer kind: manifests and data stand in sibling folders by month.

    Where runs are kept, each has a folder of its own below the month's, in both.
    """
    months = {_tail(one, 2)[0] for one in files}
    exported_at = _told_by_name(content.get("executionId"), *files)
    root, partition = _export_of(path)
    governed = [one for one in data if one.startswith(root) and _tail(_folder(one), 1)[0] in months]
    named, missing = {}, []
    for name in files:
        same = [one for one in governed if _tail(one, 2) == _tail(name, 2)]
        if same:
            named[same[0]] = Verdict(exported_at=exported_at)
        else:
            missing.append(name)
    made = _Set(path, named, governed, missing, exported_at=exported_at)
    if exported_at is not None:
        made.export, made.run = (root, partition), exported_at.isoformat()
    return made


def _export_of(path: str) -> tuple[str, str]:
    """The folder that an export's `metadata` and `data` stand in, and the manifest's month."""
    parts = path.split("/")
    if "metadata" not in parts[:-2]:
        return _folder(_folder(_folder(path))), _tail(_folder(path), 1)[0]
    at = len(parts) - 1 - parts[::-1].index("metadata")
    return "/".join(parts[:at]), parts[at + 1]


def _azure(path: str, content: Mapping[str, Any], data: Sequence[str]) -> _Set:
    blobs = content["blobs"]
    if not isinstance(blobs, list) or not all(isinstance(one, dict) for one in blobs):
        raise ValueError("blobs is not a list of files")
    config, run = (_object(content, name) for name in ("exportConfig", "runInfo"))
    exported_at = _instant(run.get("submittedTime"))
    folder = _folder(path)
    governed = [one for one in data if _folder(one) == folder]
    made = _Set(path, {}, governed, [], others=REFUSE)
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
        same = [one for one in governed if _tail(one, 1) == _tail(name, 1)]
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


def _outermost(sets: Sequence[_Set]) -> list[_Set]:
    """Without manifests below the folder of another that governs their files: it decides."""
    return [
        one
        for one in sets
        if not any(
            other is not one
            and other.others == OLD
            and _folder(one.manifest) != _folder(other.manifest)
            and _is_below(one.manifest, _folder(other.manifest))
            for other in sets
        )
    ]


def _verdicts(one: _Set) -> dict[str, Verdict]:
    if one.problem:
        return {path: Verdict(REFUSE, f"{one.manifest}: {one.problem}") for path in one.governed}
    if one.missing:
        reason = (
            f"{one.manifest} names {len(one.named) + len(one.missing)} files; "
            f"{len(one.missing)} are not here yet, first {one.missing[0]}"
        )
        waiting = {p: Verdict(WAIT, reason) for p in one.named or one.governed or [one.manifest]}
    else:
        waiting = {p: replace(v, manifest=one.manifest) for p, v in one.named.items()}
    why = f"{one.manifest} does not name this file"
    others = {path: Verdict(one.others, why) for path in one.governed if path not in waiting}
    return others | waiting


def _keep_latest_runs(sets: Sequence[_Set], verdicts: dict[str, Verdict]) -> None:
    """Of several runs of one export only the latest complete one is taken."""
    latest: dict[tuple[str, ...], _Set] = {}
    complete = [one for one in sets if one.export and not one.missing and not one.problem]
    for one in complete:
        known = latest.get(one.export)
        if known is None or one.run > known.run:
            latest[one.export] = one
    for one in complete:
        newest = latest[one.export]
        if newest is not one and newest.run != one.run:
            reason = f"an older run; {newest.manifest} is the latest"
            verdicts |= {path: Verdict(OLD, reason) for path in one.governed}


def _part_deliveries(sets: Sequence[_Set], verdicts: dict[str, Verdict]) -> None:
    """Gives exports that tell of the same days to deliveries of their own, oldest first.

    A snapshot is a delivery of one export (method §3.2); the two views of one scope are a pair.
    """
    deliveries: list[list[_Set]] = []
    for one in sorted(sets, key=lambda made: (made.exported_at or _NEVER, made.manifest)):
        taken = [path for path in one.named if verdicts.get(path, Verdict(OLD)).status == TAKE]
        if not taken:
            continue
        alike = [
            at for at, group in enumerate(deliveries) if any(_same_days(one, x) for x in group)
        ]
        place = max(alike, default=-1) + 1
        deliveries[place:] = deliveries[place:] or [[]]
        deliveries[place].append(one)
        verdicts |= {path: replace(verdicts[path], delivery=place) for path in taken}


def _same_days(one: _Set, other: _Set) -> bool:
    """Whether two manifests describe the same money, as far as they say of what they are."""
    if not (one.last and other.last and one.kind and other.kind) or one.scope != other.scope:
        return False
    is_pair = {one.kind, other.kind} == _PAIR
    return not is_pair and one.first <= other.last and other.first <= one.last
