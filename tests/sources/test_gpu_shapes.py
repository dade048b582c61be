"""GPUs of charge lines, as the lines of real exports are written."""

from decimal import Decimal

import pytest

from finops.sources.gpu_shapes import catalogue, gpu_of, instance_type_of, shape_of


def test_the_catalogue_is_dated_sourced_and_of_one_row_a_shape() -> None:
    shapes = catalogue()
    assert len({shape.instance_type.lower() for shape in shapes}) == len(shapes) >= 140
    assert all(shape.source and shape.as_of and shape.gpu_count > 0 for shape in shapes)


# Counts and memory as the providers' interfaces report them (Karpenter's instance types page).
@pytest.mark.parametrize(
    ("text", "model", "count", "mib"),
    [
        ("p5.48xlarge", "H100", "8", 81920),
        ("p5en.48xlarge", "H200", "8", 144384),
        ("p4de.24xlarge", "A100", "8", 81920),
        ("g6f.xlarge", "L4", "0.125", 2861),
        ("gr6f.4xlarge", "L4", "0.5", 11444),
        ("p6-b200.48xlarge", "B200", "8", 183359),
        ("BoxUsage:g4dn.metal", "T4", "8", 16384),
        ("EUW1-SpotUsage:g5.12xlarge", "A10G", "4", 22888),
        ("USE1-Host:ml.p5e.48xlarge", "H200", "8", 144384),
        ("$1.624 per On Demand Linux g5.4xlarge Instance Hour", "A10G", "1", 22888),
        ("Standard_NC24ads_A100_v4", "A100", "1", 81920),
        ("NC24ads A100 v4 Spot", "A100", "1", 81920),
        ("ND96isr H100 v5", "H100", "8", 81920),
        ("a2-highgpu-8g", "A100", "8", 40960),
        ("BM.GPU.A100-v2.8", "A100", "8", 81920),
    ],
)
def test_shapes_by_name(text: str, model: str, count: str, mib: int) -> None:
    shape = shape_of(text)
    assert shape is not None
    assert (shape.gpu_model, shape.gpu_count) == (model, Decimal(count))
    assert shape.memory_bytes == mib * 2**20


@pytest.mark.parametrize(
    "text",
    [
        "xg5.4xlarge",
        "g5.4xlargeplus",
        "my-p5.48xlarge",
        "m5.xlarge",
        "db.r5.xlarge",
        "a2-highgpu-16g",
    ],
)
def test_names_are_matched_as_whole_words(text: str) -> None:
    assert shape_of(text) is None


@pytest.mark.parametrize(
    ("text", "model", "count"),
    [
        ("Nvidia Tesla A100 GPU running in Americas", "A100", 1),
        ("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs", "T4", 1),
        ("Spot Preemptible Nvidia H100 80GB Mega GPU running in Iowa", "H100", 1),
        ("Nvidia H100 80GB Plus GPU running in Iowa", "H100", 1),
        ("Nvidia RTX 6000 96GB GPU", "RTX PRO 6000", 1),
        ("8x NVIDIA H200 SXM", "H200", 8),
        ("Virtual Machines NCads A100 v4 Series", "A100", None),
        ("A2 Instance Core running in Americas", "A100", 0),
        ("A3Plus Instance Ram running in Americas", "H100", 0),
        ("On Demand Linux p9.96xlarge Instance Hour", "unrecognised", None),
        ("BM.GPU.Z900.8", "unrecognised", None),
        ("GPU Compute hour", "unrecognised", None),
    ],
)
def test_words_of_descriptions(text: str, model: str, count: int | None) -> None:
    gpu = gpu_of(None, None, [text])
    assert gpu is not None
    assert (gpu.model, gpu.count) == (model, count)


@pytest.mark.parametrize(
    "text",
    [
        "$0.0116 per On Demand Linux t2.micro Instance Hour",
        "L4 load balancer hours",
        "P4 support plan",
        "CPU only, non-GPU nodes",
        "Storage",
    ],
)
def test_lines_without_gpus(text: str) -> None:
    assert gpu_of(None, None, [text]) is None


def test_an_optimised_disk_of_a_gpu_machine_is_no_gpu_time() -> None:
    assert gpu_of(None, "USE2-EBSOptimized:p3.2xlarge", ["p3.2xlarge"]) is None
    assert gpu_of(None, "USE2-BoxUsage:p3.2xlarge", []) is not None


def test_part_numbers_are_billed_by_the_gpu() -> None:
    gpu = gpu_of(None, None, ["Compute hours"], ["B98415"])
    assert gpu is not None
    assert (gpu.model, gpu.count) == ("H100", 1)


def test_instance_types_without_gpus_are_told_too() -> None:
    assert instance_type_of("USW2-BoxUsage:m6i.large") == "m6i.large"
    assert instance_type_of("data transfer out") is None
