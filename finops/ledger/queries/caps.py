"""The highest rates that people declared for workloads, for the bounds of their series (method §2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from finops.core.allocation import WORKLOAD, Assigner
from finops.core.tokens import Rate
from finops.ledger.models import Workload

from .allocation import rules


class Caps:
    """The declared caps of workloads, and the one that holds for a series in a span."""

    def __init__(self) -> None:
        declared = Workload.objects.filter(rate_cap_tokens_per_second__gt=0)
        self.of_workloads: dict[str, Rate] = {
            slug: Rate(cap or 0, 1000)
            for slug, cap in declared.values_list("slug", "rate_cap_tokens_per_second")
        }
        self._assign = Assigner(rules("series")) if self.of_workloads else None

    def of_series(self, labels: Mapping[str, str], hours_ms: Iterable[int]) -> Rate | None:
        """The highest cap of the workloads that have the series in any of the hours; None without."""
        if self._assign is None:
            return None
        place_of = self._assign.by_hour(labels)
        places = {place_of(hour_ms) for hour_ms in hours_ms}
        found = [
            self.of_workloads[place.target]
            for place in places
            if place.kind == WORKLOAD and place.target in self.of_workloads
        ]
        return max(found, default=None)
