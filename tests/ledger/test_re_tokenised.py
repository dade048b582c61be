"""A FastChat log through the door: the tokenizer is kept, and the quality stands with the tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.ledger.models import Document, UsageHour
from finops.ledger.operations.documents import digest_of, stored
from tests.ledger.doors import command
from tests.sources.test_fastchat import ANSWERED, VOTE, log, words

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_a_log_is_posted_with_its_tokenizer(tmp_path: Path) -> None:
    tokenizer = words(tmp_path)
    path = log(tmp_path, ANSWERED, VOTE)
    (document,) = command("ingest", path, "--as", f"fastchat:{tokenizer}")["documents"]

    assert document["status"] == "posted", document
    (row,) = UsageHour.objects.all()
    assert (row.prompt_tokens, row.generation_tokens, row.quality) == (7, 2, "re-tokenised")
    kept = Document.objects.get(pk=document["sha256"])
    assert kept.format == f"fastchat:{digest_of(tokenizer)}"
    assert stored(digest_of(tokenizer)).read_bytes() == tokenizer.read_bytes()
    assert command("check-ledger")["ok"]


def test_a_tokenizer_that_is_not_there_refuses_the_log(tmp_path: Path) -> None:
    path = log(tmp_path, ANSWERED)
    (document,) = command("ingest", path, "--as", "fastchat:/nowhere.json")["documents"]
    assert document["status"] == "rejected"
    assert "cannot be read" in document["rejections"][0]["reason"]
    assert not Document.objects.exists()
