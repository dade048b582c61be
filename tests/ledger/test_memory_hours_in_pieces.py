"""Memory hours are the same whether readings come at once or hour by hour (method §8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from finops.ledger.models import CacheHour, DeviceHour
from tests.ledger import gpu_fleet
from tests.ledger.doors import ingested
from tests.ledger.gpu_fleet import Fleet

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
HOURS = 27  # over a midnight
AN_HOUR = 120  # readings


def read(value: Callable[[int], Any], first: int) -> Callable[[int], Any]:
    """A gauge whose scrapes fail now and then, and which is read twice as often from noon on: the
    usual interval of the first day changes in its course."""

    def told(number: int) -> Any:
        n = first * AN_HOUR + number
        missed = 400 < n < 520 or n % 97 == 0 or 2_870 < n < 2_900 or (n < 1_300 and n % 2)
        return None if missed else value(n)

    return told


def fleet(pod: str, first: int, hours: int) -> Fleet:
    """An engine and its GPU."""
    one = Fleet(start=gpu_fleet.START + first * 3600, hours=hours, step=30)
    one.engine(pod, read(lambda n: (n * 37 % 900) / 1000, first),
               running=read(lambda n: n % 9, first))  # fmt: skip
    one.gpu(f"GPU-{pod}", read(lambda n: 70_000 + n % 300, first),
            read(lambda n: 11_080 - n % 300, first), 479, namespace="llm", pod=pod)  # fmt: skip
    return one


def known(pod: str) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The newest rows of an engine's cache and device by hour."""
    cache = CacheHour.objects.filter(series__labels__pod=pod).order_by("revision")
    device = DeviceHour.objects.filter(device=pod).order_by("revision")
    leave_out = {"id", "revision", "posted_at", "series_id", "device", "tenants"}
    return tuple(
        {
            row.hour: {
                f.attname: getattr(row, f.attname)
                for f in row._meta.concrete_fields
                if f.attname not in leave_out
            }
            for row in rows
        }
        for rows in (cache, device)
    )  # type: ignore[return-value]


def test_hour_by_hour_gives_what_the_whole_gives(tmp_path: Path) -> None:
    ingested(fleet("whole", 0, HOURS).write(tmp_path / "whole.om"))
    for hour in range(HOURS):
        (document,) = ingested(fleet("piece", hour, 1).write(tmp_path / f"{hour}.om"))
        assert document["status"] == "posted", document
    whole, pieces = known("whole"), known("piece")
    assert len(whole[0]) >= HOURS - 1 and len(whole[1]) >= HOURS - 1
    assert pieces == whole
    # The hours that nothing can change any more were not derived again and again.
    posted = CacheHour.objects.filter(series__labels__pod="piece").count()
    assert posted < 4 * HOURS
