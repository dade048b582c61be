"""Each clause of PDF/A-3a that we rely on, looked up in the file itself; and the same bytes anywhere.

No validator is among the tests: the words on the report are "made as PDF/A-3a".
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pikepdf
import pytest

from reports import paper
from reports.queries.standing import Standing, standing
from tests.reports.helpers import NOW, make_report, seal_report

pytestmark = pytest.mark.django_db
ACTIVE = ("/JS", "/JavaScript", "/OpenAction", "/AA", "/Launch", "/SubmitForm", "/GoToR", "/XFA")


@pytest.fixture
def sealed() -> Standing:
    report = make_report()
    seal_report(report)
    return standing(report)


def dictionaries(document: pikepdf.Pdf) -> Iterator[Any]:
    for one in document.objects:
        if isinstance(one, pikepdf.Dictionary | pikepdf.Stream):
            yield one


@pytest.mark.parametrize("size", paper.SIZES)
def test_the_clauses_of_an_archival_tagged_pdf(sealed: Standing, size: str) -> None:
    with pikepdf.open(io.BytesIO(paper.pdf(sealed, size=size))) as document:
        root = document.Root
        intent = root.OutputIntents[0]
        assert str(intent.S) == "/GTS_PDFA1" and len(bytes(intent.DestOutputProfile.read_bytes()))
        metadata = document.open_metadata()
        assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "A")
        assert bool(root.MarkInfo.Marked) and "/StructTreeRoot" in root and str(root.Lang)
        assert metadata["dc:title"] and "/Outlines" in root
        assert not document.is_encrypted
        assert "/ID" in document.trailer
        for one in dictionaries(document):
            assert not [key for key in ACTIVE if key in one], one
            if one.get("/Type") == pikepdf.Name.FontDescriptor:
                assert "/FontFile2" in one or "/FontFile3" in one, one.get("/FontName")


def test_what_it_was_printed_from_lies_inside(sealed: Standing) -> None:
    with pikepdf.open(io.BytesIO(paper.pdf(sealed))) as document:
        named = {str(one.UF): one for one in document.Root.AF}
        assert list(named) == ["seal.json", "statement.json", "workloads.csv", "invoices.csv",
                               "places.csv"]  # fmt: skip
        for name, one in named.items():
            assert str(one.AFRelationship) in ("/Source", "/Data") and str(one.Desc)
            stream = one.EF.F
            assert str(stream.Subtype) in ("/application/json", "/text/csv"), name
            dated = NOW.strftime("D:%Y%m%d%H%M%SZ")
            assert {str(stream.Params.CreationDate), str(stream.Params.ModDate)} == {dated}
        content = named["seal.json"].EF.F.read_bytes()
        assert hashlib.sha256(content).hexdigest() == sealed.digest
        said = json.loads(named["statement.json"].EF.F.read_bytes())
        assert said == sealed.statement
        assert len(document.attachments) == 5


PRINT = """
import hashlib, json, sys
import tests.settings
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django; django.setup()
from datetime import datetime, UTC
from finops.core.canonical import canonical_bytes, digest
from reports import paper
from reports.models import Report
from reports.queries.standing import Standing
record = json.load(sys.stdin)
report = Report(week=record["week"], revision=record["revision"], reason=record["reason"],
                prepared_by=record["prepared_by"], digest=record["statement_digest"],
                created_at=datetime(2026, 11, 23, 7, tzinfo=UTC))
stand = Standing(report=report, state="final", statement=record["statement"],
                 digest=digest(canonical_bytes(record)), events=[],
                 dispositions=record["dispositions"], seal=record)
print(hashlib.sha256(paper.pdf(stand)).hexdigest())
"""


@pytest.mark.slow
def test_time_zone_locale_and_hash_seed_change_nothing(sealed: Standing) -> None:
    record = json.dumps(sealed.seal)
    found = {hashlib.sha256(paper.pdf(sealed)).hexdigest()}
    for zone, locale, seed in (
        ("Asia/Kathmandu", "C", "1"),
        ("America/Caracas", "de_DE.UTF-8", "7"),
    ):
        environment = os.environ | {
            "TZ": zone, "LC_ALL": locale, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1",
        }  # fmt: skip
        done = subprocess.run([sys.executable, "-c", PRINT], input=record, text=True,
                              capture_output=True, env=environment)  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found.add(done.stdout.split()[-1])
    assert len(found) == 1
