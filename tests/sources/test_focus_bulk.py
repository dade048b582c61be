"""FOCUS files in bulk against the parser: the same charges, rejections and totals.

The expected sums are added with Python's Decimal from what the line-by-line parser reads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.sources import bulk_chunks, bulk_harmless, bulk_store, focus_bulk
from finops.sources.bulk_table import KeptTable
from tests.paths import SAMPLES
from tests.sources.both_ways import (  # noqa: F401 - small chunks for every test
    both_ways,
    rule,
    small_chunks,
    written,
)

THOUSAND = SAMPLES / "invoices" / "focus-1.0_anonymised_aws-azure-oci_1000rows.csv"


@pytest.mark.parametrize("packed", [False, True])
def test_plain_lines_become_sums_and_the_others_stay(tmp_path: Path, packed: bool) -> None:
    plain = [{"ResourceId": f"i-{i}", "BilledCost": f"{i}.25", "EffectiveCost": f"{i}.25"}
             for i in range(40)]  # fmt: skip
    gpu = {"ChargeDescription": "$98.32 per On Demand Linux p5.48xlarge Instance Hour"}
    month = {"ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-11-01T00:00:00Z"}
    bad = {"BilledCost": "1e400"}
    path = written(tmp_path, *plain, gpu, month, bad, packed=packed)
    whole, sums, rejections, _ = both_ways(path)
    assert [one.line for one in whole] == [42, 43]
    assert [(one.line, one.column, one.value) for one in rejections] == [
        (44, "BilledCost", "1e400")
    ]
    (one,) = sums
    assert (one.line, one.last_line, one.line_count) == (2, 41, 40)
    assert str(one.billed_cost) == "790.00"
    assert (one.service, one.sub_account, one.invoice) == ("Compute", "team-a", "INV-1")
    assert one.resource is None


@pytest.mark.skipif(not THOUSAND.exists(), reason="third-party samples are not here")
def test_a_real_file_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 100_000)
    whole, _, _, _ = both_ways(THOUSAND)
    assert len([one for one in whole if one.gpu_model]) > 0


def test_many_decimals_and_many_digits_are_added_exactly(tmp_path: Path) -> None:
    amounts = ["0.12345678901234567890123456", "123456789012345678901234567890123456", "1.81E-8",
               "-0.5", "999999999999.999999999999999999", "1000000000000", "+3", " 7 ", ".5", "5."]  # fmt: skip
    path = written(tmp_path, *({"BilledCost": a, "EffectiveCost": "1"} for a in amounts))
    _, sums, rejections, _ = both_ways(path)
    assert not rejections
    assert sums


def test_ordinary_lines_of_gpu_time_come_by_the_table_and_odd_ones_alone(tmp_path: Path) -> None:
    gpu = {"ChargeDescription": "8 H100 GPUs"}
    odd = [
        {"ResourceId": "a\\b"},
        {"ResourceId": " blank"},
        {"ServiceName": "tab\tin it"},
        {"BilledCost": "1e3"},
        {"ListCost": "0." + "1" * 19},
        {"Tags": "no map"},
        {"ChargePeriodEnd": "2026-10-05T30:00:00Z"},
        {"BillingCurrency": ""},
        {"ChargeDescription": "no GPU"},
    ]
    fine = [
        {"ResourceId": "an é in it"},
        {"SubAccountId": "NULL"},
        {"Tags": '{"a": "b\\\\c"}'},
        {"ListCost": ""},
    ]
    path = written(tmp_path, *(gpu | row for row in (*odd, *fine)))
    both_ways(path)
    records = focus_bulk.parse(path, path.name, "focus", [], 1).records
    tables = [one for one in records if isinstance(one, KeptTable)]
    assert sum(kind.total.line_count for table in tables for kind in table.kinds) == len(fine)


def test_a_sum_has_the_decimals_of_its_most_exact_line(tmp_path: Path) -> None:
    path = written(tmp_path, {"BilledCost": "1"}, {"BilledCost": "2.500"}, {"BilledCost": "3.1"})
    _, sums, _, _ = both_ways(path)
    assert sorted(str(one.billed_cost) for one in sums) == ["1", "5.600"]  # 1 = its effective cost


def test_more_sums_than_memory_is_for_come_in_several_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_store, "MOST_ROWS", 8)
    rows = [{"ServiceName": f"service {i % 7}", "BilledCost": f"{i}.5"} for i in range(160)]
    rows += [{"ChargeDescription": "H100 GPU"}]
    whole, sums, _, _ = both_ways(written(tmp_path, *rows))
    assert [one.line for one in whole] == [162]
    assert len(sums) > 7
    assert sum(one.line_count for one in sums) == 160
    assert len({one.line for one in sums}) == len(sums)


def test_kinds_that_come_late_are_summed_with_those_that_were_there(tmp_path: Path) -> None:
    """Behind chunks that brought no new one, alone and among known ones in one chunk."""
    early = [{"ServiceName": "early", "BilledCost": f"{i}.5"} for i in range(60)]
    late = [{"ServiceName": ("early", "late")[i % 2], "BilledCost": "0.25"} for i in range(60)]
    _, sums, _, _ = both_ways(written(tmp_path, *early, *late, *early))
    assert sorted((one.service, one.line_count) for one in sums) == [("early", 150), ("late", 30)]


def test_texts_known_to_be_harmless_hide_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that comes later, nor one that only a resource's name tells."""
    monkeypatch.setattr(bulk_harmless, "MOST_TEXTS", 3)
    plain = [{"ChargeDescription": f"hours {i % 2}"} for i in range(40)]
    machine = {"ChargeDescription": "$98.32 per p5.48xlarge Instance Hour"}
    named = {"ChargeDescription": "hours 1", "ResourceName": "gpu H100 of team a"}
    many = [{"ChargeDescription": f"hours {i}"} for i in range(40)]
    path = written(tmp_path, *plain, machine, *plain, named, *many, machine)
    whole, sums, _, _ = both_ways(path)
    assert {42, 124} <= {one.line for one in whole}
    assert sum(one.line_count for one in sums) + len(whole) == 123


@pytest.mark.parametrize(
    "text",
    [
        "sub_account=team-b",
        "service=~Sto.*",
        "tag:team=chat",
        "tag:team=~ch.*",
        "tag:owner=4",
        'tag:owner="true"',
        "region!=eu",
        "issuer=Cloud Ltd,category=Purchase",
        "category=Usage,service!=Compute",
        "resource=~i-1.",
        "instance_type=~m5.*",
        "gpu_model=H100",
        "currency=EUR",
        "sub_account=team-b,tag:team!=chat",
    ],
)
def test_lines_that_a_rule_reaches_stay_whole(tmp_path: Path, text: str) -> None:
    rows = [
        {
            "ResourceId": f"i-{i}",
            "SubAccountId": ("team-a", " team-b ", "NULL")[i % 3],
            "ServiceName": ("Compute", "Storage")[i % 2],
            "ChargeCategory": ("Usage", "purchase", "Tax")[i % 3],
            "BillingCurrency": ("USD", "eur")[i % 2],
            "ChargeDescription": ("m5.large hours", "x")[i % 2],
            "Tags": (
                '{"team": "chat"}',
                '"team":"chat"',
                "{'team': 'ch' 'at', 'owner': True}",
                '{"te\\u0061m": "ch\\u0061t"}',
                "{team=chat, owner=4}",
                '[{"key": "team", "value": "chat"}]',
                '{"owner": 4}',
                "",
            )[i % 8],
        }
        for i in range(48)
    ]
    both_ways(written(tmp_path, *rows), [rule(text)])
