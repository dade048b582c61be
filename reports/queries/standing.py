"""Reports as they stand: statement, state and people, from the stored bytes alone (method §11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from finops.core.period import rfc3339
from reports.models import Disposition, Report, ReportEvent, Seal, Waiver
from reports.queries import kept

PRELIMINARY, IN_REVIEW, FINAL, SUPERSEDED = "preliminary", "in review", "final", "superseded"
OPEN = (PRELIMINARY, IN_REVIEW)
FIRST_PREVIOUS_DIGEST = "0" * 64
SCHEDULE = "schedule"  # prepared a report that nobody closed; no person


@dataclass(frozen=True, slots=True)
class Standing:
    """One revision as a reader meets it. `digest` is the seal's when there is one."""

    report: Report
    state: str
    statement: dict[str, Any]
    digest: str
    events: list[ReportEvent]
    dispositions: dict[str, dict[str, Any]]
    seal: dict[str, Any] | None = None
    waivers: list[dict[str, str]] = field(default_factory=list)
    newest_revision: int = 1
    sealed_revision: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether people still act on it: neither sealed nor superseded."""
        return self.state in OPEN

    @property
    def week(self) -> str:
        """The ISO week."""
        return self.report.week

    @property
    def revision(self) -> int:
        """The revision's number."""
        return self.report.revision

    @property
    def step(self) -> str:
        """The last act that matters: closed, reviewed, approved, returned or sealed."""
        kinds = [e.kind for e in self.events if e.kind != SUPERSEDED]
        return kinds[-1] if kinds else "closed"

    @property
    def approved_by(self) -> str:
        """Who approved, empty unless the last word is an approval."""
        words = [e for e in self.events if e.kind in ("approved", "returned")]
        return words[-1].by if words and words[-1].kind == "approved" else ""

    @property
    def people(self) -> set[str]:
        """Who stands behind it so far: its preparer, unless the schedule closed it, and who read or
        approved it since it was last sent back. Capitals and blanks make nobody another person."""
        prepared = self.report.prepared_by
        since: list[str] = []
        for event in self.events:
            since = [] if event.kind == "returned" else since
            since += [event.by] if event.kind in ("reviewed", "approved") else []
        named = since if prepared == SCHEDULE else [prepared, *since]
        return {" ".join(name.casefold().split()) for name in named}

    @property
    def number(self) -> str:
        """The report's number as printed."""
        return f"{self.week}/{self.revision}"

    @property
    def open_exceptions(self) -> list[dict[str, Any]]:
        """Exceptions nobody has dispositioned."""
        return [e for e in self.statement.get("exceptions", []) if e["id"] not in self.dispositions]


def report_of(week: str, revision: int | None = None) -> Report | None:
    """The revision asked for, by default the one a reader should see: see `shown_first`."""
    rows = Report.objects.filter(week=week).defer("statement").prefetch_related("events")
    if revision is not None:
        return rows.filter(revision=revision).first()
    reports = list(rows)
    return shown_first(reports)


def shown_first(reports: Iterable[Report]) -> Report | None:
    """The newest sealed revision that was not superseded, else the newest revision."""
    ordered = sorted(reports, key=lambda r: r.revision, reverse=True)
    sealed = [r for r in ordered if _kinds(r) >= {"sealed"} and SUPERSEDED not in _kinds(r)]
    return next(iter(sealed or ordered), None)


def _kinds(report: Report) -> set[str]:
    return {event.kind for event in report.events.all()}


def standing(report: Report) -> Standing:
    """The report with its state, people and dispositions; a seal's record speaks for itself."""
    events = sorted(report.events.all(), key=lambda e: e.id)
    kinds = {event.kind for event in events}
    rows = Seal.objects.filter(report=report).defer("record")
    seal = rows.first() if "sealed" in kinds else None
    record = _record(seal) if seal else None
    state = SUPERSEDED if SUPERSEDED in kinds else FINAL if seal else _open_state(events)
    revisions = list(
        Report.objects.filter(week=report.week).values_list("revision", "events__kind")
    )
    sealed = [revision for revision, kind in revisions if kind == "sealed"]
    return Standing(
        report=report,
        state=state,
        statement=record["statement"] if record else statement_of(report),
        digest=seal.digest if seal else report.digest,
        events=events,
        dispositions=record["dispositions"] if record else dispositions(report.week),
        waivers=record.get("waivers", []) if record else waivers(report),
        seal=record,
        newest_revision=max(revision for revision, _ in revisions),
        sealed_revision=max(sealed, default=None),
    )


def _record(seal: Seal) -> dict[str, Any]:
    return kept.statements.made(f"seal {seal.digest}", lambda: orjson.loads(bytes(seal.record)))


def _open_state(events: Iterable[ReportEvent]) -> str:
    """In review once a person has read or approved it and nobody sent it back since."""
    acts = [e.kind for e in sorted(events, key=lambda e: e.id)]
    words = [kind for kind in acts if kind in ("closed", "reviewed", "approved", "returned")]
    return IN_REVIEW if words and words[-1] in ("reviewed", "approved") else PRELIMINARY


def waivers(report: Report) -> list[dict[str, str]]:
    """What people signed for of a report, oldest first, as plain values."""
    return [
        {"kind": w.kind, "subject": w.subject, "text": w.text, "by": w.by, "at": rfc3339(w.at)}
        for w in Waiver.objects.filter(report=report).order_by("id")
    ]


def dispositions(week: str) -> dict[str, dict[str, Any]]:
    """The newest disposition of each exception of a week, as plain values."""
    rows = Disposition.objects.filter(week=week).order_by("id")
    return {
        row.exception: {
            "text": row.text,
            "by": row.by,
            "at": row.at.isoformat().replace("+00:00", "Z"),
        }
        for row in rows
    }


def week_names() -> list[str]:
    """The weeks that have a report, newest first."""
    return list(Report.objects.order_by("-week").values_list("week", flat=True).distinct())


def has_report(week: str) -> bool:
    """Whether any report was made of a week."""
    return Report.objects.filter(week=week).exists()


def shown_reports(
    limit: int | None = None, *, weeks_wanted: Iterable[str] | None = None
) -> list[Report]:
    """For each week, newest first, the report a reader should see; two queries.

    The statements' bytes are left out until asked for.
    """
    weeks: dict[str, list[Report]] = {}
    rows = Report.objects.defer("statement").prefetch_related("events").order_by("-week")
    if limit is not None:
        names = Report.objects.order_by("-week").values_list("week", flat=True).distinct()
        rows = rows.filter(week__in=list(names[:limit]))
    if weeks_wanted is not None:
        rows = rows.filter(week__in=list(weeks_wanted))
    for row in rows:
        weeks.setdefault(row.week, []).append(row)
    return [report for group in weeks.values() if (report := shown_first(group))]


def state_of(report: Report) -> str:
    """The state, from prefetched events."""
    kinds = _kinds(report)
    if SUPERSEDED in kinds:
        return SUPERSEDED
    return FINAL if "sealed" in kinds else _open_state(report.events.all())


def statement_of(report: Report) -> dict[str, Any]:
    """The statement as it was said; kept by its digest, so it is read and never changed."""
    return kept.statements.made(report.digest, lambda: orjson.loads(bytes(report.statement)))


def recent_reports(weeks: int) -> list[Report]:
    """The shown reports of the newest weeks, oldest first; their statements are not loaded."""
    return shown_reports(limit=weeks)[::-1]
