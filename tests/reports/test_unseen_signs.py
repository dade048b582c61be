"""Signs that cannot be seen: refused where people type, shown where they come from files (§11)."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from finops.core import signs
from finops.ledger.models import Document, InvoiceAmount, Workload
from reports.models import Annotation
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.gpu_fleet import Fleet

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
TURNED = "a\u202efdp.exe"
EACH = ["\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", *map(chr, range(0x202A, 0x202F)),
        *map(chr, range(0x2066, 0x206A)), "\ufeff", "\x00", "\x07", "\x1b", "\x7f", "\x85"]  # fmt: skip


@pytest.mark.parametrize("sign", EACH)
def test_each_such_sign_is_named_and_shown(sign: str) -> None:
    told = signs.refusal(f"ab{sign}c")
    assert told and f"U+{ord(sign):04X} at place 3" in told
    assert signs.shown(f"ab{sign}c") == f"ab\\u{ord(sign):04x}c"
    assert signs.shown_in_bytes(f"ab{sign}c".encode()).decode() == f"ab\\u{ord(sign):04x}c"


@pytest.mark.parametrize(
    "text", ["Zürich – 5\u202f000 €", "مرحبا", "می\u200cخواهم", "👩\u200d💻", "a\tb\r\nc"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert signs.refusal(text) is None and signs.shown(text) == text
    assert signs.shown_in_bytes(text.encode()) == text.encode()


def test_forms_refuse_them_at_their_field(admin: Client) -> None:
    values = {"at": "2026-11-16T10:00", "kind": "config", "text": f"see {TURNED}"}
    answer = admin.post(reverse("annotations"), values)
    assert "U+202E at place 6" in str(answer.context["form"].errors["text"])
    assert not Annotation.objects.exists()
    amount = {"issuer": TURNED, "invoice": "I-1", "billing_period": "2026-10", "amount": "1",
              "currency": "USD"}  # fmt: skip
    answer = admin.post(reverse("tieout", args=["2026-10"]), amount)
    assert "U+202E" in str(answer.context["form"].errors["issuer"])
    assert not InvoiceAmount.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("workload", "add", "chat", "--model", TURNED, "--stack", "vllm", "--purpose", "inference"),
        ("rule", "add", "out-of-scope", "--series", f"job={TURNED}"),
        ("invoice-amount", TURNED, "I-1", "2026-10", "1", "USD"),
        ("snapshot", "decide", "1", "parts", "--reason", TURNED),
    ],
)
def test_commands_refuse_them(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"U\+202E at place 2|U\+202E at place 6"):
        command(*arguments, "--by", "Ada")
    assert not Workload.objects.exists()


def test_a_file_may_have_such_a_name_and_its_page_shows_it(tmp_path: Path, admin: Client) -> None:
    path = focus_file(
        tmp_path / f"{TURNED}.csv", {"ServiceName": "S3\u2066gnp", "BilledCost": "x\u202e"}
    )
    out = StringIO()
    call_command("ingest", str(path), "--by", "Ada", "--json", stdout=out)
    assert "\u202e" not in out.getvalue() and "\\u202e" in out.getvalue()
    (document,) = json.loads(out.getvalue())["documents"]
    assert TURNED in document["path"]  # the escape is JSON's own: what is read is the name
    page = admin.get(reverse("document", args=[document["sha256"]])).content.decode()
    assert "\u202e" not in page and "a\\u202efdp.exe.csv" in page and "x\\u202e" in page
    assert (
        Document.objects.get(pk=document["sha256"]).name == f"{TURNED}.csv"
    )  # the evidence stays as it came


def test_labels_show_theirs(tmp_path: Path, admin: Client) -> None:
    fleet = Fleet()
    fleet.engine(f"chat-{TURNED}", 0.25)
    (document,) = ingested(fleet.write(tmp_path / "a.om"))
    assert document["status"] == "posted"
    page = admin.get(reverse("rightsizing")).content.decode()
    assert "chat-a\\u202efdp.exe" in page and "\u202e" not in page


def test_nothing_of_a_page_is_touched_without_them(admin: Client) -> None:
    """Narrow blanks set thousands apart on every page, and stay."""
    answer: Any = admin.get(reverse("imports"))
    assert answer.status_code == 200 and b"\\u" not in answer.content
