"""A check that is cut short: neither whole nor wrong, noted as such, and once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from finops.trail.models import Entry
from finops.trail.operations import verify as verify_trail
from reports.evidence import checking
from reports.operations import verification
from reports.tasks import check
from tests.evidence.conftest import Sealed
from tests.evidence.test_audit_pages import checked
from tests.reports.conftest import *  # noqa: F403 - the same people
from tests.reports.helpers import NOW, text_of

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
Clients = Callable[..., Client]


@pytest.fixture(autouse=True)
def _no_other_checks() -> None:
    shutil.rmtree(verification.settings.DATA / "checks", ignore_errors=True)


class Killed(BaseException):
    """The worker's end: nothing of the task goes on."""


def entries() -> list[Entry]:
    return list(Entry.objects.filter(action="verified").order_by("number"))


def asked(monkeypatch: pytest.MonkeyPatch) -> str:
    """A check of all seals that no worker has taken yet."""
    monkeypatch.setattr(verification, "_send", lambda _: None)
    return str(verification.ask(by="Vera", at=NOW))


def page_of(client: Client, key: str) -> str:
    return client.get(reverse("verified", kwargs={"key": key})).content.decode()


def test_figures_that_take_too_long_are_not_wrong(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch, client_of: Clients
) -> None:  # fmt: skip
    monkeypatch.setattr(checking, "LONGEST_SECONDS", 0.001)
    client, file = client_of("auditor"), SimpleUploadedFile("p.zip", sealed.pack())
    page = checked(client, what="file", file=file)
    assert "Not finished." in page and "verify.py took longer than" in page
    assert "fits." not in page and "Not everything" not in page
    (entry,) = entries()
    assert entry.detail["ok"] is None and entry.detail["problems"] == []
    assert entry.detail["not_finished"] == ["p.zip"]
    assert verify_trail() == []
    listed = text_of(client.get(reverse("verify")))
    assert "p.zip not finished" in listed and "0 problems" not in listed


def test_a_program_that_was_killed_computed_nothing() -> None:
    script = b"import os; os.kill(os.getpid(), 9)"
    with pytest.raises(checking.NotFinished, match="ended by signal 9"):
        checking._computed(b"", script)


def test_the_limit_on_time_ends_a_check_without_a_verdict(
    monkeypatch: pytest.MonkeyPatch, client_of: Clients
) -> None:  # fmt: skip
    def late() -> list[str]:
        raise SoftTimeLimitExceeded

    key = asked(monkeypatch)
    monkeypatch.setattr(verification, "verify_trail", late)
    check.apply(kwargs={"check": key})
    page = page_of(client_of("auditor"), key)
    assert "Not finished." in page and "ended after 30 minutes" in page
    assert 'http-equiv="refresh"' not in page
    found = verification.state_of(key)
    assert found and [one["state"] for one in found["steps"]] == [
        "whole", "not finished", "not finished",
    ]  # fmt: skip
    (entry,) = entries()
    assert entry.detail["ok"] is None and len(entry.detail["not_finished"]) == 2


def test_what_was_found_before_the_limit_stays_found(
    monkeypatch: pytest.MonkeyPatch, client_of: Clients
) -> None:  # fmt: skip
    def late() -> list[str]:
        raise SoftTimeLimitExceeded

    key = asked(monkeypatch)
    monkeypatch.setattr(verification, "verify_seals", lambda: ["seal 1 was changed"])
    monkeypatch.setattr(verification, "verify_trail", late)
    check.apply(kwargs={"check": key})
    page = page_of(client_of("auditor"), key)
    assert "Not everything fits." in page and "The check was not finished." in page
    (entry,) = entries()
    assert entry.detail["ok"] is False and entry.detail["problems"] == ["seal 1 was changed"]
    assert len(entry.detail["not_finished"]) == 2


def test_a_killed_worker_leaves_no_page_that_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch, client_of: Clients
) -> None:  # fmt: skip
    key, client = asked(monkeypatch), client_of("auditor")
    assert 'http-equiv="refresh"' in page_of(client, key)
    file = verification.settings.DATA / "checks" / key / "check.json"
    long_ago = time.time() - verification.GIVEN_UP_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    page = page_of(client, key)
    assert 'http-equiv="refresh"' not in page
    assert "Not finished." in page and "No worker has gone on with it" in page
    assert entries() == []  # looking at it writes nothing
    asked(monkeypatch)
    asked(monkeypatch)
    (entry,) = entries()
    assert entry.detail["ok"] is None and entry.detail["check"] == key
    check.apply(kwargs={"check": key})  # delivered after all
    assert len(entries()) == 1 and "Not finished." in page_of(client, key)


def test_a_check_whose_worker_is_killed_each_time_is_given_up(
    monkeypatch: pytest.MonkeyPatch, client_of: Clients
) -> None:  # fmt: skip
    def killed() -> list[str]:
        raise Killed

    key = asked(monkeypatch)
    monkeypatch.setattr(verification, "verify_trail", killed)
    for _ in range(verification.MOST_BEGUN):
        with pytest.raises(Killed):
            verification.run(key)
        assert entries() == []
    verification.run(key)
    page = page_of(client_of("auditor"), key)
    assert "Not finished." in page and "begun 3 times" in page
    assert 'http-equiv="refresh"' not in page
    (entry,) = entries()
    assert entry.detail["ok"] is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_entry_is_written_once_with_the_outcome(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:  # fmt: skip
    """Killed just before or just after the entry: the next run changes neither."""
    key, real = asked(monkeypatch), verification.record

    def killed(**given: object) -> None:
        if when == "after":
            real(**given)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(verification, "verify_trail", lambda: ["first finding"])
    monkeypatch.setattr(verification, "record", killed)
    with pytest.raises(Killed):
        verification.run(key)
    monkeypatch.setattr(verification, "record", real)
    monkeypatch.setattr(verification, "verify_trail", lambda: ["another finding"])
    assert verification.run(key)["done"]
    verification.run(key)
    (entry,) = entries()
    assert entry.detail["problems"] == ["first finding"] and entry.detail["ok"] is False


def test_the_task_has_the_limits_that_the_page_counts_on() -> None:
    assert check.soft_time_limit == verification.SOFT_SECONDS
    assert check.time_limit == verification.HARD_SECONDS < verification.GIVEN_UP_SECONDS
