"""What people set for a workload: its service level objectives (method §5). Append-only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .allocation import Workload
from .fields import NumericField


class ServiceObjective(models.Model):
    """The thresholds a workload has to keep from an instant on, and for which share of cases.

    The record with the newest `valid_from` holds (of several, the one written last). A threshold
    in seconds that is null is not part of the objective.
    """

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="objectives")
    first_token_seconds = NumericField(null=True)
    inter_token_seconds = NumericField(null=True)
    target = NumericField(help_text="The share that has to come in time, 0 to 1.")
    valid_from = models.DateTimeField()
    note = models.TextField(blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(first_token_seconds__isnull=False)
                | Q(inter_token_seconds__isnull=False),
                name="objective_has_a_threshold",
            ),
            models.CheckConstraint(
                condition=(Q(first_token_seconds__isnull=True) | Q(first_token_seconds__gt=0))
                & (Q(inter_token_seconds__isnull=True) | Q(inter_token_seconds__gt=0)),
                name="objective_thresholds_positive",
            ),
            models.CheckConstraint(
                condition=Q(target__gt=0) & Q(target__lte=1), name="objective_target_is_a_share"
            ),
        ]
        indexes = [models.Index(fields=["workload", "valid_from"], name="objective_in_force")]

    def __str__(self) -> str:
        return f"{self.workload} from {self.valid_from:%Y-%m-%d}"
