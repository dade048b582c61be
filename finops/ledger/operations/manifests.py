"""Manifests of exports: which files are one delivery, and whether all of them are here (§3.2).

Amazon's manifest names the assembly that counts; older ones beside it are left alone. Azure's says how
many files, bytes and rows there are; of several runs of one export the latest counts. Two exports of
the same days are two deliveries, the later one after the earlier, so that no day counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from finops.ledger.operations.inputs import Found
from finops.ledger.operations.manifest_files import (
    OLD,
    REFUSE,
    TAKE,
    WAIT,
    ManifestSet,
    Verdict,
    damaged,
    folder_of,
    is_below,
    set_of,
    tail,
)

_MONTH = re.compile(r"\d{8}-\d{8}")
_NEVER = datetime.min.replace(tzinfo=UTC)
_PAIR = {"ActualCost", "AmortizedCost"}


def judge(found: Sequence[Found]) -> tuple[dict[str, Verdict], dict[str, str]]:
    """Verdicts by path of the files that manifests govern, and manifests that cannot be read.

    A file that no manifest governs has no verdict: it is its own delivery.
    """
    data = [one.path for one in found if not one.is_manifest]
    sets: list[ManifestSet] = []
    unreadable: dict[str, str] = {}
    for one in found:
        if not one.is_manifest:
            continue
        try:
            described = set_of(one, data)
        except ValueError as error:
            unreadable[one.path] = f"{one.path}: {error}"
            described = damaged(one.path, data)
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
        folder = folder_of(path)
        month = folder_of(folder)
        if _MONTH.fullmatch(tail(month, 1)[0]):
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


def _outermost(sets: Sequence[ManifestSet]) -> list[ManifestSet]:
    """Without manifests below the folder of another that governs their files: it decides."""
    return [
        one
        for one in sets
        if not any(
            other is not one
            and other.others == OLD
            and folder_of(one.manifest) != folder_of(other.manifest)
            and is_below(one.manifest, folder_of(other.manifest))
            for other in sets
        )
    ]


def _verdicts(one: ManifestSet) -> dict[str, Verdict]:
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


def _keep_latest_runs(sets: Sequence[ManifestSet], verdicts: dict[str, Verdict]) -> None:
    """Of several runs of one export only the latest complete one is taken."""
    latest: dict[tuple[str, ...], ManifestSet] = {}
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


def _part_deliveries(sets: Sequence[ManifestSet], verdicts: dict[str, Verdict]) -> None:
    """Gives exports that tell of the same days to deliveries of their own, oldest first.

    A snapshot is a delivery of one export (method §3.2); the two views of one scope are a pair.
    """
    deliveries: list[list[ManifestSet]] = []
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


def _same_days(one: ManifestSet, other: ManifestSet) -> bool:
    """Whether two manifests describe the same money, as far as they say of what they are."""
    if not (one.last and other.last and one.kind and other.kind) or one.scope != other.scope:
        return False
    is_pair = {one.kind, other.kind} == _PAIR
    return not is_pair and one.first <= other.last and other.first <= one.last
