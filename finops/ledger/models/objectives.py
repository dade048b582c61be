"""What people set: objectives and budgets (§5), verdicts on changes (§10). Append-only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .allocation import Workload
from .evidence import Document
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


class TrainingBudget(models.Model):
    """What training may cost in a calendar quarter; of a quarter's records the newest holds."""

    quarter = models.CharField(max_length=7, help_text="Like 2026-Q4.")
    amount = NumericField()
    currency = models.CharField(max_length=40)
    document = models.ForeignKey(
        Document, models.PROTECT, null=True, related_name="training_budgets"
    )
    note = models.TextField(blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="training_budget_positive"),
            models.CheckConstraint(
                condition=Q(quarter__regex=r"^[0-9]{4}-Q[1-4]$"), name="training_budget_quarter"
            ),
            models.CheckConstraint(condition=~Q(currency=""), name="training_budget_currency"),
        ]

    def __str__(self) -> str:
        return f"{self.quarter} {self.amount} {self.currency}"


class ChangeDecision(models.Model):
    """What an engineer says of a detected change; of a change's decisions the newest holds."""

    VERDICTS = [(v, v) for v in ("confirmed", "dismissed")]

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="change_decisions")
    kind = models.CharField(max_length=20)
    changed_at = models.DateTimeField(help_text="The hour in which the change first showed.")
    before = models.TextField()
    after = models.TextField()
    verdict = models.CharField(max_length=10, choices=VERDICTS)
    note = models.TextField(blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["confirmed", "dismissed"]), name="change_decision_verdict"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["configuration", "engine version", "replicas"]),
                name="change_decision_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload} {self.kind} {self.verdict}"
