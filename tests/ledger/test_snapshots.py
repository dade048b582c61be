"""Which delivery counts: replacement, more parts, and a person's word (method §3.2)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from django.utils import timezone

from finops.core.period import month_of
from finops.ledger.models import Charge, Snapshot
from finops.ledger.operations.ingest import ingest
from finops.ledger.operations.snapshots import decide
from finops.ledger.queries.money_totals import money_total
from finops.ledger.queries.snapshots import waiting, with_verdict
from finops.trail.queries import entries
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
OCTOBER = month_of("2026-10")


def billed(as_of: datetime | None = None) -> Decimal | None:
    return money_total(OCTOBER, as_of=as_of).billed("USD")


def verdicts() -> list[str]:
    return list(with_verdict().order_by("pk").values_list("verdict", flat=True))


def early(path: Path, cost: str) -> Path:
    return focus_file(path, hours("2026-10-01T00", "2026-10-10T00", BilledCost=cost))


def late(path: Path, cost: str) -> Path:
    return focus_file(path, hours("2026-10-10T00", "2026-10-20T00", BilledCost=cost))


def test_a_newer_export_replaces_the_older_which_stays_readable(tmp_path: Path) -> None:
    first = datetime(2026, 10, 11, tzinfo=UTC)
    ingest([str(early(tmp_path / "monday.csv", "10"))], by="Ada", at=first)
    ingest(
        [str(focus_file(tmp_path / "tuesday.csv", hours("2026-10-01T00", "2026-10-12T00")))],
        by="Ada",
        at=datetime(2026, 10, 12, tzinfo=UTC),
    )
    assert verdicts() == ["superseded", "current"]
    assert billed() == Decimal("1.00")
    assert billed(as_of=first) == Decimal("10")
    assert Charge.objects.count() == 2


def test_parts_of_one_delivery_count_together(tmp_path: Path) -> None:
    early(tmp_path / "a.csv", "10")
    late(tmp_path / "b.csv", "5")
    ingested(tmp_path)
    assert verdicts() == ["current"]
    assert billed() == Decimal("15")


def test_a_delivery_of_other_days_waits_and_counts_once_a_person_says_more_parts(
    tmp_path: Path,
) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    (document,) = ingested(late(tmp_path / "b.csv", "5"))
    assert document["status"] == "waiting"
    assert document["snapshots"][0]["current"] is False
    assert billed() == Decimal("10")
    (snapshot,) = waiting()
    command("snapshot", "decide", snapshot.pk, "parts", "--reason", "second half", "--by", "Ada")
    assert verdicts() == ["current", "current"]
    assert billed() == Decimal("15")
    assert entries(action="snapshot.decide")[0].actor == "Ada"


def test_a_person_may_say_replacement_or_refuse(tmp_path: Path) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    ingested(late(tmp_path / "b.csv", "5"))
    decide(waiting()[0].pk, "replacement", "Ada", "the export was cut anew")
    assert (verdicts(), billed()) == (["superseded", "current"], Decimal("5"))
    ingested(early(tmp_path / "c.csv", "11"))
    decide(waiting()[0].pk, "refused", "Ada", "a test file")
    assert (verdicts()[-1], billed()) == ("refused", Decimal("5"))


def test_a_decision_is_made_once(tmp_path: Path) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    ingested(late(tmp_path / "b.csv", "5"))
    pk = waiting()[0].pk
    with pytest.raises(ValueError, match="is no verdict"):
        decide(pk, "perhaps", "Ada", "")
    decide(pk, "refused", "Ada", "no")
    with pytest.raises(ValueError, match="it is refused"):
        decide(pk, "parts", "Ada", "yes")
    with pytest.raises(ValueError, match="no snapshot"):
        decide(pk + 100, "parts", "Ada", "yes")


def test_more_parts_never_count_the_same_time_twice(tmp_path: Path) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    ingested(late(tmp_path / "b.csv", "5"))
    (snapshot,) = waiting()
    later = hours("2026-10-09T00", "2026-10-15T00")
    with_the_whole = focus_file(tmp_path / "c.csv", later)
    ingested(with_the_whole)
    assert verdicts() == ["superseded", "superseded", "current"]
    with pytest.raises(ValueError, match="does not wait"):
        decide(snapshot.pk, "parts", "Ada", "")


def test_a_later_part_replaces_only_the_part_it_overlaps(tmp_path: Path) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    ingested(late(tmp_path / "b.csv", "5"))
    decide(waiting()[0].pk, "parts", "Ada", "two halves")
    ingested(late(tmp_path / "c.csv", "7"))
    assert verdicts() == ["current", "superseded", "current"]
    assert billed() == Decimal("17")


def test_another_account_or_month_is_another_scope(tmp_path: Path) -> None:
    ingested(early(tmp_path / "a.csv", "10"))
    other = hours("2026-10-01T00", "2026-10-10T00", BillingAccountId="B", BilledCost="3")
    ingested(focus_file(tmp_path / "b.csv", other))
    assert verdicts() == ["current", "current"]
    assert billed() == Decimal("13")


def test_a_charge_without_length_overlaps_its_own_instant(tmp_path: Path) -> None:
    instant = {
        "ChargePeriodStart": "2026-10-05T10:00:00Z",
        "ChargePeriodEnd": "2026-10-05T10:00:00Z",
    }
    ingested(focus_file(tmp_path / "a.csv", instant))
    ingested(focus_file(tmp_path / "b.csv", instant | {"BilledCost": "2"}))
    assert verdicts() == ["superseded", "current"]
    assert billed() == Decimal("2")


def test_an_older_export_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    from finops.ledger.operations.snapshots import settle

    now = timezone.now()
    ingested(early(tmp_path / "a.csv", "10"))
    mine = Snapshot.objects.get()

    def exported(at: datetime) -> Snapshot:
        return Snapshot(
            delivery=type(mine.delivery).objects.create(at=now, by="Ada", origin="x"),
            issuer=mine.issuer,
            billing_account=mine.billing_account,
            billing_period=mine.billing_period,
            exported_at=at,
            arrived_at=now,
            charge_start=mine.charge_start,
            charge_end=mine.charge_end,
            charges=0,
        )

    newer = exported(datetime(2026, 11, 2, tzinfo=UTC))
    older = exported(datetime(2026, 11, 1, tzinfo=UTC))
    newer.save()
    assert settle([newer], by="Ada", at=now) == {newer.pk: "current"}
    older.save()
    assert settle([older], by="Ada", at=now) == {older.pk: "superseded"}
