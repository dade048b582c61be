"""Files handed over in the browser, and what came of them. Append-only."""

from __future__ import annotations

import uuid

from django.db import models


class Upload(models.Model):
    """One upload: its files wait in the data folder until a worker has read them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    names = models.JSONField(help_text="File names as shown, cleaned.")
    size_bytes = models.BigIntegerField()
    format = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return ", ".join(self.names)


class UploadOutcome(models.Model):
    """What reading an upload gave: the documents list of `ingest`, or the error."""

    upload = models.OneToOneField(Upload, models.PROTECT, related_name="outcome")
    at = models.DateTimeField()
    documents = models.JSONField(default=list)
    error = models.TextField(blank=True)

    @property
    def not_taken(self) -> int:
        """How many of its documents were refused."""
        return sum(document.get("status") == "rejected" for document in self.documents)

    def __str__(self) -> str:
        return self.error or f"{len(self.documents)} documents"
