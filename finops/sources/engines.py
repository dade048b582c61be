"""What each engine calls its figures: from a metric's name and labels to its role (method §2).

Names are matched whole, never by pattern: `vllm:tokens_total` (prompt and generation together) and
`vllm:iteration_tokens_total` (a histogram) end like the token counters and must not be added. The
table itself stands in `engine_roles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .engine_roles import (
    BY_LABEL,
    GATEWAYS,
    HOSTS,
    NEVER_COUNTED,
    NIM,
    NODES,
    OTHERS,
    RE_EXPORT,
    ROUTERS,
    SGLANG,
    VLLM,
    Role,
    through_ray,
)

__all__ = ["NEVER_COUNTED", "ROLES", "Role"]

ROLES: Final[dict[str, Role]] = {
    **VLLM,
    **through_ray(),
    **SGLANG,
    **OTHERS,
    **NIM,
    **GATEWAYS,
    **{name: roles[0] for name, roles in BY_LABEL.items()},
    **ROUTERS,
    **HOSTS,
    **NODES,
}

_CREATED: Final = "_created"
_COUNTER_ENDINGS: Final = ("_total", "_sum", "_count", "_bucket")
_ROUTER_LABEL: Final = "server"
_MODEL_LABEL: Final = "model_name"
_BOUND_ONLY: Final = frozenset({*NIM, *NODES})
"""Names that say too little without their labels: only series with the right ones are asked for."""
_EVERY_VALUE: Final = ".+"


def marked_metric(created_metric: str) -> tuple[str, ...]:
    """The counters of the table whose birth a `…_created` series tells (method §2.1).

    `vllm:prompt_tokens_created` marks `vllm:prompt_tokens_total`; a histogram's marks its
    `_sum` and `_bucket`. Empty when the name is no mark of a known counter.
    """
    if not created_metric.endswith(_CREATED):
        return ()
    base = created_metric[: -len(_CREATED)]
    names = (base + ending for ending in _COUNTER_ENDINGS)
    return tuple(name for name in names if name in ROLES and ROLES[name].kind == "counter")


def mark_of(metric: str) -> str | None:
    """The `…_created` name that would tell this counter's birth; None for what is no counter.

    The mark has the counter's labels, for a `_bucket` without `le`.
    """
    role = ROLES.get(metric)
    if role is None or role.kind != "counter":
        return None
    for ending in _COUNTER_ENDINGS:
        if metric.endswith(ending):
            return metric[: -len(ending)] + _CREATED
    return None


def role_of(metric: str, labels: Mapping[str, str] | None = None) -> Role | None:
    """The role of a series by its metric's whole name and its labels; None when not accounted.

    Without labels the name alone decides, and names that mean nothing alone have no role. A
    `…_created` series of a known counter has the role `created` of that counter's engine. A vLLM
    name with `server` and without `model_name` is a router's repetition, no engine's figure.
    """
    if metric in ROLES:
        return _of_table(metric, labels)
    marked = marked_metric(metric)
    return Role("created", "mark", ROLES[marked[0]].engine) if marked else None


def _of_table(metric: str, labels: Mapping[str, str] | None) -> Role | None:
    if labels is None:
        return None if metric in _BOUND_ONLY else ROLES[metric]
    if metric.startswith("vllm:") and _ROUTER_LABEL in labels and _MODEL_LABEL not in labels:
        return RE_EXPORT
    roles = BY_LABEL.get(metric, (ROLES[metric],))
    return next((role for role in roles if role.holds(labels)), None)


def metrics_to_collect() -> tuple[str, ...]:
    """Every name worth fetching, marks included, sorted: what a collector selects."""
    marks = {mark for metric in ROLES if (mark := mark_of(metric)) is not None}
    return tuple(sorted(set(ROLES) | marks))


def engine_of(labels: Mapping[str, str]) -> str:
    """Which engine of its target a series is of: vLLM's `engine`, SGLang's `dp_rank`; empty where
    the target has one, or the series is of all."""
    return labels.get("engine") or labels.get("dp_rank", "")


def bound_of(metric: str) -> tuple[str, str] | None:
    """The label and the pattern of its values that a collector asks this metric by; None for all.

    Of names that say too little alone (`kube_pod_container_resource_requests` holds every request
    of a cluster), and of histograms' buckets, only the series with a role are asked for.
    """
    return next(iter(bounds_of(metric)), None)


def bounds_of(metric: str) -> tuple[tuple[str, str], ...]:
    """The same where a series with a role may have one of several labels: in the order in which their
    roles are looked for."""
    own = ROLES.get(metric)
    if own is not None and own.label is not None and own.pattern is not None:
        return ((own.label, own.pattern),)
    counter = next(iter(marked_metric(metric)), metric)
    if counter not in _BOUND_ONLY or counter not in ROLES:
        return ()
    return tuple(
        (role.label, "|".join(value or _EVERY_VALUE for value in role.values))
        for role in BY_LABEL.get(counter, (ROLES[counter],))
        if role.label is not None
    )
