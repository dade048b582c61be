"""Which workload claims a series, by the rules in force."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime

from finops.core.allocation import WORKLOAD, Assigner

from .allocation import rules
from .tokens import KeyOf


def workload_of_series() -> KeyOf:
    """From labels and an hour to the workload's slug; None where no rule names one."""
    assign = Assigner(rules("series"))

    def key_of(labels: Mapping[str, str], hour: datetime) -> Hashable:
        place = assign(labels, hour)
        return place.target if place.kind == WORKLOAD else None

    return key_of
