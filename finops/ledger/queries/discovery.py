"""Engines that no rule gives to a place, each with the workload one would make of them (method §4)."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from finops.core.allocation import UNASSIGNED
from finops.ledger.models import Series, TokenHour
from finops.sources.engines import ROLES, role_of

from .allocation import assign_series
from .source_hours import COUNTED

LOOKED_BACK = timedelta(days=7)
_BEGINNING = re.compile(r"[^:_]+[:_]?")
MODEL_LABELS = ("model_name", "model", "gen_ai_request_model")


def proposed_workloads(at: datetime) -> list[dict[str, Any]]:
    """Proposals as plain values, the most tokens of the last seven days first: `slug`, `model`,
    `stack`, `namespace`, `matchers` for a rule, `series`, `engines`, how many of them are read under
    several jobs or sources (`told_twice`), and `tokens`, which count for each of these."""
    hours = TokenHour.objects.filter(COUNTED, hour__gt=at - LOOKED_BACK, hour__lte=at)
    hours = hours.order_by("series_id", "hour", "-revision")
    tokens: dict[int, int] = {}
    last: dict[int, datetime] = {}
    for pk, hour, count in hours.distinct("series_id", "hour").values_list(
        "series_id", "hour", "tokens"
    ):
        tokens[pk], last[pk] = tokens.get(pk, 0) + count, hour
    assign, found = assign_series(), dict[tuple[str, str], dict[str, Any]]()
    readers: dict[tuple[str, str], dict[tuple[str, str], set[int]]] = {}
    for one in Series.objects.filter(pk__in=tokens).select_related("target__source").order_by("pk"):
        if assign(one.rule_labels, last[one.pk]).kind == UNASSIGNED:
            row = _proposal(one)
            key = row["matchers"], row["stack"]
            known = found.setdefault(key, row)
            known["series"] += 1
            known["tokens"] += tokens[one.pk]
            engine = one.target.instance, one.engine
            readers.setdefault(key, {}).setdefault(engine, set()).add(one.target_id)
    for key, engines in readers.items():
        told_twice = sum(len(targets) > 1 for targets in engines.values())
        found[key] |= {"engines": len(engines), "told_twice": told_twice}
    stacks = Counter(matchers for matchers, _ in found)
    for row in found.values():
        if stacks[row["matchers"]] > 1:  # one model on two stacks is two workloads (method §4)
            row["matchers"] += f',__name__=~"{_names_of(row["stack"])}"'
    return sorted(found.values(), key=lambda row: (-row["tokens"], row["slug"], row["stack"]))


def _names_of(engine: str) -> str:
    """A pattern of the names of an engine's metrics: they begin alike, as `vllm:` or `ray_`."""
    names = (name for name, role in ROLES.items() if role.engine == engine)
    return "|".join(sorted({f"{_BEGINNING.match(name)[0]}.*" for name in names}))  # type: ignore[index]


def _proposal(series: Series) -> dict[str, Any]:
    """A workload of the series' model and namespace, by their own labels; else of its job."""
    labels: dict[str, str] = series.labels
    model_label = next((name for name in MODEL_LABELS if labels.get(name)), None)
    model = labels[model_label] if model_label else ""
    named = [name for name in (model_label, "namespace") if name and labels.get(name)] or ["job"]
    role = role_of(series.metric, labels)
    return {
        "slug": _slug(model or labels.get("job", "")),
        "model": model,
        "stack": role.engine if role else "",
        "namespace": labels.get("namespace", ""),
        "matchers": ",".join(f'{name}="{_escaped(labels.get(name, ""))}"' for name in named),
        "series": 0,
        "tokens": 0,
    }


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _slug(text: str) -> str:
    """The last piece of a model's name as a slug."""
    name = re.sub(r"[^a-z0-9]+", "-", text.rsplit("/", 1)[-1].lower()).strip("-")
    return name[:60] or "workload"
