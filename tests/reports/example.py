"""A statement written by hand, so that the pages are tested apart from the arithmetic."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from finops.core.period import rfc3339, week_before, week_of

UTC = ZoneInfo("UTC")

TOKENS = {
    "prompt": 8_412_337_120,
    "cached_prompt": 3_118_220_004,
    "generation": 1_204_118_932,
    "delivered_prompt": 8_398_001_212,
    "delivered_generation": 1_199_870_031,
    "prompt_lower": 8_412_337_120,
    "prompt_upper": 8_413_001_000,
    "generation_lower": 1_204_118_932,
    "generation_upper": 1_204_301_110,
    "exact": False,
    "restarts": 2,
    "hidden_resets": 1,
    "readings": 161_280,
    "coverage": "0.9987",
}

FIGURES = {
    "cost_per_million_tokens": "1.832914006",
    "cost_per_million_prompt_tokens": "1.10331",
    "cost_per_million_cached_prompt_tokens": "0.110331",
    "cost_per_million_generation_tokens": "4.41324",
    "cost_per_million_lower": "1.8327",
    "cost_per_million_upper": "1.832914006",
    "usage_cost_per_million_tokens": "1.2911",
    "tokens_per_dollar": "545579.3",
    "tokens_per_dollar_change": "0.1214",
    "effective_cost": "17626.401288",
    "period_effective_cost": "17626.401288",
    "prompt_tokens": 8_412_337_120,
    "cached_prompt_tokens": 3_118_220_004,
    "generation_tokens": 1_204_118_932,
    "delivered_prompt_tokens": 8_398_001_212,
    "delivered_generation_tokens": 1_199_870_031,
    "coverage": "0.9987",
    "restarts": 2,
    "hidden_resets": 1,
    "exact": False,
    "saving_vs_baseline": "31420.118",
    "saving_lower": "31420.118",
    "saving_upper": "31424.90",
}


def workload(slug: str, model: str, **changes: Any) -> dict[str, Any]:
    """One workload's row."""
    return {
        "slug": slug,
        "model": model,
        "stack": "vllm",
        "team": "Search",
        "purpose": "inference",
        "cluster": "fra-1",
        "namespace": "serving",
        "figures": FIGURES
        | {
            "gpu_hours": "1344",
            "gpu_hours_source": "shape's GPU count × billed hours",
            "cost_own": "16012.20",
            "cost_shared": "1614.201288",
        },
        "reasons": {},
        "tokens": TOKENS,
        "baseline": None,
        "memory": None,
        "share_of_cost": "0.6",
    } | changes


def statement(week: str = "2026-W47", **changes: Any) -> dict[str, Any]:
    """A whole statement of a week."""
    period = week_of(week, UTC)
    start, end = rfc3339(period.start), rfc3339(period.end)
    before = week_before(week, UTC)
    weeks = [week_before(week, UTC, back) for back in range(11, -1, -1)]
    small = FIGURES | {
        "effective_cost": "5311.20",
        "cost_per_million_tokens": "0.4419",
        "saving_vs_baseline": None,
        "saving_lower": None,
        "saving_upper": None,
    }
    idle = dict.fromkeys(FIGURES) | {"effective_cost": "412.80", "gpu_hours": "168"}
    value: dict[str, Any] = {
        "schema": "headroom-statement-1",
        "method_version": "1.0",
        "software_version": "0.1",
        "organisation": "Nordlicht Logistics",
        "sample": True,
        "period": {"week": week, "start": start, "end": end, "zone": "UTC"},
        "currency": "USD",
        "reaches": {
            "cost": end,
            "tokens": end,
            "common_start": start,
            "common_end": end,
            "complete": True,
        },
        "provisional_months": ["2026-11"],
        "headline": f"A million tokens cost 1.83 USD in week {week}, 11 % less than the week "
        "before and 64 % less than the legacy stack.",
        "figures": FIGURES,
        "reasons": {},
        "previous": {
            "week": before,
            "figures": FIGURES
            | {"cost_per_million_tokens": "2.0554", "tokens_per_dollar": "486523.1"},
        },
        "trend": [
            {
                "week": name,
                "cost_per_million_tokens": str(2.9 - 0.097 * at)[:6],
                "tokens_per_dollar": "400000",
                "effective_cost": "17600.10",
                "tokens": 9_000_000_000 + at * 10**8,
                "first_token": None,
                "inter_token": None,
            }
            for at, name in enumerate(weeks)
        ],
        "weights": {
            "prompt": "1",
            "cached_prompt": "0.1",
            "generation": "4",
            "kind": "declared ratio",
        },
        "workloads": [
            workload("chat-70b", "Llama-3.1-70B-Instruct"),
            workload(
                "search-8b",
                "Qwen2.5-7B-Instruct",
                figures=small | {"gpu_hours": "336", "cost_own": "5311.20", "cost_shared": "0"},
                reasons={"saving_vs_baseline": "no baseline"},
                share_of_cost="0.3",
            ),
            workload(
                "pilot-13b",
                "Llama-2-13b-chat",
                figures=idle,
                reasons={name: "no tokens in the period" for name in idle if idle[name] is None},
                tokens=dict.fromkeys(TOKENS) | {"coverage": "0.0000", "readings": 0},
                share_of_cost="0.1",
            ),
        ],
        "tieout": {
            "invoice": [
                {
                    "issuer": "Example Cloud",
                    "invoice": "INV-2026-10-001",
                    "billing_period": "2026-10",
                    "currency": "USD",
                    "lines": 4311,
                    "billed": "80122.418804",
                    "issued": "80122.42",
                    "difference": "-0.001196",
                    "tolerance": "1.00",
                    "within": True,
                    "provisional": False,
                },
                {
                    "issuer": "Example Cloud",
                    "invoice": None,
                    "billing_period": "2026-11",
                    "currency": "USD",
                    "lines": 2904,
                    "billed": "54001.10",
                    "issued": None,
                    "difference": None,
                    "tolerance": None,
                    "within": None,
                    "provisional": True,
                },
            ],
            "period": {
                "rows": [
                    {"key": "billed", "label": "Billed in the period", "amount": "21001.104"},
                    {
                        "key": "purchase:sp-1",
                        "label": "Covering purchase: savings plan sp-1",
                        "amount": "-4100.00",
                    },
                    {
                        "key": "amortised:sp-1",
                        "label": "Amortised use: savings plan sp-1",
                        "amount": "6449.297288",
                    },
                ],
                "billed_side": "23350.401288",
                "effective": "23350.401288",
                "allocated": "23350.401288",
                "difference": "0",
            },
        },
        "allocation": [
            {
                "place": "workload",
                "workload": "chat-70b",
                "label": "chat-70b",
                "billed": "17000.00",
                "effective": "17626.401288",
            },
            {
                "place": "workload",
                "workload": "search-8b",
                "label": "search-8b",
                "billed": "3100.004",
                "effective": "5311.20",
            },
            {
                "place": "workload",
                "workload": "pilot-13b",
                "label": "pilot-13b",
                "billed": "401.10",
                "effective": "412.80",
            },
            {
                "place": "unassigned",
                "workload": None,
                "label": "Unassigned",
                "billed": "500.00",
                "effective": "0",
            },
        ],
        "baselines": [
            {
                "workload": "chat-70b",
                "kind": "measured",
                "basis": "delivered",
                "quality": "measured",
                "document_digests": ["ab" * 32],
                "period": {"start": "2026-05-04T00:00:00Z", "end": "2026-05-18T00:00:00Z"},
                "cost_per_million_tokens": "5.1100412",
                "age_days": 189,
                "ageing": True,
                "counterfactual": "49046.519",
                "actual": "17626.401288",
                "saving": "31420.118",
                "saving_lower": "31420.118",
                "saving_upper": "31424.90",
                "sensitivity": [
                    {"change": "-25 %", "saving": "19158.488"},
                    {"change": "-10 %", "saving": "26515.466"},
                    {"change": "+10 %", "saving": "36324.770"},
                    {"change": "+25 %", "saving": "43681.748"},
                ],
                "break_even_cost_per_million_tokens": "1.83643",
                "notes": ["The legacy stack served another model (Vicuna-33b)."],
            }
        ],
        "bridge": {
            "from": before,
            "to": week,
            "price": "0.0412",
            "efficiency": "-0.3105",
            "mix": "0.0208",
            "entered": "0",
            "left": "0",
            "cost_without_tokens": "0.026014006",
            "total": "-0.222485994",
            "active_share": "-0.2201",
            "throughput": "-0.0904",
            "rows": [],
        },
        "memory": [
            {
                "workload": "chat-70b",
                "engine": "10.0.3.7:8000/0",
                "device_total": None,
                "reserved_bytes": 61_720_000_000,
                "active_bytes_mean": 19_442_000_000,
                "unreferenced_bytes_mean": 42_278_000_000,
                "reserved_tokens": 188_352,
                "active_tokens_mean": 59_331,
                "peak_active_tokens": 151_002,
                "peak_at": start,
                "peak_running": 41,
                "contiguous_slots": 5,
                "max_model_len": 32_768,
                "observed_seconds": 604_800,
                "stale_seconds": 0,
                "preemptions": 12,
                "sentence": "The engine reserved 57.5 GiB for its KV cache and used 18.1 GiB of it "
                "on average; at the peak 41 requests ran together where a contiguous allocator "
                "could have held 5.",
            }
        ],
        "memory_hours": [
            {
                "workload": "chat-70b",
                "unit": "MiB",
                "engines": 1,
                "start": start,
                "hours": 168,
                "reserved_steps": [[0, 58_860], [57, 60_200]],
                "active": [None if 100 <= h < 104 else 9_000 + 350 * (h % 24) for h in range(168)],
                "device_used": [73_728] * 168,
                "device_total": 81_920,
            }
        ],
        "annotations": [
            {
                "at": rfc3339(period.start + timedelta(days=2, hours=9)),
                "workload": "chat-70b",
                "text": "gpu_memory_utilization 0.90 → 0.92",
                "author": "Mira Lindqvist",
                "kind": "config",
                "url": "https://tickets.example.com/OPS-811",
                "replaces": None,
            }
        ],
        "exceptions": [
            {
                "id": "1f0c2a9d77aa",
                "kind": "restart",
                "subject": "chat-70b",
                "text": "Two restarts of 10.0.3.7:8000; up to 846 058 tokens may be missing.",
                "amount": None,
                "currency": None,
            },
            {
                "id": "77b01cd3e410",
                "kind": "unassigned-charge",
                "subject": "Example Cloud",
                "text": "One charge is not assigned to any workload.",
                "amount": "500.00",
                "currency": "USD",
            },
        ],
        "control_totals": {
            "documents": [
                {
                    "sha256": "cd" * 32,
                    "name": "focus-2026-11.csv.gz",
                    "format": "focus",
                    "size_bytes": 812_331,
                    "rows_read": 2_907,
                    "charges": 2_904,
                    "readings": 0,
                    "rows_rejected": 3,
                    "received_at": end,
                }
            ],
            "charges": 2904,
            "billed": "21001.104",
            "effective": "23350.401288",
            "series": 42,
            "readings": 161_280,
            "first_reading": start,
            "last_reading": end,
        },
        "rules": [
            {
                "number": 1,
                "version": 1,
                "order": 100,
                "subject": "charge",
                "place": "workload",
                "target": "chat-70b",
                "matchers": ["tag:app = chat"],
            }
        ],
        "parameters": {},
    }
    return copy.deepcopy(value | changes)
