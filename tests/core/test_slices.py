"""Parts of a GPU: MIG profiles as NVIDIA's MIG guide lists them, replicas as the node's labels say."""

from __future__ import annotations

from fractions import Fraction

import pytest

from finops.core.slices import MIG_RESOURCES, Shape, part_of_gpu, part_of_profile, shape_of

# NVIDIA MIG User Guide, "Supported MIG Profiles": fraction of memory.
GUIDE = {
    24_000: {"1g.6gb": "1/4", "2g.12gb": "2/4", "4g.24gb": "1"},
    40_960: {"1g.5gb": "1/8", "1g.10gb": "1/4", "2g.10gb": "2/8", "3g.20gb": "4/8",
             "4g.20gb": "4/8", "7g.40gb": "1"},
    81_559: {"1g.10gb": "1/8", "1g.20gb": "1/4", "2g.20gb": "2/8", "3g.40gb": "4/8",
             "4g.40gb": "4/8", "7g.80gb": "1"},
    143_771: {"1g.18gb": "1/8", "1g.35gb": "1/4", "2g.35gb": "2/8", "3g.71gb": "4/8",
              "4g.71gb": "4/8", "7g.141gb": "1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("memory_mib", "profile", "part"),
    [(memory, profile, part) for memory, table in GUIDE.items() for profile, part in table.items()],
)
def test_a_profile_counts_by_its_memory(memory_mib: int, profile: str, part: str) -> None:
    resource = "nvidia_com_mig_" + profile.replace(".", "_")
    assert part_of_profile(profile, memory_mib) == Fraction(part)
    assert part_of_gpu(resource, Shape(memory_mib=memory_mib)) == Fraction(part)
    assert resource in MIG_RESOURCES


@pytest.mark.parametrize(
    ("resource", "shape", "part"),
    [
        ("nvidia_com_gpu", Shape(), "1"),
        ("amd_com_gpu", Shape(), "1"),
        # Time-slicing without and with another name; the latter says nothing without replicas.
        ("nvidia_com_gpu", Shape(replicas=4), "1/4"),
        ("nvidia_com_gpu_shared", Shape(replicas=4), "1/4"),
        ("nvidia_com_gpu_shared", Shape(), None),
        ("nvidia_com_mig_1g_10gb_shared", Shape(replicas=2, memory_mib=81_559), "1/16"),
        ("nvidia_com_mig_1g_10gb_me", Shape(), "1/8"),
        # The strategy "single": slices are asked for as whole GPUs; the product's name tells.
        ("nvidia_com_gpu", Shape(1, 9_728, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"), "1/8"),
        ("nvidia_com_mig_9g_999gb", Shape(), None),
    ],
)
def test_what_one_unit_of_a_resource_is(resource: str, shape: Shape, part: str | None) -> None:
    assert part_of_gpu(resource, shape) == (part and Fraction(part))


def test_the_labels_of_a_node_tell_its_shape() -> None:
    labels = {
        "label_nvidia_com_gpu_replicas": "4",
        "label_nvidia_com_gpu_memory": "81559",
        "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3-SHARED",
    }
    assert shape_of(labels) == Shape(4, 81_559, "NVIDIA-H100-80GB-HBM3-SHARED")
    assert shape_of({"label_nvidia_com_gpu_replicas": "none"}) == Shape()
