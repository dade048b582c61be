"""Figures as the text that Prometheus scrapes (OpenMetrics 1.0, also valid as its older form).

Values are written as the exact decimals they are; a scraper keeps 64-bit floats of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OLDER_TEXT = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Value = str | int | Decimal


@dataclass(slots=True)
class Gauge:
    """A family of gauges: its name, what it says, and its samples as (labels, value)."""

    name: str
    help: str
    samples: list[tuple[dict[str, str], Value]] = field(default_factory=list)

    def add(self, value: Value | None, **labels: str | None) -> None:
        """Adds a sample; a value that is not known is no sample, and never 0. Labels without a
        value are left out."""
        if value is not None:
            self.samples.append(({k: v for k, v in labels.items() if v}, value))


def written(gauges: Iterable[Gauge], **everywhere: str) -> str:
    """The exposition of the families that have samples; `everywhere` are labels of each sample."""
    lines: list[str] = []
    for gauge in gauges:
        if gauge.samples:
            lines += [f"# HELP {gauge.name} {gauge.help.translate(ESCAPES)}"]
            lines += [f"# TYPE {gauge.name} gauge"]
            lines += [
                f"{gauge.name}{_labels({**labels, **everywhere})} {_number(value)}"
                for labels, value in gauge.samples
            ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{k}="{v.translate(ESCAPES)}"' for k, v in labels.items()) + "}"


def _number(value: Value) -> str:
    """Plain notation; raises decimal.InvalidOperation for text that is no number."""
    return format(Decimal(value), "f")
