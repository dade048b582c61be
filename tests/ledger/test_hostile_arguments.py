"""Commands with arguments that cannot be meant: a sentence and exit code 2, never a guess."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command, load_command_class

from finops.core.allocation import parse_shares
from finops.core.period import month_of, parse_instant, week_of
from finops.ledger.access import FetchFailed, checked_for
from finops.ledger.models import SharedKey, Workload
from finops.trail.models import Entry
from reports.management.commands.report import written_whole

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def refused(*arguments: str) -> str:
    out = StringIO()
    with pytest.raises(CommandError) as failure:
        call_command(*arguments, "--json", stdout=out)
    assert failure.value.returncode == 2
    answer: dict[str, Any] = json.loads(out.getvalue())
    assert answer["ok"] is False and answer["error"] == str(failure.value)
    assert "Unexpected" not in answer["error"]
    return str(answer["error"])


def test_who_acts_is_a_name() -> None:
    add = ("workload", "add", "x", "--model", "m", "--stack", "vllm", "--by")
    for name in ("x" * 151, "a\nb", "\x1b[31mAda", "   "):
        assert "--by takes a printable name" in refused(*add, name)
    assert not Workload.objects.exists() and not Entry.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("totals", "--from", "1900-01-01", "--to", "2100-01-01", "--by", "hour"), "10 years"),
        (("totals", "--from", "0001-01-01", "--to", "9999-12-31", "--by", "day"), "100 years"),
        (("totals", "--from", "0001-01-01T00:00:00+14:00", "--to", "2026-01-01"), "calendar"),
        (("rightsize", "--to", "0001-01-01"), "no such window"),
        (("trail", "--limit", "-5"), "--limit must be"),
        (("trail", "--limit", "99999999999999999999"), "--limit must be"),
        (("mapping", "x", "--file", "/dev/zero"), "not a file"),
        (("verify", "/dev/zero"), "not a file"),
        (("verify", ""), "not a file"),
        (("rightsize", "--setting", "2"), "at most 1"),
        (("rightsize", "--setting", "NaN"), "not a number"),
        (("change", "list", "--until", "9999-12-31T23:00:00Z"), "no such weeks"),
        (("change", "list", "--until", "0001-01-01"), "no such weeks"),
        (("close", "0001-W01"), "no week of the years"),
        (("close", "9999-W52"), "no week of the years"),
        (("restate", "2026-W99", "--reason", "x"), "no such ISO week"),
        (("seal", "banana"), "not an ISO week"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_a_share_is_never_cut_short() -> None:
    assert parse_shares("a=999999999999999") == {"a": 999_999_999_999_999}
    with pytest.raises(ValueError, match="15 digits"):
        parse_shares("a=1000000000000000")
    assert not SharedKey.objects.exists()


def test_periods_are_written_in_plain_digits() -> None:
    for text in ("٢٠٢٦-W47", "2026-W４7"):
        with pytest.raises(ValueError, match="not an ISO week"):
            week_of(text, ZoneInfo("UTC"))
    with pytest.raises(ValueError, match="not a month"):
        month_of("٢٠٢٦-10")
    for text in ("0001-01-01T00:00:00+01:00", "9999-12-31T23:00:00-02:00"):
        with pytest.raises(ValueError, match="outside the calendar"):
            parse_instant(text)


def test_arguments_that_do_not_fit_are_told_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    command = load_command_class("finops.ledger", "totals")
    with pytest.raises(SystemExit) as end:
        command.run_from_argv(["manage.py", "totals", "--from", "2026-01-01", "--json"])
    assert end.value.code == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["ok"] is False
    assert "--to" in told.err


def test_a_secret_goes_only_where_it_may() -> None:
    only = "https://prom.example, http://10.0.0.5:9090/"
    for url in ("https://prom.example", "https://prom.example/tenant-a", "http://10.0.0.5:9090"):
        checked_for("HEADROOM_SECRET_A", url, only)
    for url in ("https://prom.example.evil", "http://prom.example", "http://10.0.0.5:90901"):
        with pytest.raises(FetchFailed, match="HEADROOM_SECRET_A__ONLY_FOR"):
            checked_for("HEADROOM_SECRET_A", url, only)
    checked_for("HEADROOM_SECRET_A", "http://anywhere", "")


def test_a_device_or_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    import os
    import stat
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    written_whole(str(pipe), b"the report")
    reader.join(10)
    assert found == [b"the report"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_export_is_no_paper_until_it_was_read(tmp_path: Path) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    from finops.ledger.models import Baseline, Charge, Document, InvoiceAmount
    from finops.ledger.operations.baselines import declare_baseline
    from finops.ledger.operations.ingest import ingest
    from finops.ledger.operations.workloads import NotAccepted, add_workload
    from reports.operations.attaching import enter_amount
    from tests.ledger.focus_files import focus_text
    from tests.reports.helpers import NOW

    path = tmp_path / "export.csv"
    path.write_text(focus_text([{"ResourceId": "i-1"}]))
    add_workload("chat", model="m", stack="vllm", purpose="inference", by="Ada", at=NOW)
    price: dict[str, Any] = {"per_million": "2", "currency": "USD", "by": "Ada", "at": NOW}
    amount = {"issuer": "AWS", "invoice": "1", "billing_period": "2026-10", "amount": "1",
              "currency": "USD"}  # fmt: skip
    with pytest.raises(NotAccepted, match="holds data"):
        declare_baseline("chat", document=path, **price)
    with pytest.raises(ValueError, match="holds data"):
        paper = SimpleUploadedFile("export.csv", path.read_bytes())
        enter_amount(amount, paper, by="Ada", at=NOW)
    assert not Document.objects.exists() and not InvoiceAmount.objects.exists()
    assert ingest([str(path)], by="Ada", at=NOW)[0]["status"] == "posted"
    assert Charge.objects.count() == 1
    declare_baseline("chat", document=path, **price)  # read by now: it may stand as a paper too
    enter_amount(amount, SimpleUploadedFile("export.csv", path.read_bytes()), by="Ada", at=NOW)
    assert Baseline.objects.count() == InvoiceAmount.objects.count() == 1


def test_a_user_that_no_file_names_acts_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import pwd

    def nobody(_: int) -> None:
        raise KeyError("uid not found")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "x")  # so that it is put back as it was
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    call_command("workload", "add", "x", "--model", "m", "--stack", "vllm", stdout=StringIO())
    assert Workload.objects.get().created_by == f"user {os.getuid()}"
