"""Readings and what was derived from them: tokens per hour and KV cache per hour.

TokenHour and CacheHour rows are append-only: a row derived anew from more readings is posted
with the next revision, and the highest revision of a (series, hour) is the current one.
"""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import F, Q

from finops.core.period import HOUR_MS, instant_of

from .evidence import Document, Source
from .fields import NumericField

BLOCK_MS = 12 * HOUR_MS
"""No block of readings reaches over a multiple of this: noon and midnight, UTC. The half day of an instant is
`date_bin('12 hours', instant, 'epoch')` where a query is written out."""


class Target(models.Model):
    """One scrape target of a source: job and instance. Its row is the lock for deriving."""

    source = models.ForeignKey(Source, models.PROTECT, related_name="targets")
    job = models.TextField()
    instance = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "job", "instance"], name="target_once")
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.instance}"


class Series(models.Model):
    """One series: metric and full label set, the replica label taken off (method §2.1)."""

    target = models.ForeignKey(Target, models.PROTECT, related_name="series")
    metric = models.TextField()
    role = models.CharField(max_length=40)
    engine = models.TextField(blank=True)
    labels = models.JSONField()
    labels_digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["target", "metric", "labels_digest"], name="series_once"
            )
        ]
        indexes = [models.Index(fields=["role"])]

    def __str__(self) -> str:
        inner = ",".join(f'{k}="{v}"' for k, v in sorted(self.labels.items()))
        return f"{self.metric}{{{inner}}}"

    @property
    def rule_labels(self) -> dict[str, str]:
        """The labels that rules see: its own, its source, its metric (method §4)."""
        return {**self.labels, "source": self.target.source.name, "__name__": self.metric}


class Blocks(models.QuerySet["ReadingBlock"]):
    """Blocks of readings, found by the hours they hold readings of."""

    def touching(self, from_ms: int, until_ms: int | None = None) -> Self:
        """Those that reach into a span of milliseconds; without an end, those that reach beyond its
        start. Of a span of whole hours each has a reading in it; readings beside it are to be left out
        (`finops.sources.samples.unpack_between`)."""
        found = self.filter(
            hour__gte=instant_of(from_ms // BLOCK_MS * BLOCK_MS), last_ms__gte=from_ms
        )
        if until_ms is None:
            return found
        return found.filter(hour__lt=instant_of(until_ms), first_ms__lt=until_ms)


class ReadingBlock(models.Model):
    """The readings of one series and replica in hours that follow each other, as one document gave them.

    A block lies in one half of a UTC day and has readings in each of its hours, of which `hour` is the
    first: what holds readings of an hour is found by a few rows of the index, and a long way back takes
    few rows. `part` counts the pieces that stand apart in one document.
    """

    series = models.ForeignKey(Series, models.PROTECT, related_name="blocks", db_index=False)
    replica = models.TextField(blank=True)
    hour = models.DateTimeField()
    document = models.ForeignKey(Document, models.PROTECT, related_name="blocks", db_index=False)
    part = models.IntegerField(default=0)
    first_ms = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    readings = models.IntegerField()
    payload = models.BinaryField()

    objects = Blocks.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["series", "hour", "replica", "document", "part"],
                name="reading_block_once",
            ),
            models.CheckConstraint(condition=Q(readings__gt=0), name="reading_block_not_empty"),
            models.CheckConstraint(
                condition=Q(last_ms__gte=F("first_ms")), name="reading_block_in_order"
            ),
            models.CheckConstraint(
                condition=Q(last_ms__lt=(F("first_ms") / BLOCK_MS + 1) * BLOCK_MS),
                name="reading_block_within_half_day",
            ),
        ]
        indexes = [models.Index(fields=["document"], name="reading_block_document")]


class TokenHour(models.Model):
    """Tokens of one counter series in one UTC hour, with what a period's bounds need (§2.6)."""

    series = models.ForeignKey(Series, models.PROTECT, related_name="hours", db_index=False)
    hour = models.DateTimeField()
    revision = models.IntegerField()
    tokens = models.BigIntegerField()
    readings = models.IntegerField()
    restarts = models.IntegerField(default=0)
    hidden_resets = models.IntegerField(default=0)
    opening_tokens = models.BigIntegerField(default=0)
    rate_tokens = models.BigIntegerField(default=0)
    rate_ms = models.BigIntegerField(default=1)
    usual_ms = models.BigIntegerField(null=True)
    first_ms = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    facts = models.JSONField(default=dict, help_text="Births, restarts, gaps, edges of the hour.")
    carry = models.JSONField(default=dict, help_text="The counters as they stand after the hour.")
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "hour", "revision"], name="token_hour_once"),
            models.CheckConstraint(condition=Q(tokens__gte=0), name="token_hour_not_negative"),
            models.CheckConstraint(
                condition=Q(opening_tokens__gte=0), name="token_hour_opening_not_negative"
            ),
            models.CheckConstraint(condition=Q(rate_ms__gt=0), name="token_hour_rate_over_time"),
        ]
        indexes = [
            models.Index(fields=["hour"]),
            # The map of hours asks for the few rows with a restart or the end of a gap.
            models.Index(
                fields=["hour", "series"],
                condition=Q(restarts__gt=0) | Q(facts__has_key="gaps"),
                name="token_hour_disturbed",
            ),
        ]


class CacheHour(models.Model):
    """KV cache of one engine in one hour: reserved and active, time-weighted (method §8.3–8.4).

    Amounts are blocks and block-milliseconds (whole numbers); bytes follow from the block size
    and the model's bytes per token.
    """

    series = models.ForeignKey(Series, models.PROTECT, related_name="cache_hours", db_index=False)
    hour = models.DateTimeField()
    revision = models.IntegerField()
    blocks = models.BigIntegerField(null=True)
    block_size = models.IntegerField(null=True)
    pool_tokens = models.BigIntegerField(null=True)
    max_model_len = models.BigIntegerField(null=True)
    observed_ms = models.BigIntegerField()
    active_block_ms = NumericField(null=True)
    reserved_block_ms = NumericField(
        null=True, help_text="Of an hour in which the pool changed; else its blocks × the time."
    )
    peak_blocks = models.BigIntegerField(null=True)
    peak_ms = models.BigIntegerField(null=True)
    peak_running = models.BigIntegerField(null=True)
    peak_waiting = models.BigIntegerField(null=True)
    stale_ms = models.BigIntegerField(default=0)
    levels_ms = models.JSONField(default=dict, help_text="Milliseconds at each 0.5 % of use.")
    configuration = models.JSONField(default=dict)
    posted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "hour", "revision"], name="cache_hour_once"),
            models.CheckConstraint(condition=Q(observed_ms__gte=0), name="cache_hour_observed"),
        ]
        indexes = [models.Index(fields=["hour"])]


class UsageHour(models.Model):
    """Usage records of one document summed by hour and label set; delivered tokens (§6)."""

    QUALITIES = [(q, q) for q in ("measured", "re-tokenised", "estimated")]

    document = models.ForeignKey(Document, models.PROTECT, related_name="usage_hours")
    source = models.ForeignKey(Source, models.PROTECT, related_name="usage_hours")
    hour = models.DateTimeField()
    labels = models.JSONField()
    labels_digest = models.CharField(max_length=64)
    prompt_tokens = models.BigIntegerField(help_text="Prompt once for each request.")
    engine_prompt_tokens = models.BigIntegerField(help_text="Prompt once for each choice.")
    cached_tokens = models.BigIntegerField(null=True)
    generation_tokens = models.BigIntegerField()
    requests = models.BigIntegerField()
    quality = models.CharField(max_length=20, choices=QUALITIES)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["document", "labels_digest", "hour", "quality"], name="usage_hour_once"
            ),
            models.CheckConstraint(
                condition=Q(prompt_tokens__gte=0) & Q(generation_tokens__gte=0),
                name="usage_hour_not_negative",
            ),
        ]
        indexes = [models.Index(fields=["hour"])]

    @property
    def rule_labels(self) -> dict[str, str]:
        """The labels that rules see: its own and its source (method §4)."""
        return {**self.labels, "source": self.source.name}
