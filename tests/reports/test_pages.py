"""The pages, through the door."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.ledger.which import use_ledger
from reports.models import Annotation, Upload, UploadOutcome
from reports.operations.uploads import clean_name

from .example import statement
from .helpers import make_report, seal_report

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.mark.usefixtures("own_ledger")
def test_an_empty_ledger_leads_to_the_first_report(admin: Client) -> None:
    page = admin.get(reverse("overview")).content.decode()
    for step in (
        "Connect Prometheus",
        "Hand over an invoice",
        "Name the workloads",
        "Close the week",
    ):
        assert step in page
    for name in ("reports", "compare", "exceptions", "workloads", "annotations", "sources",
                 "invoices", "rules", "baselines", "people"):  # fmt: skip
        assert admin.get(reverse(name)).status_code == 200, name


@pytest.mark.usefixtures("own_ledger")
def test_the_report_says_what_the_statement_says(admin: Client) -> None:
    report = make_report()
    page = admin.get(reverse("report", kwargs={"week": report.week})).content.decode()
    for text in (
        statement()["headline"],
        report.digest,
        "17\u202f626.40",
        "between 31\u202f420.12 and 31\u202f424.90",
        "\u22120.310",
        "n/a: no tokens in the period.",
        "ageing: over 180 days",
        "41",
        "Two restarts of 10.0.3.7:8000",
        "Not decided yet.",
        "cd" * 32,
        "Preliminary",
    ):
        assert text in page, text
    assert "<style" not in page and "style=" not in page
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts and all(
        'type="application/json"' in s or 'src="/static/js/' in s for s in scripts
    )


@pytest.mark.usefixtures("own_ledger")
def test_a_report_without_exceptions_says_none(admin: Client) -> None:
    report = make_report(exceptions=[], annotations=[], workloads=[], baselines=[], memory=[],
                         bridge=None, previous=None, trend=[])  # fmt: skip
    page = admin.get(reverse("report", kwargs={"week": report.week})).content.decode()
    section = page.partition('id="h-exceptions"')[2].partition("</section>")[0]
    assert "None." in section
    assert "No baseline has been set" in page


@pytest.mark.usefixtures("own_ledger")
def test_from_preliminary_to_final_by_two_people(client_of: Callable[..., Client]) -> None:
    report = make_report(by="ada")
    ada, ben = client_of("finance", name="ada"), client_of("finance", name="ben")
    where = {"week": report.week, "revision": 1}
    own = ada.post(reverse("report-act", kwargs=where | {"kind": "approve"}), follow=True)
    assert "two people" in own.content.decode()
    ids = [e["id"] for e in statement()["exceptions"]]
    ben.post(reverse("dispose"), {"week": report.week, "exception": ids, "text": "Accepted."})
    offered = "Approve</button>"
    assert offered in ben.get(reverse("report", kwargs={"week": report.week})).content.decode()
    page = ben.post(reverse("report-act", kwargs=where | {"kind": "approve"}), follow=True)
    assert offered not in page.content.decode()
    page = ben.post(reverse("report-act", kwargs=where | {"kind": "seal"}), follow=True)
    assert "provisional" in page.content.decode() and "waiver" in page.content.decode()
    form = {"waived": "provisional-month 2026-11", "comment": "It was exact so far."}
    own = ada.post(reverse("report-act", kwargs=where | {"kind": "waive"}), form, follow=True)
    assert "a second person signs" in own.content.decode()
    ben.post(reverse("report-act", kwargs=where | {"kind": "waive"}), form)
    page = ben.post(reverse("report-act", kwargs=where | {"kind": "seal"}), follow=True)
    text = page.content.decode()
    assert 'class="chip final"' in text
    assert "<dt>Approved by</dt><dd>ben</dd>" in text
    assert "Accepted." in text


@pytest.mark.usefixtures("own_ledger")
def test_lists_compare_and_csv(admin: Client) -> None:
    seal_report(make_report("2026-W46"))
    make_report("2026-W47")
    listing = admin.get(reverse("reports"), {"state": "final"}).content.decode()
    assert "2026-W46" in listing and 'href="/reports/2026-W47/"' not in listing
    both = admin.get(reverse("compare"), {"left": "2026-W46", "right": "2026-W47"})
    assert "Effective cost" in both.content.decode()
    assert admin.get(reverse("compare"), {"left": "2020-W01"}).status_code == 404
    file = admin.get(reverse("report-csv", kwargs={"week": "2026-W47", "revision": 1}))
    lines = file.content.decode().splitlines()
    assert len(lines) == 4 and "17626.401288" in lines[1]
    assert admin.get(reverse("workload", kwargs={"slug": "chat-70b"})).status_code == 200
    assert admin.get(reverse("workload", kwargs={"slug": "none"})).status_code == 404


@pytest.mark.usefixtures("own_ledger")
def test_annotations_are_escaped_and_edited_as_versions(admin: Client) -> None:
    form = {
        "at": "2026-11-18T09:00",
        "kind": "config",
        "text": "<script>alert(1)</script>",
        "url": "",
    }
    assert admin.post(reverse("annotations"), form).status_code == 302
    page = admin.get(reverse("annotations")).content.decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    row = Annotation.objects.get()
    edit = reverse("annotation-edit", kwargs={"pk": row.pk})
    assert admin.post(edit, form | {"text": "better"}).status_code == 302
    assert Annotation.objects.count() == 2
    bad = admin.post(reverse("annotations"), form | {"url": "javascript:alert(1)"})
    assert "must begin with http" in bad.content.decode()
    assert Annotation.objects.count() == 2


def test_the_sample_is_marked_on_every_page_and_uploads_go_to_the_own_ledger(
    admin: Client,
) -> None:
    with use_ledger("sample"):
        make_report()
    for name in ("overview", "reports", "imports", "sources", "rules", "help"):
        assert "Sample organisation." in admin.get(reverse(name)).content.decode(), name
    file = SimpleUploadedFile("../../evil<x>.csv", b"no,format\n1,2\n")
    page = admin.post(reverse("imports"), {"chosen": file}, follow=True)
    assert page.status_code == 200
    assert "rejected" in page.content.decode()
    with use_ledger("default"):
        upload = Upload.objects.get()
        assert upload.names == ["evil_x_.csv"]
        assert UploadOutcome.objects.get().documents[0]["status"] == "rejected"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("../../etc/passwd", "passwd"), ("C:\\a\\b.csv", "b.csv"), (".hidden", "hidden"),
     ("a*b?[c].csv", "a_b_c_.csv"), ("\0", "_"), ("", "file"), ("x" * 300 + ".csv", "x" * 116 + ".csv")],
)  # fmt: skip
def test_file_names_are_not_trusted(given: str, kept: str) -> None:
    assert clean_name(given) == kept


@pytest.mark.usefixtures("own_ledger")
def test_what_does_not_exist_is_not_found(admin: Client) -> None:
    for path in ("/reports/2026-W47/", "/reports/2026-W47/1/", "/reports/2026-W99x/",
                 "/imports/documents/" + "cd" * 32 + "/", "/exceptions/?week=2020-W01"):  # fmt: skip
        status = admin.get(path).status_code
        assert status in (404, 200) and (status == 404 or "exceptions" in path), path


@pytest.mark.usefixtures("own_ledger")
def test_list_pages_ask_the_same_number_of_queries_however_many_weeks(
    admin: Client,
) -> None:
    for week in range(10, 14):
        make_report(f"2026-W{week}")
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(
        connection,
    ) as few:
        admin.get(reverse("reports"))
    for week in range(14, 24):
        make_report(f"2026-W{week}")
    with CaptureQueriesContext(connection) as many:
        admin.get(reverse("reports"))
    assert len(many) == len(few) < 15


def test_the_web_process_never_loads_the_pdf_engine() -> None:
    import subprocess
    import sys

    code = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE']='tests.settings';"
        "import django; django.setup(); import reports.urls, finops.urls, sys;"
        "sys.exit('weasyprint' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
