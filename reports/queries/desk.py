"""What each role looks at first on a Monday: panels of the overview, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from finops.ledger.queries.baselines import waiting_baselines
from reports import figures
from reports.memory_words import active_share
from reports.models import Report, Seal
from reports.queries import kept
from reports.queries.standing import FINAL, Standing, state_of
from reports.roles import ADMIN, AUDITOR, ENGINEER, FINANCE

WEEKS = 8
MOST = 4
Panel = dict[str, Any]
Statement = Mapping[str, Any]


def panels(
    roles: frozenset[str],
    stand: Standing,
    sources: Sequence[Mapping[str, Any]],
    newest: Sequence[Report],
) -> list[Panel]:
    """The panels of the roles a person has; an administrator has all. `newest` are the shown
    reports of the newest weeks."""
    found = []
    statement = stand.statement
    if roles & {FINANCE, ADMIN}:
        found += [_approvals(newest), _invoices(statement)]
    if roles & {ENGINEER, ADMIN}:
        found.append(_readings(statement, sources))
        found += kept.panels.made(stand.digest, lambda: [_memory(statement)])
    if roles & {AUDITOR, ADMIN}:
        found.append(_sealed())
    return found


def _panel(title: str, rows: list[Panel], none: str) -> Panel:
    return {"title": title, "rows": rows[:MOST], "none": none, "more": max(0, len(rows) - MOST)}


def _row(text: str, note: str = "", url: str = "", chip: str = "", tone: str = "") -> Panel:
    return {"text": text, "note": note, "url": url, "chip": chip, "tone": tone}


def _approvals(newest: Sequence[Report]) -> Panel:
    """The newest weeks that are not final yet, and baselines that nobody has decided on."""
    rows = [
        _row(
            report.week,
            f"prepared by {report.prepared_by}",
            reverse("report-revision", args=[report.week, report.revision]),
            state_of(report),
            "preliminary",
        )
        for report in newest
        if state_of(report) != FINAL
    ]
    rows += [
        _row(f"Baseline {number} of {slug}", f"registered by {author}",
             reverse("baseline", args=[number]), "waiting", "waiting")
        for number, slug, author in waiting_baselines()
    ]  # fmt: skip
    return _panel("Waits for approval", rows, "The newest weeks are final.")


def _invoices(statement: Statement) -> Panel:
    """Invoices of the week that do not agree, or that have not been issued."""
    rows = []
    for row in statement["tieout"]["invoice"]:
        if row["within"]:
            continue
        differs = row["within"] is False
        note = f"{row['billing_period']}, lines {figures.money(row['billed'])} {row['currency']}"
        chip = "differs" if differs else "not issued" if row["provisional"] else "not compared"
        name = row["invoice"] or row["issuer"]
        rows.append(_row(name, note, reverse("invoices"), chip, "rejected" if differs else "late"))
    return _panel("Invoices to look at", rows, "Every invoice of the week agrees with its lines.")


def _readings(statement: Statement, sources: Sequence[Mapping[str, Any]]) -> Panel:
    """Sources that are late or failing, and series that no rule gives to a workload."""
    rows = [
        _row(source["name"], f"{figures.lag(source['lag_seconds'])} behind", reverse("sources"),
             source["state"], "rejected" if source["state"] == "failing" else "late")
        for source in sources
        if source["state"] in ("late", "failing", "never")
    ]  # fmt: skip
    lost = [e for e in statement["exceptions"] if e["kind"] == "series-without-workload"]
    rows += [
        _row(e["subject"], "counts tokens, and no rule gives it to a workload", reverse("rules"))
        for e in lost
    ]
    return _panel("Sources and series", rows, "No source is late; every series has a workload.")


def _memory(statement: Statement) -> Panel:
    """The workloads whose KV cache is used least, and those that had to set requests back."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in statement.get("memory") or []:
        if row["workload"]:
            groups.setdefault(row["workload"], []).append(row)
    told = [(share, name) for name, mine in groups.items()
            if (share := active_share(mine)) is not None]  # fmt: skip
    rows = []
    for share, name in sorted(told):
        count = sum(row["preemptions"] or 0 for row in groups[name])
        note = f"{figures.percent(share, 1)} of what is reserved"
        note += f", {figures.whole(count)} preemptions" if count else ""
        rows.append(_row(name, note, reverse("workload", args=[name])))
    return _panel("KV cache in use", rows, "No engine tells of its KV cache.")


def _sealed() -> Panel:
    """The newest seals."""
    seals = Seal.objects.select_related("report").defer("record", "report__statement")
    rows = [
        _row(
            f"{seal.report.week}/{seal.report.revision}",
            f"seal {seal.number} by {seal.by}, {figures.day(seal.at)}, {seal.digest[:12]}",
            reverse("report-revision", args=[seal.report.week, seal.report.revision]),
            "final",
            "final",
        )
        for seal in seals.order_by("-number")[:MOST]
    ]
    return _panel("Sealed reports", rows, "No report has been sealed yet.")
