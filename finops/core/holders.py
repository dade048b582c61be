"""Who holds a GPU's memory, where an exporter tells it by pod or by process (method §8.5).

DCGM's exporter can tell a shared GPU's memory by pod beside the device's own series, an exporter of
nvidia-smi by process. A copy of the device's figure on each pod, as older exporters make it, tells
nothing of the pods and is left out. Sums are whole numbers: bytes × milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .cache import held_spans
from .period import HOUR_MS

Kind = Literal["pods", "processes"]
Holders = Mapping[str, Any]
"""`{"pods": {"namespace/pod": byte_ms}, "processes": {name: [how many, byte_ms]}}`; a kind that
nothing tells is left out."""

# Names under which engines run, and those that an engine may run under like any other program.
ENGINE_NAMES: Final = (
    "vllm", "sglang", "text-generation", "trtllm", "tensorrt", "tritonserver", "lmdeploy", "llama-",
)  # fmt: skip
MAYBE_NAMES: Final = ("python", "ray::", "ray ")


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod or one process held of a device, in bytes. `name` is namespace/pod or the
    process's name, `number` its process id."""

    kind: Kind
    name: str
    times_ms: Sequence[int]
    values: Sequence[int]
    number: str = ""


def holders_by_hour(
    holdings: Iterable[Holding], used_byte_ms: Mapping[int, int]
) -> dict[int, Holders]:
    """Who held the device in each of its hours; `used_byte_ms` is the device's own use by hour.

    Pods that together hold more than the device uses, or each as much, are copies of one figure.
    """
    found: dict[int, dict[str, dict[tuple[str, str], int]]] = {}
    for one in holdings:
        times = [int(time_ms) for time_ms in one.times_ms]
        for (start, end), value in zip(held_spans(times), one.values, strict=True):
            _spread(found, one, start, end, int(value), used_byte_ms)
    return {hour: _told(kinds, used_byte_ms[hour]) for hour, kinds in sorted(found.items())}


def _spread(
    found: dict[int, dict[str, dict[tuple[str, str], int]]],
    one: Holding,
    start: int,
    end: int,
    value: int,
    hours: Mapping[int, int],
) -> None:
    while start < end:
        hour = start // HOUR_MS * HOUR_MS
        until = min(end, hour + HOUR_MS)
        if hour in hours:
            mine = found.setdefault(hour, {}).setdefault(one.kind, {})
            key = one.name, one.number
            mine[key] = mine.get(key, 0) + value * (until - start)
        start = until


def _told(kinds: Mapping[str, Mapping[tuple[str, str], int]], used: int) -> Holders:
    told: dict[str, Any] = {}
    pods = kinds.get("pods", {})
    if pods and sum(pods.values()) <= used and any(held != used for held in pods.values()):
        told["pods"] = {name: held for (name, _), held in sorted(pods.items())}
    for (name, _), held in sorted(kinds.get("processes", {}).items()):
        count, total = told.setdefault("processes", {}).get(name, (0, 0))
        told["processes"][name] = [count + 1, total + held]
    return told


def other_byte_ms(holders: Holders, pods: Collection[str], engines: int) -> int | None:
    """What programs other than the engines known on a device held of it; None where nobody tells.

    `pods` are the engines' own (namespace/pod), `engines` how many are known on the device. By
    process the engines' own are told apart by name; where more programs than engines have a name
    that an engine may have, nothing tells which of them is one.
    """
    if "pods" in holders:
        return sum(held for name, held in holders["pods"].items() if name not in pods)
    if "processes" not in holders:
        return None
    named = holders["processes"]
    sure = {name for name in named if _is_like(name, ENGINE_NAMES)}
    maybe = {name for name in named if name not in sure and _is_like(name, MAYBE_NAMES)}
    counts = {kind: sum(named[name][0] for name in names) for kind, names in
              (("sure", sure), ("maybe", maybe))}  # fmt: skip
    if engines and counts["sure"] >= engines:
        own = sure
    elif counts["sure"] + counts["maybe"] <= engines:
        own = sure | maybe
    else:
        return None
    return sum(total for name, (_, total) in named.items() if name not in own)


def _is_like(name: str, starts: tuple[str, ...]) -> bool:
    """Whether a process's name, or the file it was started from, begins so."""
    program = name.strip().lower()
    return any(text.startswith(starts) for text in (program, program.rsplit("/", 1)[-1]))
