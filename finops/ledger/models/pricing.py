"""What people hand over to read and price invoices with: mappings, rate cards, exchange rates."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .evidence import Document
from .fields import NumericField


class CsvMapping(models.Model):
    """How to read a CSV file of no known format; the newest version of a name is used."""

    name = models.SlugField(max_length=80)
    version = models.IntegerField()
    content = models.JSONField(help_text="columns, constants, dates, decimal")
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="csv_mapping_version_once"),
            models.CheckConstraint(condition=Q(version__gt=0), name="csv_mapping_version_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class RateCard(models.Model):
    """One version of a rate card: prices for usage that no invoice prices (method §3.10)."""

    name = models.CharField(max_length=120)
    version = models.IntegerField()
    currency = models.CharField(max_length=40)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True)
    content = models.JSONField(help_text="rates and owned, as given")
    document = models.ForeignKey(Document, models.PROTECT, related_name="rate_cards")
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="rate_card_version_once"),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=models.F("valid_from")),
                name="rate_card_valid_in_order",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class FxRate(models.Model):
    """What one unit of the base currency was worth on a day, by its source (method §3.9)."""

    document = models.ForeignKey(Document, models.PROTECT, related_name="fx_rates")
    base = models.CharField(max_length=3)
    currency = models.CharField(max_length=3)
    date = models.DateField()
    rate = NumericField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["document", "currency", "date"], name="fx_rate_once"),
            models.CheckConstraint(condition=Q(rate__gt=0), name="fx_rate_positive"),
        ]
        indexes = [models.Index(fields=["currency", "date"])]

    def __str__(self) -> str:
        return f"{self.date} {self.base}/{self.currency} {self.rate}"


class PeriodStatus(models.Model):
    """What an issuer says of its billing period: open or closed; the newest row holds (§3.8)."""

    STATUSES = [(s, s) for s in ("Open", "Closed")]

    issuer = models.TextField()
    billing_period = models.CharField(max_length=7)
    status = models.CharField(max_length=10, choices=STATUSES)
    updated_at = models.DateTimeField()
    document = models.ForeignKey(Document, models.PROTECT, related_name="period_statuses")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["Open", "Closed"]), name="period_status_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.issuer} {self.billing_period} {self.status}"
