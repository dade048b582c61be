"""Which GPUs a charge line is for: instance shapes, part numbers and words of descriptions.

The shapes are dated, sourced data (`data/gpu_shapes.csv`); counts may be fractions of a GPU. A line
that looks like GPU time and matches nothing is called `unrecognised`, for a person to look at.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

UNRECOGNISED: Final = "unrecognised"

_DATA: Final = Path(__file__).parent / "data"
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """One instance shape. `memory_bytes` is per GPU (of a fraction: the slice), None if unknown.

    `memory_kind` tells `api` figures (what the provider's interface reports) from `nominal` ones
    (the gigabytes it is sold with).
    """

    provider: str
    instance_type: str
    gpu_model: str
    gpu_count: Decimal
    memory_bytes: int | None
    memory_kind: str
    source: str
    as_of: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a line says of its GPUs; each part is None where the line does not say it."""

    instance_type: str | None
    model: str | None
    count: Decimal | None


_SIZE: Final = r"(?:\d*xlarge|large|medium|small|micro|nano|metal(?:-\d+xl)?)"
_EC2: Final = re.compile(rf"(?<![\w.-])(?:ml\.)?([a-z][a-z0-9-]*\.{_SIZE})(?![A-Za-z0-9])", re.I)
_EC2_GPU: Final = re.compile(rf"(?:p\d|g\d|gr\d|trn\d|inf\d|dl\d)[a-z0-9-]*\.{_SIZE}", re.I)
_AZURE: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:Standard_)?"
    r"(N[CDGV]\d+[a-z]*(?:[_ ](?:[A-Z]+\d+X?))?[_ ]v\d+|NC(?:6|12|24))(?![A-Za-z0-9])"
)
_GCP: Final = re.compile(
    r"(?<![\w.-])((?:a\d+x?-(?:high|mega|ultra|max|edge)gpu-\d+g)|(?:g[24]-standard-\d+))(?![\w-])",
    re.I,
)
_ULTRA: Final = re.compile(r"(?<![\w.-])(u-p\d+[a-z]*-[a-z]+\d+x\d+)(?![\w-])", re.I)
_OCI: Final = re.compile(r"(?<![\w.-])((?:BM|VM)\.GPU[\w.-]*\w)", re.I)
_PART: Final = re.compile(r"(?<![\w-])(B\d{5,6})(?![\w-])")

# Longest first: GB200 before B200, A10G before A10, L40S before L4.
SURE: Final = [
    "GB300",
    "GB200",
    "GH200",
    "B300",
    "B200",
    "H200",
    "H100",
    "A100",
    "A10G",
    "L40S",
    "MI300X",
    "MI325X",
    "MI355X",
    "MI250X",
    "V100",
    "P100",
]
SHORT: Final = [
    "L40",
    "L4",
    "T4G",
    "T4",
    "A10",
    "A40",
    "A30",
    "A16",
    "A2",
    "P4",
    "P40",
    "K80",
    "H20",
    "H800",
    "A800",
]
_WORDY: Final = {
    "RTX PRO 6000": r"RTX\s+PRO\s+6000|RTX\s+6000\s+96\s?GB",
    "RTX PRO 4500": r"RTX\s+PRO\s+4500",
    "RTX 6000 Ada": r"RTX\s+6000\s+Ada",
    "RTX A6000": r"(?:RTX\s+)?A6000",
    "RTX 4090": r"RTX\s+4090",
    "RTX 5090": r"RTX\s+5090",
    "Radeon Pro V520": r"(?:Radeon\s+Pro\s+)?V520",
    "Radeon Pro V620": r"(?:Radeon\s+Pro\s+)?V620",
}
_WORD_MODELS: Final = tuple(
    (name, re.compile(rf"(?<![A-Za-z0-9])(?:{p})(?![A-Za-z0-9])", re.I))
    for name, p in _WORDY.items()
)
_ANY_RTX: Final = re.compile(r"(?<![A-Za-z0-9])RTX[\s_-]*(A?\d{4})(?![A-Za-z0-9])", re.I)
# A model begins a word or follows a count (`8xH100`), and may carry how it is built (`h100ib`).
BUILT: Final = "ib|sxm[0-9]?|pcie|nvl|hbm[0-9]?e?"
_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=[0-9][x×]))"
_ENDS: Final = rf"(?:{BUILT})?(?![A-Za-z0-9])"
_SURE_MODEL: Final = re.compile(rf"{_BEGINS}({'|'.join(SURE)}){_ENDS}", re.I)
_SHORT_MODEL: Final = re.compile(rf"{_BEGINS}({'|'.join(SHORT)})(?![A-Za-z0-9])")
_COUNTED_MODEL: Final = re.compile(
    rf"(?<![A-Za-z0-9.])[0-9]{{1,2}}x({'|'.join(SHORT)}){_ENDS}", re.I
)
_LOOKS_GPU: Final = re.compile(
    r"(?<![A-Za-z0-9])v?GPUs?(?![A-Za-z])|\b(NVIDIA|Tesla|Instinct|Trainium\d?|Inferentia\d?)\b",
    re.I,
)
_NO_GPU: Final = re.compile(r"\b(?:non|no|without)[ -]+GPUs?\b", re.I)
_GPU_WORD: Final = re.compile(r"(?<![A-Za-z0-9])GPUs?(?![A-Za-z0-9])", re.I)
_TIMES: Final = re.compile(
    r"(?<![0-9.])([0-9]{1,3})\s?[x×][\s_]?(?=[A-Z])|\bx\s?([0-9]{1,3})\b", re.I
)
_HOST_PARTS: Final = {
    "a2": "A100",
    "a3": "H100",
    "a3plus": "H100",
    "a3mega": "H100",
    "a3ultra": "H200",
    "a4": "B200",
    "a4x": "GB200",
    "g2": "L4",
    "g4": "RTX PRO 6000",
}
# Every A and G family of Google's is of machines with GPUs, those not known yet too.
_HOST_PART: Final = re.compile(r"\b([AG]\d[A-Za-z]*)\s+Instance\s+(?:Core|Ram)\b", re.I)
# Billed hours of a processor's cores or memory, of any machine: what it is called tells no GPU.
_ANY_HOST_PART: Final = re.compile(r"\bInstance\s+(?:Core|Ram)\b", re.I)
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
# Billed hours of a machine; what else names its type (EBS-optimised, credits) is not GPU time.
_MACHINE_HOURS: Final = re.compile(
    r"(?:^|-)(?:BoxUsage|SpotUsage|HostBoxUsage|HostUsage|DedicatedUsage|UnusedDed|UnusedBox|"
    r"HeavyUsage|Reservation|DedicatedRes|UnusedReservation|CapacityBlock|Host|Train|Notebk|Tsform|"
    r"AsyncInf|Cluster|Processing)"
    r"(?:\.[\w-]+)?:",
    re.I,
)
_BESIDE_MACHINES: Final = re.compile(
    r"(?:^|-)(?:EBS\w*|CPUCredits|ElasticIP|DataTransfer[\w-]*|(?:EMR|ElasticMapReduce)[\w-]*)"
    r"(?:\.[\w-]+)?:",
    re.I,
)
# Services that bill a fee by the hour of a machine whose own hours stand on another line.
_BESIDE_SERVICES: Final = re.compile(r"\b(?:EMR|(?:E-|Elastic\s*)Map\s*Reduce)\b", re.I)


@cache
def catalogue() -> tuple[Shape, ...]:
    """Every shape of the data file, in its order."""
    with (_DATA / "gpu_shapes.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(
            Shape(
                row["provider"],
                row["shape"],
                row["gpu_model"],
                Decimal(row["gpu_count"]),
                int(row["memory_mib_per_gpu"]) * _MIB if row["memory_mib_per_gpu"] else None,
                row["memory_kind"],
                row["source"],
                row["as_of"],
            )
            for row in csv.DictReader(stream)
        )


@cache
def _shapes() -> dict[str, Shape]:
    return {shape.instance_type.lower(): shape for shape in catalogue()}


@cache
def _parts() -> dict[str, str]:
    with (_DATA / "gpu_parts.csv").open(encoding="utf-8", newline="") as stream:
        return {row["part"]: row["gpu_model"] for row in csv.DictReader(stream)}


def _names(text: str) -> Iterable[str]:
    """Everything in the text that is written like an instance type, providers' own spelling."""
    for pattern in (_EC2, _GCP, _OCI, _ULTRA):
        yield from (found.group(1) for found in pattern.finditer(text))
    yield from (found.group(1).replace(" ", "_") for found in _AZURE.finditer(text))


@lru_cache(maxsize=1 << 16)
def shape_of(text: str) -> Shape | None:
    """The shape a text names as a whole word, as `EUW1-BoxUsage:p5.48xlarge` does; else None."""
    shapes = _shapes()
    return next((shapes[name.lower()] for name in _names(text) if name.lower() in shapes), None)


@lru_cache(maxsize=1 << 16)
def instance_type_of(text: str) -> str | None:
    """The first instance type written in a text, with or without GPUs; None when there is none."""
    shape = shape_of(text)
    return shape.instance_type if shape else next(iter(_names(text)), None)


@lru_cache(maxsize=1 << 16)
def _words(text: str) -> Gpu | None:
    """What the words of a description say: a model, and a count when they tell one.

    The cores and memory of a GPU machine, billed beside its GPUs, belong to the model with no GPU
    of their own, so that GPU-hours are not counted twice.
    """
    host = _HOST_PART.search(text)
    if host:
        model = _HOST_PARTS.get(host.group(1).lower())
        return Gpu(None, model, Decimal(0)) if model else Gpu(None, UNRECOGNISED, None)
    looks = bool(_LOOKS_GPU.search(_NO_GPU.sub("", text)))
    model = _model(text, looks)
    names_machine = any(map(_is_gpu_name, _names(text)))
    if model is None and not looks and not names_machine:
        return None
    if model is None:
        return Gpu(None, UNRECOGNISED, None)
    times = _TIMES.search(text)
    if times:
        return Gpu(None, model, Decimal(times.group(1) or times.group(2)))
    by_the_gpu = _GPU_WORD.search(text) and not names_machine
    return Gpu(None, model, Decimal(1) if by_the_gpu else None)


def _model(text: str, looks: bool) -> str | None:
    for name, pattern in _WORD_MODELS:
        if pattern.search(text):
            return name
    found = _SURE_MODEL.search(text) or _COUNTED_MODEL.search(text)
    found = found or (_SHORT_MODEL.search(text) if looks else None)
    if found:
        return found.group(1).upper()
    card = _ANY_RTX.search(text)
    return f"RTX {card.group(1).upper()}" if card else None


def _is_gpu_name(name: str) -> bool:
    return bool(_EC2_GPU.fullmatch(name) or not _EC2.fullmatch(name))


def gpu_of(
    instance_type: str | None,
    usage_type: str | None,
    texts: Iterable[str | None],
    parts: Iterable[str | None] = (),
    *,
    names: Iterable[str | None] = (),
    called: str | None = None,
    units: Iterable[str | None] = (),
    services: Iterable[str | None] = (),
) -> Gpu | None:
    """The GPUs of a charge line, or None when nothing in it looks like GPU time.

    `instance_type` is what the line states; `usage_type` AWS's meter (`BoxUsage:…`); `texts` the
    descriptions in falling order of trust; `parts` where part numbers stand; `names` what price
    lists call things, asked only when nothing before tells a machine; `called` what people call a
    resource, asked last: it makes a line unrecognised, and tells a model only where `units`, what
    is counted, are of GPUs (`GPU-Hours`). A usage type that stands beside machine hours
    (`EBSOptimized:p3.2xlarge`), or one of `services` that does (Elastic MapReduce), is no GPU time,
    whatever machine it names; a usage type that is not known and names a GPU machine is
    unrecognised.
    """
    if _is_beside(usage_type, services):
        return None
    if usage_type and ":" in usage_type and not _MACHINE_HOURS.search(usage_type):
        return _of_unknown_meter(instance_type, usage_type)
    stated = [text for text in (instance_type, usage_type, *texts) if text]
    told = _told(stated, parts)
    by_the_gpu = any(_GPU_WORD.search(unit) for unit in units if unit)
    if (told is None or told.model == UNRECOGNISED) and not any(map(_states_machine, stated)):
        told = _better(told, _told(_without_ids(names), (), by_the_gpu))
        told = _guessed(told, called, by_the_gpu)
    if not by_the_gpu:
        return told
    if told is None:
        return Gpu(None, UNRECOGNISED, Decimal(1))
    return Gpu(told.instance_type, told.model, told.count or Decimal(1))


def _is_beside(usage_type: str | None, services: Iterable[str | None]) -> bool:
    meter = usage_type is not None and bool(_BESIDE_MACHINES.search(usage_type))
    return meter or any(_BESIDE_SERVICES.search(service) for service in services if service)


def _states_machine(text: str) -> bool:
    return instance_type_of(text) is not None or bool(_ANY_HOST_PART.search(text))


def _without_ids(names: Iterable[str | None]) -> list[str]:
    return [_UUID.sub("", name) for name in names if name]


def _better(told: Gpu | None, other: Gpu | None) -> Gpu | None:
    """The other, where it tells more than the first."""
    return other if other and (told is None or other.model != UNRECOGNISED) else told


def _guessed(told: Gpu | None, called: str | None, by_the_gpu: bool) -> Gpu | None:
    """With what a resource is called: a fee, a log or a disk of a machine is called like it."""
    if told is not None and told.model != UNRECOGNISED:
        return told
    guess = _told(_without_ids([called]), (), by_the_gpu)
    if by_the_gpu or guess is None:
        return _better(told, guess)
    return told or Gpu(guess.instance_type, UNRECOGNISED, None)


def _told(
    texts: Iterable[str], parts: Iterable[str | None], by_the_gpu: bool = False
) -> Gpu | None:
    """GPUs by texts in falling order of trust: a shape first, part numbers, then words."""
    texts = list(texts)
    for text in texts:
        shape = shape_of(text)
        if shape:
            return Gpu(shape.instance_type, shape.gpu_model, shape.gpu_count)
    for text in filter(None, parts):
        found = _PART.search(text)
        if found and found.group(1) in _parts():
            return Gpu(None, _parts()[found.group(1)], Decimal(1))
    said = [gpu for gpu in (_words(f"{t} GPU" if by_the_gpu else t) for t in texts) if gpu]
    return next((gpu for gpu in said if gpu.model != UNRECOGNISED), said[0] if said else None)


def _of_unknown_meter(instance_type: str | None, usage_type: str) -> Gpu | None:
    """A meter that is not known to be machine hours: to be looked at when it names a GPU machine."""
    for text in filter(None, (usage_type, instance_type)):
        if any(map(_is_gpu_name, _names(text))):
            shape = shape_of(text)
            return Gpu(shape.instance_type if shape else None, UNRECOGNISED, None)
    return None
