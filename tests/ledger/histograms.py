"""Latency histograms for the small company, cut from real texts of a vLLM server.

Two whole texts of one process, as they were served after its start and at its end, become two
readings of an engine `h-MODEL` in the small company's first hour.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

from tests.ledger import small_company
from tests.ledger.doors import command, ingested
from tests.paths import RECORDED

BOOT, END = "code-3b.i1.1-startup.txt", "code-3b.i1.9-end.txt"
SAMPLE = re.compile(r"^(vllm:\S+?)\{(.*)\} (\S+)$")
BUCKET = re.compile(r'(vllm:\w+)_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$')


def text(file: str) -> str:
    """A server's own text."""
    return (RECORDED / "metrics" / file).read_text()


def told(file: str) -> dict[tuple[str, str], int]:
    """The buckets of a server's own text, by metric and bound."""
    rows = map(BUCKET.match, text(file).splitlines())
    return {(row[1], row[2]): round(float(row[3])) for row in rows if row}


def moved() -> dict[tuple[str, str], int]:
    """What each bucket counted between the two texts."""
    before = told(BOOT)
    return {key: count - before[key] for key, count in told(END).items()}


def scrapes(model: str, *at: tuple[str, datetime], without: str = "") -> str:
    """Whole texts of a server as a Prometheus of the small company would have read them."""
    samples: dict[str, list[str]] = {}
    for file, instant in at:
        for line in text(file).splitlines():
            found = SAMPLE.match(line)
            if not found or "_seconds" not in found[1] or (without and without in line):
                continue
            labels = re.sub(r'model_name="[^"]*"', f'model_name="{model}"', found[2])
            series = f'{found[1]}{{instance="h-{model}",job="vllm",{labels}}}'
            samples.setdefault(series, []).append(f"{series} {found[3]} {int(instant.timestamp())}")
    lines: list[str] = []
    for series, rows in sorted(samples.items()):
        kind = f"# TYPE {series.partition('{')[0]} unknown"
        lines += rows if kind in lines else [kind, *rows]
    return "\n".join([*lines, "# EOF", ""])


def taken_in(folder: Path, model: str = "llama", *, without: str = "") -> None:
    """Hands in the two readings of an engine of a model."""
    minute = timedelta(minutes=1)
    first, last = small_company.START + 5 * minute, small_company.START + 25 * minute
    path = folder / f"histograms-{model}.om"
    path.write_text(scrapes(model, (BOOT, first), (END, last), without=without))
    assert ingested(path)[0]["status"] == "posted"


def objective(model: str, *more: str) -> None:
    """Sets an objective: the first token within 0.6 s, between two bounds."""
    command("workload", "slo", model, "--first-token", "0.6", *more, "--by", "Ada")
