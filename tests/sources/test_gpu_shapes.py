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
        ("USE1-CapacityBlock:u-p6e-gb200x72", "GB200", "72", 190464),
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
        ("A3Ultra Instance Core running in Iowa", "H200", 0),
        ("A4X Instance Ram running in Iowa", "GB200", 0),
        ("G4 Instance Core running in Iowa", "RTX PRO 6000", 0),
        ("A9X Instance Core running in Iowa", "unrecognised", None),
        ("1x GH200", "GH200", 1),
        ("gpu_1x_gh200", "GH200", 1),
        ("gpu_8x_h100_sxm5", "H100", 8),
        ("8xH100", "H100", 8),
        ("1xH100", "H100", 1),
        ("8xA100 80GB node", "A100", 8),
        ("gd-8xh100ib-i128", "H100", 8),
        ("gd-8xl40s-i128", "L40S", 8),
        ("RTX 3090 pod", "RTX 3090", None),
        ("RTX A5000", "RTX A5000", None),
        ("NG8ads V620 v1", "Radeon Pro V620", None),
        ("u-p9-gb900x72", "unrecognised", None),
        ("vGPU hours", "unrecognised", None),
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
        "10x P4 support plans",
        "8 xlarge x86 machines",
        "C4A Instance Core running in Iowa",
        "N2 Instance Ram running in Iowa",
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


@pytest.mark.parametrize(
    ("usage_type", "stated", "model", "count"),
    [
        ("USE1-CapacityBlock:p5.48xlarge", "p5.48xlarge", "H100", 8),
        ("USE1-Cluster:ml.p5.48xlarge", "ml.p5.48xlarge", "H100", 8),
        ("USE1-AsyncInf:ml.g5.xlarge", "ml.g5.xlarge", "A10G", 1),
        ("USE1-Processing:ml.g5.xlarge", None, "A10G", 1),
        ("USE1-NewThing:p5.48xlarge", None, "unrecognised", None),
        ("USE1-NewThing:Fee", "p5.48xlarge", "unrecognised", None),
        ("USE1-NewThing:p9.96xlarge", None, "unrecognised", None),
    ],
)
def test_meters_of_machine_hours(
    usage_type: str, stated: str | None, model: str, count: int | None
) -> None:
    gpu = gpu_of(stated, usage_type, [])
    assert gpu is not None
    assert (gpu.model, gpu.count) == (model, count)


@pytest.mark.parametrize(
    ("usage_type", "stated"),
    [
        ("USE1-EBSOptimized:p5.48xlarge", "p5.48xlarge"),
        ("USE1-EBS:VolumeUsage.gp3", "p5.48xlarge"),
        ("USE1-CPUCredits:t3", "t3.micro"),
        ("USE1-EMR-BoxUsage:p4d.24xlarge", "p4d.24xlarge"),
        ("EMR-BoxUsage:p4d.24xlarge", None),
        ("USE1-NewThing:m5.large", "m5.large"),
        ("USE1-NewThing:Requests", None),
    ],
)
def test_meters_beside_machine_hours(usage_type: str, stated: str | None) -> None:
    assert gpu_of(stated, usage_type, [stated]) is None


@pytest.mark.parametrize("service", ["Amazon Elastic MapReduce", "ElasticMapReduce", "EMR"])
def test_a_fee_of_a_service_on_a_gpu_machine_is_no_gpu_time(service: str) -> None:
    """The machine's own hours stand on another line."""
    machine = ("p4d.24xlarge", "USE1-BoxUsage:p4d.24xlarge", ["$1 per p4d.24xlarge hour"])
    assert gpu_of(*machine, services=[None, service]) is None
    other = gpu_of(*machine, services=["Amazon Elastic Compute Cloud", "Remapreduced"])
    assert other is not None
    assert (other.model, other.count) == ("A100", 8)


def told(
    names: list[str], units: list[str], texts: tuple[str, ...] = (), called: str | None = None
) -> tuple[object, ...]:
    gpu = gpu_of(None, None, texts, names=names, units=units, called=called)
    return (gpu.model, gpu.count) if gpu else (None, None)


def test_names_and_units_are_asked_last() -> None:
    assert told(["h100-node-1"], []) == ("H100", None)
    assert told(["L40S pods"], ["GPU-Hours"]) == ("L40S", 1)
    assert told(["pods"], ["GPU-Hours"]) == ("unrecognised", 1)
    assert told(["gpu-scheduler"], ["Hours"], ("m5.large hours",)) == (None, None)
    assert told(["h100 cloud"], [], ("NVIDIA A100",)) == ("A100", None)
    assert told(["h100 cloud"], [], ("GPU time",)) == ("H100", None)
    assert told(["11111111-a100-b200-b300-000000000000"], []) == (None, None)


@pytest.mark.parametrize(
    ("called", "text", "unit", "model"),
    [
        ("aks-gpu-a100-prod", "Standard Uptime SLA", "Hours", "unrecognised"),
        ("8xh100-logs", "Data Analyzed", "GB", "unrecognised"),
        ("p5.48xlarge", "hours", "Hours", "unrecognised"),
        ("8xh100-login", "GPU time", "Hours", "unrecognised"),
        ("gpu-v100-node-1", "N1 Predefined Instance Core running in Americas", "hour", None),
        ("8xh100-login", "E2 Instance Core running in Iowa", "hour", None),
        ("8xh100-login", "N2D AMD Instance Ram running in Iowa", "GiB hour", None),
        ("web-1", "hours", "Hours", None),
    ],
)
def test_what_a_resource_is_called_counts_no_gpus(
    called: str, text: str, unit: str, model: str | None
) -> None:
    assert told([], [unit], (text,), called) == (model, None)


def test_what_a_resource_is_called_tells_the_model_of_gpu_hours() -> None:
    assert told([], ["GPU-Hours"], ("pods",), "l40s-pool") == ("L40S", 1)
    assert told(["gpu-h100-sxm"], ["Hours"], (), "8xa100-login") == ("H100", 1)
