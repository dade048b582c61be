"""Evidence: the bytes received, where they came from and the rows that could not be taken."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Document(models.Model):
    """One file or fetch, kept content-addressed by SHA-256 (method §3.1). Append-only."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.BigIntegerField()
    name = models.TextField()
    origin = models.TextField(help_text="Path or URL it came from, never with credentials.")
    format = models.CharField(max_length=80)
    version = models.CharField(max_length=40, blank=True)
    rows_read = models.BigIntegerField(default=0)
    charges = models.BigIntegerField(default=0)
    readings = models.BigIntegerField(default=0)
    rows_rejected = models.BigIntegerField(default=0)
    account = models.JSONField(default=dict, help_text="Columns, warnings, totals as parsed.")
    received_at = models.DateTimeField()
    received_by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(sha256__regex=r"^[0-9a-f]{64}$"), name="document_digest_is_sha256"
            ),
            models.CheckConstraint(
                condition=Q(size_bytes__gte=0), name="document_size_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.sha256[:12]})"


class Origin(models.Model):
    """Another place that bytes came from which were known already (method §3.1). Append-only.

    The first place stands with the document. `source` is the one that was named for readings or
    usage records; it counts nothing, since the bytes are read once.
    """

    document = models.ForeignKey(Document, models.PROTECT, related_name="origins")
    name = models.TextField()
    origin = models.TextField(help_text="Path or URL it came from, never with credentials.")
    source = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return f"{self.document_id[:12]} from {self.origin}"


class RejectedRow(models.Model):
    """One row of a document that was read and not taken, with its reason. Append-only."""

    document = models.ForeignKey(Document, models.PROTECT, related_name="rejected_rows")
    line = models.BigIntegerField()
    column = models.TextField(blank=True)
    value = models.TextField(blank=True)
    reason = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["document", "line"])]

    def __str__(self) -> str:
        return f"{self.document_id[:12]} line {self.line}: {self.reason}"


REPLICA_LABELS = ("prometheus_replica", "__replica__", "receive_replica")
"""Labels that only tell replicas of a store apart: taken off every series (method §2.1)."""


class Source(models.Model):
    """Where readings come from: a Prometheus-compatible store, or files handed over."""

    KINDS = [("prometheus", "Prometheus"), ("files", "Files"), ("usage-records", "Usage records")]

    name = models.SlugField(max_length=80, unique=True)
    kind = models.CharField(max_length=20, choices=KINDS, default="prometheus")
    url = models.URLField(max_length=500, blank=True)
    matchers = models.TextField(blank=True, help_text="Label matchers that keep re-exports out.")
    replica_labels = models.JSONField(default=list, blank=True)
    secret = models.CharField(
        max_length=120, blank=True, help_text="Name of the environment variable with the secret."
    )
    user = models.CharField(max_length=120, blank=True, help_text="User of basic authentication.")
    accept_encoding = models.CharField(max_length=20, default="identity")
    tenant = models.CharField(
        max_length=150, blank=True, help_text="Sent as X-Scope-OrgID (Mimir, Cortex)."
    )
    product = models.CharField(
        max_length=20, blank=True, help_text="What the store is, where its answers do not say."
    )
    region = models.CharField(
        max_length=40, blank=True, help_text="Region of requests signed SigV4."
    )
    probe = models.JSONField(
        default=dict, blank=True, help_text="What the store last said of itself."
    )
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind="prometheus") | ~Q(url=""), name="source_prometheus_has_url"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Fetch(models.Model):
    """One window asked of a source: complete, or incomplete with its warnings. Append-only."""

    source = models.ForeignKey(Source, models.PROTECT, related_name="fetches")
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()
    at = models.DateTimeField()
    complete = models.BooleanField()
    warnings = models.JSONField(default=list)
    document = models.ForeignKey(Document, models.PROTECT, null=True, related_name="fetches")
    series = models.IntegerField(default=0)
    readings = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["source", "window_start"])]
        constraints = [
            models.CheckConstraint(
                condition=Q(window_end__gt=models.F("window_start")), name="fetch_window_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(complete=False) | Q(document__isnull=False),
                name="fetch_complete_has_document",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} {self.window_start:%Y-%m-%dT%H:%M} – {self.window_end:%H:%M}"


class FetchedPart(models.Model):
    """A shard of a window, number `part` of `parts`: fetched whole. Append-only.

    When all shards of a window stand here, a complete Fetch of it stands beside them.
    """

    source = models.ForeignKey(Source, models.PROTECT, related_name="fetched_parts")
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()
    part = models.SmallIntegerField()
    parts = models.SmallIntegerField()
    at = models.DateTimeField()
    notes = models.JSONField(default=list)
    document = models.ForeignKey(Document, models.PROTECT, related_name="fetched_parts")
    series = models.IntegerField()
    readings = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(window_end__gt=models.F("window_start")),
                name="fetched_part_window_not_empty",
            ),
            models.CheckConstraint(
                condition=Q(part__gte=1, part__lte=models.F("parts"), parts__gte=2),
                name="fetched_part_of_several",
            ),
            models.UniqueConstraint(
                fields=["source", "window_start", "window_end", "parts", "part", "document"],
                name="fetched_part_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} {self.window_start:%Y-%m-%dT%H:%M} {self.part}/{self.parts}"


class QuietHour(models.Model):
    """An hour of a window, or its part in it, that a store answered with nothing. Append-only.

    `witness` is another target that the store read all through it, so that it would have read ours;
    empty where nothing shows that the store was at work.
    """

    fetch = models.ForeignKey(Fetch, models.PROTECT, related_name="quiet_hours")
    start = models.DateTimeField()
    end = models.DateTimeField()
    witness = models.TextField(blank=True)
    witness_readings = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["fetch", "start"], name="quiet_hour_once"),
            models.CheckConstraint(
                condition=Q(end__gt=models.F("start")), name="quiet_hour_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(witness="", witness_readings=0)
                | (~Q(witness="") & Q(witness_readings__gt=0)),
                name="quiet_hour_witness_was_read",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.fetch_id} {self.start:%Y-%m-%dT%H:%M}"
