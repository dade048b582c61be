"""Nodes and the GPUs held on them, by the hour, as the cluster's own exporter tells."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .readings import Series


class GpuHour(models.Model):
    """One gauge of a node or pod in one UTC hour: GPUs × milliseconds, and how long it was seen.

    Of a request the GPUs a container asked for, of a capacity those a node has; of a node's own
    info series only the time counts. Append-only: the highest revision is the current one.
    """

    series = models.ForeignKey(Series, models.PROTECT, related_name="gpu_hours")
    hour = models.DateTimeField()
    revision = models.IntegerField()
    gpu_ms = models.BigIntegerField()
    observed_ms = models.BigIntegerField()
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "hour", "revision"], name="gpu_hour_once"),
            models.CheckConstraint(condition=Q(gpu_ms__gte=0), name="gpu_hour_not_negative"),
            models.CheckConstraint(
                condition=Q(observed_ms__gte=0) & Q(observed_ms__lte=3_600_000),
                name="gpu_hour_observed_within_hour",
            ),
        ]
        indexes = [models.Index(fields=["hour"], name="ledger_gpuhour_hour")]
