"""The trail: an append-only, hash-chained log of who did what."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Entry(models.Model):
    """One act: who, what, on what, before and after; its digest includes the previous one's."""

    number = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=80)
    subject = models.TextField()
    detail = models.JSONField(default=dict)
    previous_digest = models.CharField(max_length=64)
    digest = models.CharField(max_length=64, unique=True)

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            models.CheckConstraint(condition=Q(number__gte=1), name="trail_numbers_from_one")
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.actor} {self.action} {self.subject}"
