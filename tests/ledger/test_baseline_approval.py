"""A baseline is registered by one person and approved by another; which one counts (method §6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from finops.core.statement import statement
from finops.ledger.models import Baseline, BaselineDecision, Document
from finops.ledger.queries.baselines import newest_baselines
from finops.ledger.queries.facts import facts
from finops.trail.models import Entry
from finops.trail.operations import verify as verify_trail
from tests.ledger import small_company
from tests.ledger.doors import command
from tests.ledger.small_company import PERIOD

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture
def company(tmp_path: Path) -> Path:
    small_company.found(tmp_path)
    return tmp_path


def declared(folder: Path, price: str, by: str = "Ada", **more: str) -> dict[str, Any]:
    offer = folder / f"offer-{price}.pdf"
    offer.write_bytes(f"%PDF- an offer of {price}".encode())
    options = [part for name, value in more.items() for part in (f"--{name}", value)]
    answer: dict[str, Any] = command("baseline", "add", "llama", "--per-million", price,
                                     "--document", offer, "--by", by, *options)["baseline"]  # fmt: skip
    return answer


def stated() -> dict[str, Any]:
    return statement(facts(PERIOD, week="2026-W47"))


def price_used() -> Decimal:
    (row,) = stated()["baselines"]
    return Decimal(row["cost_per_million_tokens"])


def kinds() -> set[str]:
    return {row["kind"] for row in stated()["exceptions"]}


def test_until_a_second_person_approves_the_report_says_so(company: Path) -> None:
    made = declared(company, "1000")
    assert (made["state"], made["approved_by"], made["decided_by"]) == ("waiting", None, None)
    value = stated()
    (row,) = value["baselines"]
    assert row["approver"] == "" and Decimal(row["saving"]) == Decimal("10.10")
    assert any("not approved yet: Ada registered it" in note for note in row["notes"])
    assert "baseline-not-approved" in kinds()
    approved = command("baseline", "approve", made["number"], "--by", "Ben")["baseline"]
    assert (approved["state"], approved["approved_by"]) == ("approved", "Ben")
    (row,) = stated()["baselines"]
    assert row["approver"] == "Ben" and Decimal(row["saving"]) == Decimal("10.10")
    assert not any("approved" in note for note in row["notes"])
    assert not kinds() & {"baseline-not-approved", "baseline-waits"}


def test_the_author_cannot_approve_by_any_door(company: Path) -> None:
    number = declared(company, "1000")["number"]
    for name in ("Ada", "ada", " ADA "):  # other capitals make nobody a second person
        with pytest.raises(CommandError, match="another person than its author"):
            command("baseline", "approve", number, "--by", name)
    with pytest.raises(CommandError, match="another person"):
        declared(company, "900", **{"approved-by": "Ada"})
    with (
        pytest.raises(IntegrityError, match="author and approver of a baseline are two people"),
        transaction.atomic(),
    ):
        BaselineDecision.objects.create(
            baseline_id=number, verdict="approved", at=datetime.now(UTC), by="aDA"
        )
    assert BaselineDecision.objects.count() == 0
    assert Baseline.objects.count() == 1


def test_the_newest_approved_one_counts_and_a_newer_waiting_one_is_named(company: Path) -> None:
    first = declared(company, "1000", **{"approved-by": "Ben"})
    assert (first["state"], first["decided_by"]) == ("approved", "Ben")
    second = declared(company, "2000")
    assert price_used() == 1000
    (notice,) = [row for row in stated()["exceptions"] if row["kind"] == "baseline-waits"]
    assert "1 newer baseline waiting" in notice["text"]
    command("baseline", "approve", second["number"], "--by", "Ben")
    assert price_used() == 2000 and "baseline-waits" not in kinds()
    # As it stood before the second was registered, the first counts.
    before = datetime.fromisoformat(second["at"].replace("Z", "+00:00")) - timedelta(microseconds=1)
    assert newest_baselines(before)["llama"].declared_price == 1000


def test_refused_and_withdrawn_baselines_count_nowhere(company: Path) -> None:
    first = declared(company, "1000")["number"]
    refused = command("baseline", "refuse", first, "--by", "Ben", "--text", "No signature.")
    assert refused["baseline"]["state"] == "refused"
    assert refused["baseline"]["decision"] == "No signature."
    assert stated()["baselines"] == []
    second = declared(company, "2000", **{"approved-by": "Ben"})["number"]
    third = declared(company, "3000", **{"approved-by": "Ben"})["number"]
    command("baseline", "withdraw", third, "--by", "Ada", "--text", "Of another model.")
    assert price_used() == 2000
    states = {row["number"]: row["state"] for row in command("baseline", "list")["baselines"]}
    assert states == {first: "refused", second: "approved", third: "withdrawn"}


@pytest.mark.parametrize(
    ("verb", "state"),
    [("approve", "approved"), ("refuse", "approved"), ("approve", "refused"),
     ("withdraw", "refused"), ("withdraw", "waiting"), ("approve", "withdrawn")],
)  # fmt: skip
def test_a_decision_that_does_not_fit_is_refused(company: Path, verb: str, state: str) -> None:
    number = declared(company, "1000")["number"]
    if state in ("approved", "withdrawn"):
        command("baseline", "approve", number, "--by", "Ben")
    if state == "refused":
        command("baseline", "refuse", number, "--by", "Ben", "--text", "no")
    if state == "withdrawn":
        command("baseline", "withdraw", number, "--by", "Ben", "--text", "no")
    with pytest.raises(CommandError, match=f"is {state}") as error:
        command("baseline", verb, number, "--by", "Cy", "--text", "again")
    assert error.value.returncode == 2


def test_decisions_need_a_reason_and_a_baseline(company: Path) -> None:
    number = declared(company, "1000")["number"]
    with pytest.raises(CommandError, match="say why"):
        command("baseline", "refuse", number, "--by", "Ben", "--text", "  ")
    for text, said in (("x" * 2001, "at most 2,000 characters"), ("a\0b", r"U\+0000 at place 2")):
        with pytest.raises(CommandError, match=said):
            command("baseline", "refuse", number, "--by", "Ben", "--text", text)
    with pytest.raises(CommandError, match="no baseline 999"):
        command("baseline", "approve", 999, "--by", "Ben")


def test_what_was_refused_is_decided_for_good_in_the_database_too(company: Path) -> None:
    number = declared(company, "1000")["number"]
    command("baseline", "refuse", number, "--by", "Ben", "--text", "no")
    with pytest.raises(IntegrityError, match="decided for good"), transaction.atomic():
        BaselineDecision.objects.create(
            baseline_id=number, verdict="approved", at=datetime.now(UTC), by="Ben"
        )


def test_every_decision_stands_in_the_trail(company: Path) -> None:
    number = declared(company, "1000")["number"]
    command("baseline", "approve", number, "--by", "Ben", "--text", "Compared with the contract.")
    command("baseline", "withdraw", number, "--by", "Cy", "--text", "Superseded.")
    said = [(e.actor, e.action) for e in Entry.objects.filter(subject__startswith="baseline ")]
    assert said == [
        ("Ada", "baseline added"), ("Ben", "baseline approved"), ("Cy", "baseline withdrawn"),
    ]  # fmt: skip
    assert verify_trail() == []


def test_documents_are_frozen_with_it(company: Path) -> None:
    papers = [company / name for name in ("offer.pdf", "memo.txt", "again.txt")]
    for path, text in zip(papers, ("%PDF- offer", "a memorandum", "a memorandum"), strict=True):
        path.write_text(text)
    several = [part for path in papers for part in ("--document", path)]
    made = command("baseline", "add", "llama", "--per-million", "1000", *several)["baseline"]
    assert len(made["documents"]) == 2  # the same bytes are one document
    measured = command("baseline", "add", "llama", "--from", "2026-11-16T00:00:00Z", "--to",
                       "2026-11-16T06:00:00Z", "--workload", "mistral", "--document",
                       papers[1])["baseline"]  # fmt: skip
    assert made["documents"][1] in measured["documents"] and len(measured["documents"]) >= 2
    assert {row.format for row in Document.objects.filter(pk__in=made["documents"])} == {
        "baseline-evidence"
    }
    (company / "empty.pdf").write_bytes(b"")
    with pytest.raises(CommandError, match="empty"):
        command("baseline", "add", "llama", "--per-million", "1", "--document",
                company / "empty.pdf")  # fmt: skip


def test_age_is_told_and_over_180_days_is_ageing(company: Path) -> None:
    measured = command("baseline", "add", "llama", "--from", "2026-11-16T00:00:00Z", "--to",
                       "2026-11-16T06:00:00Z", "--workload", "mistral")["baseline"]  # fmt: skip
    end = datetime(2026, 11, 16, 6, tzinfo=UTC)
    assert measured["age_days"] == (datetime.now(UTC) - end).days
    (terms,) = newest_baselines().values()
    assert terms.age(end + timedelta(days=180)).days == 180
    from finops.ledger.queries.baselines import baseline_rows

    ages = {days: baseline_rows(end + timedelta(days=days, seconds=1))[0]["ageing"]
            for days in (0, 179, 180, 181)}  # fmt: skip
    assert ages == {0: False, 179: False, 180: True, 181: True}
