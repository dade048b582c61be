"""`check-ledger` finds what someone with the keys to database and disk could do."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from finops.ledger.models import Charge, Document, ReadingBlock, Snapshot, TokenHour
from finops.ledger.operations.documents import stored
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file
from tests.ledger.stores import replay
from tests.paths import RECORDED
from tests.trail.test_chain import triggers_off

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def check() -> tuple[bool, str]:
    answer: dict[str, Any] = command("check-ledger")
    return answer["ok"], " ".join(answer["problems"])


@pytest.fixture
def ledger(tmp_path: Path) -> Document:
    ingested(focus_file(tmp_path / "a.csv", {}, {"ListCost": ""}, {"BilledCost": "x"}))
    return Document.objects.get()


def test_a_true_ledger_has_no_problems(ledger: Document) -> None:
    ingested(RECORDED / "raw-samples-5s.json.gz", RECORDED / "ground_truth.jsonl.gz")
    answer = command("check-ledger")
    assert answer["problems"] == []
    assert answer["ok"] is True
    assert answer["checked"]["documents"] == 3
    assert answer["checked"]["charges"] == 2


def test_changed_bytes(ledger: Document) -> None:
    path = stored(ledger.sha256)
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b"1.00", b"2.00", 1))
    try:
        assert "are not those received" in check()[1]
        path.unlink()
        assert "missing from the store" in check()[1]
    finally:
        path.write_bytes(kept)
    assert check() == (True, "")


def test_a_changed_amount(ledger: Document) -> None:
    with triggers_off():
        Charge.objects.filter(line=2).update(billed_cost=99)
    fine, problems = check()
    assert not fine
    assert "no longer sum to its control totals" in problems


def test_a_charge_taken_out(ledger: Document) -> None:
    with triggers_off():
        Charge.objects.filter(line=3).delete()
    _, problems = check()
    assert "2 charges were counted, 1 are there" in problems
    assert "2 charges were delivered, 1 are there" in problems


@pytest.mark.parametrize("column", ["charge_start", "charge_end"])
def test_a_delivery_said_to_be_of_another_time(ledger: Document, column: str) -> None:
    with triggers_off():
        Snapshot.objects.update(**{column: F(column) + timedelta(hours=1)})
    fine, problems = check()
    assert not fine
    assert re.search(r"charges of \S+Z to \S+Z were delivered, \S+Z to \S+Z are there", problems)


def test_changed_counts(ledger: Document) -> None:
    with triggers_off():
        Document.objects.update(rows_rejected=0)
    assert "more rejected rows" in check()[1]
    assert "rows read are not charges, splits of charges and rejections" in check()[1]


def test_changed_tokens_and_readings() -> None:
    ingested(RECORDED / "raw-samples-5s.json.gz")
    hour = TokenHour.objects.filter(tokens__gt=0).order_by("pk").first()
    assert hour is not None
    with triggers_off():
        TokenHour.objects.filter(pk=hour.pk).update(tokens=hour.tokens + 1)
    assert "token hours" in check()[1]
    with triggers_off():
        ReadingBlock.objects.filter(pk=ReadingBlock.objects.order_by("pk")[0].pk).update(readings=1)
    assert "readings were counted" in check()[1]


def test_the_same_bytes_of_two_sources_are_no_problem() -> None:
    """A store read at two addresses, or moved to another: one document, whose readings each source has."""
    asked = ("--from", "2026-11-29T14:00:00Z", "--to", "2026-11-29T15:00:00Z")
    with replay() as store:
        for url in (store.url, store.url.replace("127.0.0.1", "localhost")):
            assert command("collect", "--url", url, *asked)["ok"]
    assert Document.objects.count() == 1
    assert check() == (True, "")
    last = ReadingBlock.objects.order_by("-pk")[0]
    with triggers_off():
        ReadingBlock.objects.filter(pk=last.pk).update(readings=last.readings - 1)
    count = Document.objects.get().readings
    assert (
        f"{count} readings were counted, {count - 1} of {last.series.target.source.name} are"
        in (check()[1])
    )


OWNED = """{"rate_card": "rack", "currency": "EUR", "valid_from": "2026-09-10T00:00:00Z", "rates": [],
"owned": [{"name": "rack-7", "gpu_model": "H100", "gpus": 8, "capex": "240000", "life_months": 48,
"power_kw": "10.2", "pue": "1.35", "tariff_per_kwh": "0.21", "in_service": "2026-09-14"}]}"""


@pytest.mark.parametrize(
    ("column", "change", "told"),
    [
        ("effective_cost", F("effective_cost") + 1, "effective_cost is"),
        ("charge_end", F("charge_end") - timedelta(hours=1), "charge_end is"),
        ("gpu_count", 4, "gpu_count is 4, its document says 8"),
        ("consumed_quantity", 1, "consumed_quantity is 1,"),
        ("rate_card", "rack v2", "rate_card is rack v2, its document says rack v1"),
        ("line", 2, "no card has item 2, which is charged"),
    ],
)
def test_own_hardware_is_computed_again_month_by_month(
    tmp_path: Path, column: str, change: Any, told: str
) -> None:
    card = tmp_path / "card.json"
    card.write_text(OWNED)
    ingested(card)
    assert check() == (True, "")
    months = Charge.objects.order_by("charge_start")
    assert months.count() >= 3, "a charge for each month up to now"
    with triggers_off():
        Charge.objects.filter(pk=months[1].pk).update(**{column: change})
    fine, problems = check()
    assert not fine and "own hardware of rack in 2026-10" in problems and told in problems


def test_a_newer_card_leaves_what_older_ones_priced(tmp_path: Path) -> None:
    for number, tariff in enumerate(("0.21", "0.30")):
        card = tmp_path / f"card-{number}.json"
        card.write_text(OWNED.replace("0.21", tariff).replace("09-10", f"1{number}-10"))
        assert ingested(card)[0]["status"] == "posted"
    assert Charge.objects.filter(rate_card="rack v2").exists()
    assert check() == (True, "")
    with triggers_off():
        Charge.objects.filter(pk=Charge.objects.order_by("pk")[0].pk).delete()
    assert "item 1 of a card is not charged" in check()[1]
