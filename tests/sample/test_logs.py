"""The sample's start-up logs: real lines, whose figures add up and match its metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from finops.core.engine_start import GIB
from finops.core.kv import kv_shape
from finops.sample import configs, logs
from finops.sample.calendar import calendar_before
from finops.sample.fleet import services
from finops.sources.engine_log import read_text
from finops.sources.model_config import read_config

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_every_engine_s_log_adds_up_and_holds_its_pool(tmp_path: Path) -> None:
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


def test_every_model_s_configuration_tells_what_its_engines_print(tmp_path: Path) -> None:
    """KV bytes of a token and the weights on a GPU, both as the logs have them."""
    calendar = calendar_before(AT, ZoneInfo("UTC"))
    paths = {path.name: path for path in configs.write(tmp_path, calendar)}
    for service in services(calendar):
        config = read_config(paths[f"{service.slug}-config.json"], service.slug)
        card = logs.CARDS[service.slug]
        shape = kv_shape(config, tensor_parallel=card.gpus)
        assert shape.bytes_per_token_per_gpu == service.kv_bytes_per_token
        assert config["_name_or_path"] == service.model
        # Buffers beside the weights: a print may be up to 50 MiB more.
        weights = Decimal(card.weights) * GIB
        assert shape.weights_bytes_per_gpu is not None
        assert -(GIB // 200) <= weights - shape.weights_bytes_per_gpu < 50 << 20
