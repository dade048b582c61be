"""The evidence pack: the same bytes each time, made of what was sealed, computed by itself."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.test import Client

from finops.ledger.models import Document
from finops.ledger.operations import documents
from finops.trail.models import Entry
from reports import figures
from reports.evidence import verify
from reports.evidence.pack import pack
from reports.evidence.sealed import sealed_files
from reports.models import Report, Seal
from reports.queries.standing import report_of, standing
from tests.evidence.conftest import Sealed, later_invoice, next_week, seal_week, unpacked
from tests.reports.conftest import *  # noqa: F403 - the same people
from tests.reports.helpers import html_of
from tests.reports.test_closing import WEEK, command

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_only_a_sealed_week_is_packed(sealed: Sealed, tmp_path: Path) -> None:
    command("close", "2026-W48", "--by", "Ada")
    answer = command("pack", "2026-W48", "-o", tmp_path / "no.zip")
    assert not answer["ok"] and "only a sealed report" in answer["error"]
    assert not (tmp_path / "no.zip").exists()
    answer = command("pack", WEEK, "-o", tmp_path / "yes.zip")
    content = (tmp_path / "yes.zip").read_bytes()
    assert answer["ok"] and answer["sha256"] == hashlib.sha256(content).hexdigest()
    checked = command("verify", tmp_path / "yes.zip")
    assert checked["ok"] and checked["kind"] == "pack" and checked["problems"] == []
    assert checked["digest"] == sealed.stand.digest


def test_the_pack_computes_itself_with_nothing_but_python(sealed: Sealed, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(sealed.pack())) as archive:
        archive.extractall(tmp_path / "unpacked")
    folder = tmp_path / "unpacked"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "verify.py"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    line = next(line for line in done.stdout.splitlines() if line.endswith(" equal."))
    same, _, every = line.split()[0], *line.split()[1:3]
    assert same == every and int(same) > 150
    assert sealed.stand.digest in done.stdout
    if shutil.which("sha256sum"):
        done = subprocess.run(["sha256sum", "-c", "SHA256SUMS", "--quiet"], cwd=folder, text=True)
        assert done.returncode == 0


def test_a_file_too_many_or_missing_is_named(sealed: Sealed, tmp_path: Path) -> None:
    """As when somebody keeps what the program prints beside it."""
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(io.BytesIO(sealed.pack())) as archive:
        archive.extractall(folder)
    (folder / "zz-result.txt").write_text("kept here")
    (folder / "IPE.md").unlink()
    done = computed_by_itself(folder / "verify.py", folder)
    assert done.returncode == 1
    wrong = [line for line in done.stdout.splitlines() if line.startswith("UNEQUAL")]
    assert any("zz-result.txt, listed and found: false in the report, true" in one for one in wrong)
    assert any("IPE.md, listed and found: true in the report, false" in one for one in wrong)
    assert len(wrong) == 3, wrong


def test_a_zip_that_holds_a_file_twice_is_no_whole_pack(sealed: Sealed, tmp_path: Path) -> None:
    """Some programs unpack the first of the two, others the last."""
    content, path = sealed.pack(), tmp_path / "twice.zip"
    files = unpacked(content)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("report.pdf", b"%PDF-1.7 forged")
        for name, one in files.items():
            with warnings.catch_warnings(action="ignore"):
                archive.writestr(name, one)
    (tmp_path / "verify.py").write_bytes(files["verify.py"])
    done = computed_by_itself(tmp_path / "verify.py", path)
    assert done.returncode == 1 and "twice" in done.stdout
    path.write_bytes(content)
    assert computed_by_itself(tmp_path / "verify.py", path).returncode == 0


def computed_by_itself(program: Path, pack_or_folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(pack_or_folder)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_second_computation_knows_nothing_of_the_first() -> None:
    text = Path(verify.__file__).read_text()
    imported = {
        line.split()[1]
        for line in text.splitlines()
        if line[:7] in ("import ", "from da", "from de", "from fr", "from pa", "from co")
    }
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
    assert "finops" not in text and "django" not in text


def test_the_headline_by_hand_from_the_ledgers(sealed: Sealed) -> None:
    """Without verify.py: sums of two tables, as the README tells."""
    files = unpacked(sealed.pack())
    statement = json.loads(files["statement.json"])
    role = {r["series"]: r["role"] for r in rows(files["ledgers/series.csv"])}
    start, end = statement["reaches"]["common_start"], statement["reaches"]["common_end"]
    tokens = {"prompt": 0, "generation": 0}
    for row in rows(files["ledgers/token_hours.csv"]):
        if role[row["series"]] in tokens and start <= row["hour"] < end:
            tokens[role[row["series"]]] += int(row["tokens"])
    figures = statement["figures"]
    counted = figures["prompt_tokens"] + figures["generation_tokens"]
    assert sum(tokens.values()) >= counted > 0
    price = Fraction(figures["effective_cost"]) * 10**6 / counted
    assert abs(Fraction(figures["cost_per_million_tokens"]) - price) < Fraction(1, 10**40)
    charges = rows(files["ledgers/charges.csv"])
    assert len(charges) == statement["control_totals"]["charges"]
    assert str(counted) != "0" and f"{figures['prompt_tokens']:,}" in files["README.md"].decode()


def test_an_outsider_recomputes_the_headline_with_the_readme_alone(sealed: Sealed) -> None:
    """Each step of the README's recipe, done on the CSV by other means, gives its number."""
    files = unpacked(sealed.pack())
    text = files["README.md"].decode()
    hours, charges = rows(files["ledgers/token_hours.csv"]), rows(files["ledgers/charges.csv"])
    cost, tokens, steps = Decimal(0), 0, 0
    for block in text.split("\n### ")[1:-1]:
        slug, start, _, end = re.split(r",? ", block.splitlines()[0])
        for line in block.splitlines():
            step, of, gives = ([*line.strip("| ").split(" | "), "", ""])[:3]
            if match := re.search(r"series ([\d, ]+): (\d+) rows", of):
                mine = [h for h in hours if h["series"] in match[1].split(", ")
                        and start <= h["hour"] < end]  # fmt: skip
                assert len(mine) == int(match[2])
                found = sum(int(h["tokens"]) for h in mine)
                assert f"{found:,}" == gives
                tokens += found
            elif step.startswith("own charges inside"):
                mine = [c for c in charges if (c["place"], c["target"]) == ("workload", slug)]
                found = sum(Decimal(c["effective"]) for c in mine
                            if start <= c["start"] and c["end"] <= end)  # fmt: skip
                assert found == Decimal(gives)
                cost += found
            elif match := re.search(r"span: (-?[\d.]+) × ([\d.]+) ÷ ([\d.]+)$", of):
                share = Decimal(match[1]) * Decimal(match[2]) / Decimal(match[3])
                assert abs(share - Decimal(gives)) < Decimal("0.001")
                cost += Decimal(gives)
            else:
                continue
            steps += 1
    figures = json.loads(files["statement.json"])["figures"]
    assert steps >= 8
    assert cost == Decimal(figures["effective_cost"])
    assert tokens == figures["prompt_tokens"] + figures["generation_tokens"]
    price = Decimal(re.findall(r"cost ÷ tokens × 1,000,000 \| ([\d.]+)", text)[0])
    assert price == Decimal(figures["cost_per_million_tokens"])
    assert f"{cost * 1_000_000 / tokens:.9f}" == f"{price:.9f}"


def test_the_steps_by_hand_are_kept_with_the_rows(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of another version's shape: its packs tell the steps sealed then, or that none were."""
    files = unpacked(sealed.pack())
    steps = files["recipe.md"].decode()
    assert steps.startswith("\n### llama, 2026-11-") and steps in files["README.md"].decode()
    assert "recipe.md" in (sealed.stand.seal or {})["evidence"]["files"]
    monkeypatch.setattr("reports.evidence.pack.sealed_files", lambda _: other_shape(sealed))
    text = unpacked(pack(sealed.stand, printed=None).content)["README.md"].decode()
    assert steps in text
    monkeypatch.setattr(
        "reports.evidence.pack.sealed_files", lambda _: other_shape(sealed, "recipe.md")
    )
    text = unpacked(pack(sealed.stand, printed=None).content)["README.md"].decode()
    assert "were not kept with its rows" in text and "### llama" not in text
    assert "| `recipe.md` |" not in text


def other_shape(sealed: Sealed, *left_out: str) -> dict[str, bytes]:
    """The sealed files as a version that called some columns and tables otherwise had them."""
    files = sealed_files(sealed.stand.seal or {})
    files["ledgers/token_hours.csv"] = files["ledgers/token_hours.csv"].replace(b"tokens", b"count")
    files["ledgers/charges.csv"] = files["ledgers/charges.csv"].replace(b"idle_share,", b"idle,")
    return {name: content for name, content in files.items()
            if name not in ("ledgers/gpu_hours.csv", "ledgers/series.csv", *left_out)}  # fmt: skip


def test_parquet_tells_the_rows_of_the_csv(sealed: Sealed, tmp_path: Path) -> None:
    import duckdb

    files = unpacked(sealed.pack())
    names = [name for name in files if name.endswith(".parquet")]
    assert {name.replace(".parquet", ".csv") for name in names} == {
        name for name in files if name.startswith("ledgers/") and name.endswith(".csv")
    }
    path = tmp_path / "charges.parquet"
    path.write_bytes(files["ledgers/charges.parquet"])
    told = duckdb.sql(f"SELECT line, effective, typeof(line) FROM '{path}'").fetchall()
    said = rows(files["ledgers/charges.csv"])
    assert [(line, effective) for line, effective, _ in told] == [
        (int(row["line"]), row["effective"]) for row in said
    ]
    assert {kind for _, _, kind in told} == {"BIGINT"}


def test_every_column_of_the_pack_is_in_the_data_dictionary(sealed: Sealed) -> None:
    files = unpacked(sealed.pack())
    told = {(row["table"], row["column"]) for row in rows(files["dictionary.csv"])}
    there = {
        (name[8:-4], "tag:*" if column.startswith("tag:") else column)
        for name, content in files.items()
        if name.startswith("ledgers/") and name.endswith(".csv")
        for column in next(csv.reader(io.StringIO(content.decode(), newline="")))
    }
    assert there - told == set()
    assert {table for table, _ in told - there} <= {"charges", "exchange_rates"}
    assert all(row["meaning"] and row["source"] for row in rows(files["dictionary.csv"]))


def test_the_same_seal_gives_the_same_bytes_whatever_comes_later(sealed: Sealed) -> None:
    first = sealed.pack()
    assert sealed.pack() == first
    later_invoice(sealed.folder, "0.93")
    more_readings(sealed.folder)
    assert sealed.pack() == first
    report = Report.objects.get(week=WEEK, revision=1)
    assert hashlib.sha256(bytes(report.statement)).hexdigest() == report.digest
    from reports.evidence.sealed import gather

    again = gather(report, sealed.stand.statement)
    assert again is not None and again.unequal == ()
    record = sealed.stand.seal or {}
    found = {name: hashlib.sha256(one).hexdigest() for name, one in again.files.items()}
    assert found == record["evidence"]["files"], "rows as of the closing changed with later rows"


def more_readings(folder: Path) -> None:
    """Readings of the week that come late: between those known, with other values."""
    from tests.ledger import small_company
    from tests.ledger.doors import ingested

    moment = int(small_company.START.timestamp()) + 30 * 3600 + 17
    model = small_company.ENGINES["b"][0]
    labels = f'instance="b",job="vllm",model_name="{model}",engine="0"'
    lines = ["# TYPE vllm:prompt_tokens counter",
             f"vllm:prompt_tokens_total{{{labels}}} 1900000 {moment}", "# EOF", ""]  # fmt: skip
    path = folder / "late.om"
    path.write_text("\n".join(lines))
    assert ingested(path)[0]["status"] == "posted"


def test_documents_can_be_packed_and_missing_ones_are_named(sealed: Sealed, tmp_path: Path) -> None:
    target = tmp_path / "with.zip"
    command("pack", WEEK, "-o", target, "--documents")
    files = unpacked(target.read_bytes())
    named = [d["sha256"] for d in sealed.stand.statement["control_totals"]["documents"]]
    assert named and all(
        hashlib.sha256(files[f"documents/{sha256}"]).hexdigest() == sha256 for sha256 in named
    )
    documents.stored(named[0]).unlink()
    answer = command("pack", WEEK, "-o", target, "--documents")
    assert not answer["ok"] and "not in the store" in answer["error"]
    assert command("pack", WEEK, "-o", target)["ok"]


def test_evidence_that_is_gone_or_changed_is_said(sealed: Sealed, tmp_path: Path) -> None:
    archive = documents.stored((sealed.stand.seal or {})["evidence"]["archive"])
    content = archive.read_bytes()
    archive.write_bytes(content[:-1] + b"\1")
    answer = command("pack", WEEK, "-o", tmp_path / "no.zip")
    assert not answer["ok"]
    assert any("not what was sealed" in problem for problem in command("verify")["problems"])
    archive.unlink()
    answer = command("pack", WEEK, "-o", tmp_path / "no.zip")
    assert not answer["ok"] and "cannot be read" in answer["error"]
    assert any("missing" in problem for problem in command("verify")["problems"])


def test_another_time_zone_gives_the_same_rows(sealed: Sealed) -> None:
    from finops.core.period import Period, parse_instant
    from finops.ledger.queries.export import tables

    period = Period(*(parse_instant(sealed.stand.statement["period"][n]) for n in ("start", "end")))
    at = sealed.stand.report.created_at
    before, found = os.environ.get("TZ"), []
    try:
        for zone in ("UTC", "Pacific/Chatham"):
            os.environ["TZ"] = zone
            time.tzset()
            found.append([(t.name, t.columns, t.rows) for t in tables(period, at)])
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()
    assert found[0] == found[1]


def test_a_week_that_cannot_be_computed_again_needs_a_second_person(
    sealed: Sealed, client_of: Callable[..., Client]
) -> None:
    """A figure of a later close is changed in the database before it is sealed. Its waiver is
    offered once the second computation has refused the seal, and not before."""
    from django.db import connection

    from finops.core.canonical import canonical_bytes, digest

    later_invoice(sealed.folder, "0.93")
    command("restate", WEEK, "--by", "Ada", "--reason", "a new invoice")
    command("dispose", WEEK, "all", "--text", "Known.", "--by", "Ada")
    command("waive", WEEK, "all", "all", "--text", "Known.", "--by", "Ben")
    command("approve", WEEK, "--by", "Ben")
    early = command("waive", WEEK, "recomputation", "figures", "--text", "x", "--by", "Ben")
    assert not early["ok"] and "nothing to sign for" in early["error"]
    ben = client_of("finance", name="Ben")
    offered = 'value="recomputation figures"'
    assert offered not in html_of(ben.get(f"/reports/{WEEK}/2/"))
    report = Report.objects.get(week=WEEK, revision=2)
    value: dict[str, Any] = json.loads(bytes(report.statement))
    value["figures"]["effective_cost"] = str(Decimal(value["figures"]["effective_cost"]) - 1)
    content = canonical_bytes(value)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE reports_report SET statement = %s, digest = %s WHERE id = %s",
                       [content, digest(content), report.pk])  # fmt: skip
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    answer = command("seal", WEEK, "--by", "Ben")
    assert not answer["ok"] and "not confirmed" in answer["error"]
    assert "figures effective_cost" in answer["error"]
    assert offered in html_of(ben.get(f"/reports/{WEEK}/2/"))
    told = Entry.objects.get(action="seal not confirmed")
    assert (told.actor, told.subject) == ("Ben", f"report {WEEK}")
    assert told.detail["revision"] == 2 and told.detail["digest"] == digest(content)
    assert not command("waive", WEEK, "recomputation", "figures", "--text", "x", "--by", "Ada")[
        "ok"
    ]
    assert command("waive", WEEK, "recomputation", "figures", "--text", "Seen.", "--by", "Ben")[
        "ok"
    ]
    assert offered not in html_of(ben.get(f"/reports/{WEEK}/2/")), "signed for"
    assert command("seal", WEEK, "--by", "Ben")["ok"]
    record = json.loads(bytes(Seal.objects.get(report=report).record))
    assert record["evidence"]["figures_unequal_count"] > 0


def test_whoever_verifies_a_superseded_report_is_told(sealed: Sealed, tmp_path: Path) -> None:
    """The old pack stays the same bytes and whole; that a later revision holds stands beside it."""
    command("pack", WEEK, "-o", tmp_path / "old.zip")
    command("report", WEEK, "--pdf", tmp_path / "old.pdf", "--record", tmp_path / "old.json")
    names = ("old.zip", "old.pdf", "old.json")
    assert all(command("verify", tmp_path / name)["notes"] == [] for name in names)
    later_invoice(sealed.folder, "0.93")
    command("restate", WEEK, "--by", "Ada", "--reason", "the invoice was replaced")
    assert command("verify", tmp_path / "old.zip")["notes"] == [], "not before it is sealed"
    seal_week()
    again = command("pack", WEEK, "--revision", "1", "-o", tmp_path / "again.zip")
    assert (
        again["ok"] and (tmp_path / "again.zip").read_bytes() == (tmp_path / "old.zip").read_bytes()
    )
    for name in names:
        said = command("verify", tmp_path / name)
        assert said["ok"] and said["problems"] == []
        (note,) = said["notes"]
        assert "revision 2 superseded" in note
    command("pack", WEEK, "-o", tmp_path / "new.zip")
    assert command("verify", tmp_path / "new.zip")["notes"] == []


def test_a_restatement_says_what_changed_and_by_which_documents(sealed: Sealed) -> None:
    later_invoice(sealed.folder, "0.93")
    command("restate", WEEK, "--by", "Ada", "--reason", "the invoice was replaced")
    seal_week()
    report = report_of(WEEK)
    assert report is not None and report.revision == 2
    table = (standing(report).seal or {})["restates"]
    assert table["revision"] == 1 and table["reason"] == "the invoice was replaced"
    assert table["digest"] == sealed.stand.digest
    assert any(row["figure"] == "period_effective_cost" for row in table["figures"])
    added = {one["sha256"] for one in table["documents_added"]}
    newest = Document.objects.filter(name="invoice-0.93.csv").get()
    assert newest.pk in added and table["documents_removed"]
    from reports import paper

    shown = (
        paper.html(standing(report)).split("What this revision changed")[1].split("</section>")[0]
    )
    # As printed, both sides, so that the table fits its page; the exact figures are in the seal.
    assert not re.search(r"[.][0-9]{9}", shown)
    row = next(row for row in table["figures"] if row["figure"] == "period_effective_cost")
    for side in ("before", "after"):
        assert f'<td class="num">{figures.money(row[side])}</td>' in shown


def test_a_week_is_sealed_while_a_restatement_of_an_earlier_one_is_open(sealed: Sealed) -> None:
    """The trend tells the sealed revision, and so does the table that it is compared with."""
    next_week(sealed.folder)
    restated = command("restate", WEEK, "--by", "Ada", "--reason", "the invoice was replaced")
    assert (restated["revision"], restated["state"]) == (2, "preliminary")
    seal_week("2026-W48")
    report = report_of("2026-W48")
    assert report is not None
    stand = standing(report)
    assert (stand.seal or {})["evidence"]["figures_unequal"] == []
    files = unpacked(Sealed(stand, sealed.folder).pack())
    (row,) = rows(files["ledgers/earlier_weeks.csv"])
    said = json.loads(files["statement.json"])
    assert (row["revision"], row["digest"]) == ("1", sealed.stand.report.digest)
    first = sealed.stand.statement["figures"]["effective_cost"]
    second = json.loads(bytes(Report.objects.get(week=WEEK, revision=2).statement))
    assert row["effective_cost"] == said["trend"][-2]["effective_cost"] == first
    assert second["figures"]["effective_cost"] != first


def test_a_document_missing_from_this_ledger_is_no_evidence(sealed: Sealed) -> None:
    with pytest.raises(CommandError):
        command("verify", sealed.folder / "whole.csv")
