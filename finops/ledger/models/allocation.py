"""Who claims tokens and money: workloads, ordered dated rules, shared keys and baselines (§4, §6)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from .fields import NumericField


class Workload(models.Model):
    """One model service on one stack."""

    PURPOSES = [("inference", "Inference"), ("training", "Training")]

    slug = models.SlugField(max_length=80, unique=True)
    model = models.TextField()
    stack = models.CharField(max_length=40, help_text="vllm, sglang, … or legacy")
    purpose = models.CharField(max_length=12, choices=PURPOSES, default="inference")
    team = models.TextField(blank=True)
    cluster = models.TextField(blank=True)
    namespace = models.TextField(blank=True)
    kv_bytes_per_token = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="KV bytes of one token on one GPU, from the model's config.",
    )
    max_model_len = models.BigIntegerField(
        null=True, blank=True, help_text="Longest request in tokens, where engines do not tell it."
    )
    rate_cap_tokens_per_second = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Fastest rise of one token counter of one engine, for upper bounds (§2.6).",
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(purpose__in=["inference", "training"]), name="workload_purpose"
            ),
            models.CheckConstraint(
                condition=Q(kv_bytes_per_token__isnull=True) | Q(kv_bytes_per_token__gt=0),
                name="workload_kv_bytes_positive",
            ),
            models.CheckConstraint(
                condition=Q(max_model_len__isnull=True) | Q(max_model_len__gt=0),
                name="workload_max_model_len_positive",
            ),
            models.CheckConstraint(
                condition=Q(rate_cap_tokens_per_second__isnull=True)
                | Q(rate_cap_tokens_per_second__gt=0),
                name="workload_rate_cap_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class SharedKey(models.Model):
    """A named way to split shared charges: by tokens, by GPU-hours, or by fixed shares."""

    METHODS = [(m, m) for m in ("tokens", "gpu-hours", "fixed")]

    name = models.SlugField(max_length=80, unique=True)
    method = models.CharField(max_length=12, choices=METHODS)
    shares = models.JSONField(default=dict, help_text="Workload slug to whole-number share.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return self.name


class Rule(models.Model):
    """One version of one rule; append-only. The newest version of a number holds.

    `matchers` is a list of [name, operator, value]; operators are = != =~ !~ on labels for
    `series` rules, and on charge columns and `tag:NAME` for `charge` rules. First match wins,
    in the order of (order, number).
    """

    SUBJECTS = [("series", "Series"), ("charge", "Charge")]
    PLACES = [(p, p) for p in ("workload", "shared", "out-of-scope")]

    number = models.IntegerField()
    version = models.IntegerField()
    order = models.IntegerField(default=100)
    subject = models.CharField(max_length=8, choices=SUBJECTS)
    place = models.CharField(max_length=12, choices=PLACES)
    workload = models.ForeignKey(Workload, models.PROTECT, null=True, related_name="rules")
    shared_key = models.ForeignKey(SharedKey, models.PROTECT, null=True, related_name="rules")
    matchers = models.JSONField()
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    retired = models.BooleanField(default=False)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["number", "version"], name="rule_version_once"),
            models.CheckConstraint(
                condition=(
                    Q(place="workload", workload__isnull=False, shared_key__isnull=True)
                    | Q(place="shared", workload__isnull=True, shared_key__isnull=False)
                    | Q(place="out-of-scope", workload__isnull=True, shared_key__isnull=True)
                ),
                name="rule_names_its_place",
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True)
                | Q(valid_to__isnull=True)
                | Q(valid_to__gt=F("valid_from")),
                name="rule_dates_in_order",
            ),
            models.CheckConstraint(
                condition=Q(subject="charge") | ~Q(place="shared"), name="rule_shares_only_charges"
            ),
        ]


class Baseline(models.Model):
    """The legacy stack's cost, frozen, dated and sourced (method §6). Append-only.

    Measured: tokens and cost of a period of the ledger. Declared: a price per million with its
    document. `classes` holds prices per million by token class where they are known.
    """

    KINDS = [("measured", "Measured"), ("declared", "Declared")]
    BASES = [("processed", "Processed"), ("delivered", "Delivered")]

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="baselines")
    legacy_workload = models.ForeignKey(
        Workload, models.PROTECT, null=True, related_name="baselines_given"
    )
    kind = models.CharField(max_length=10, choices=KINDS)
    basis = models.CharField(max_length=10, choices=BASES)
    quality = models.CharField(max_length=20, default="measured")
    currency = models.CharField(max_length=40)
    cost = NumericField(null=True)
    prompt_tokens = models.BigIntegerField(null=True)
    cached_tokens = models.BigIntegerField(null=True)
    generation_tokens = models.BigIntegerField(null=True)
    cost_per_million_tokens = NumericField(null=True, help_text="Declared price.")
    classes = models.JSONField(default=dict)
    model = models.TextField(blank=True)
    tokenizer = models.TextField(blank=True)
    period_start = models.DateTimeField(null=True)
    period_end = models.DateTimeField(null=True)
    documents = models.JSONField(default=list)
    note = models.TextField(blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    approved_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="declared", cost_per_million_tokens__isnull=False)
                | Q(kind="measured", cost__isnull=False, generation_tokens__isnull=False),
                name="baseline_has_its_figures",
            ),
            models.CheckConstraint(
                condition=Q(approved_by="") | ~Q(approved_by=F("by")),
                name="baseline_approver_is_another_person",
            ),
        ]


class BaselineDecision(models.Model):
    """What another person says of a baseline: approved, refused, or withdrawn later. Append-only.

    The newest word holds. The schema refuses an approval by the baseline's author (migration 0009).
    """

    VERDICTS = [(v, v.capitalize()) for v in ("approved", "refused", "withdrawn")]

    baseline = models.ForeignKey(Baseline, models.PROTECT, related_name="decisions")
    verdict = models.CharField(max_length=10, choices=VERDICTS)
    text = models.TextField(blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["approved", "refused", "withdrawn"]),
                name="baseline_decision_verdict",
            ),
            models.CheckConstraint(
                condition=Q(verdict="approved") | ~Q(text=""),
                name="baseline_decision_says_why",
            ),
            models.CheckConstraint(condition=~Q(by=""), name="baseline_decision_has_a_person"),
            models.UniqueConstraint(fields=["baseline", "verdict"], name="baseline_decision_once"),
        ]

    def __str__(self) -> str:
        return f"{self.baseline_id} {self.verdict} by {self.by}"
