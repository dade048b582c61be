"""The Grafana and Prometheus pack: made from the table of metrics, and working in the real things."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from finops.monitoring import recording
from finops.monitoring.pack import files
from finops.sources.engines import ROLES
from reports.exposition import OLDER_TEXT, OPENMETRICS, written
from reports.queries import cost_metrics
from tests.ledger.stores import PROMETHEUS, prometheus
from tests.paths import RECORDED, REPOSITORY

PROMTOOL = shutil.which("promtool")
RULES = REPOSITORY / "docker" / "prometheus"
NAME = re.compile(r"(?<![\w\"$])[a-zA-Z_][\w]*(?::[\w:]+)?(?=[{\[\s)]|$)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
WORDS = {"max", "min", "sum", "avg", "count", "by", "without", "on", "and", "or", "unless", "offset", "vector", "rate", "increase"}  # fmt: skip
FUNCTIONS = re.compile(r"\w+(?=\()")
LISTS = re.compile(r"\b(?:by|without|on) \([^)]*\)")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def dashboards() -> dict[str, dict[str, Any]]:
    made = files()
    return {name: json.loads(text) for name, text in made.items() if name.endswith(".json")}


def queries() -> list[tuple[str, str]]:
    """Every query of the dashboards with its panel's title."""
    return [
        (panel["title"], target["expr"])
        for board in dashboards().values()
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def filled(expr: str) -> str:
    """A query as Grafana sends it when nothing has been chosen."""
    return re.sub(r'"\$\w+"', '".*"', expr.replace("$__range", "1h"))


def rule_expressions() -> list[str]:
    from finops.monitoring import alerts

    return [
        rule["expr"] for group in (*recording.groups(), *alerts.groups()) for rule in group["rules"]
    ]


@cache
def exposed() -> frozenset[str]:
    """The names that our own page can show."""
    source = Path(cost_metrics.__file__).read_text("utf-8")
    plain = set(re.findall(r'"((?:llm|headroom)_\w+)"', source))
    made = {f"headroom_{n}" for n in ("tokens_per_currency_unit", "saving_vs_baseline", "token_coverage_ratio", "engine_restarts", "cost_reach_timestamp_seconds", "tokens_reach_timestamp_seconds")}  # fmt: skip
    return frozenset(plain | made)


@pytest.mark.parametrize("name", files())
def test_the_committed_files_are_what_the_table_makes(name: str) -> None:
    committed = (REPOSITORY / name).read_text("utf-8")
    assert committed == files()[name], "run ./run grafana_pack"


def metrics_of(expr: str) -> set[str]:
    bare = LISTS.sub(" ", STRING.sub("", expr))
    bare = re.sub(r"\{[^}]*\}", "{", re.sub(r"\[[^\]]*\]", "[", bare))
    return set(NAME.findall(bare)) - set(FUNCTIONS.findall(bare)) - WORDS


def test_every_metric_asked_for_is_known() -> None:
    known = set(ROLES) | recording.recorded() | exposed()
    asked = {n for e in rule_expressions() for n in metrics_of(e)}
    asked |= {n for _, expr in queries() for n in metrics_of(filled(expr))}
    for name in ("vllm:gpu_cache_usage_perc", "llm_cost_per_million_tokens", "up", "gpu_used_vram"):
        assert name in asked
    assert asked - known == set()


def test_both_names_of_the_cache_are_asked_for_the_current_one_first() -> None:
    (rule,) = [
        rule
        for group in recording.groups()
        for rule in group["rules"]
        if rule["record"] == "llm:kv_cache_usage:ratio" and rule["labels"]["stack"] == "vllm"
    ]
    assert rule["expr"].index("vllm:kv_cache_usage_perc") < rule["expr"].index(
        "or vllm:gpu_cache_usage_perc"
    )


def test_blocks_are_never_added_over_engines() -> None:
    every = [*rule_expressions(), *(expr for _, expr in queries())]
    of_the_config = [expr for expr in every if "cache_config_info" in expr]
    assert of_the_config  # the table of settings
    assert not any(re.search(r"\b(sum|count|count_values|avg)\b", expr) for expr in of_the_config)


def test_each_alert_says_why() -> None:
    from finops.monitoring import alerts

    rules = [rule for group in alerts.groups() for rule in group["rules"]]
    assert len(rules) >= 5
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "description", "why"}
        assert rule["annotations"]["why"].endswith(".")


def test_panels_stand_beside_one_another_and_say_what_they_show() -> None:
    for board in dashboards().values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24
            taken |= cells
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@needs_promtool
def test_promtool_accepts_the_rules_and_the_example() -> None:
    rules = [str(path) for path in sorted(RULES.glob("*.rules.yml"))]
    said = subprocess.run([str(PROMTOOL), "check", "rules", *rules], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    example = ["check", "config", "--syntax-only", str(RULES / "prometheus.yml")]
    said = subprocess.run([str(PROMTOOL), *example], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


@needs_promtool
@pytest.mark.parametrize("name", ["engines", "alerts"])
def test_the_rules_do_what_their_tests_say(name: str) -> None:
    command = [str(PROMTOOL), "test", "rules", str(RULES / "tests" / f"{name}.yml")]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


@needs_promtool
def test_promtool_notices_when_the_old_name_is_forgotten(tmp_path: Path) -> None:
    shutil.copytree(RULES, tmp_path / "prometheus")
    rules = tmp_path / "prometheus" / "recording.rules.yml"
    told = rules.read_text("utf-8")
    spoilt = told.replace('or vllm:gpu_cache_usage_perc{model_name!=""}', "")
    assert spoilt != told
    rules.write_text(spoilt, "utf-8")
    tests = str(tmp_path / "prometheus" / "tests" / "engines.yml")
    assert subprocess.run([str(PROMTOOL), "test", "rules", tests], capture_output=True).returncode


def ours() -> str:
    """An exposition with every family that a statement can fill."""
    from reports.level_columns import listed
    from reports.queries.standing import Standing
    from tests.reports.example import statement
    from tests.reports.test_level_pages import changes

    row = {"workload": "chat-70b", "engine": "pod-0 0", "reserved_bytes": 1000,
           "active_bytes_mean": "250.5"}  # fmt: skip
    value = statement(memory=[row], **changes())
    report: Any = type("R", (), {"week": "2026-W47", "revision": 1, "method_version": "1.0",
                                 "figures": listed(value)})  # fmt: skip
    stand = Standing(report, "final", value, "ab" * 32, [], {})
    gauges = [*cost_metrics._weeks([report]), *cost_metrics._unit_costs(value),
              *cost_metrics._organisation(stand), *cost_metrics._memory(value), *cost_metrics._levels(value)]  # fmt: skip
    return written(gauges, sample="false")


@contextmanager
def exposition(pages: dict[str, Callable[[], str]]) -> Iterator[str]:
    """A server of texts to be scraped; its host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[self.path]().encode()
            self.send_response(200)
            # Ours as the view answers a Prometheus that asks for the newer form first.
            self.send_header("Content-Type", OPENMETRICS if self.path == "/cost" else OLDER_TEXT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def asked(url: str, expr: str) -> list[dict[str, Any]]:
    """The answer of Prometheus to a query; fails when it refuses it."""
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': expr})}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def gpus() -> str:
    """An exporter of GPU metrics: an H100 whose figures add up to the 81,559 MiB of its tools."""
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="node-a"'
    told = {"USED": 70_000, "FREE": 11_080, "RESERVED": 479}
    return "".join(
        f"# TYPE DCGM_FI_DEV_FB_{name} gauge\nDCGM_FI_DEV_FB_{name}{{{labels}}} {mib}\n"
        for name, mib in told.items()
    )


@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed")
def test_every_panel_is_answered_by_a_real_prometheus(tmp_path: Path) -> None:
    engine = (RECORDED / "metrics" / "chat-7b-0.i1.2-under-load.txt").read_text("utf-8")
    (usage,) = re.findall(r"^vllm:kv_cache_usage_perc\{.*\} (\S+)$", engine, re.M)
    rules = (
        (RULES / "recording.rules.yml").read_text("utf-8").replace("interval: 1m", "interval: 1s")
    )
    (tmp_path / "recording.yml").write_text(rules, "utf-8")
    scrapes = count(1)

    def working() -> str:
        """The recorded engine, 1000 tokens further at each scrape: still, it would be stale."""
        at = 1000 * next(scrapes)
        return re.sub(r"(?m)^(vllm:generation_tokens_total\{.*\}) .*$", rf"\1 {at}", engine)

    with exposition({"/engine": working, "/cost": ours, "/gpu": gpus}) as host:
        settings = json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": ["recording.yml"],
            "scrape_configs": [
                {"job_name": job, "metrics_path": f"/{job}", "honor_labels": True,
                 "static_configs": [{"targets": [host]}]}
                for job in ("engine", "cost", "gpu")
            ],
        })  # fmt: skip
        with prometheus(tmp_path, tmp_path / "tsdb", settings) as url:
            until = time.monotonic() + 120
            # A rule may be evaluated later than the one before it, and its panel with it.
            wanted = [filled(expr) for title, expr in queries() if title != "Least coverage"]
            wanted += ["llm:generation_tokens:rate5m > 0", "llm:kv_cache_usage:ratio"]
            while not all(asked(url, name) for name in wanted) and time.monotonic() < until:
                time.sleep(0.3)
            (active,) = asked(url, "llm:kv_cache_usage:ratio")
            assert float(active["value"][1]) == float(usage)
            price = asked(url, 'headroom_cost_per_million_tokens{cost_basis="allocation"}')
            assert price[0]["value"][1] == "1.832914006"
            answers = {(title, expr): asked(url, filled(expr)) for title, expr in queries()}
    silent = {title for (title, _), found in answers.items() if not found}
    # No day has passed to be covered.
    assert silent == {"Least coverage"}
    memory = [found for (title, _), found in answers.items() if title == "GPU memory"]
    told = sorted(float(row["value"][1]) for found in memory for row in found)
    assert told == [n * 2**20 for n in (479, 11_080, 70_000)]
