"""Pages of data: CSV mappings, the tie-out of a month, GPU memory, start-up logs, right-sizing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.ledger.models import (
    Charge,
    CsvMapping,
    Document,
    EngineStart,
    InvoiceAmount,
    ModelConfig,
)
from finops.ledger.operations.documents import stored
from finops.ledger.queries.tieout import invoice_details, two_views
from reports import mapping_draft
from reports.figures import THIN
from reports.memory_lines import bar_of, lines_of, seen_on_device, together
from reports.models import Upload
from reports.operations.drafts import files_of, put_aside, sweep
from reports.operations.uploads import folder
from reports.roles import PERMISSIONS, ROLES
from tests.core.test_kv import DEEPSEEK_V3, QWEN_3_CODER_30B
from tests.ledger.doors import ingested
from tests.ledger.focus_files import focus_file
from tests.paths import RECORDED

from .helpers import NOW, html_of

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.usefixtures("own_ledger"),
]
BILL = (
    "Datum;Betrag;Leistung;Konto;Notiz\n"
    "03.10.2026;1.234,56;H100;0042;x\n"
    "31.10.2026;0,44;H100;0042;\n"
)
MADE = {
    "c0": "ChargePeriodStart",
    "c1": mapping_draft.SAME,
    "c2": "ServiceName",
    "c3": "BillingAccountId",
    "c4": "",
    "BillingCurrency": "EUR",
    "InvoiceIssuerName": "Rechenzentrum GmbH",
    "dates": "%d.%m.%Y",
    "decimal": ",",
}
PAGES = ["mappings", "memory", "memory-log", "memory-kv", "rightsizing"]
ACTS = [
    ("mapping-edit", {}, {"text": "a;b\n1;2"}, "mapping"),
    ("tieout", {"period": "2026-10"}, {}, "invoice"),
    ("memory-log", {}, {"text": "x", "keep": "1"}, "upload"),
]


# -- who may ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [*ROLES, ""])
def test_the_pages_are_open_to_those_of_the_table(
    role: str, client_of: Callable[..., Client]
) -> None:
    client = client_of(role) if role else client_of()
    for name in PAGES:
        expected = 200 if role in PERMISSIONS["read"][1] else 403
        assert client.get(reverse(name)).status_code == expected, name
    for name, kwargs, data, permission in ACTS:
        answer = client.post(reverse(name, kwargs=kwargs), data)
        assert (answer.status_code != 403) == (role in PERMISSIONS[permission][1]), (role, name)


# -- CSV mappings ----------------------------------------------------------------------------------


def test_a_bill_of_no_known_shape_is_mapped_previewed_kept_and_read(admin: Client) -> None:
    begun = admin.post(
        reverse("mapping-edit"), {"file": SimpleUploadedFile("rechnung.csv", BILL.encode())}
    )
    assert begun.status_code == 302 and "?upload=" in begun["Location"]
    key = begun["Location"].partition("?upload=")[2]
    guessed = html_of(admin.get(begun["Location"]))
    # The heading's words, the dates and the comma were seen; the currency nobody can guess.
    assert '<option value="%d.%m.%Y" selected>' in guessed
    assert '<option value="ChargePeriodStart" selected>' in guessed
    assert '<option value="," selected>' in guessed
    given = MADE | {"upload": key, "file": "rechnung.csv"}
    shown = html_of(admin.post(reverse("mapping-edit"), given | {"action": "preview"}))
    assert ">1234.56</td>" in shown and "Rechenzentrum GmbH" in shown
    assert not CsvMapping.objects.exists() and not Charge.objects.exists()
    answer = admin.post(reverse("mapping-edit"), given | {"action": "ingest", "name": "colo"})
    upload = Upload.objects.get()
    assert answer["Location"] == reverse("upload", kwargs={"key": upload.pk})
    document = Document.objects.get(format="csv:colo")
    assert (document.version, document.charges) == ("1", 2)
    assert sum(one.billed_cost or 0 for one in Charge.objects.all()) == Decimal("1235.00")
    assert {one.effective_cost for one in Charge.objects.all()} == {
        Decimal("1234.56"),
        Decimal("0.44"),
    }
    # Another version: listed with the first, which still names its document.
    admin.post(
        reverse("mapping-edit"),
        given | {"action": "save", "name": "colo", "c4": "ChargeDescription"},
    )
    page = html_of(admin.get(reverse("mappings")))
    assert "version 2" in page and "Version 1" in page and "1 document read by it" in page


def test_pasted_lines_are_mapped_as_well(admin: Client) -> None:
    page = html_of(admin.post(reverse("mapping-edit"), {"text": BILL}))
    assert "Pasted lines" in page and "03.10.2026" in page
    given = MADE | {"text": BILL, "action": "save", "name": "pasted"}
    assert admin.post(reverse("mapping-edit"), given)["Location"] == reverse("mappings")
    assert CsvMapping.objects.get().content["columns"]["Betrag"] == ["BilledCost", "EffectiveCost"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"c0": ""}, "No column stands for ChargePeriodStart"),
        ({"c1": ""}, "No column stands for BilledCost, EffectiveCost or a quantity"),
        ({"c1": "NoSuch"}, "is no column of FOCUS"),
        ({"c2": "ChargePeriodStart"}, "ChargePeriodStart is given more than once"),
        ({"name": "Not a Name"}, "is no name"),
        ({"name": ""}, "is no name"),
        ({"decimal": "x"}, "Decimal is . or ,"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_not_kept_and_says_why(
    change: dict[str, str], said: str, admin: Client
) -> None:
    given = MADE | {"text": BILL, "action": "save", "name": "colo"} | change
    page = html_of(admin.post(reverse("mapping-edit"), given))
    assert said in page and "Not usable yet" in page
    assert not CsvMapping.objects.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\n1\n", "one column only"),
        ("a,a\n1,2\n", "more than once"),
        (",".join(f"c{n}" for n in range(101)) + "\n", "101 columns"),
        ("", "no longer here"),
    ],
)
def test_lines_that_are_no_table_are_refused_in_words(text: str, said: str, admin: Client) -> None:
    answer = admin.post(reverse("mapping-edit"), {"text": text}, follow=True)
    assert said in html_of(answer)


def test_rows_that_do_not_fit_stand_in_the_preview(admin: Client) -> None:
    text = BILL + "<b>;x;y;z;\n"
    page = html_of(admin.post(reverse("mapping-edit"), MADE | {"text": text, "action": "preview"}))
    assert "Rows that would not be taken" in page
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_an_upload_that_nothing_recognises_leads_to_its_columns(admin: Client) -> None:
    answer = admin.post(
        reverse("imports"),
        {"chosen": SimpleUploadedFile("rechnung.csv", BILL.encode())},
        follow=True,
    )
    upload = Upload.objects.get()
    link = f"{reverse('mapping-edit')}?upload={upload.pk}&amp;file=rechnung.csv"
    assert link in html_of(answer)
    assert [path.name for path in files_of(upload.pk)] == ["rechnung.csv"]
    assert admin.get(link.replace("&amp;", "&")).status_code == 200
    # Nothing outside of what was put aside can be named.
    for name in ("../rechnung.csv", "/etc/passwd"):
        assert (
            admin.get(reverse("mapping-edit"), {"upload": str(upload.pk), "file": name}).status_code
            == 302
        )


def test_files_put_aside_leave_after_a_week_but_not_what_a_worker_has_to_read(db: None) -> None:
    lasting = put_aside(SimpleUploadedFile("new.csv", BILL.encode()))
    old = put_aside(SimpleUploadedFile("old.csv", BILL.encode()))
    unread = put_aside(SimpleUploadedFile("unread.csv", BILL.encode()))
    Upload.objects.create(id=unread, names=["unread.csv"], size_bytes=1, at=NOW, by="Ada")
    eight_days_ago = time.time() - 8 * 86_400
    for key in (old, unread):
        os.utime(folder(key), (eight_days_ago, eight_days_ago))
    sweep()
    assert [bool(files_of(key)) for key in (lasting, old, unread)] == [True, False, True]


def test_dates_and_decimals_are_read_off_the_rows() -> None:
    assert mapping_draft.dates_of(["28/10/2026", "13/10/2026"]) == "%d/%m/%Y"
    assert mapping_draft.dates_of(["10/28/2026"]) == "%m/%d/%Y"
    assert mapping_draft.dates_of(["28.10.2026", "03.10.2026", "32.10.2026"]) == "%d.%m.%Y"
    assert mapping_draft.dates_of(["2026-10-28"]) == mapping_draft.dates_of([]) == ""
    assert mapping_draft.decimal_of(["1.234,56"]) == ","
    assert mapping_draft.decimal_of(["1,234.56", "12"]) == "."


# -- the tie-out of a month ------------------------------------------------------------------------


def charges(tmp_path: Path) -> None:
    """October: an invoice of five kinds of lines, one line over the month's end, one of September."""
    from finops.ledger.operations.ingest import ingest

    month = {
        "BillingPeriodStart": "2026-10-01T00:00:00Z",
        "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    }
    november = {
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    }
    path = focus_file(
        tmp_path / "bill.csv",
        month | {"BilledCost": "100.10"},
        month | {"BilledCost": "20", "ChargeCategory": "Tax"},
        month | {"BilledCost": "-5.05", "ChargeCategory": "Credit"},
        # A correction of September's usage, on October's invoice.
        month
        | {
            "BilledCost": "-1.5",
            "ChargeClass": "Correction",
            "ChargePeriodStart": "2026-09-05T00:00:00Z",
            "ChargePeriodEnd": "2026-09-05T01:00:00Z",
        },
        # Two hours, one of them in November.
        month
        | {
            "BilledCost": "2",
            "ChargePeriodStart": "2026-10-31T23:00:00Z",
            "ChargePeriodEnd": "2026-11-01T01:00:00Z",
        },
        # October's usage that November's invoice holds.
        november | {"BilledCost": "7", "InvoiceId": "INV-2"},
    )
    (document,) = ingest([str(path)], by="Ada", at=NOW)
    assert document["charges"] == 6


def test_a_month_ties_out_by_kind_and_in_two_views(tmp_path: Path, admin: Client) -> None:
    charges(tmp_path)
    (one,) = invoice_details("2026-10")
    assert one.row.billed == Decimal("115.55")
    assert {k: str(v) for k, v in one.kinds.items()} == {
        "Usage": "102.10",
        "Tax": "20",
        "Credit": "-5.05",
        "Correction": "-1.5",
    }
    assert sum(one.kinds.values()) == one.row.billed
    (view,) = two_views("2026-10")
    # By hand: 100.10 + 20 − 5.05 + half of 2 are October's own hours; 7 came with November's bill.
    assert (view.invoiced, view.incurred) == (Decimal("115.55"), Decimal("123.05"))
    assert (view.elsewhere, view.from_other_months) == (Decimal("-0.5"), Decimal("7"))
    assert view.invoiced - view.elsewhere + view.from_other_months == view.incurred
    page = html_of(admin.get(reverse("tieout", args=["2026-10"])))
    assert "no issued amount is known yet" in page and "123.05" in page


def test_the_issued_amount_is_typed_in_with_the_invoice_attached(
    tmp_path: Path, admin: Client
) -> None:
    charges(tmp_path)
    address = reverse("tieout", args=["2026-10"])
    given = {
        "issuer": "Cloud Ltd",
        "invoice": "INV-1",
        "billing_period": "2026-10",
        "currency": "USD",
    }
    paper = b"%PDF-1.7 an invoice"
    files = {"attached": SimpleUploadedFile("../in<b>voice.pdf", paper)}
    answer = admin.post(address, given | {"amount": "115.55"} | files, follow=True)
    page = html_of(answer)
    assert "every invoice agrees with its lines" in page and "the attached document" in page
    row = InvoiceAmount.objects.get()
    assert row.document is not None and stored(row.document.pk).read_bytes() == paper
    assert row.document.format == "invoice-paper" and "/" not in row.document.name
    assert admin.get(reverse("document", args=[row.document_id])).status_code == 200
    saved: Any = admin.get(reverse("invoice-paper", args=[row.document_id]))
    assert b"".join(saved.streaming_content) == paper
    assert saved["Content-Disposition"].startswith("attachment;")
    assert saved["Content-Type"] == "application/octet-stream"
    # Only what was attached as an invoice can be saved so.
    assert admin.get(reverse("invoice-paper", args=["ab" * 32])).status_code == 404
    # A second amount takes its place; the same paper again is the same document.
    files = {"attached": SimpleUploadedFile("invoice.pdf", paper)}
    page = html_of(admin.post(address, given | {"amount": "200"} | files, follow=True))
    assert "an invoice differs from its lines" in page and "+84.45" in page
    assert Document.objects.filter(format="invoice-paper").count() == 1
    for change, said in (
        ({"amount": "NaN"}, "errorlist"),
        ({"issuer": ""}, "errorlist"),
        ({"amount": "1", "attached": SimpleUploadedFile("x.pdf", b"")}, "empty"),
    ):
        assert said in html_of(admin.post(address, given | {"amount": "1"} | change))
    assert InvoiceAmount.objects.count() == 2


def test_an_amount_read_from_a_file_names_the_file(tmp_path: Path, admin: Client) -> None:
    charges(tmp_path)
    document = Document.objects.get(format="focus", name="bill.csv")
    InvoiceAmount.objects.create(
        issuer="Cloud Ltd",
        invoice="INV-9",
        billing_period="2026-10",
        currency="USD",
        amount=Decimal("5"),
        document=document,
        at=NOW,
        by="Ada",
    )
    page = html_of(admin.get(reverse("tieout", args=["2026-10"])))
    assert "no line of it is in any file" in page and ">bill.csv</a>" in page
    assert "save it" not in page


def test_a_month_without_lines_says_so_and_no_month_is_not_found(admin: Client) -> None:
    assert "No invoice lines for 2026-01" in html_of(admin.get(reverse("tieout", args=["2026-01"])))
    for name in ("2026-13", "x", "2026"):
        assert admin.get(reverse("tieout", args=[name])).status_code == 404


# -- GPU memory ------------------------------------------------------------------------------------

GIB = 2**30
ROW = {
    "total_bytes": 80 * GIB,
    "driver_bytes": 1 * GIB,
    "free_bytes": 4 * GIB,
    "other_bytes": None,
    "weights_bytes": 15 * GIB,
    "kv_active_bytes": 6 * GIB,
    "kv_unreferenced_bytes": 50 * GIB,
    "graphs_bytes": 1 * GIB,
    "non_torch_bytes": 2 * GIB,
    "unattributed_bytes": 1 * GIB,
    "used_bytes": 75 * GIB,
    "kv_reserved_bytes": 56 * GIB,
}


def test_the_lines_close_and_the_auditor_finds_the_number_of_nvidia_smi() -> None:
    lines = lines_of(ROW)
    assert sum(line["bytes"] or 0 for line in lines) == ROW["total_bytes"]
    assert next(line["bytes"] for line in lines if line["name"] == "other") is None
    said = seen_on_device(ROW).replace("\u202f", " ")
    assert "75.0 GiB in use of 80.0 GiB (93.8 %)" in said and "56.0 GiB of that is the pool" in said
    drawn = str(bar_of(ROW))
    # 15, 6 and 50 of 80 parts of 720 points.
    assert [f'width="{w}"' in drawn for w in ("135", "54", "450")] == [True] * 3
    assert bar_of(ROW | {"total_bytes": None}) is None
    assert "not measured here" in seen_on_device(ROW | {"used_bytes": None})


def test_the_measured_cards_close_together_though_one_tells_less() -> None:
    other = ROW | {"weights_bytes": None, "unattributed_bytes": 16 * GIB}
    row = together([ROW, other, ROW | {"total_bytes": None}])
    assert row is not None and row["total_bytes"] == 160 * GIB
    # The weights are known of one card only: they are part of the remainder of both.
    assert row["weights_bytes"] is None and row["unattributed_bytes"] == 32 * GIB
    assert sum(line["bytes"] or 0 for line in lines_of(row)) == 160 * GIB
    assert together([]) is None


def test_pages_of_memory_without_data_say_what_brings_it(admin: Client) -> None:
    assert "No gauges of memory yet" in html_of(admin.get(reverse("memory")))
    assert "Nothing to size yet" in html_of(admin.get(reverse("rightsizing")))
    for query in ({"week": "2026-W60"}, {"week": "x"}, {"by": "colour"}):
        assert admin.get(reverse("memory"), query).status_code == 404
    page = html_of(admin.get(reverse("rightsizing"), {"setting": "1e9"}))
    assert "A setting is a share from 0.05 to 1" in page
    assert "No gauges of memory in 2020-W01" in html_of(
        admin.get(reverse("memory"), {"week": "2020-W01"})
    )


def test_a_log_is_explained_and_kept_only_when_asked(admin: Client) -> None:
    log = (RECORDED / "logs" / "chat-7b-0.i1.log").read_bytes()
    page = html_of(admin.post(reverse("memory-log"), {"file": SimpleUploadedFile("e.log", log)}))
    assert ">started</span>" in page and "Memory of each GPU" in page
    assert not EngineStart.objects.exists() and not Upload.objects.exists()
    kept = {"file": SimpleUploadedFile("e.log", log), "keep": "1"}
    admin.post(reverse("memory-log"), kept)
    (start,) = EngineStart.objects.all()
    assert admin.get(reverse("engine-start", args=[start.pk])).status_code == 200
    assert reverse("engine-start", args=[start.pk]) in html_of(admin.get(reverse("memory")))


def test_a_failed_start_is_told_with_what_helps_and_what_does_not(admin: Client) -> None:
    text = (
        "INFO 10-01 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.10.2) with config: "
        "model='meta-llama/<b>', max_seq_len=131072\n"
        "ERROR 10-01 10:01:00 [core.py:700] ValueError: No available memory for the cache blocks. "
        "Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    page = html_of(admin.post(reverse("memory-log"), {"text": text}))
    assert "did not start" in page and "What helps" in page and "it does not help" in page
    assert "Raise gpu_memory_utilization" in page and "Lower gpu_memory_utilization" in page
    assert "meta-llama/&lt;b&gt;" in page or "<b>" not in page
    for given, said in (({}, "Choose a log file"), ({"text": "nothing of the kind"}, "")):
        answer = admin.post(reverse("memory-log"), given)
        assert answer.status_code == 200 and said in html_of(answer)


def test_a_configuration_is_reckoned_with_and_not_kept(admin: Client, tmp_path: Path) -> None:
    """Bytes a token as published; 24.0 GiB is what vLLM's own error text says (vllm#34076)."""
    served = {"tensor_parallel": "1", "pipeline_parallel": "1", "kv_dtype": "auto"}
    config = SimpleUploadedFile("config.json", json.dumps(QWEN_3_CODER_30B).encode())
    page = html_of(admin.post(reverse("memory-kv"), served | {"file": config}))
    assert (
        f"<strong>98{THIN}304 bytes</strong>" in page and f"<strong>24.0{THIN}GiB</strong>" in page
    )
    assert f"for 262{THIN}144 tokens" in page and not ModelConfig.objects.exists()
    latent = served | {"text": json.dumps(DEEPSEEK_V3), "tensor_parallel": "8"}
    page = html_of(admin.post(reverse("memory-kv"), latent | {"max_model_len": "1000"}))
    assert (
        f"<strong>70{THIN}272 bytes</strong>" in page and f"for 1{THIN}000 tokens" in page
    )  # 61 × 576 × 2
    assert "kept whole on every GPU" in page

    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN_3_CODER_30B | {"_name_or_path": "Qwen/Coder"}))
    ingested(path)
    here = {"stored": str(ModelConfig.objects.get().pk), "kv_dtype": "fp8", "tensor_parallel": "2"}
    page = html_of(admin.post(reverse("memory-kv"), served | here))
    assert "Qwen/Coder · config.json" in page and f"<strong>24{THIN}576 bytes</strong>" in page
    for given, said in (
        ({}, "Give one configuration"),
        (here | {"text": "{}"}, "Give one configuration"),
        ({"text": '{"model_type": "llama"'}, "pasted.json: line 1, column 23"),
        ({"text": '{"a": 1}'}, "pasted.json:"),
        (here | {"tensor_parallel": "0"}, "greater than or equal to 1"),
        (here | {"pipeline_parallel": "49"}, "49 stages for 48 layers"),
        (here | {"stored": "999"}, "Select a valid choice"),
    ):
        answer = admin.post(reverse("memory-kv"), served | given)
        assert answer.status_code == 200 and said in html_of(answer), given
        assert "On each GPU" not in html_of(answer)
