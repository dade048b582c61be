"""What part of a whole GPU a requested resource stands for: MIG slices, time-sliced replicas, and
compute partitions of AMD's cards (§4).

A MIG slice counts by its memory, as NVIDIA's guide to MIG lists the profiles of each card; never by
an equal split. A time-sliced replica is one of so many of its GPU. What nobody tells is None: such
hours are named and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

AMD_GPU: Final = "amd_com_gpu"
WHOLE: Final = ("nvidia_com_gpu", AMD_GPU)
SHARED: Final = "_shared"
_AMD: Final = "amd_com_"
_MIG: Final = re.compile(r"(?:nvidia_com_mig_)?(\d)g[._](\d+)gb(?:[._+]me)?(?:_shared)?")
_IN_PRODUCT: Final = re.compile(r"MIG-(\dg\.\d+gb)")
_SMALL_CARD_MIB: Final = 60_000

# Profile → share of the card's memory. By card: A30; A100 40 GB; A100 and H100 80 GB; H100 94 and
# 96 GB; H200; B200. The same profile means the same share on each card but for 1g.10gb.
_PROFILES: Final[dict[str, Fraction]] = {
    profile: Fraction(part)
    for part, profiles in {
        "1/4": "1g.6gb 1g.20gb 1g.24gb 1g.35gb 1g.45gb 2g.10gb 2g.20gb 2g.24gb 2g.35gb 2g.45gb",
        "1/8": "1g.5gb 1g.10gb 1g.12gb 1g.18gb 1g.23gb",
        "1/2": "2g.12gb 3g.20gb 4g.20gb 3g.40gb 4g.40gb 3g.47gb 4g.47gb 3g.48gb 4g.48gb 3g.71gb "
               "4g.71gb 3g.90gb 4g.90gb",
        "1": "4g.24gb 7g.40gb 7g.80gb 7g.94gb 7g.96gb 7g.141gb 7g.180gb",
    }.items()
    for profile in profiles.split()
}  # fmt: skip
_ON_SMALL_CARDS: Final = {"1g.10gb": Fraction(1, 4)}
MIG_RESOURCES: Final = tuple(
    f"nvidia_com_mig_{profile.replace('.', '_')}{ending}"
    for profile in sorted(_PROFILES)
    for ending in ("", "_me", SHARED)
)
# A card has one partition in SPX mode, and in CPX one for each of its dies that compute (XCD), which
# differ by card. Documentation of AMD SMI (GPU partitioning) and of AMD's compute profiler.
_PARTITIONS: Final = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}
_DIES: Final = {"mi300a": 6, "mi300x": 8, "mi325x": 8, "mi350x": 8, "mi355x": 8}
_CARD: Final = re.compile(r"mi3\d\d[a-z]")
_PARTITION: Final = re.compile(r"([sdtqc]px)_nps\d")
PARTITION_RESOURCES: Final = tuple(
    f"amd_com_{mode}_nps{domains}" for mode in (*_PARTITIONS, "cpx") for domains in (1, 2, 4, 8)
)
RESOURCES: Final = (*WHOLE, f"{WHOLE[0]}{SHARED}", *MIG_RESOURCES, *PARTITION_RESOURCES)
"""Every resource by which a pod asks for GPUs or parts of them, as kube-state-metrics writes it."""

PARTITION_LABEL: Final = "gpu_compute_partition_type"
_PARTITIONED: Final = frozenset({"cpx", "dpx", "qpx", "tpx"})


def is_partition(labels: Mapping[str, str]) -> bool:
    """Whether a GPU is a compute partition of an AMD card, by its exporter's labels; a whole card
    is `spx`, and one that cannot be parted `none`."""
    return str(labels.get(PARTITION_LABEL, "")).lower() in _PARTITIONED


@dataclass(frozen=True, slots=True)
class Shape:
    """What the labels of a node say of its GPUs (NVIDIA's feature discovery, AMD's node labeller); None
    where silent. `partition` is the mode of all cards, like `cpx`, and `card` their model."""

    replicas: int | None = None
    memory_mib: int | None = None
    product: str = ""
    partition: str = ""
    card: str = ""


def shape_of(labels: Mapping[str, str]) -> Shape:
    """The shape that a series `kube_node_labels` tells."""
    return Shape(
        replicas=_whole(labels.get("label_nvidia_com_gpu_replicas")),
        memory_mib=_whole(labels.get("label_nvidia_com_gpu_memory")),
        product=labels.get("label_nvidia_com_gpu_product", ""),
        partition=_mode(labels.get("label_amd_com_compute_memory_partition", "")),
        card=labels.get("label_amd_com_gpu_product_name", ""),
    )


def shape_of_device(labels: Mapping[str, str]) -> Shape:
    """The shape that a device of AMD's exporter tells of its host's cards."""
    mode = str(labels.get(PARTITION_LABEL, "")).lower()
    card = f"{labels.get('card_model', '')} {labels.get('card_series', '')}"
    found = _CARD.search(card.lower())
    whole = mode == "none"  # a card that cannot be parted
    return Shape(partition="spx" if whole else mode, card=found.group() if found else "")


def _mode(text: str) -> str:
    """The compute mode in a name like `cpx_nps4`."""
    found = _PARTITION.search(text.lower())
    return found.group(1) if found else ""


def part_of_partition(mode: str, card: str) -> Fraction | None:
    """The part of a card that one of its partitions in a mode like `dpx` is; None for CPX of a card of
    which nobody tells how many dies it has."""
    parts = _PARTITIONS.get(mode.lower())
    if parts is None:
        found = _CARD.search(card.lower())
        parts = _DIES.get(found.group()) if found else None
    return Fraction(1, parts) if parts else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) else None


def part_of_gpu(resource: str, shape: Shape) -> Fraction | None:
    """The part of a whole GPU that one unit of the resource is, on a node of the shape.

    None for a time-sliced replica of unknown number, for a slice no card is known to have, and for a
    partition of a card of unknown dies.
    """
    part: Fraction | None = Fraction(1)
    if resource.startswith(_AMD):
        mode = _mode(resource) or shape.partition
        return part_of_partition(mode, shape.card) if mode else part
    if _MIG.fullmatch(resource):
        part = part_of_profile(resource, shape.memory_mib)
    elif found := _IN_PRODUCT.search(shape.product):
        part = part_of_profile(found.group(1), None)  # the memory told is the slice's own
    if shape.replicas is not None and shape.replicas > 1:
        return part and part / shape.replicas
    return None if resource.endswith(SHARED) else part


def part_of_profile(profile: str, memory_mib: int | None = None) -> Fraction | None:
    """The share of a card's memory that a MIG profile like `1g.10gb` has; None when not known.

    `memory_mib` of the whole card tells 1g.10gb of a card of 40 GB from that of a larger one, the
    more common, which is taken where nothing tells.
    """
    found = _MIG.fullmatch(profile)
    if found is None:
        return None
    name = f"{found.group(1)}g.{found.group(2)}gb"
    if memory_mib is not None and memory_mib < _SMALL_CARD_MIB and name in _ON_SMALL_CARDS:
        return _ON_SMALL_CARDS[name]
    return _PROFILES.get(name)
