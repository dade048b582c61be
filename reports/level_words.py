"""Service levels in words for screen and paper: shares as intervals, verdicts, good tokens (§5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from reports import figures

MEASURES = {"first_token": "first token", "inter_token": "between tokens"}
TONES = {"met": "ok", "missed": "rejected", "undecided": "late"}
VERDICTS = {"met": "kept", "missed": "missed", "undecided": "cannot be told"}
NOT_COUNTED = "made before service levels were counted"


def share(row: Mapping[str, Any] | None) -> str:
    """A share in time: one figure where its bounds are the same as printed, else from … to."""
    if not row or row.get("share_lower") is None:
        return figures.NOT_AVAILABLE
    low, high = figures.coverage(row["share_lower"]), figures.coverage(row["share_upper"])
    return low if low == high else f"{low} to {high}"


def price(row: Mapping[str, Any] | None) -> str:
    """What a million good tokens cost, as an interval; open above where perhaps none was good."""
    if not row or row.get("cost_per_million_lower") is None:
        return figures.NOT_AVAILABLE
    low = figures.price(row["cost_per_million_lower"])
    if row.get("cost_per_million_upper") is None:
        return f"at least {low}"
    high = figures.price(row["cost_per_million_upper"])
    return low if low == high else f"{low} to {high}"


def objective(row: Mapping[str, Any] | None) -> str:
    """An objective in a sentence without its end: what has to come in which time, how often."""
    if not row:
        return ""
    parts = []
    if seconds := row.get("first_token_seconds"):
        parts.append(f"first token within {seconds} s")
    if seconds := row.get("inter_token_seconds"):
        parts.append(f"{seconds} s between tokens")
    target = f"{Decimal(row['target']) * 100:f}"
    target = target.rstrip("0").rstrip(".") if "." in target else target
    return f"{' and '.join(parts)}, for {target}{figures.THIN}%"


def level(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A workload's row as the tables show it; None for training."""
    if row is None:
        return None
    reasons = row.get("reasons") or {}
    good = row.get("goodput")
    verdict = row.get("verdict")
    return {
        "workload": row["workload"],
        "objective": objective(row.get("objective")),
        "changed": row.get("objective_changed"),
        "first_token": share(row.get("first_token")),
        "inter_token": share(row.get("inter_token")),
        "in_time": share(good) if good else _in_time(row),
        "low": _ends(good or _only(row))[0],
        "high": _ends(good or _only(row))[1],
        "verdict": VERDICTS.get(verdict or "", ""),
        "tone": TONES.get(verdict or "", ""),
        "tokens": _tokens(good),
        "price": price(good),
        "reason": "; ".join(dict.fromkeys(reasons.values())),
    }


def _in_time(row: Mapping[str, Any]) -> str:
    """Without good tokens: the measures that are known, each with its name."""
    if one := _only(row):
        return share(one)
    known = [(word, row.get(name)) for name, word in MEASURES.items() if row.get(name)]
    return ", ".join(f"{word} {share(one)}" for word, one in known) or figures.NOT_AVAILABLE


def _only(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one measure that is known; None where there are two or none."""
    known = [row[name] for name in MEASURES if row.get(name)]
    return known[0] if len(known) == 1 else None


def _ends(row: Mapping[str, Any] | None) -> tuple[str, str]:
    """A share for narrow columns: the lower figure, and the upper one where it differs."""
    low, _, high = share(row).partition(" to ")
    return low, high


def _tokens(good: Mapping[str, Any] | None) -> str:
    if not good:
        return figures.NOT_AVAILABLE
    low, high = figures.short(good["tokens_lower"]), figures.short(good["tokens_upper"])
    return low if low == high else f"{low} to {high}"


def levels(statement: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every workload's row in words, by slug."""
    rows = statement.get("service_levels") or []
    return {row["workload"]: shown for row in rows if (shown := level(row)) is not None}


def beside_the_cost(statement: Mapping[str, Any]) -> str:
    """What stands beside the organisation's cost per token: the service it was given with."""
    found = statement.get("service_level")
    if found is None:
        return f"In time: n/a, {NOT_COUNTED}"
    if not found["with_objective"]:
        return "In time: n/a, no service level objective is recorded"
    parts = [f"{word} {share(found[name])}" for name, word in MEASURES.items() if found[name]]
    text = "In time: " + (", ".join(parts) or "n/a, no engine tells it")
    if found["with_objective"] < found["workloads"]:
        text += f" (of {found['with_objective']} of {found['workloads']} workloads)"
    if found["goodput"]:
        text += f"; a million tokens in time: {price(found['goodput'])} {statement['currency']}"
    return text


def message(statement: Mapping[str, Any]) -> str:
    """The section's sentence: who kept the objective and what a token in time cost."""
    found = statement.get("service_level")
    if not found or not found["with_objective"]:
        return ""
    judged = found["met"] + found["missed"] + found["undecided"]
    text = f"{found['met']} of {judged} workloads kept their objective"
    if found["missed"]:
        missed = _missed(statement.get("service_levels") or [])
        text += f"; {missed} missed it"
    good = found["goodput"]
    if good:
        plain = figures.price(statement["figures"].get("cost_per_million_tokens"))
        text += (
            f". Counting only tokens that came in time, a million cost {price(good)} "
            f"{statement['currency']} instead of {plain}"
        )
    return text + "."


def _missed(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [row["workload"] for row in rows if row.get("verdict") == "missed"]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
