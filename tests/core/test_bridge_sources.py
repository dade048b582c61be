"""The bridge compares GPU-hours of one source: a new exporter is no change of efficiency (§7)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from finops.core.comparing import bridge_value


def week(name: str, *, hours: str, source: str, billed: str = "100") -> dict[str, Any]:
    group = {
        "workload": "chat",
        "gpu_model": "H100",
        "cost": "200",
        "gpu_hours": hours,
        "gpu_hours_source": source,
        "billed_gpu_hours": billed,
        "tokens": 50_000_000,
        "active_hours": 100,
        "hours": 168,
    }
    side = {"cost": "200", "tokens": 50_000_000, "groups": [group]}
    return {"currency": "USD", "period": {"week": name}, "bridge_groups": side}


def test_two_sources_are_compared_by_the_billed_hours() -> None:
    """The same cost, tokens and billed hours in both weeks: nothing changed."""
    before = week("2026-W46", hours="100", source="shapes")
    now = week("2026-W47", hours="80", source="devices")
    found = bridge_value(before, now)
    assert found is not None
    assert [Decimal(found[name]) for name in ("price", "efficiency", "mix", "total")] == [0] * 4


def test_one_source_is_compared_by_its_own_hours() -> None:
    """4 USD a million tokens before and after; the hours fell from 100 to 80, so an hour costs
    2.50 instead of 2.00 USD and gives a quarter more tokens: +1.00 and −1.00."""
    before = week("2026-W46", hours="100", source="devices")
    now = week("2026-W47", hours="80", source="devices")
    found = bridge_value(before, now)
    assert found is not None
    assert (Decimal(found["price"]), Decimal(found["efficiency"])) == (1, -1)
    assert Decimal(found["total"]) == 0
