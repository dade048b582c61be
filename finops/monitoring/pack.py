"""All files of the pack, by their path in the repository."""

from __future__ import annotations

from . import alerts, recording
from .cost_dashboard import cost_per_million_tokens
from .memory_dashboard import reserved_versus_active
from .writing import dashboard_file, rules_file

RECORDING = """\
Recording rules: one name a figure, whatever engine and version it comes from.
For screens and alerts only: rate and increase extrapolate and see no hidden reset, so no money and
no token total rests on them; the ledger reads raw samples. num_gpu_blocks is never summed over
engines: a data-parallel front end exports the sum already."""
ALERTS = """\
Alerts. Each has a summary, a description and a `why`: what the matter does to a figure.
They need the recording rules beside this file."""


def files() -> dict[str, str]:
    """Each generated file's path and content."""
    return {
        "docker/prometheus/recording.rules.yml": rules_file(RECORDING, recording.groups()),
        "docker/prometheus/alerts.rules.yml": rules_file(ALERTS, alerts.groups()),
        "docker/grafana/dashboards/reserved-versus-active.json": dashboard_file(
            reserved_versus_active()
        ),
        "docker/grafana/dashboards/cost-per-million-tokens.json": dashboard_file(
            cost_per_million_tokens()
        ),
    }
