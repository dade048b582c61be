"""The allocation statement, the control totals and the dictionary, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from finops.core.money import divide
from reports import figures

DICTIONARY = (
    ("Prompt tokens", "tokens", "what models were given to read, cached prompt tokens among them", "§2"),
    ("Generation tokens", "tokens", "what models wrote, requests aborted later among them", "§2"),
    ("Effective cost", "money", "commitments spread over their use, discounts and credits taken off", "§3"),
    ("Billed cost", "money", "what invoices ask for", "§3"),
    ("Cost per million tokens", "money per million", "effective cost ÷ (prompt + generation) × 1,000,000, in hours that have both", "§5"),
    ("Tokens per dollar", "tokens per unit of money", "the same tokens ÷ the same cost", "§5"),
    ("Cost by class", "money per million", "the cost divided between classes of tokens by the weights below", "§5"),
    ("GPU-hours", "hours", "GPUs × hours held by the workload, by the source the table names", "§4"),
    ("Coverage", "share", "time in which counters were seen ÷ time they lived", "§2.5"),
    ("Lower and upper", "as the figure", "bounds where counters may have run unseen; no bound where the figure is exact", "§2.6"),
    ("Own charges, part of shared", "money", "what rules give to a workload alone; its part of what several use", "§4"),
    ("Idle, unused commitment, unassigned", "money", "GPU time nobody held; commitments nobody used; charges that no rule reaches", "§4"),
    ("KV cache reserved, active", "bytes", "the pool set aside at the start; what live requests hold of it", "§8"),
    ("Saving", "money", "the same tokens at the baseline's price, less their cost", "§6"),
    ("Price, efficiency, mix", "money per million", "parts of the change since the week before; they add up to it", "§7"),
)  # fmt: skip


def statement_words(s: Mapping[str, Any]) -> dict[str, Any]:
    """The template's values; statements sealed before these sections existed lack them."""
    return {
        **_teams(s),
        "control": _control(s),
        "money_places": sorted({row["place"] for row in s["allocation"]} - {"workload"}),
        "dictionary": [
            {"name": name, "unit": unit, "meaning": meaning, "section": section}
            for name, unit, meaning, section in DICTIONARY
        ],
        "parameters": [
            *sorted(s.get("parameters", {}).items()),
            *(
                ("kind of weights" if name == "kind" else f"weight of {name}", value)
                for name, value in sorted(s["weights"].items())
            ),
            ("method_version", s["method_version"]),
            ("software_version", s["software_version"]),
        ],
    }


def _teams(s: Mapping[str, Any]) -> dict[str, Any]:
    told = s.get("allocation_statement")
    if not told:
        return {}
    whole = Decimal(told["effective"])
    elsewhere = [
        {
            "label": row["label"],
            "effective": row["effective"],
            "share": None if not whole else divide(Decimal(row["effective"]), whole),
        }
        for row in s["allocation"]
        if row["place"] != "workload" and row["currency"] == s["currency"]
    ]
    shown = [Decimal(row["effective"]) for row in (*told["teams"], *elsewhere)]
    return {
        "elsewhere_rows": elsewhere,
        "teams_note": " ".join(
            filter(None, (figures.footing(shown, told["effective"], 2), _across(told["teams"])))
        ),
        "teams_words": _words(told, s["currency"]),
    }


def _across(teams: Sequence[Mapping[str, Any]]) -> str:
    """Why the first two columns of some rows do not add up to the third, as printed."""
    names = [
        row["team"] or "those without a team"
        for row in teams
        if figures.footing([row["own"], row["shared"]], row["effective"], 2)
    ]
    if not names:
        return ""
    return (
        f"Across, in the row{'s' if len(names) > 1 else ''} of {', '.join(names)}, own charges and "
        "part of shared are rounded on their own as well; the exact amounts add up."
    )


def _words(told: Mapping[str, Any], currency: str) -> str:
    """The message: how much teams bear, and the largest."""
    whole, elsewhere = Decimal(told["effective"]), Decimal(told["elsewhere"])
    if not told["teams"] or not whole:
        return "No team bears any cost of this week."
    largest = max(told["teams"], key=lambda row: Decimal(row["effective"]))
    name = largest["team"] or "workloads without a team"
    share = figures.percent(divide(whole - elsewhere, whole), 1)
    return (
        f"{share} of the week's {figures.money(whole)} {currency} stands with teams; the largest "
        f"part, {figures.money(largest['effective'])} {currency}, with {name}."
    )


def _control(s: Mapping[str, Any]) -> dict[str, Any]:
    documents = s["control_totals"]["documents"]
    sums = [
        {"currency": currency, **found}
        for currency, found in sorted(s["control_totals"].get("by_currency", {}).items())
    ]
    return {
        "documents": [{**one, "sums": _sums(one)} for one in documents],
        "note": _footing(documents, sums),
        "readings": sum(one["readings"] for one in documents),
        "files": len(documents),
        "bytes": sum(one["size_bytes"] for one in documents),
        "rows": sum(one["rows_read"] for one in documents),
        "rejected": sum(one["rows_rejected"] for one in documents),
        "sums": sums,
    }


def _sums(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What of a document's charges lies in the week; statements sealed earlier do not tell it."""
    return [{"currency": c, **found} for c, found in sorted(document.get("sums", {}).items())]


def _footing(documents: Sequence[Mapping[str, Any]], sums: Sequence[Mapping[str, Any]]) -> str:
    """Why the printed sums of documents do not add up to the printed total, where they do not."""
    for total in sums:
        mine = [found for one in documents if (found := one.get("sums", {}).get(total["currency"]))]
        for basis in ("billed", "effective"):
            note = figures.footing([found[basis] for found in mine], total[basis], 2)
            if mine and note:
                return note
    return ""
