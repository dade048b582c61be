"""Money: deliveries of invoice exports, the snapshots they make, and their charges (§3)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from finops.sources.records import CHARGE_CATEGORIES

from .evidence import Document
from .fields import NumericField


class Delivery(models.Model):
    """The files given in one ingest or upload: one delivery (method §3.2). Append-only."""

    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    origin = models.TextField()


class Snapshot(models.Model):
    """One delivery of one export for one (issuer, billing account, billing period)."""

    delivery = models.ForeignKey(Delivery, models.PROTECT, related_name="snapshots")
    issuer = models.TextField()
    billing_account = models.TextField()
    billing_period = models.CharField(max_length=7, help_text="YYYY-MM")
    exported_at = models.DateTimeField(null=True)
    arrived_at = models.DateTimeField()
    charge_start = models.DateTimeField()
    charge_end = models.DateTimeField()
    charges = models.BigIntegerField(help_text="Lines, those in kept sums included.")
    rules_seen = models.BigIntegerField(
        null=True, help_text="The newest rule that its kept sums were made under."
    )
    catalogue_seen = models.CharField(
        max_length=64, blank=True, help_text="The GPU catalogue that its documents were read under."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["delivery", "issuer", "billing_account", "billing_period"],
                name="snapshot_once_a_delivery",
            ),
            models.CheckConstraint(
                condition=Q(billing_period__regex=r"^\d{4}-(0[1-9]|1[0-2])$"),
                name="snapshot_billing_period_is_a_month",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.issuer} {self.billing_account} {self.billing_period}"


class SnapshotDocument(models.Model):
    """Which documents a snapshot was made of. Append-only.

    The database itself adds a row with the first charge of each pair, and so sees at the end of
    the transaction, once a pair and not once a charge, that both are there.
    """

    snapshot = models.ForeignKey(Snapshot, models.PROTECT, related_name="parts")
    document = models.ForeignKey(Document, models.PROTECT, related_name="snapshots")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "document"], name="snapshot_document_once")
        ]


class SnapshotDecision(models.Model):
    """What was decided of a snapshot; the newest row of a snapshot holds. Append-only.

    `current`: its charges count. `superseded`: a newer one replaced it. `waiting`: a person must
    say whether it is more parts or a replacement. `refused`: a person said no.
    """

    VERDICTS = [(v, v) for v in ("current", "superseded", "waiting", "refused")]

    snapshot = models.ForeignKey(Snapshot, models.PROTECT, related_name="decisions")
    verdict = models.CharField(max_length=12, choices=VERDICTS)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["snapshot", "id"])]


class Reread(models.Model):
    """A document read once more for a later delivery: another view or price came. Append-only."""

    document = models.ForeignKey(Document, models.PROTECT, related_name="rereads")
    delivery = models.ForeignKey(Delivery, models.PROTECT, related_name="rereads")
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.TextField()
    charges = models.BigIntegerField()
    rows_summed = models.BigIntegerField(db_default=0, help_text="Lines that went into kept sums.")
    totals = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["document", "delivery"], name="reread_once_a_delivery"),
            models.CheckConstraint(condition=Q(charges__gte=0), name="reread_charges"),
            models.CheckConstraint(condition=Q(rows_summed__gte=0), name="reread_rows_summed"),
        ]


class Charge(models.Model):
    """One line of an invoice export; exact amounts, null where the source has none (§3.3).

    With `last_line` it is a kept sum: `line_count` lines of the document from `line` to
    `last_line` that are neither GPU time nor reached by a rule, alike in all that totals and
    tie-outs look at. That its snapshot and document are there is a matter of SnapshotDocument,
    and `charge_once` is the index of snapshots.
    """

    snapshot = models.ForeignKey(
        Snapshot, models.PROTECT, related_name="lines", db_constraint=False, db_index=False
    )
    document = models.ForeignKey(
        Document, models.PROTECT, related_name="lines", db_constraint=False, db_index=False
    )
    line = models.BigIntegerField()
    last_line = models.BigIntegerField(null=True)
    line_count = models.BigIntegerField(db_default=1)
    charge_start = models.DateTimeField()
    charge_end = models.DateTimeField()
    billing_period_start = models.DateTimeField()
    billing_period_end = models.DateTimeField()
    category = models.CharField(max_length=12)
    charge_class = models.TextField(null=True)
    currency = models.CharField(max_length=40)
    billed_cost = NumericField(null=True)
    effective_cost = NumericField(null=True)
    list_cost = NumericField(null=True)
    contracted_cost = NumericField(null=True)
    billing_account_name = models.TextField(null=True)
    sub_account = models.TextField(null=True)
    sub_account_name = models.TextField(null=True)
    provider = models.TextField(null=True)
    service = models.TextField(null=True)
    service_category = models.TextField(null=True)
    sku = models.TextField(null=True)
    sku_price = models.TextField(null=True)
    resource = models.TextField(null=True)
    resource_name = models.TextField(null=True)
    resource_type = models.TextField(null=True)
    region = models.TextField(null=True)
    instance_type = models.TextField(null=True)
    gpu_model = models.TextField(null=True)
    gpu_count = NumericField(null=True)
    description = models.TextField(null=True)
    frequency = models.TextField(null=True)
    pricing_category = models.TextField(null=True)
    pricing_quantity = NumericField(null=True)
    pricing_unit = models.TextField(null=True)
    consumed_quantity = NumericField(null=True)
    consumed_unit = models.TextField(null=True)
    list_unit_price = NumericField(null=True)
    contracted_unit_price = NumericField(null=True)
    commitment = models.TextField(null=True)
    commitment_name = models.TextField(null=True)
    commitment_status = models.TextField(null=True)
    invoice = models.TextField(null=True)
    tags = models.JSONField(default=dict)
    rate_card = models.TextField(null=True, help_text="The card that priced it: not invoiced.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "document", "line"], name="charge_once"),
            models.CheckConstraint(
                condition=Q(category__in=CHARGE_CATEGORIES), name="charge_category"
            ),
            models.CheckConstraint(
                condition=Q(charge_end__gte=F("charge_start")), name="charge_period_in_order"
            ),
            models.CheckConstraint(condition=~Q(currency=""), name="charge_has_currency"),
            models.CheckConstraint(
                condition=Q(last_line__isnull=True, line_count=1)
                | Q(last_line__isnull=False, last_line__gte=F("line"), line_count__gte=1),
                name="charge_counts_its_lines",
            ),
        ]
        indexes = [
            models.Index(fields=["charge_start", "charge_end"]),
            models.Index(fields=["document"], name="charge_document"),
        ]


class InvoiceAmount(models.Model):
    """The amount an issuer printed on an invoice; the newest row of an invoice holds."""

    issuer = models.TextField()
    invoice = models.TextField()
    billing_period = models.CharField(max_length=7)
    currency = models.CharField(max_length=40)
    amount = NumericField()
    document = models.ForeignKey(Document, models.PROTECT, null=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)


class PeriodConfirmation(models.Model):
    """A person confirms that an account's billing period is final (method §3.8)."""

    issuer = models.TextField()
    billing_account = models.TextField()
    billing_period = models.CharField(max_length=7)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    reason = models.TextField()
