"""A number read elsewhere is found again in our table (method §8)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from finops.core.auditor import asked, figures_of, find, over_profile

MIB, GIB = 1 << 20, 1 << 30
# A real H100 under load, by nvidia_gpu_exporter: 20,780,679,168 of 85,520,809,984 bytes in use,
# 502,267,904 kept by the driver, 64,238,911,488 free.
H100 = {
    "total_bytes": 85_520_809_984, "driver_bytes": 502_267_904, "free_bytes": 64_238_911_488,
    "used_bytes": 20_780_679_168, "peak_used_bytes": 22_000_000_000, "weights_bytes": 14 * GIB,
    "kv_reserved_bytes": 4 * GIB, "kv_active_bytes": GIB, "graphs_bytes": GIB // 2,
    "non_torch_bytes": GIB // 2, "activation_peak_bytes": GIB,
}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "unit", "name"),
    [
        ("19818", "MiB", "in use, mean"),  # as nvidia-smi prints it
        ("81559", "MiB", "the whole card"),
        ("79.65", "GiB", "the whole card"),
        ("79.18", "GiB", "the whole card without the driver's part"),  # as CUDA and the log say
        ("85.5", "GB", "the whole card"),
        ("24.3", "%", "in use, mean"),
        ("479", "MiB", "kept by the driver"),
        ("20297", "MiB", "in use with the driver's part"),
    ],
)
def test_a_number_is_found_in_the_unit_it_was_read_in(number, unit, name):
    best = find(Decimal(number), unit, H100)[0]
    assert best.figure.name == name
    assert abs(best.difference_bytes) <= best.figure.bytes * Decimal("0.005") + MIB * 8


def test_a_number_that_is_none_of_ours_is_not_forced_on_one():
    assert find(Decimal("40000"), "MiB", H100) == []
    assert find(Decimal("50"), "%", {"used_bytes": GIB}) == []
    with pytest.raises(ValueError, match="unit must be one of"):
        find(Decimal(1), "TiB", H100)


def test_only_what_is_known_is_offered():
    assert [one.name for one in figures_of({"used_bytes": GIB})] == ["in use, mean"]


@pytest.mark.parametrize(
    ("thread", "number", "unit", "weights_mib"),
    [
        ("vllm#1512", "18506", "MiB", 15_400),  # Qwen-7B on one A10 and on each of two alike
        ("vllm#736", "18", "GB", 13_000),  # a 7B model on a 3090
        ("vllm#15204", "15982", "MiB", 2_050),  # 3B, AWQ, on a 3090
        ("vllm#15204", "15982", "MiB", 5_300),  # 7B, AWQ, on the same card: the same figure
        ("vllm#7768", "14214", "MiB", 8_000),  # InternVL2-8B on two cards, each of them
        ("vllm#10357", "38", "GB", 17_166),  # 18 GB with Hugging Face's own loop
    ],
)
def test_what_nvidia_smi_shows_of_the_threads_cards_is_the_reservation(
    thread, number, unit, weights_mib
):
    """Facts on public threads (row 35): what is shown is what the engine holds from its start,
    whatever the model; the reservation is the rest of its share of the card."""
    shown = round(Decimal(number) * {"MiB": MIB, "GB": 10**9}[unit])
    cache = shown - (weights_mib + 700) * MIB
    row = {"used_bytes": shown, "weights_bytes": weights_mib * MIB, "graphs_bytes": 300 * MIB,
           "non_torch_bytes": 400 * MIB, "kv_reserved_bytes": cache,
           "kv_active_bytes": 10 * MIB}  # fmt: skip
    names = {one.figure.name for one in find(Decimal(number), unit, row)}
    assert names == {"in use, mean", "weights, cache, graphs and context"}


def test_a_program_that_reserves_nothing_shows_the_weights_alone():
    # vllm#10357: 38 GB in vLLM and 18 GB in Hugging Face's own loop: the difference is the pool,
    # the graphs and the context, to the byte.
    row = {"used_bytes": 38 * 10**9, "weights_bytes": 18 * 10**9, "graphs_bytes": 300 * MIB,
           "non_torch_bytes": 400 * MIB, "kv_reserved_bytes": 20 * 10**9 - 700 * MIB}  # fmt: skip
    (found,) = find(Decimal(18), "GB", row)
    assert (found.figure.name, found.difference_bytes) == ("weights", 0)
    by_name = {one.name: one.bytes for one in figures_of(row)}
    rest = sum(by_name[name] for name in ("weights", "the KV cache's reservation")) + 700 * MIB
    assert rest == by_name["in use, mean"]


def test_one_definition_where_tools_disagree():  # dcgm-exporter#83: V100-16GB, USED ÷ TOTAL 0 %
    idle = {"total_bytes": 16_384 * MIB, "used_bytes": 0, "driver_bytes": 345 * MIB,
            "free_bytes": 16_039 * MIB}  # fmt: skip
    by_name = {one.name: one.bytes for one in figures_of(idle)}
    assert "in use, mean" not in by_name  # nothing is in use, and nothing is called so
    assert by_name["in use with the driver's part"] == by_name["kept by the driver"] == 345 * MIB
    assert by_name["the whole card"] == idle["free_bytes"] + 345 * MIB


def test_a_peak_over_the_profiled_activations_is_flagged():
    # Held from the start 19 GiB, profiled activations 1 GiB, peak 22.0 GB: 20.49 GiB.
    assert over_profile(H100) == 22_000_000_000 - 20 * GIB
    assert over_profile(H100 | {"peak_used_bytes": 20 * GIB}) is None
    assert over_profile(H100 | {"activation_peak_bytes": None}) is None


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("19818", "19818", "MiB"),
        ("19,818", "19818", "MiB"),
        ("19818MiB / 81559MiB", "19818", "MiB"),  # as nvidia-smi prints it
        ("81 559 MiB", "81559", "MiB"),
        ("81\u202f559", "81559", "MiB"),  # as our own pages print it
        ("79,65 GiB", "79.65", "GiB"),  # as many countries write it
        ("79.65gib", "79.65", "GiB"),
        ("24.3 %", "24.3", "%"),
        ("1,234,567.5 MB", "1234567.5", "MB"),
    ],
)
def test_a_number_is_read_as_it_stands_elsewhere(text, number, unit):
    assert asked(text, "MiB") == (Decimal(number), unit)


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "1e9", "1.2.3", "12,3,4", "٣", "9" * 21, "5 parsecs"]
)
def test_what_is_no_number_is_none(text):
    assert asked(text, "MiB") is None
