"""Parts of split lines of FOCUS 1.3: their tags are reached, and they are no doubles (§3.3, §4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.core.period import month_of
from finops.ledger.models import Charge
from finops.ledger.queries.money_exceptions import money_exceptions
from tests.ledger.doors import command, ingested
from tests.ledger.focus_files import focus_file

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
PART = {"BilledCost": "2.00", "EffectiveCost": "2.00", "Tags": '{"app": "node", "env": "live"}'}


def told() -> list[str]:
    return [one.kind for one in money_exceptions(month_of("2026-10"))]


def test_parts_keep_what_they_are_for_and_are_no_doubles(tmp_path: Path) -> None:
    chat = {"AllocatedResourceId": "pod-1", "AllocatedTags": '{"app": "chat"}'}
    search = {"AllocatedResourceId": "pod-2", "AllocatedTags": '{"app": "search"}'}
    command("workload", "add", "chat", "--model", "m", "--stack", "vllm", "--purpose", "inference")
    command("rule", "add", "chat", "--charge", "tag:app=chat")
    ingested(focus_file(tmp_path / "a.csv", PART | chat, PART | search))
    first, second = Charge.objects.order_by("line")
    assert first.tags == {"app": "chat", "env": "live", "allocated_resource": "pod-1"}
    assert second.tags["allocated_resource"] == "pod-2"
    assert "duplicated-lines" not in told()
    period = month_of("2026-10")
    rows = command("totals", "--from", period.start.isoformat(), "--to", period.end.isoformat(),
                   "--by", "workload")["rows"]  # fmt: skip
    assert {one["key"]: one["money"]["USD"]["billed"] for one in rows}["chat"] == "2.00"


def test_parts_alike_are_doubles_all_the_same(tmp_path: Path) -> None:
    part = PART | {"AllocatedResourceId": "pod-1"}
    ingested(focus_file(tmp_path / "a.csv", part, part))
    assert "duplicated-lines" in told()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b"BilledCost,BilledCost,ChargePeriodStart,ChargePeriodEnd\n", 1, "BilledCost"),
        (b"%HEAD%\n1,\0\n", 2, None),
        (b"%HEAD%\n1\n2,\xff\n", 3, None),
        (b'%HEAD%\n1\n2,"open\n', 3, None),
    ],
)
def test_a_refused_file_names_its_place(
    tmp_path: Path, text: bytes, line: int, column: str | None
) -> None:
    from tests.ledger.focus_files import ROW

    path = tmp_path / "line 9.csv"
    path.write_bytes(text.replace(b"%HEAD%", ",".join(ROW).encode()))
    (document,) = command("ingest", path, "--as", "focus")["documents"]
    (why,) = document["rejections"]
    assert (document["status"], why["line"], why["column"]) == ("rejected", line, column), why
