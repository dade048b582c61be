"""Signs that cannot be seen: refused where people type, shown where they come from files (§11)."""

from __future__ import annotations

import json
import re
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from finops.core import signs
from finops.ledger.models import CsvMapping, Document, InvoiceAmount, Workload
from finops.ledger.operations.documents import stored
from reports.models import Annotation, ReportEvent
from reports.operations import sealing
from reports.operations.refused import NotAllowed
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.gpu_fleet import Fleet
from tests.reports.helpers import NOW, make_report

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
TURNED = "a\u202efdp.exe"
EACH = ["\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", *map(chr, range(0x202A, 0x202F)),
        *map(chr, range(0x2066, 0x206A)), "\ufeff", "\x00", "\x07", "\x1b", "\x7f", "\x85",
        "\xad", "\u034f", "\u115f", "\u1160", "\u17b4", "\u180e", "\u3164", "\uffa0"]  # fmt: skip


@pytest.mark.parametrize("sign", EACH)
def test_each_such_sign_is_named_and_shown(sign: str) -> None:
    told = signs.refusal(f"ab{sign}c")
    assert told and f"U+{ord(sign):04X} at place 3" in told
    assert signs.shown(f"ab{sign}c") == f"ab\\u{ord(sign):04x}c"
    assert signs.shown_in_bytes(f"ab{sign}c".encode()).decode() == f"ab\\u{ord(sign):04x}c"


def test_tags_which_have_no_shape_are_told_in_two_halves() -> None:
    for place in (0xE0001, 0xE0041, 0xE007F):
        text = f"chat{chr(place)}"
        assert f"U+{place:04X} at place 5" in str(signs.refusal(text))
        shown = signs.shown(text)
        assert shown.isascii() and json.loads(f'"{shown}"') == text
        assert signs.shown_in_bytes(text.encode()).decode() == shown


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


def in_the_field(page: str) -> str:
    """What the browser hands back of the page's field of text: references are signs again."""
    (shown,) = re.findall(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)
    return unescape(re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), shown))


def test_a_log_that_is_shown_again_is_handed_back_as_it_was_pasted(admin: Client) -> None:
    """Its colours are signs that cannot be seen; what is kept after a look is the log."""
    path = "/model\u200e <a&b>"
    log = (
        "\x1b[1;36m(EngineCore_DP0 pid=71)\x1b[0;0m INFO 10-01 10:00:00 [core.py:58] Initializing a "
        f"V1 LLM engine (v0.10.2) with config: model='{path}', max_seq_len=4096"
    )
    page = admin.post(reverse("memory-log"), {"text": log}).content.decode()
    assert "\x1b" not in page and "\u200e" not in page
    assert in_the_field(page) == log
    admin.post(reverse("memory-log"), {"text": in_the_field(page), "keep": "1"})
    kept = Document.objects.get(format="engine-log")
    assert stored(kept.sha256).read_bytes() == log.encode()


def test_columns_of_pasted_lines_keep_their_names(admin: Client) -> None:
    """Windows writes U+200E before days; a heading may begin with one as well."""
    text = "\u200eBetrag;Tag\n1,5;\u200e01.10.2026\n"
    page = admin.post(reverse("mapping-edit"), {"text": text}).content.decode()
    assert "\u200e" not in page
    assert in_the_field(page) == text


def test_constants_of_a_mapping_are_typed(tmp_path: Path) -> None:
    content = {
        "columns": {"\u200eday": "ChargePeriodStart", "amount": "BilledCost"},
        "constants": {"InvoiceIssuerName": TURNED, "BillingCurrency": "EUR"},
    }
    (tmp_path / "m.json").write_text(json.dumps(content))
    with pytest.raises(CommandError, match=r"InvoiceIssuerName: the sign U\+202E at place 2"):
        command("mapping", "rz", "--file", tmp_path / "m.json", "--by", "Ada")
    content["constants"]["InvoiceIssuerName"] = "RZ"
    (tmp_path / "m.json").write_text(json.dumps(content))
    command("mapping", "rz", "--file", tmp_path / "m.json", "--by", "Ada")
    assert "\u200eday" in CsvMapping.objects.get().content["columns"]  # the file's own name


def test_comments_on_a_report_refuse_them() -> None:
    report = make_report()
    for act in (sealing.review, sealing.approve, sealing.send_back):
        with pytest.raises(NotAllowed, match=r"U\+202E at place 2"):
            act(report, by="Benedikt Sommer", at=NOW, comment=TURNED)
    assert [one.kind for one in ReportEvent.objects.all()] == ["closed"]
