"""The names of a document's series: targets and series of the ledger, made where they are new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from django.db import connections

from finops.ledger.models import Series, Source, Target
from finops.ledger.models.evidence import REPLICA_LABELS
from finops.ledger.which import ledger_name
from finops.sources.engines import engine_of, marked_metric, role_of
from finops.sources.records import SeriesReadings

from .bulk import Line
from .bulk_text import numbers, text_field
from .charges import storable
from .copying import copy_new_lines
from .locks import lock
from .roles import OTHER_ROLES, TOKEN_ROLES

INDEXED_LABELS = ("job", "instance", *REPLICA_LABELS)
MOST_INDEXED_BYTES = 2000
"""A B-tree of Postgres holds no more than 2.7 kB in one entry."""

_SERIES = """
SELECT id, target_id, metric, labels_digest, role FROM ledger_series
WHERE target_id = ANY(%s::bigint[]) ORDER BY id
"""
_OF_METRICS = """
SELECT id, target_id, metric, labels_digest, role FROM ledger_series
WHERE target_id = ANY(%s::bigint[]) AND metric = ANY(%s::text[]) ORDER BY id
"""
_COUNTS = """
SELECT series.target_id, count(*) FROM ledger_series series
JOIN ledger_target target ON target.id = series.target_id
WHERE target.source_id = %s GROUP BY series.target_id
"""
_COLUMNS = ("target_id", "metric", "role", "engine", "labels", "labels_digest")

Labels = tuple[tuple[str, str], ...]


class Known(NamedTuple):
    """A series of the ledger, as far as posting needs it."""

    pk: int
    target: int
    metric: str
    digest: str
    role: str


class Named(NamedTuple):
    """A series of a document: the series and job it belongs to, and the replica that read it."""

    series: Known
    job: str
    replica: str


class _Identity(NamedTuple):
    job: str
    instance: str
    replica: str
    digest: str
    labels: dict[str, str]
    text: bytes
    """The labels as a field of COPY."""


class Fault(NamedTuple):
    """Why a series cannot be kept: a label, its value, and what is wrong with it."""

    label: str
    value: str
    reason: str


class _Wanted(NamedTuple):
    metric: str
    role: str
    identity: _Identity


def labels_digest(labels: Mapping[str, str]) -> str:
    """SHA-256 of a label set, the same whatever order the labels came in."""
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()


def ledger_role(metric: str, labels: Mapping[str, str]) -> str | None:
    """The role under which the ledger keeps a series; None for what it does not use."""
    role = role_of(metric, labels)
    if role is not None and role.name in TOKEN_ROLES | OTHER_ROLES:
        return role.name
    marked = [role_of(name, labels) for name in marked_metric(metric)]
    return "created" if any(r is not None and r.name in TOKEN_ROLES for r in marked) else None


@lru_cache(maxsize=1 << 13)
def _identity(labels: Labels, more_replica_labels: tuple[str, ...]) -> _Identity | Fault:
    """Who a label set names, the replica apart; many counters of a target share theirs."""
    known = dict(labels)
    if fault := _fault_of(known, more_replica_labels):
        return fault
    known.pop("__name__", None)
    names = (*REPLICA_LABELS, *more_replica_labels)
    replica = ",".join(known.pop(name) for name in names if name in known)
    job, instance = known.get("job", ""), known.get("instance", "")
    text = text_field(json.dumps(known))
    return _Identity(job, instance, replica, labels_digest(known), known, text)


@lru_cache(maxsize=1 << 15)
def _wanted(
    metric: str, labels: Labels, more_replica_labels: tuple[str, ...]
) -> _Wanted | Fault | None:
    """What a series is kept as; a collector meets the same ones hour after hour."""
    identity = _identity(labels, more_replica_labels)
    known = dict(labels) if isinstance(identity, Fault) else identity.labels
    role = ledger_role(metric, known)
    if role is None:
        return None
    return identity if isinstance(identity, Fault) else _Wanted(metric, role, identity)


def _fault_of(labels: Mapping[str, str], more_replica_labels: tuple[str, ...]) -> Fault | None:
    for name, value in labels.items():
        if storable(name + value) != name + value:
            return Fault(
                storable(name), storable(value), "a label holds a character that is no text"
            )
    names = (*INDEXED_LABELS, *more_replica_labels)
    if sum(len(labels.get(name, "").encode()) for name in names) > MOST_INDEXED_BYTES:
        name = max(names, key=lambda one: len(labels.get(one, "")))
        reason = f"job, instance and replica together exceed {MOST_INDEXED_BYTES} bytes"
        return Fault(name, labels[name], reason)
    return None


def _line(target: int, metric: str, role: str, identity: _Identity) -> Line:
    """A new series as a line of COPY."""
    names = map(text_field, (metric, role, engine_of(identity.labels)))
    return b"\t".join((b"%d" % target, *names, identity.text, identity.digest.encode())) + b"\n"


class Names:
    """The targets and series of one source, looked up or made for a batch at a time.

    A run may keep them from document to document: nothing in the ledger loses its name.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.replica_labels = tuple(source.replica_labels)
        self.by_target: dict[int, dict[tuple[str, str], Known]] = {}
        self._targets = self._all_targets()
        self._known: dict[tuple[str, Labels], Named] = {}
        self._locked = False

    def look_again(self) -> None:
        """To be called in a new transaction: targets that others gave more series are forgotten."""
        self._locked = False
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(_COUNTS, [self.source.pk])
            counts = dict(cursor.fetchall())
        for target in [key for key, held in self.by_target.items() if len(held) != counts.get(key)]:
            del self.by_target[target]

    def of(self, batch: Iterable[SeriesReadings]) -> list[Named | Fault | None]:
        """For each series of a batch: its name, or why it cannot be kept, or None where the ledger
        does not use it. New targets and series are made."""
        some = list(batch)
        named = [self._known.get((one.metric, one.labels)) for one in some]
        self._look_up({one.series.target for one in named if one is not None})
        left = [one for one, known in zip(some, named, strict=True) if known is None]
        if not left:
            return list(named)
        others = iter(self._of_unknown(left))
        return [next(others) if known is None else known for known in named]

    def _of_unknown(self, batch: Sequence[SeriesReadings]) -> list[Named | Fault | None]:
        wanted = [_wanted(one.metric, one.labels, self.replica_labels) for one in batch]
        self._make([one for one in wanted if isinstance(one, _Wanted)])
        found = [self._named(one) if isinstance(one, _Wanted) else one for one in wanted]
        for one, name in zip(batch, found, strict=True):
            if isinstance(name, Named):
                self._known[one.metric, one.labels] = name
        return found

    def _named(self, one: _Wanted) -> Named:
        target = self._targets[one.identity.job, one.identity.instance]
        series = self.by_target[target][one.metric, one.identity.digest]
        return Named(series, one.identity.job, one.identity.replica)

    def _all_targets(self) -> dict[tuple[str, str], int]:
        rows = self.source.targets.values_list("job", "instance", "pk")
        return {(job, instance): pk for job, instance, pk in rows}

    def _make(self, wanted: Sequence[_Wanted]) -> None:
        self._make_targets({(one.identity.job, one.identity.instance) for one in wanted})
        target_of = [self._targets[one.identity.job, one.identity.instance] for one in wanted]
        self._look_up(set(target_of))
        new: dict[tuple[int, str, str], Line] = {}
        for target, (metric, role, identity) in zip(target_of, wanted, strict=True):
            if (metric, identity.digest) not in self.by_target[target]:
                new[target, metric, identity.digest] = _line(target, metric, role, identity)
        if new:
            self._lock_new_names()
            copy_new_lines(Series, _COLUMNS, list(new.values()))
            # Not all of their targets anew: series come metric by metric, and each brings its targets.
            targets, metrics = {target for target, _, _ in new}, {metric for _, metric, _ in new}
            self._read(_OF_METRICS, [numbers(targets), sorted(metrics)])

    def _make_targets(self, names: Iterable[tuple[str, str]]) -> None:
        new = [
            b"%d\t%s\t%s\n" % (self.source.pk, text_field(job), text_field(instance))
            for job, instance in sorted(names)
            if (job, instance) not in self._targets
        ]
        if new:
            self._lock_new_names()
            copy_new_lines(Target, ("source_id", "job", "instance"), new)
            self._targets = self._all_targets()

    def _look_up(self, targets: Iterable[int]) -> None:
        unknown = [target for target in targets if target not in self.by_target]
        for target in unknown:
            self.by_target[target] = {}
        if unknown:
            self._read(_SERIES, [numbers(unknown)])

    def _read(self, statement: str, asked: list[str | list[str]]) -> None:
        with connections[ledger_name()].cursor() as cursor:
            cursor.execute(statement, asked)
            for row in cursor.fetchall():
                known = Known(*row)
                self.by_target[known.target][known.metric, known.digest] = known

    def _lock_new_names(self) -> None:
        """New targets and series come one document at a time: two that named the same ones in
        different order would wait for each other for ever."""
        if not self._locked:
            lock("new series", str(self.source.pk))
            self._locked = True
