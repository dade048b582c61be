"""Samples as text: seconds with `# EOF`, milliseconds without, and live scrapes refused."""

from pathlib import Path

import pytest

from finops.sources.records import Refused
from tests.paths import RECORDED
from tests.sources.reading import read, sample

OPENMETRICS = r"""# TYPE vllm:prompt_tokens counter
# HELP vllm:prompt_tokens Number of prefill tokens processed.
vllm:prompt_tokens_total{engine="0",model_name="a \"b\" \\ \n c"} 10 1795962822.604
vllm:prompt_tokens_total{engine="0",model_name="a \"b\" \\ \n c"} 1.8432e+06 1795962827.607 # {trace_id="x"} 1.0 2
vllm:prompt_tokens_created{engine="0"} 1795962800.5 1795962822.604
up 1 1795962822.604
# EOF
"""
CLASSIC = """\
{__name__="up", instance="a:8000"} 1 1795962822604
up{instance="b:8000"} 0 1795962822604
up{instance="b:8000",} NaN 1795962823604
"""


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "samples.txt"
    path.write_text(text)
    return path


def test_openmetrics_is_in_seconds(tmp_path: Path) -> None:
    got = read(saved(tmp_path, OPENMETRICS))

    first, created, up = got.series
    assert first.metric == "vllm:prompt_tokens_total"
    assert first.labels == (("engine", "0"), ("model_name", 'a "b" \\ \n c'))
    assert list(first.times_ms) == [1795962822604, 1795962827607]
    assert list(first.values) == [10, 1843200]
    assert (created.metric, list(created.values)) == ("vllm:prompt_tokens_created", [1795962800.5])
    assert (up.metric, up.labels) == ("up", ())
    assert (got.account.rows_read, got.account.version) == (4, "OpenMetrics")


def test_the_older_form_is_in_milliseconds(tmp_path: Path) -> None:
    got = read(saved(tmp_path, CLASSIC))

    assert [one.labels for one in got.series] == [
        (("instance", "a:8000"),),
        (("instance", "b:8000"),),
    ]
    assert list(got.series[1].times_ms) == [1795962822604, 1795962823604]
    assert list(got.series[0].times_ms) == [1795962822604]


def test_a_live_scrape_is_refused_with_a_hint() -> None:
    scrape = next((RECORDED / "metrics").glob("*"), None)
    path = scrape or sample("metrics/vllm-0.33.0-single.prom")
    with pytest.raises(Refused, match=r"without a timestamp.*range selector"):
        read(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("up 1 1795962822\nup 1 1795962832\n", "looks like seconds"),
        ("up 1 1795962822604\n# EOF\n", "looks like milliseconds"),
        ("up 1 1795962822\n# EOF\nup 1 1795962823\n", "line 3: text after # EOF"),
        ("up 1 1e300\n# EOF\n", "is no time"),
    ],
)
def test_times_of_the_wrong_unit_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read(saved(tmp_path, text), "openmetrics")


@pytest.mark.parametrize(
    "line",
    [
        "up{instance=} 1 1795962822",
        'up{a="1",a="2"} 1 1795962822',
        "up one 1795962822",
        "up 1_0 1795962822",
        '{instance="a"} 1 1795962822',
        "1up 1 1795962822",
        "up 1 1795962822 trailing words",
    ],
)
def test_a_bad_line_is_rejected_and_the_others_stay(tmp_path: Path, line: str) -> None:
    got = read(saved(tmp_path, f"up 1 1795962821\n{line}\nup 1 1795962823\n# EOF\n"), "openmetrics")

    assert (len(got.series), len(got.series[0].values), got.account.rows_read) == (1, 2, 3)
    assert [one.line for one in got.rejections] == [2]
