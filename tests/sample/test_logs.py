"""The sample's start-up logs: real lines, whose figures add up and match its metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from finops.core.engine_start import GIB
from finops.sample import logs
from finops.sample.calendar import calendar_before
from finops.sample.fleet import services
from finops.sources.engine_log import read_text

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_every_engine_s_log_adds_up_and_holds_its_pool(tmp_path: Path) -> None:
    from zoneinfo import ZoneInfo

    calendar = calendar_before(AT, ZoneInfo("UTC"))
    found = [
        start for path in logs.write(tmp_path, calendar) for start in read_text(path.read_text())
    ]
    by_model: dict[str, list] = {}
    for start in found:
        assert start.identity is not None and start.identity.holds
        assert start.failure is None and start.notes == []
        assert all(worker.activation_peak_bytes > GIB // 2 for worker in start.workers)
        by_model.setdefault(start.model or "", []).append(start)
    for service in services(calendar):
        pools = {life.pool for target in service.targets for life in target.lives}
        starts = by_model[service.model]
        assert {s.workers[0].kv_tokens for s in starts} == {pool.tokens for pool in pools}
        assert {s.utilization for s in starts} == {pool.utilization for pool in pools}
        for start in starts:
            worker = start.workers[0]
            tokens = worker.kv_tokens
            assert abs(worker.kv_bytes - tokens * service.kv_bytes_per_token) <= GIB // 200
    assert len(by_model["meta-llama/Llama-3.3-70B-Instruct"]) == 2  # two data-parallel engines
