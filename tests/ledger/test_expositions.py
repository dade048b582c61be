"""Every exposition sample through the door: what its engine showed is what the ledger books.

Each file is one scrape of an engine, as its README describes it. Here it is read twice, twenty
seconds after the process began and once more, beside the `up` of a job that was there before.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from finops.core.period import Period, hour_of
from finops.ledger.models import Series
from tests.ledger.doors import ingested
from tests.ledger.totals import token_totals
from tests.paths import SAMPLES

METRICS = SAMPLES / "metrics"
pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.skipif(not METRICS.is_dir(), reason="needs the exposition samples"),
]

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$", re.MULTILINE)
STARTED = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)
MADE_UP = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()

V0, V1 = (510_233, 201_882), (1_843_200, 402_117)
ENGINES: dict[str, tuple[int, int] | None] = {
    "vllm-0.4.3-v0-engine.prom": V0,
    "vllm-0.8.5-v0-engine.prom": V0,
    "vllm-0.10.2-single.prom": V1,
    "vllm-0.11.0-single.prom": V1,
    "vllm-0.11.0-show-hidden-metrics.prom": V1,
    "vllm-0.12.0-single.prom": V1,
    "vllm-0.20.0-single.prom": V1,
    "vllm-0.24.0-single.prom": V1,
    "vllm-0.33.0-single.prom": V1,
    "vllm-0.33.0-asleep-level1.prom": V1,
    # The second engine stands at half of the first.
    "vllm-0.33.0-dp2.prom": (1_843_200 * 3 // 2, 402_117 + 201_055),
    # Half streamed, half not; an odd total is halved downwards.
    "sglang-0.5.23-single.prom": (1_843_200, 402_116),
    "triton-tensorrtllm-readme-excerpt.prom": None,
}
"""Prompt and generation tokens that each file shows; None where nothing in it counts tokens."""
DEVICES = {  # and whether the file tells of used memory
    "nvidia_gpu_exporter-linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__idle.metrics": True,
    "nvidia_gpu_exporter-linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load.metrics": True,
    "nvidia_gpu_exporter-linux-x86_64__nvidia-h100-mig__590.48.01__load.metrics": True,
    "amd-device-metrics-exporter-metrics_mini.txt": False,
}
NOT_SCRAPED = {"README.md", "dcgm-exporter-default-counters.csv"}


def test_no_sample_is_left_out() -> None:
    assert {path.name for path in METRICS.iterdir()} == {*ENGINES, *DEVICES, *NOT_SCRAPED}


def read_in(folder: Path, name: str) -> tuple[dict[str, object], Period]:
    """The file as two scrapes of one target, and the hours they fall into."""
    text = (METRICS / name).read_text()
    found = STARTED.search(text)
    born = float(found.group(1)) if found else MADE_UP
    at = born + 20
    lines = [f'up{{job="engines",instance="other:1"}} 1 {born - 30:.3f}']
    lines += [f'up{{job="engines",instance="e:1"}} 1 {second:.3f}' for second in (at, at + 15)]
    families: dict[str, list[str]] = {}
    for metric, inner, value in SAMPLE.findall(text):
        labels = (inner or "{}")[1:-1].rstrip(",")
        labels = ",".join(filter(None, (labels, 'job="engines"', 'instance="e:1"')))
        families.setdefault(metric, []).extend(
            f"{metric}{{{labels}}} {value} {second:.3f}" for second in (at, at + 15)
        )
    lines += [line for rows in families.values() for line in rows]
    (folder / "scrapes.om").write_text("\n".join([*lines, "# EOF", ""]))
    (document,) = ingested(folder / "scrapes.om")
    start = hour_of(datetime.fromtimestamp(at, UTC))
    return document, Period(start, start + timedelta(hours=2))


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_s_scrape_books_what_it_shows(tmp_path: Path, name: str) -> None:
    document, period = read_in(tmp_path, name)
    tokens, expected = token_totals(period), ENGINES[name]

    if expected is None:
        assert (tokens.prompt, tokens.generation) == (None, None)
        rejections = document["rejections"]
        assert isinstance(rejections, list)
        assert "nv_trt_llm_v1_metrics" in {row["column"] for row in rejections}
        return
    assert document["status"] == "posted"
    assert (tokens.prompt, tokens.generation) == expected
    assert tokens.unplaced_openings == 0
    if expected == V1:
        assert tokens.cached_prompt == 614_400


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_a_device_s_scrape_counts_no_token(tmp_path: Path, name: str) -> None:
    document, period = read_in(tmp_path, name)
    tokens = token_totals(period)
    assert document["status"] == "posted"
    assert (tokens.prompt, tokens.generation, tokens.readings) == (None, None, 0)
    assert Series.objects.filter(role="device_used_bytes").exists() == DEVICES[name]
