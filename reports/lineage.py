"""From a printed figure to its ledger rows, and on to file and line or series and reading (§11)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from finops.core.allocation import KEPT_SUM, SHARED, WORKLOAD
from finops.core.money import add, plain
from finops.core.period import parse_instant
from finops.ledger.queries import explain
from reports import formulas, money_behind, workload_behind
from reports.evidence import verify
from reports.evidence.sealed import rows_behind, sealed_files
from reports.queries.standing import Standing

MOST_ROWS = 300
MONEY, TOKENS = "money", "tokens"
TOKEN_NAMES = ("token", "coverage", "restarts", "hidden_resets", "exact")
PER = ("cost_per", "usage_cost_per", "tokens_per", "saving")
ROLES = {
    "prompt_tokens": ("prompt",),
    "generation_tokens": ("generation",),
    "cached_prompt_tokens": ("cached_prompt", "prefix_hits"),
    "delivered_prompt_tokens": ("delivered_prompt",),
    "delivered_generation_tokens": ("delivered_generation",),
}
"""What the series count that a figure of one class of tokens is made of, where there are such."""
Row = dict[str, Any]


class NoSuchFigure(LookupError):
    """The report prints no such figure of this workload."""


@dataclass
class Behind:
    """A figure and its rows: charges, series, or the hours of one series.

    `charges_sum` is of whole charges, `parts_sum` of what of them stands in the figure, where
    each says its own part; both by currency.
    """

    figure: str
    workload: str
    value: Any
    formula: str
    charges: list[Row] = field(default_factory=list)
    charges_count: int = 0
    charges_sum: str | None = None
    parts_sum: str | None = None
    parts_of: str = "this sum"
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


def behind_charges(stand: Standing, *, place: str = "", document: str = "") -> Behind:
    """The charges of the week, of one place of the allocation, or of one document (method §4),
    each with the part of it that stands in the printed sum.

    Raises NoSuchFigure for a place or document that the report does not name, and Gone.
    """
    document = "" if place else document
    value = money_behind.printed_sum(stand.statement, place=place, document=document)
    if value is None:
        raise NoSuchFigure(f"{place[:60] or document[:64]}")
    charges = rows(files_of(stand), "charges")
    held = money_behind.counted(stand.statement, charges, place=place, document=document)
    parts = money_behind.summed((one.currency, one.amount) for one in held)
    formula = money_behind.FORMULAS[place]
    found = Behind("charges", "", money_behind.in_words(value), formula, of=place)
    found.parts_sum = money_behind.in_words(parts)
    _counted(found, held)
    return found


def behind(stand: Standing, figure: str, slug: str = "", series: str = "") -> Behind:
    """The rows behind a figure of the organisation, or of a workload. Raises NoSuchFigure, and
    Gone when a sealed report's evidence is not there."""
    holder = _holder(stand, figure, slug)
    files = files_of(stand)
    found = Behind(figure, slug, holder[figure], formulas.of(figure, holder))
    kinds = kinds_of(figure)
    if MONEY in kinds:
        _money(found, files, stand, holder)
    if TOKENS in kinds:
        _series(found, files, stand, slug, series)
    return found


def _holder(stand: Standing, figure: str, slug: str) -> Mapping[str, Any]:
    holder: Mapping[str, Any] | None = stand.statement["figures"]
    if slug:
        known = {w["slug"]: w["figures"] for w in stand.statement["workloads"]}
        holder = known.get(slug)
    if holder is None or figure not in holder:
        raise NoSuchFigure(f"{figure[:60]} of {slug[:60] or 'the organisation'}")
    return holder


def files_of(stand: Standing) -> Mapping[str, bytes]:
    """The evidence of a sealed report; of an open one, the rows as of its closing."""
    if stand.seal is not None:
        return sealed_files(stand.seal)
    return rows_behind(stand.report, stand.statement) or {}


def rows(files: Mapping[str, bytes], name: str) -> list[Row]:
    """The rows of one table."""
    text = files.get(f"ledgers/{name}.csv", b"").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _money(
    found: Behind, files: Mapping[str, bytes], stand: Standing, holder: Mapping[str, Any]
) -> None:
    """The charges of the figure's cost with what of each stands in it; where that does not add up
    to the cost (rows of an earlier version), the charges whole."""
    charges, slug = rows(files, "charges"), found.workload
    cost = formulas.cost_of(found.figure)
    slugs = {slug} if slug else set(workload_behind.counting(stand.statement))
    if cost == formulas.WEEK and not slug:
        held = money_behind.counted(stand.statement, charges)
        held = [one for one in held if one.currency == stand.statement["currency"]]
    else:
        held = workload_behind.counted_of(
            stand.statement,
            charges,
            rows(files, "shared_keys"),
            slugs,
            whole_week=cost == formulas.WEEK,
        )
    total = add([one.amount for one in held])
    if holder.get(cost) is None or total != Decimal(holder[cost]):
        everyone = {w["slug"] for w in stand.statement["workloads"]}
        _charges(found, charges, {slug} if slug else everyone, whole=not slug)
        return
    _counted(found, held)
    found.parts_sum = money_behind.in_words({stand.statement["currency"]: total})
    found.parts_of = cost


def _counted(found: Behind, held: Sequence[money_behind.Counted]) -> None:
    found.charges_count = len(held)
    found.charges = [
        _shown(one.row) | {"part": f"{plain(one.amount)} {one.currency}"}
        for one in held[:MOST_ROWS]
    ]
    found.converted = any(one.row.get("rate_day") for one in held)


def _charges(found: Behind, charges: Iterable[Row], slugs: set[str], *, whole: bool) -> None:
    """Charges of the workloads, and the shared ones that are split over them."""
    mine = [
        row
        for row in charges
        if whole or row["target"] in slugs or (row["place"] == SHARED and row["target"])
    ]
    found.charges_count = len(mine)
    sums = money_behind.summed((r["currency"], Decimal(r["effective"] or 0)) for r in mine)
    found.charges_sum = money_behind.in_words(sums)
    found.charges = [_shown(row) for row in mine[:MOST_ROWS]]
    found.converted = any(row.get("rate_day") for row in mine)


def _shown(row: Mapping[str, Any]) -> Row:
    return {**row, "summed": row.get(KEPT_SUM, "")}


def _series(
    found: Behind, files: Mapping[str, bytes], stand: Standing, slug: str, series: str
) -> None:
    known = {row["series"]: row for row in rows(files, "series")}
    places = placed(files, known.values(), "token_hours") if slug else {}
    sums: dict[str, int] = {}
    hours: list[Row] = []
    for row in rows(files, "token_hours"):
        sums[row["series"]] = sums.get(row["series"], 0) + int(row["tokens"])
        if series and row["series"] == series:
            hours.append(row)
    found.hours = hours
    found.series_name = _name(known[series]) if series in known else ""
    told = [
        {"number": number, "name": _name(row), "role": row["role"], "tokens": sums.get(number, 0)}
        for number, row in known.items()
        if not slug or slug in places.get(number, ())
    ]
    roles = ROLES.get(found.figure, ())
    found.series = [row for row in told if row["role"] in roles] or told


def placed(files: Mapping[str, bytes], series: Iterable[Row], hours: str) -> dict[str, set[str]]:
    """The workloads that the rules give each of these series to in the hours of a table, by the
    second computation's rules."""
    labels = {row["series"]: json.loads(row["labels"]) for row in series}
    rules = verify.Rules(verify.Pack(dict(files)).table("rules"), "series")
    found: dict[str, set[str]] = {}
    for row in rows(files, hours):
        if row["series"] in labels:
            place = rules.place(labels[row["series"]], verify.instant(row["hour"]))
            if place[0] == WORKLOAD:
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
