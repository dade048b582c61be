"""From a figure to its rows, from there to a line or a reading; samples; downloads in the trail."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from finops.ledger.operations import documents
from finops.trail.models import Entry
from finops.trail.operations import verify as verify_trail
from reports import formulas
from reports.lineage import rank_of
from reports.operations import printing
from reports.roles import ensure_groups
from tests.evidence.conftest import Sealed, next_week
from tests.ledger import small_company
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture
def auditor(db: None) -> Client:
    ensure_groups()
    user = User.objects.create_user("Vera", password="a long enough one")
    user.groups.set(Group.objects.filter(name="auditor"))
    client = Client()
    client.force_login(user)
    return client


def test_every_figure_leads_to_rows_and_on_to_a_document(sealed: Sealed, auditor: Client) -> None:
    where = {"week": WEEK, "revision": 1}
    text = auditor.get(reverse("report-revision", kwargs=where)).content.decode()
    links = sorted(set(re.findall(r'href="(/reports/[^"]+/behind/[^"]+)"', text)))
    figures = sealed.stand.statement["figures"]
    assert len(links) > len(figures)
    for link in links:
        answer = auditor.get(link.replace("&amp;", "&"))
        assert answer.status_code == 200, link
    slug = sealed.stand.statement["workloads"][0]["slug"]
    page = auditor.get(reverse("report-behind", kwargs=where | {"figure": "cost_per_million_tokens"}),
                       {"workload": slug}).content.decode()  # fmt: skip
    assert re.search(r"/imports/documents/[0-9a-f]{64}/.*?line \d+", page, re.S)
    series = re.findall(r"series=(\d+)", page)
    page = auditor.get(
        reverse("report-behind", kwargs=where | {"figure": "prompt_tokens"}),
        {"workload": slug, "series": series[0]},
    ).content.decode()
    assert set(re.findall(r"</a></th><td>([a-z ]+)</td>", page)) == {"prompt"}
    hours = re.findall(r'href="(/reports/[^"]+/hours/[^"]+)"', page)
    hour = auditor.get(hours[0]).content.decode()
    digests = re.findall(r"/imports/documents/([0-9a-f]{64})/", hour)
    assert digests and documents.stored(digests[0]).exists()
    for wrong in ({"figure": "nonsense"}, {"figure": "saving"}):
        assert auditor.get(reverse("report-behind", kwargs=where | wrong)).status_code == 404


def test_every_link_of_a_report_leads_somewhere(sealed: Sealed, auditor: Client) -> None:
    where = {"week": WEEK, "revision": 1}
    text = auditor.get(reverse("report-revision", kwargs=where)).content.decode()
    links = set(re.findall(r'href="(/[^"#]+)', text[text.index("<main") : text.index("</main")]))
    statement = sealed.stand.statement
    for row in statement["tieout"]["invoice"]:
        assert reverse("tieout", kwargs={"period": row["billing_period"]}) in links
    for row in statement["allocation"]:
        if row["place"] == "workload":
            behind = reverse("report-behind", kwargs=where | {"figure": "period_effective_cost"})
            assert f"{behind}?workload={row['label']}" in links
    for link in sorted(links):
        if "/paper/" not in link:  # a worker prints on paper
            assert auditor.get(link.replace("&amp;", "&")).status_code in (200, 202, 302), link


def test_the_week_before_is_led_to_once_it_has_a_report(tmp_path: Path, auditor: Client) -> None:
    """The first report ever closed is compared with a week that only the ledger knows."""
    small_company.found(tmp_path)
    whole_week(tmp_path)
    next_week(tmp_path)
    command("close", "2026-W48", "--by", "Ada")
    page = reverse("report-revision", kwargs={"week": "2026-W48", "revision": 1})
    led = {reverse("report", kwargs={"week": WEEK}),
           f"{reverse('compare')}?right=2026-W48&amp;left={WEEK}"}  # fmt: skip
    text = auditor.get(page).content.decode()
    assert f"{WEEK} to <a" in text
    assert not [one for one in led if f'"{one}"' in text]
    assert auditor.get(reverse("report", kwargs={"week": WEEK})).status_code == 404
    assert command("close", WEEK, "--by", "Ada")["new"]
    text = auditor.get(page).content.decode()
    for one in led:
        assert f'"{one}"' in text
        assert auditor.get(one.replace("&amp;", "&")).status_code == 200


def test_each_place_of_money_and_each_document_lead_to_their_charges(
    sealed: Sealed, auditor: Client
) -> None:
    where = {"week": WEEK, "revision": 1}
    statement = sealed.stand.statement
    text = auditor.get(reverse("report-revision", kwargs=where)).content.decode()
    links = set(re.findall(r'href="(/reports/[^"]+/behind/charges/[^"]*)"', text))
    places = {row["place"] for row in statement["allocation"]} - {"workload"}
    documents_of = [one for one in statement["control_totals"]["documents"] if one["sums"]]
    assert places and documents_of
    assert len(links) == len(places) + len(documents_of) + 1
    for one in statement["control_totals"]["documents"]:
        assert f"/imports/documents/{one['sha256']}/" in text
    for link in sorted(links):
        page = auditor.get(link.replace("&amp;", "&")).content.decode()
        assert re.search(r"/imports/documents/[0-9a-f]{64}/.*?line \d+", page, re.S), link
    behind = reverse("report-behind", kwargs=where | {"figure": "charges"})
    for row in statement["allocation"]:
        if row["place"] != "workload":
            page = auditor.get(behind, {"place": row["place"]}).content.decode()
            assert f"{row['effective']} {row['currency']}" in page
    whole = auditor.get(behind, {"document": documents_of[0]["sha256"]}).content.decode()
    assert documents_of[0]["sums"]["USD"]["effective"] + " USD" in whole
    assert auditor.get(behind, {"place": "nowhere"}).status_code == 404


def test_a_sample_is_repeatable_and_led_to_lines(sealed: Sealed) -> None:
    first = command("sample", WEEK, "--rows", "3", "--seed", "2026-audit", "--by", "Vera")
    again = command("sample", WEEK, "--rows", "3", "--seed", "2026-audit", "--by", "Vera")
    assert first["ok"] and first["rows"] == again["rows"] and len(first["rows"]) == 6
    for one in first["rows"]:
        assert one["rank"] == hashlib.sha256(f"2026-audit:{one['key']}".encode()).hexdigest()
        if one["key"].startswith("charge"):
            assert one["document"]["bytes_whole"] and one["line_text"]
        else:
            assert one["same"] and all(d["bytes_whole"] for d in one["documents"])
    other = command("sample", WEEK, "--rows", "3", "--seed", "another", "--by", "Vera")
    assert {o["key"] for o in other["rows"]} != {o["key"] for o in first["rows"]}
    assert rank_of("a", "b") != rank_of("ab", "")
    entry = Entry.objects.filter(action="sample drawn").order_by("number").first()
    assert entry is not None and entry.actor == "Vera" and entry.detail["seed"] == "2026-audit"


def test_a_sampled_row_without_its_document_is_a_problem(sealed: Sealed) -> None:
    for one in sealed.stand.statement["control_totals"]["documents"]:
        path = documents.stored(one["sha256"])
        path.write_bytes(path.read_bytes() + b" ")
    assert not command("sample", WEEK, "--rows", "2", "--seed", "x", "--by", "Vera")["ok"]


def test_what_leaves_the_house_stands_in_the_trail(sealed: Sealed, auditor: Client) -> None:
    where = {"week": WEEK, "revision": 1}
    pack = auditor.get(reverse("report-pack", kwargs=where), {"paper": "none"})
    assert pack.status_code == 200 and pack["Content-Type"] == "application/zip"
    assert auditor.get(reverse("report-csv", kwargs=where)).status_code == 200
    entries = list(Entry.objects.filter(action="downloaded").order_by("number"))
    assert [one.actor for one in entries] == ["Vera", "Vera"]
    assert hashlib.sha256(pack.content).hexdigest() in entries[0].detail["what"]
    assert entries[0].detail["from"] == "127.0.0.1"
    assert entries[0].detail["digest"] == sealed.stand.digest
    assert verify_trail() == []


def test_the_pack_of_the_web_holds_the_paper_and_tells_when_it_does_not(
    sealed: Sealed, auditor: Client, tmp_path: Path
) -> None:
    where = reverse("report-pack", kwargs={"week": WEEK, "revision": 1})
    with zipfile.ZipFile(io.BytesIO(auditor.get(where, {"paper": "none"}).content)) as without:
        assert "report.pdf" not in without.namelist()
        assert b"report.pdf" not in without.read("README.md")
    assert auditor.get(where).status_code in (200, 202)  # 202: it is being printed
    printing.make("default", WEEK, 1, "A4")
    answer = auditor.get(where)
    assert answer.status_code == 200
    with zipfile.ZipFile(io.BytesIO(answer.content)) as whole:
        assert whole.read("report.pdf").startswith(b"%PDF-")
        assert b"`report.pdf`" in whole.read("README.md")
        figures, ipe = sealed.stand.seal["evidence"], whole.read("IPE.md").decode()  # type: ignore[index]
        whole.extractall(tmp_path / "pack")
    path = tmp_path / "pack.zip"
    path.write_bytes(answer.content)
    found = command("verify", path)
    assert found["ok"] and found["notes"] == []
    said, whole_number = re.fullmatch(r"(\d+) of (\d+) equal\.", found["computed"]).groups()  # type: ignore[union-attr]
    assert said == whole_number
    # the sheet explains why verify.py counts more than the seal says
    alone = figures["figures_computed_again"]
    assert int(said) > alone and f"The {alone} figures alone are the sum of the" in " ".join(
        ipe.split()
    )
    listed = subprocess.run([sys.executable, "verify.py", "--contents"], cwd=tmp_path / "pack",
                            capture_output=True, text=True, check=True).stdout  # fmt: skip
    counts = re.findall(r"^line +\d+  \w+ +(\d+)  ", listed, re.M)
    assert sum(map(int, counts)) == alone


def test_an_open_report_has_rows_but_no_pack(sealed: Sealed, auditor: Client) -> None:
    command("close", "2026-W48", "--by", "Ada")
    where = {"week": "2026-W48", "revision": 1}
    assert auditor.get(reverse("report-pack", kwargs=where)).status_code == 409
    figure = where | {"figure": "period_effective_cost"}
    assert auditor.get(reverse("report-behind", kwargs=figure)).status_code == 200


def _parts(page: str) -> tuple[Decimal, list[Decimal]]:
    """What the page says the charges' parts come to, and the parts that its rows show."""
    said = re.search(r"comes to ([-\d.]+) USD effective", page)
    assert said, page
    cells = re.findall(r'<td class="num">([-\d.]+) USD</td></tr>', page)
    return Decimal(said[1]), [Decimal(cell) for cell in cells]


def test_what_stands_in_a_cost_adds_up_to_it_row_by_row(sealed: Sealed, auditor: Client) -> None:
    statement = sealed.stand.statement
    where = {"week": WEEK, "revision": 1}
    asked = [("", statement["figures"])] + [
        (w["slug"], w["figures"]) for w in statement["workloads"]
    ]
    seen = 0
    for slug, figures in asked:
        for name in ("effective_cost", "period_effective_cost", "cost_per_million_tokens"):
            cost = figures.get(name if name.endswith("cost") else "effective_cost")
            if cost is None:
                continue
            behind = reverse("report-behind", kwargs=where | {"figure": name})
            page = auditor.get(behind, {"workload": slug} if slug else {}).content.decode()
            said, parts = _parts(page)
            assert said == sum(parts) == Decimal(cost), (slug, name)
            seen += 1
    assert seen >= 7


def test_a_shared_charge_stands_in_a_workload_by_its_weight(
    sealed: Sealed, auditor: Client
) -> None:
    """The network line of 1 USD an hour is shared llama=2, mistral=1: two thirds, to four decimals
    more than the pot is written with."""
    behind = reverse(
        "report-behind", kwargs={"week": WEEK, "revision": 1, "figure": "effective_cost"}
    )
    page = auditor.get(behind, {"workload": "llama"}).content.decode()
    of_network = re.findall(r"Network nat-1</td>.*?<td class=\"num\">([\d.]+) USD</td></tr>", page)
    assert of_network and set(of_network[1:]) <= {"0.6666", "0.6667"}
    assert sum(map(Decimal, of_network)) == round(Decimal(len(of_network)) * 2 / 3, 4)


def test_a_formula_says_its_numbers(sealed: Sealed, auditor: Client) -> None:
    figures = sealed.stand.statement["figures"]
    where = {"week": WEEK, "revision": 1}
    page = auditor.get(
        reverse("report-behind", kwargs=where | {"figure": "cost_per_million_tokens"})
    ).content.decode()
    cost, prompt, answer = (
        figures[n] for n in ("effective_cost", "prompt_tokens", "generation_tokens")
    )
    assert f"= {cost} ÷ ({prompt} + {answer}) × 1,000,000" in page
    printed = set(figures) | {n for w in sealed.stand.statement["workloads"] for n in w["figures"]}
    assert printed <= set(formulas.FORMULAS)


def test_who_sealed_stands_on_the_cover_and_in_the_sign_off(
    sealed: Sealed, auditor: Client
) -> None:
    where = reverse("report-revision", kwargs={"week": WEEK, "revision": 1})
    page = auditor.get(where).content.decode()
    cover = page[page.index('class="facts cover"') :]
    assert re.search(r"<dt>Sealed by</dt><dd>Ben, ", cover)
    assert re.search(
        r'<tr><th scope="row">Sealed</th><td>Ben</td>', page[page.index("h-signoff") :]
    )
