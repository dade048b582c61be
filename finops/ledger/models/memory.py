"""What fills a GPU's memory: starts of engines, models' configurations, and devices by the hour.

All append-only. A start and a configuration are what a document says; which workload they belong to
is told by the model's name, or by a link that a person makes (the newest link holds).
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .allocation import Workload
from .evidence import Document
from .fields import NumericField
from .readings import Target


class EngineStart(models.Model):
    """One start of one engine by its log (method §8.2); `figures` as `explain-log` prints them."""

    document = models.ForeignKey(Document, models.PROTECT, related_name="engine_starts")
    number = models.IntegerField(help_text="Which start of the document.")
    engine_version = models.TextField(blank=True)
    model = models.TextField(blank=True)
    served_names = models.JSONField(default=list)
    data_parallel_rank = models.IntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    has_failed = models.BooleanField(default=False)
    figures = models.JSONField()
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["document", "number"], name="engine_start_once")
        ]

    def __str__(self) -> str:
        return f"{self.model or 'engine'} {self.engine_version}"


class ModelConfig(models.Model):
    """A model's `config.json` as it came (method §8.3)."""

    document = models.OneToOneField(Document, models.PROTECT, related_name="model_config")
    model = models.TextField(blank=True, help_text="The name it gives itself.")
    config = models.JSONField()
    posted_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.model or self.document_id[:12]


class EvidenceLink(models.Model):
    """Whose evidence a log or a configuration is; the newest link of a document holds."""

    document = models.ForeignKey(Document, models.PROTECT, related_name="links")
    workload = models.ForeignKey(Workload, models.PROTECT, related_name="evidence_links")
    pod = models.TextField(blank=True)
    tensor_parallel = models.IntegerField(null=True)
    pipeline_parallel = models.IntegerField(null=True)
    kv_dtype = models.CharField(max_length=40, blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=(Q(tensor_parallel__isnull=True) | Q(tensor_parallel__gt=0))
                & (Q(pipeline_parallel__isnull=True) | Q(pipeline_parallel__gt=0)),
                name="evidence_link_parallelism",
            )
        ]


class DeviceHour(models.Model):
    """Memory of one GPU (or MIG instance) in one hour: bytes × milliseconds and peak (§8.1).

    Device-level figures, counted once however many pods share the device. `used` leaves out what
    the driver keeps (`reserved`). `tenants` are the namespaces and pods that held it.
    """

    target = models.ForeignKey(Target, models.PROTECT, related_name="device_hours", db_index=False)
    device = models.TextField(help_text="UUID, with the MIG instance behind a slash.")
    hour = models.DateTimeField()
    revision = models.IntegerField()
    observed_ms = models.BigIntegerField()
    used_byte_ms = NumericField(null=True)
    free_byte_ms = NumericField(null=True)
    reserved_byte_ms = NumericField(null=True)
    total_bytes = models.BigIntegerField(null=True)
    peak_used_bytes = models.BigIntegerField(null=True)
    peak_ms = models.BigIntegerField(null=True)
    tenants = models.JSONField(default=list)
    shared = models.BooleanField(default=False, help_text="Several pods held it at one instant.")
    labels = models.JSONField(default=dict)
    holders = models.JSONField(
        default=dict, help_text="Bytes × milliseconds by pod and process, where told (§8.5)."
    )
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["target", "device", "hour", "revision"], name="device_hour_once"
            ),
            models.CheckConstraint(condition=Q(observed_ms__gte=0), name="device_hour_observed"),
        ]
        indexes = [models.Index(fields=["hour"])]
