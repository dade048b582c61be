"""From a role to PromQL: the names an engine has for it, newest first, older ones as fallback.

A name with a lower rank wins where a target exports both (vLLM 0.9.2 to 0.10.2 did): `or` leaves
out the right side's series whose labels the left side has too.
"""

from __future__ import annotations

from typing import Final

from finops.sources.engine_roles import Role
from finops.sources.engines import ROLES

COPIES: Final = "pid, tp_rank, pp_rank"
"""Labels of copies of one figure: API processes (vLLM to 0.11.0) and ranks that share a pool."""
TARGET: Final = "cluster, job, instance, model_name, engine"
"""What names one engine in a join; labels that an engine does not have match as empty."""
RATE: Final = "5m"


def stacks(role: str) -> list[str]:
    """The engines that have a metric of this role, sorted."""
    return sorted({found.engine for found in ROLES.values() if _is(found, role)})


def names(role: str, stack: str) -> list[str]:
    """The stack's metrics of this role, the one that counts first; names through Ray last."""
    found = [name for name, of in ROLES.items() if _is(of, role) and of.engine == stack]
    return sorted(found, key=lambda name: (name.startswith("ray_"), ROLES[name].alias_rank))


def selected(name: str, more: str = "") -> str:
    """The metric with the matchers that leave out what is no engine's figure.

    A router repeats vLLM's names with `server` and without `model_name` (see `engines.role_of`).
    """
    of = ROLES[name]
    matchers = [more] if more else []
    if of.label is not None:
        values = "|".join(value or ".+" for value in of.values)
        matchers.append(f'{of.label}=~"{values}"')
    elif "vllm" in name and of.name != "cache_config":
        matchers.append('model_name!=""')
    return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def reading(role: str, stack: str) -> str:
    """A gauge of a stack in the role's unit, one series an engine."""
    return f"max without ({COPIES}) (\n  {readings(role, stack)}\n)"


def readings(role: str, stack: str) -> str:
    """A gauge of a stack in the role's unit, every series of it."""
    return _or([_scaled(name) for name in names(role, stack)])


def moved(role: str, stack: str, function: str = "rate", window: str = RATE) -> str:
    """How a counter of a stack moved, one series an engine. For screens and alerts: `rate` and
    `increase` extrapolate and see no hidden reset; the ledger reads raw samples (method §2.1)."""
    parts = [f"{function}({selected(name)}[{window}])" for name in names(role, stack)]
    return f"max without ({COPIES}) (\n  {_or(parts)}\n)"


def any_of(role: str) -> str:
    """The series of this role of every engine, as they are."""
    return _or([selected(name) for stack in stacks(role) for name in names(role, stack)])


def _is(of: Role, role: str) -> bool:
    return of.name == role and of.layer in ("engine", "target")


def _scaled(name: str) -> str:
    scale = ROLES[name].scale
    return selected(name) if scale == 1 else f"{selected(name)} * {scale}"


def _or(parts: list[str]) -> str:
    return "\n  or ".join(parts)
