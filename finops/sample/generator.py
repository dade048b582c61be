"""Writes all files of the sample organisation from one seed, and gives the truth about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from finops.sample import configs, devices, invoices, load, logs, metrics, usage
from finops.sample.calendar import Calendar, calendar_before
from finops.sample.fleet import CLUSTERS, gaps, services
from finops.sample.invoices import Invoice
from finops.sample.truth import Truth

SEED = 20_261_129


@dataclass
class Made:
    """The files by what they hold, and what is true."""

    calendar: Calendar
    truth: Truth
    invoices: list[Invoice]
    gateway: list[Path] = field(default_factory=list)
    readings: dict[str, list[Path]] = field(default_factory=dict)
    gpus: dict[str, Path] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    configs: list[Path] = field(default_factory=list)

    def paths(self) -> list[Path]:
        """Every file."""
        readings = [path for paths in self.readings.values() for path in paths]
        issued = [invoice.path for invoice in self.invoices]
        return [*issued, *self.gateway, *readings, *self.gpus.values(), *self.logs, *self.configs]


def write_files(
    folder: Path,
    at: datetime,
    zone: ZoneInfo,
    seed: int = SEED,
    progress: Callable[[str], None] = lambda _: None,
) -> Made:
    """Writes the files into a folder, as a company would have them at an instant.

    The same instant (to the week), zone and seed give the same bytes. Raises OSError when a file
    cannot be written.
    """
    calendar, truth = calendar_before(at, zone), Truth()
    made = Made(calendar, truth, invoices.write(folder, calendar, _random(seed, "invoices"), truth))
    made.gateway = list(usage.write_weeks(folder, calendar, _random(seed, "gateway"), truth))
    made.logs = list(logs.write(folder, calendar))
    made.configs = list(configs.write(folder, calendar))
    for cluster in CLUSTERS:
        scrapes = [
            load.scrape(service, target, calendar, gaps(calendar, cluster), _random(seed, target.pod), truth)
            for service in services(calendar)
            if service.cluster == cluster
            for target in service.targets
        ]  # fmt: skip
        made.readings[cluster] = []
        for path in metrics.write_weeks(folder, cluster, scrapes, calendar):
            progress(f"written {path.name}")
            made.readings[cluster].append(path)
    for cluster in devices.CLUSTERS:
        random = _random(seed, f"gpus {cluster}")
        made.gpus[cluster] = devices.write(folder, cluster, calendar, random)
    return made


def _random(seed: int, name: str) -> Random:
    """A generator of its own for each kind of file, so that one does not change another."""
    return Random(f"{seed} {name}")  # noqa: S311 - repeatable on purpose
