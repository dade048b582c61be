"""From a printed figure to its ledger rows, and on to file and line or series and reading (§11)."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from finops.core.allocation import IDLE, KEPT_SUM, SHARED, UNASSIGNED
from finops.core.money import add, plain
from finops.core.period import parse_instant
from finops.ledger.queries import explain
from reports.evidence.sealed import gather, sealed_files
from reports.queries.standing import Standing

MOST_ROWS = 300
MONEY, TOKENS = "money", "tokens"
TOKEN_NAMES = ("token", "coverage", "restarts", "hidden_resets", "exact")
PER = ("cost_per", "usage_cost_per", "tokens_per", "saving")
Row = dict[str, Any]


class NoSuchFigure(LookupError):
    """The report prints no such figure of this workload."""


@dataclass
class Behind:
    """A figure and its rows: charges, series, or the hours of one series."""

    figure: str
    workload: str
    value: Any
    formula: str
    charges: list[Row] = field(default_factory=list)
    charges_count: int = 0
    charges_sum: str = "0"
    converted: bool = False
    series: list[Row] = field(default_factory=list)
    hours: list[Row] = field(default_factory=list)
    series_name: str = ""
    of: str = ""


def kinds_of(figure: str) -> tuple[str, ...]:
    """Whether money, tokens or both stand behind a figure."""
    if figure.startswith(PER):
        return (MONEY, TOKENS)
    return (TOKENS,) if any(name in figure for name in TOKEN_NAMES) else (MONEY,)


FORMULAS = {
    "cost_per_million_tokens": "effective_cost ÷ (prompt_tokens + generation_tokens) × 1,000,000",
    "tokens_per_dollar": "(prompt_tokens + generation_tokens) ÷ effective_cost",
    "tokens_per_dollar_change": "(tokens_per_dollar − the week before's) ÷ the week before's",
    "effective_cost": "the parts of the charges below inside the common hours, own and shared",
    "period_effective_cost": "the parts of the charges below inside the week, own and shared",
    "saving_vs_baseline": "this week's tokens × the baseline's price − effective_cost",
}


def behind_charges(stand: Standing, *, place: str = "", document: str = "") -> Behind:
    """The charges of the week, of one place of the allocation, or of one document (method §4).

    Raises NoSuchFigure for a place or document that the report does not name, and Gone.
    """
    totals = stand.statement["control_totals"]
    if place:
        held = [row for row in stand.statement["allocation"] if row["place"] == place]
        value = _amounts((row["currency"], row["effective"]) for row in held)
    elif document:
        held = [row for row in totals["documents"] if row["sha256"] == document]
        sums = held[0].get("sums", {}) if held else {}
        value = _amounts((currency, one["effective"]) for currency, one in sums.items())
    else:
        held, value = [totals], _amounts([(stand.statement["currency"], totals["effective"])])
    if not held:
        raise NoSuchFigure(f"{place[:60] or document[:64]}")
    found = Behind("charges", "", value, "the parts of the charges below inside the week", of=place)
    charges = rows(files_of(stand), "charges")
    mine = [row for row in charges if _is_of(row, place, document)]
    _charges(found, mine, set(), whole=True)
    return found


def _amounts(pairs: Iterable[tuple[str, str | None]]) -> str:
    return " + ".join(f"{amount} {currency}" for currency, amount in pairs if amount is not None)


def _is_of(row: Row, place: str, document: str) -> bool:
    if place == IDLE:
        return bool(row["idle_share"]) and row["place"] in (SHARED, UNASSIGNED)
    return row["place"] == place if place else not document or row["document"] == document


def behind(stand: Standing, figure: str, slug: str = "", series: str = "") -> Behind:
    """The rows behind a figure of the organisation, or of a workload. Raises NoSuchFigure, and
    Gone when a sealed report's evidence is not there."""
    value = _value(stand, figure, slug)
    files = files_of(stand)
    formula = FORMULAS.get(figure, "method §5")
    found = Behind(figure, slug, value, formula)
    slugs = {slug} if slug else {w["slug"] for w in stand.statement["workloads"]}
    kinds = kinds_of(figure)
    if MONEY in kinds:
        _charges(found, rows(files, "charges"), slugs, whole=not slug)
    if TOKENS in kinds:
        _series(found, files, stand, slug, series)
    return found


def _value(stand: Standing, figure: str, slug: str) -> Any:
    holder: Mapping[str, Any] | None = stand.statement["figures"]
    if slug:
        known = {w["slug"]: w["figures"] for w in stand.statement["workloads"]}
        holder = known.get(slug)
    if holder is None or figure not in holder:
        raise NoSuchFigure(f"{figure[:60]} of {slug[:60] or 'the organisation'}")
    return holder[figure]


def files_of(stand: Standing) -> Mapping[str, bytes]:
    """The evidence of a sealed report; of an open one, the rows as of its closing."""
    if stand.seal is not None:
        return sealed_files(stand.seal)
    evidence = gather(stand.report, stand.statement)
    return evidence.files if evidence else {}


def rows(files: Mapping[str, bytes], name: str) -> list[Row]:
    """The rows of one table."""
    text = files.get(f"ledgers/{name}.csv", b"").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _charges(found: Behind, charges: Iterable[Row], slugs: set[str], *, whole: bool) -> None:
    """Charges of the workloads, and the shared ones that are split over them."""
    mine = [
        row
        for row in charges
        if whole or row["target"] in slugs or (row["place"] == "shared" and row["target"])
    ]
    found.charges_count = len(mine)
    found.charges_sum = " + ".join(
        f"{plain(add(amounts))} {currency}"
        for currency, amounts in sorted(_by_currency(mine).items())
    )
    found.charges = [{**row, "summed": row.get(KEPT_SUM, "")} for row in mine[:MOST_ROWS]]
    found.converted = any(row.get("rate_day") for row in mine)


def _by_currency(charges: Iterable[Row]) -> dict[str, list[Decimal]]:
    """Effective amounts by the currency of their documents: they are never added (method §3.9)."""
    found: dict[str, list[Decimal]] = {}
    for row in charges:
        found.setdefault(row["currency"], []).append(Decimal(row["effective"] or 0))
    return found


def _series(
    found: Behind, files: Mapping[str, bytes], stand: Standing, slug: str, series: str
) -> None:
    known = {row["series"]: row for row in rows(files, "series")}
    placed = _places(files, known) if slug else {}
    sums: dict[str, int] = {}
    hours: list[Row] = []
    for row in rows(files, "token_hours"):
        sums[row["series"]] = sums.get(row["series"], 0) + int(row["tokens"])
        if series and row["series"] == series:
            hours.append(row)
    found.hours = hours
    found.series_name = _name(known[series]) if series in known else ""
    found.series = [
        {"number": number, "name": _name(row), "role": row["role"], "tokens": sums.get(number, 0)}
        for number, row in known.items()
        if not slug or slug in placed.get(number, ())
    ]


def _places(files: Mapping[str, bytes], known: Mapping[str, Row]) -> dict[str, set[str]]:
    """The workloads that the rules give each series to, by the second computation's rules."""
    import json

    from reports.evidence import verify

    rules = verify.Rules(rows(files, "rules"), "series")
    found: dict[str, set[str]] = {}
    for row in rows(files, "token_hours"):
        if row["series"] in known:
            labels = known[row["series"]].setdefault("parsed", None)
            if labels is None:
                labels = known[row["series"]]["parsed"] = json.loads(known[row["series"]]["labels"])
            place = rules.place(labels, verify.instant(row["hour"]))
            if place[0] == "workload":
                found.setdefault(row["series"], set()).add(place[1])
    return found


def _name(row: Row) -> str:
    return f"{row['metric']} of {row['source']}, target {row['target']} {row['engine']}".strip()


def hour(series: str, text: str) -> dict[str, Any]:
    """One token hour with its readings and documents. Raises explain.Unknown, ValueError."""
    return explain.explain(explain.series_named(series), parse_instant(text))


def sampled(stand: Standing, count: int, seed: str) -> list[Row]:
    """So many rows of charges and as many token hours, by a seed anyone can repeat.

    A row's rank is the SHA-256 of the seed, a colon and its key; the lowest ranks are taken. The
    key of a charge is `charge DOCUMENT LINE`, of a token hour `hour SERIES HOUR`.
    """
    files = files_of(stand)
    charges = {f"charge {r['document']} {r['line']}": r for r in rows(files, "charges")}
    hours = {f"hour {r['series']} {r['hour']}": r for r in rows(files, "token_hours")}
    found = []
    for group in (charges, hours):
        ranked = sorted(group, key=lambda key: rank_of(seed, key))
        found += [{"key": key, "rank": rank_of(seed, key), "row": group[key]}
                  for key in ranked[:count]]  # fmt: skip
    return found


def rank_of(seed: str, key: str) -> str:
    """The rank of a row under a seed."""
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
