"""Reports, what happened to them, and their seals (method §11). Append-only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

WEEK = r"^\d{4}-W\d{2}$"
DIGEST = r"^[0-9a-f]{64}$"


class Report(models.Model):
    """One revision of the report of one week: the canonical bytes of its statement.

    A revision never changes. What was decided of it stands in its events; its state follows from
    them. A revision after a sealed one is a restatement and says why in `reason`.
    """

    week = models.CharField(max_length=8)
    revision = models.IntegerField()
    statement = models.BinaryField(help_text="Canonical JSON.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the statement's bytes.")
    method_version = models.CharField(max_length=20)
    created_at = models.DateTimeField()
    prepared_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    headline = models.TextField(blank=True, help_text="Copied from the statement, for lists.")
    figures = models.JSONField(default=dict, help_text="Copied from the statement, for lists.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["week", "revision"], name="report_revision_once"),
            models.CheckConstraint(condition=Q(revision__gte=1), name="report_revision_from_one"),
            models.CheckConstraint(condition=Q(week__regex=WEEK), name="report_week_is_iso"),
            models.CheckConstraint(
                condition=Q(digest__regex=DIGEST), name="report_digest_is_sha256"
            ),
            models.CheckConstraint(condition=~Q(prepared_by=""), name="report_has_preparer"),
        ]

    def __str__(self) -> str:
        return f"{self.week} revision {self.revision}"


class ReportEvent(models.Model):
    """One act on a report. The schema refuses an approval by the preparer (migration 0002)."""

    KINDS = [(k, k) for k in ("closed", "reviewed", "approved", "returned", "sealed", "superseded")]

    report = models.ForeignKey(Report, models.PROTECT, related_name="events")
    kind = models.CharField(max_length=12, choices=KINDS)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    comment = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind__in=["closed", "reviewed", "approved", "returned", "sealed", "superseded"]
                ),
                name="report_event_kind",
            ),
            models.UniqueConstraint(
                fields=["report", "kind"],
                condition=Q(kind__in=["sealed", "superseded"]),
                name="report_sealed_once",
            ),
            models.CheckConstraint(condition=~Q(by=""), name="report_event_has_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.report_id} {self.kind} by {self.by}"


class Seal(models.Model):
    """A sealed report: the canonical bytes of statement, people and dispositions, in a chain.

    `record` includes the digest of the previous seal, so no seal can be exchanged or left out
    unseen. Paper and evidence are made from these bytes alone.
    """

    number = models.IntegerField(primary_key=True)
    report = models.OneToOneField(Report, models.PROTECT, related_name="seal")
    record = models.BinaryField(help_text="Canonical JSON.")
    digest = models.CharField(max_length=64, unique=True)
    previous_digest = models.CharField(max_length=64)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(number__gte=1), name="seal_numbers_from_one"),
            models.CheckConstraint(condition=Q(digest__regex=DIGEST), name="seal_digest_is_sha256"),
            models.UniqueConstraint(fields=["previous_digest"], name="seal_chain_does_not_fork"),
        ]

    def __str__(self) -> str:
        return f"seal {self.number} {self.digest[:12]}"


class Waiver(models.Model):
    """A person signs for one thing that stands against sealing a report. Append-only.

    The schema refuses the preparer (migration 0004): whoever waives is a second person.
    """

    KINDS = [(k, k) for k in ("provisional-month", "invoice-differs", "recomputation")]

    report = models.ForeignKey(Report, models.PROTECT, related_name="waivers")
    kind = models.CharField(max_length=20, choices=KINDS)
    subject = models.TextField(help_text="The month, the invoice, or `figures`.")
    text = models.TextField(help_text="Why it may be sealed all the same.")
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["provisional-month", "invoice-differs", "recomputation"]),
                name="waiver_kind",
            ),
            models.CheckConstraint(condition=~Q(text=""), name="waiver_has_text"),
            models.CheckConstraint(condition=~Q(by=""), name="waiver_has_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.report_id} {self.kind} {self.subject} by {self.by}"


class FreshLook(models.Model):
    """A sealed week built afresh after something of it arrived (method §11). Append-only.

    `differences` are the figures that it would print otherwise, none when nothing changes. The
    newest look at a sealed report holds, and proposes a restatement when it has any.
    """

    report = models.ForeignKey(Report, models.PROTECT, related_name="looks")
    at = models.DateTimeField()
    digest = models.CharField(max_length=64, help_text="SHA-256 of the statement built afresh.")
    differences = models.JSONField(help_text="As the difference table of a restatement.")
    documents = models.JSONField(default=list, help_text="Names of documents that came since.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(digest__regex=DIGEST), name="fresh_look_digest_is_sha256"
            ),
            models.UniqueConstraint(fields=["report", "at"], name="fresh_look_once_an_instant"),
        ]

    def __str__(self) -> str:
        return f"{self.report_id} looked at again at {self.at:%Y-%m-%d %H:%M}"


class LeftProposal(models.Model):
    """A person leaves a proposed restatement: why the sealed report stays. Append-only.

    It holds while the looks at the report say what this one said; other figures are a new proposal.
    """

    look = models.OneToOneField(FreshLook, models.PROTECT, related_name="left")
    text = models.TextField(help_text="Why the sealed report stays as it is.")
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(text=""), name="left_proposal_has_text"),
            models.CheckConstraint(condition=~Q(by=""), name="left_proposal_has_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.look_id} left by {self.by}"
