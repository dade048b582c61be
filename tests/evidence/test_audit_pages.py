"""The auditor's pages through the door: verifying, the trail, samples; who may and who may not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import reverse

from finops.ledger.operations import documents
from finops.trail.models import Entry
from finops.trail.operations import verify as verify_trail
from reports.evidence.printed import print_report
from reports.lineage import rank_of
from reports.operations import verification
from reports.tasks import check
from tests.evidence.conftest import Sealed
from tests.reports.conftest import *  # noqa: F403 - the same people
from tests.reports.helpers import NOW, text_of
from tests.reports.test_closing import WEEK

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
Clients = Callable[..., Client]


def checked(client: Client, **given: object) -> str:
    """The page of a check that was asked for and made."""
    answer = client.post(reverse("verify"), given)
    assert answer.status_code == 302 and answer["Location"] != reverse("verify"), answer
    key = answer["Location"].rstrip("/").rpartition("/")[2]
    check.apply(kwargs={"check": key})  # where a broker took the task and no worker runs
    return text_of(client.get(answer["Location"]))


def test_a_sealed_report_is_verified_and_noted(sealed: Sealed, client_of: Clients) -> None:
    client = client_of("auditor", name="Vera")
    assert f"{WEEK}/1" in text_of(client.get(reverse("verify")))
    page = checked(client, what="report", report=f"{WEEK}/1")
    assert "Everything fits." in page
    told = re.search(r"Second computation (\d+) of (\d+) equal\.", page)
    assert told and told[1] == told[2] and int(told[1]) > 500
    assert sealed.stand.digest in page
    entry = Entry.objects.filter(action="verified").get()
    assert entry.actor == "Vera" and entry.detail["ok"] and entry.subject == f"report {WEEK}"
    assert verify_trail() == []


def test_a_changed_ledger_and_changed_evidence_are_named(
    sealed: Sealed, client_of: Clients
) -> None:  # fmt: skip
    assert sealed.stand.seal
    archive = documents.stored(sealed.stand.seal["evidence"]["archive"])
    archive.write_bytes(archive.read_bytes()[:-1] + b"!")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE trail_entry SET actor = 'Nobody' WHERE number = 1")
        cursor.execute("SET LOCAL session_replication_role = origin")
    page = checked(client_of("auditor"), what="report", report=f"{WEEK}/1")
    assert "Not everything fits." in page
    assert "trail entry 1 was changed after it was written" in page
    assert "is not what was sealed" in page
    assert Entry.objects.filter(action="verified").get().detail["ok"] is False


def test_a_file_is_verified_and_not_kept(sealed: Sealed, client_of: Clients) -> None:
    client = client_of("finance", name="Fay")
    pack = sealed.pack()
    page = checked(client, what="file", file=SimpleUploadedFile("../pack.zip", pack))
    assert "Everything fits." in page and "an evidence pack of" in page and "pack.zip" in page
    flipped = pack[:1000] + bytes([pack[1000] ^ 1]) + pack[1001:]
    page = checked(client, what="file", file=SimpleUploadedFile("pack.zip", flipped))
    assert "Not everything fits." in page
    page = checked(client, what="file", file=SimpleUploadedFile("a.txt", b"hello"))
    assert "neither a record, a pack nor a PDF" in page
    signed = print_report(sealed.stand, size="A4", by="Ben", at=NOW, sign=True).signed
    assert signed
    page = checked(client, what="file", file=SimpleUploadedFile("report.pdf", signed))
    assert "Everything fits." in page and "Signed by" in page and sealed.stand.digest in page
    assert not list((verification.settings.DATA / "checks").glob("*/file"))


def test_a_check_says_how_far_it_has_come(sealed: Sealed, client_of: Clients) -> None:
    client = client_of("auditor")
    key = verification.ask(by="Vera", at=NOW)
    place = verification.settings.DATA / "checks" / str(key)
    asked = verification.state_of(str(key))
    assert asked
    steps = [{"title": "Seals", "state": "whole", "problems": []},
             {"title": "Trail", "state": "running", "problems": []}]  # fmt: skip
    verification._write(place, asked | {"done": False, "steps": steps})
    answer = client.get(reverse("verified", kwargs={"key": key}))
    page = answer.content.decode()
    assert 'http-equiv="refresh"' in page and "A worker is verifying" in page
    assert "Seals whole Trail running" in text_of(answer)
    check.apply(kwargs={"check": str(key)})
    page = client.get(reverse("verified", kwargs={"key": key})).content.decode()
    assert 'http-equiv="refresh"' not in page and "Everything fits." in page


def test_the_trail_is_filtered_and_paged_and_bears_its_head(
    sealed: Sealed, client_of: Clients
) -> None:  # fmt: skip
    client = client_of("auditor")
    newest = Entry.objects.order_by("-number").first()
    assert newest
    page = client.get(reverse("trail"))
    text = text_of(page)
    assert newest.digest in text and f"entry {newest.number} " in text
    assert sealed.stand.seal and sealed.stand.seal["trail"]["head"] in text
    assert "it is still there" in text
    everything = Entry.objects.count()
    seen = set(re.findall(r'id="entry-(\d+)"', page.content.decode()))
    address = re.search(r'href="\?([^"]*before=\d+)"', page.content.decode())
    while address:
        page = client.get(reverse("trail") + "?" + address[1].replace("&amp;", "&"))
        found = set(re.findall(r'id="entry-(\d+)"', page.content.decode()))
        assert found and not found & seen
        seen |= found
        address = re.search(r'href="\?([^"]*before=\d+)"', page.content.decode())
    assert len(seen) == everything
    of_ben = client.get(reverse("trail"), {"actor": "Ben", "about": WEEK}).content.decode()
    numbers = {int(one) for one in re.findall(r'id="entry-(\d+)"', of_ben)}
    wanted = Entry.objects.filter(actor="Ben", subject__contains=WEEK)
    assert numbers and numbers == set(wanted.values_list("number", flat=True))
    for wrong in ({"before": "x"}, {"before": "9" * 40}, {"actor": "nobody\0"}):
        assert client.get(reverse("trail"), wrong).status_code == 200


def test_a_sample_is_drawn_noted_and_led_to_its_documents(
    sealed: Sealed, client_of: Clients
) -> None:  # fmt: skip
    client = client_of("auditor", name="Vera")
    given = {"report": f"{WEEK}/1", "rows": "3", "seed": "2026 audit"}
    answer = client.post(reverse("sampler"), given)
    page = client.get(answer["Location"])
    text = text_of(page)
    entry = Entry.objects.filter(action="sample drawn").get()
    assert entry.actor == "Vera" and entry.detail["seed"] == "2026 audit"
    assert f"entry {entry.number} of the trail" in text
    assert "Every row leads to a document that is there and whole." in text
    assert len(entry.detail["keys"]) == 6
    for key in entry.detail["keys"]:
        assert key in text and rank_of("2026 audit", key) in text
    other = client_of("finance").get(answer["Location"])  # the same sheet for whoever asks
    assert re.findall(r"[0-9a-f]{64}", other.content.decode()) == re.findall(
        r"[0-9a-f]{64}", page.content.decode()
    )
    named = re.search(r"/imports/documents/([0-9a-f]{64})/", page.content.decode())
    assert named
    path = documents.stored(named[1])
    path.write_bytes(path.read_bytes() + b" ")
    assert "Not every row leads to a whole document." in text_of(client.get(answer["Location"]))
    for wrong in ({"rows": "0"}, {"rows": "101"}, {"rows": "x"}, {"report": "2026-W01/1"},
                  {"report": "x"}, {"report": ""}):  # fmt: skip
        assert client.post(reverse("sampler"), given | wrong)["Location"] == reverse("sampler")
    assert Entry.objects.filter(action="sample drawn").count() == 1


def test_engineers_and_people_without_a_role_see_no_audit(
    sealed: Sealed, client_of: Clients
) -> None:  # fmt: skip
    where = {"week": WEEK, "revision": 1}
    pages = [reverse("verify"), reverse("trail"), reverse("sampler"),
             reverse("sample-sheet", kwargs=where) + "?rows=2&seed=x"]  # fmt: skip
    for role, status in (("auditor", 200), ("finance", 200), ("admin", 200), ("engineer", 403)):
        client = client_of(role)
        assert [client.get(one).status_code for one in pages] == [status] * 4, role
        shown = client.get(reverse("overview")).content.decode()
        assert ('href="/trail/"' in shown) == (status == 200), role
        assert client.post(reverse("verify"), {"what": "ledger"}).status_code == (
            302 if status == 200 else 403
        )
        assert client.post(reverse("sampler"), {}).status_code == (302 if status == 200 else 403)


def test_what_cannot_be_verified_is_said(sealed: Sealed, client_of: Clients) -> None:
    client = client_of("auditor")
    for given in ({"what": "file"}, {"what": "report", "report": "2026-W01/1"},
                  {"what": "report", "report": "../1"}, {"what": "report", "report": "x"}):  # fmt: skip
        answer = client.post(reverse("verify"), given)
        assert answer["Location"] == reverse("verify"), given
    missing = reverse("verified", kwargs={"key": "00000000-0000-0000-0000-000000000000"})
    assert client.get(missing).status_code == 404
