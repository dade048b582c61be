"""A month delivered again after its week was sealed: proposed by itself, nothing sealed touched (§11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from finops.ledger import signals
from finops.ledger.operations.ingest import ingest
from finops.ledger.queries.snapshots import waiting
from finops.trail.models import Entry
from reports.models import FreshLook, LeftProposal, Report, Seal
from reports.operations import looking_again
from reports.operations.closing import build
from reports.operations.leaving import leave
from reports.operations.looking_again import look_again
from reports.operations.refused import NotAllowed
from reports.queries.proposals import Proposal, proposals
from reports.tasks import look_at_sealed_weeks
from tests.ledger import small_company
from tests.ledger.doors import ingested
from tests.reports.helpers import NOW
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A week that Ada prepared and Ben sealed."""
    small_company.found(tmp_path)
    whole_week(tmp_path)
    command("close", WEEK, "--by", "Ada")
    command("dispose", WEEK, "all", "--text", "Known.", "--by", "Ada")
    command("approve", WEEK, "--by", "Ben")
    assert command("seal", WEEK, "--by", "Ben")["state"] == "final"
    return tmp_path


def again(folder: Path, old: str, new: str) -> None:
    """The month's whole export once more, its support line changed."""
    text = (folder / "whole.csv").read_text()
    assert text.count(old) == 2
    path = folder / f"again-{new}.csv"
    path.write_text(text.replace(old, new))
    assert ingested(path)[0]["status"] == "posted"


def rows() -> list[tuple[object, ...]]:
    seals = [(s.number, s.digest, bytes(s.record)) for s in Seal.objects.order_by("number")]
    reports = [(r.pk, r.digest, bytes(r.statement)) for r in Report.objects.order_by("pk")]
    return [*seals, *reports]


def test_a_month_restated_after_sealing_proposes_a_restatement_by_itself(
    sealed: Path, client_of: Callable[..., Client]
) -> None:
    before = rows()
    again(sealed, "0.70", "9.70")  # support of the week: 0.70, and now 9.70
    assert rows() == before
    (found,) = proposals()
    changes = {(d["workload"], d["figure"]): (d["before"], d["after"]) for d in found.differences}
    sealed_cost, cost_now = changes["", "period_effective_cost"]
    assert Decimal(str(cost_now)) - Decimal(str(sealed_cost)) == 9
    assert found.documents == ["again-9.70.csv"]
    assert "is sealed, and" in found.text and "again-9.70.csv" in found.text
    assert Entry.objects.filter(action="restatement proposed").count() == 1
    finance = client_of("finance")
    page = finance.get(f"/reports/{WEEK}/").content.decode()
    assert "Restatement proposed" in page and "again-9.70.csv" in page
    assert f"Restate {WEEK}, or leave it" in finance.get("/").content.decode()
    assert "Restatement proposed" in finance.get(f"/exceptions/?week={WEEK}").content.decode()
    auditor = client_of("auditor")
    assert "Restatement proposed" in auditor.get(f"/reports/{WEEK}/").content.decode()
    assert f"Restate {WEEK}, or leave it" not in auditor.get("/").content.decode()


def test_later_weeks_tell_of_it_until_it_is_restated(sealed: Path) -> None:
    def told() -> list[str]:
        value = build("2026-W48", NOW + timedelta(days=3650))
        return [e["subject"] for e in value["exceptions"] if e["kind"] == "restatement-proposed"]

    assert told() == []
    again(sealed, "0.70", "9.70")
    assert told() == [WEEK]
    restated = command("restate", WEEK, "--reason", "support came late", "--by", "Ada")
    assert restated["revision"] == 2
    assert (told(), proposals()) == ([], [])


def test_what_is_taken_back_is_not_proposed_any_more(sealed: Path) -> None:
    again(sealed, "0.70", "9.70")
    assert proposals()
    text = (sealed / "whole.csv").read_text()
    (sealed / "third.csv").write_text(text + "\n")
    assert ingested(sealed / "third.csv")[0]["status"] == "posted"
    assert proposals() == []
    rows = Entry.objects.filter(action__startswith="restatement").order_by("number")
    actions = list(rows.values_list("action", flat=True))
    assert actions == ["restatement proposed", "restatement not proposed any more"]


def test_a_proposal_is_left_by_a_person_and_comes_back_with_other_figures(
    sealed: Path, client_of: Callable[..., Client]
) -> None:
    before = rows()
    refused = command("restate", WEEK, "--leave", "--reason", "none", "--by", "Ada")
    assert refused["ok"] is False and "No restatement" in refused["error"]
    again(sealed, "0.70", "9.70")
    later = build("2026-W48", NOW + timedelta(days=3650))
    assert "restatement-proposed" in {e["kind"] for e in later["exceptions"]}
    auditor, finance = client_of("auditor"), client_of("finance")
    address = f"/reports/{WEEK}/leave/"
    assert auditor.post(address, {"text": "x"}).status_code == 403
    assert f'action="{address}"' not in auditor.get(f"/reports/{WEEK}/").content.decode()
    assert f'action="{address}"' in finance.get(f"/reports/{WEEK}/").content.decode()
    finance.post(address, {"text": "  "})
    assert not LeftProposal.objects.exists()
    answer = finance.post(address, {"text": "Under a <tenth> of a dollar."}, follow=True)
    assert "Under a &lt;tenth&gt; of a dollar." in answer.content.decode()
    assert (proposals(), rows()) == ([], before)
    for page in (f"/reports/{WEEK}/", f"/exceptions/?week={WEEK}"):
        text = auditor.get(page).content.decode()
        assert "Restatement left" in text and "Restatement proposed" not in text
        assert "Under a &lt;tenth&gt; of a dollar." in text and "finance" in text
    assert f"Restate {WEEK}, or leave it" not in finance.get("/").content.decode()
    later = build("2026-W48", NOW + timedelta(days=3650))
    assert "restatement-proposed" not in {e["kind"] for e in later["exceptions"]}
    (entry,) = Entry.objects.filter(action="restatement left")
    assert entry.detail["text"] == "Under a <tenth> of a dollar." and WEEK in entry.subject
    with pytest.raises(NotAllowed):
        leave(WEEK, text="again", by="Ada", at=timezone.now())
    look_again(at=timezone.now() + timedelta(days=1))  # the same figures: it stays left
    assert proposals() == []
    again(sealed, "0.70", "8.70")
    (found,) = proposals()
    assert found.left is None
    told = command("restate", WEEK, "--leave", "--reason", "Still small.", "--by", "Ada")
    assert told["left"]["text"] == "Still small." and told["left"]["by"] == "Ada"
    assert (told["revision"], proposals()) == (1, [])


def test_the_proposal_tells_amounts_with_their_currency(sealed: Path) -> None:
    again(sealed, "0.70", "9.70")
    (found,) = proposals()
    assert found.currencies == ("USD", "USD")
    money = [one for one in found.text.partition("now: ")[2].split(";")[:3] if "cost" in one]
    assert money
    for one in money:
        assert re.search(r"[0-9] USD \u2192 [0-9.]+ USD", one), one
    dear = Proposal(found.report, found.at, FreshLook(differences=[
        {"workload": "", "figure": "currency", "before": "USD", "after": "EUR"},
        {"workload": "chat", "figure": "saving_lower", "before": None, "after": "2.005"},
        {"workload": "chat", "figure": "gpu_hours", "before": "168", "after": "169"},
    ], documents=[]))  # fmt: skip
    assert "chat: saving lower n/a \u2192 2.00 EUR; chat: gpu hours 168 \u2192 169." in dear.text


def test_what_does_not_touch_the_week_is_not_looked_at(sealed: Path) -> None:
    text = (sealed / "whole.csv").read_text().replace("2026-11", "2026-09")
    (sealed / "other.csv").write_text(text.replace("2026-12", "2026-10"))
    assert ingested(sealed / "other.csv")[0]["status"] == "posted"
    assert not FreshLook.objects.exists()
    assert look_at_sealed_weeks.apply().get() == 0


def test_the_days_run_finds_what_no_listener_saw(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "tell_of_arrival", lambda at, tell: [])
    again(sealed, "0.70", "9.70")
    assert proposals() == []
    assert look_at_sealed_weeks.apply().get() == 1
    assert look_at_sealed_weeks.apply().get() == 0  # nothing came since
    assert len(proposals()) == 1


def test_a_listener_that_fails_undoes_nothing(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no facts")

    monkeypatch.setattr(looking_again, "build", broken)
    again(sealed, "0.70", "9.70")
    assert proposals() == []


def looked_at(at: datetime) -> None:
    """A look that found nothing, of which no work on its way could be part."""
    FreshLook.objects.create(report=Report.objects.get(), at=at, digest="a" * 64, differences=[])


def test_work_that_began_before_a_look_and_ended_after_it_is_seen_at_once(sealed: Path) -> None:
    began = timezone.now()
    looked_at(began + timedelta(minutes=1))
    text = (sealed / "whole.csv").read_text().replace("0.70", "9.70")
    (sealed / "slow.csv").write_text(text)
    ingest([str(sealed / "slow.csv")], by="Ada", at=began)
    (found,) = proposals()
    assert found.documents == ["slow.csv"]


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_the_days_run_finds_work_that_began_before_a_look_or_the_seal(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, is_looked_at: bool
) -> None:
    report = Report.objects.get()
    began = report.created_at - timedelta(minutes=1)
    monkeypatch.setattr(signals, "tell_of_arrival", lambda at, tell: [])
    if is_looked_at:
        began = report.created_at + timedelta(minutes=1)
        looked_at(began + timedelta(minutes=1))
    text = (sealed / "whole.csv").read_text().replace("0.70", "9.70")
    (sealed / "slow.csv").write_text(text)
    ingest([str(sealed / "slow.csv")], by="Ada", at=began)
    assert proposals() == []
    (look,) = look_again(at=began + timedelta(minutes=5))
    assert look.documents == ["slow.csv"]


def test_a_week_is_looked_at_until_nothing_can_be_on_its_way_and_proposed_once(
    sealed: Path,
) -> None:
    again(sealed, "0.70", "9.70")
    first = FreshLook.objects.get()
    days = [first.at + timedelta(days=day) for day in range(1, 9)]
    assert [look_again(at=day) for day in days] == [[]] * 8
    looks = list(FreshLook.objects.order_by("at"))
    assert 1 < len(looks) < 6  # then nothing is younger than three days before the last look
    assert {str(one.differences) for one in looks} == {str(first.differences)}
    assert Entry.objects.filter(action="restatement proposed").count() == 1
    assert [one.at for one in proposals()] == [first.at]


def test_a_listener_that_fails_is_told_logged_and_given_to_who_decides(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no facts")

    text = (sealed / "whole.csv").read_text().replace("2026-11-1", "2026-11-2")
    (sealed / "other-days.csv").write_text(text.replace("2026-11-23", "2026-11-28"))
    ingested(sealed / "other-days.csv")
    (one,) = waiting()
    monkeypatch.setattr(looking_again, "build", broken)
    answer = command("snapshot", "decide", one.pk, "refused", "--reason", "a test", "--by", "Ada")
    (warning,) = answer["warnings"]
    assert "were not looked at again: ValueError: no facts" in warning
    records = [r for r in caplog.records if "no facts" in r.getMessage()]
    assert warning in [r.getMessage() for r in records]
    assert any(r.exc_info for r in records)  # where it happened


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reports_freshlook SET at = at",
        "DELETE FROM reports_freshlook",
        "UPDATE reports_leftproposal SET text = 'x'",
        "DELETE FROM reports_leftproposal",
    ],
)
def test_looks_and_what_was_left_cannot_be_changed(sealed: Path, statement: str) -> None:
    again(sealed, "0.70", "9.70")
    leave(WEEK, text="Small.", by="Ada", at=timezone.now())
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


def test_the_schema_refuses_looks_that_cannot_be(sealed: Path) -> None:
    report = Report.objects.get()
    good = {"report": report, "at": NOW, "digest": "a" * 64, "differences": []}
    with pytest.raises(IntegrityError, match="fresh_look_digest_is_sha256"), transaction.atomic():
        FreshLook.objects.create(**(good | {"digest": "A"}))
    FreshLook.objects.create(**good)
    with pytest.raises(IntegrityError, match="fresh_look_once_an_instant"), transaction.atomic():
        FreshLook.objects.create(**good)


def test_the_schema_refuses_a_proposal_left_by_nobody_without_a_reason_or_twice(
    sealed: Path,
) -> None:
    report = Report.objects.get()
    look = FreshLook.objects.create(report=report, at=NOW, digest="a" * 64, differences=[])
    good = {"look": look, "text": "Small.", "by": "Ada", "at": NOW}
    for wrong, name in (({"text": ""}, "has_text"), ({"by": ""}, "has_a_person")):
        with pytest.raises(IntegrityError, match=f"left_proposal_{name}"), transaction.atomic():
            LeftProposal.objects.create(**(good | wrong))
    LeftProposal.objects.create(**good)
    with pytest.raises(IntegrityError, match="look_id"), transaction.atomic():
        LeftProposal.objects.create(**good)
