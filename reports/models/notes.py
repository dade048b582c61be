"""What people noted: annotations on the time axis, and what was decided of an exception (§10)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class Annotation(models.Model):
    """Something that happened at an instant; an edit is a new row that replaces the old one."""

    KINDS = [
        ("config", "Configuration"),
        ("deploy", "Deployment"),
        ("incident", "Incident"),
        ("price", "Price"),
        ("other", "Other"),
    ]

    at = models.DateTimeField()
    workload = models.CharField(max_length=80, blank=True, help_text="Slug; empty means all.")
    text = models.TextField()
    kind = models.CharField(max_length=10, choices=KINDS, default="other")
    url = models.CharField(max_length=500, blank=True)
    author = models.CharField(max_length=150)
    written_at = models.DateTimeField()
    replaces = models.OneToOneField(
        "self", models.PROTECT, null=True, blank=True, related_name="replaced_by"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(text=""), name="annotation_has_text"),
            models.CheckConstraint(condition=~Q(author=""), name="annotation_has_author"),
            models.CheckConstraint(
                condition=Q(url="") | Q(url__iregex=r"^https?://[^\s]+$"),
                name="annotation_url_is_http",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["config", "deploy", "incident", "price", "other"]),
                name="annotation_kind",
            ),
            models.CheckConstraint(
                condition=Q(replaces__isnull=True) | ~Q(replaces=F("id")),
                name="annotation_replaces_another",
            ),
        ]
        indexes = [models.Index(fields=["at"])]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.text[:40]}"


class Disposition(models.Model):
    """What a person says of one exception of a week; the newest row of an exception holds."""

    week = models.CharField(max_length=8)
    exception = models.CharField(max_length=80, help_text="The exception's id in the statement.")
    text = models.TextField()
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(text=""), name="disposition_has_text"),
            models.CheckConstraint(condition=~Q(by=""), name="disposition_has_a_person"),
        ]
        indexes = [models.Index(fields=["week", "exception"])]

    def __str__(self) -> str:
        return f"{self.week} {self.exception}: {self.text[:40]}"
