"""Rules and catalogues that reach into kept sums: the document is read again, once, in one step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import override_settings

from finops.ledger.models import Charge, Document, Reread, Snapshot
from finops.ledger.operations import reach, summing_again
from finops.ledger.queries.snapshots import current_ids
from finops.ledger.tasks import sum_again_soon
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file, hours

SPAN = ("--from", "2026-10-01T00:00:00Z", "--to", "2026-11-01T00:00:00Z")

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture(autouse=True)
def _sums_of_any_document(settings: Any) -> None:
    settings.SUM_LINES_ABOVE = 0


@pytest.fixture
def october(tmp_path: Path) -> Iterator[Path]:
    """Forty lines of two teams, tags in half of them, two H100 lines; a second part beside it."""
    rows = [
        hours(
            f"2026-10-{i % 5 + 1:02d}T10",
            f"2026-10-{i % 5 + 1:02d}T11",
            ResourceId=f"i-{i}",
            SubAccountId=f"team-{i % 2}",
            BilledCost=f"{i}.10",
            Tags='{"team": "chat"}' if i % 4 == 1 else "",
            ChargeDescription="4 H100 GPUs" if i >= 38 else "hours",
        )
        for i in range(40)
    ]
    folder = tmp_path / "october"
    folder.mkdir()
    focus_file(folder / "1.csv", *rows)
    focus_file(folder / "2.csv", {"SubAccountId": "team-9", "ResourceId": "other"})
    ingested(folder)
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose", "inference",
            "--by", "Ada")  # fmt: skip
    yield folder


def places() -> dict[str, Decimal]:
    rows = command("totals", *SPAN, "--by", "workload")["rows"]
    return {row["key"]: Decimal(row["money"]["USD"]["billed"]) for row in rows if row["money"]}


def tagged() -> Decimal:
    return sum((Decimal(f"{i}.10") for i in range(40) if i % 4 == 1), Decimal(0))


def everything() -> Decimal:
    return sum((Decimal(f"{i}.10") for i in range(40)), Decimal(1))


def test_a_rule_reads_the_documents_again_and_its_preview_tells_what_would_move(
    october: Path,
) -> None:
    assert places() == {"unassigned": everything()}
    before = command("rule", "preview", "chat", "--charge", "tag:team=chat", "--by", "Ada")
    assert [(row["from"], row["to"], row["charges"]) for row in before["rows"]] == [
        ("unassigned", "workload chat", 10)
    ]
    assert Decimal(before["rows"][0]["money"]["USD"]["billed"]) == tagged()
    assert places() == {"unassigned": everything()}
    old = current_ids()
    command("rule", "add", "chat", "--charge", "tag:team=chat", "--by", "Ada")
    assert places() == {"chat": tagged(), "unassigned": everything() - tagged()}
    assert not set(old) & set(current_ids())
    lines = Charge.objects.filter(snapshot__in=current_ids(), last_line__isnull=True)
    assert lines.count() == 10 + 2 - 0
    assert Snapshot.objects.filter(pk__in=old).count() == len(old)
    assert Charge.objects.filter(snapshot__in=old).exists()
    assert {one.reason for one in Reread.objects.all()} == {summing_again.REACHED}
    assert Document.objects.count() == 2
    assert command("check-ledger")["ok"]


def test_as_it_stood_before_the_rule_still_reads_the_older_sums(october: Path) -> None:
    from finops.core.period import Period
    from finops.ledger.queries.money_totals import money_total

    then = datetime.now(UTC)
    old = current_ids(then)
    command("rule", "add", "chat", "--charge", "sub_account=team-1", "--by", "Ada")
    assert current_ids(then) == old != current_ids()
    month = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    assert money_total(month, as_of=then).as_json() == money_total(month).as_json()


def test_it_is_done_once_and_only_where_a_rule_can_reach(october: Path) -> None:
    def again() -> int:
        return summing_again.sum_again(by="Ada", at=datetime.now(UTC))

    snapshots = Snapshot.objects.count()
    for conditions in (
        "service=Network",
        "gpu_model=H100",
        "sub_account=team-1,category=Tax",
        "commitment_status=Unused,tag:team=chat",
    ):
        command("rule", "add", "out-of-scope", "--charge", conditions, "--by", "Ada")
    command(
        "rule", "add", "chat", "--charge", "tag:team=chat", "--from", "2026-12-01", "--by", "Ada"
    )
    assert Snapshot.objects.count() == snapshots
    command("rule", "add", "chat", "--charge", "resource=i-5", "--by", "Ada")
    assert Snapshot.objects.count() == snapshots + 1
    assert not summing_again.is_due()
    assert again() == 0
    assert Snapshot.objects.count() == snapshots + 1


def test_another_catalogue_reads_again(october: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not summing_again.is_due()
    monkeypatch.setattr(reach, "catalogue_digest", lambda: "0" * 64)
    assert summing_again.is_due()
    assert summing_again.sum_again(by="Ada", at=datetime.now(UTC)) == 2
    assert not summing_again.is_due()
    assert places() == {"unassigned": everything()}


def test_a_failure_in_the_middle_leaves_all_as_it_was(
    october: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = (list(Charge.objects.values_list("pk", flat=True)), current_ids())

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("finops.ledger.operations.charges.settle", fails)
    with pytest.raises(CommandError, match="killed"):
        command("rule", "add", "chat", "--charge", "tag:team=chat", "--by", "Ada")
    monkeypatch.undo()
    assert (list(Charge.objects.values_list("pk", flat=True)), current_ids()) == held
    with override_settings(SUM_LINES_ABOVE=0):
        assert summing_again.is_due()
        assert summing_again.sum_again(by="Ada", at=datetime.now(UTC)) == 2
    assert places()["chat"] == tagged()


def test_a_rule_of_the_page_leaves_it_to_a_worker(
    october: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finops.ledger.operations import rules

    sent = []
    monkeypatch.setattr(
        "finops.ledger.tasks.sum_again.apply_async", lambda **options: sent.append(options)
    )
    assert not sum_again_soon()
    rules.add_rule(rules.draft("chat", charge="tag:team=chat"), by="Ada", at=datetime.now(UTC))
    assert sum_again_soon()
    assert len(sent) == 1
    assert places() == {"unassigned": everything()}
