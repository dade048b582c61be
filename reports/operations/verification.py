"""Verifying from a page: what a person asked for is checked by a worker, step by step (method §11).

A check lies in a folder of its own under the data folder: what was asked, the file that was handed
over, and how far the steps have come. It is no record: that a check was made, and what came of it,
is an entry of the trail. A check that was cut short says neither that all fits nor that it does not.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import InterfaceError, OperationalError, connections
from django.utils import timezone
from psycopg.pq import TransactionStatus

from finops.ledger.which import LedgerName, ledger_name, use_ledger
from finops.trail.fingerprints import changed_rows
from finops.trail.guards import guarded_tables, missing_guards
from finops.trail.models import Entry
from finops.trail.operations import record
from finops.trail.operations import verify as verify_trail
from reports.evidence.checking import NotFinished, check_bytes
from reports.evidence.pack import pack
from reports.evidence.sealed import Gone
from reports.operations.printing import appear
from reports.operations.refused import NotAllowed
from reports.operations.sending import left_to_worker
from reports.operations.uploads import clean_name
from reports.queries import papers
from reports.queries.standing import Standing, report_of, standing
from reports.queries.verifying import verify_seals

TASK = "reports.tasks.check"
ACTION = "verified"
KEPT_SECONDS = 7 * 86_400
SOFT_SECONDS, HARD_SECONDS = 1800, 1860
"""After the first a check is told to end, after the second its worker is killed."""
GIVEN_UP_SECONDS = HARD_SECONDS + 60
"""A check of which nothing was written for so long is not being made by anyone."""
MOST_BEGUN = 3
WAITING, RUNNING, WHOLE, WRONG, SAID = "waiting", "running", "whole", "wrong", "not checked"
UNFINISHED = "not finished"
"""The states of a step; `not checked`: there is nothing of the kind to check; `not finished`: it was
cut short, so nothing is known of it."""
LATE = f"The check was ended after {SOFT_SECONDS // 60} minutes."
KILLED = f"The check was begun {MOST_BEGUN} times, and each time its worker was ended from outside."
GIVEN_UP = f"No worker has gone on with it for {GIVEN_UP_SECONDS // 60} minutes."

Found = dict[str, Any]
Step = tuple[str, Callable[[], Found]]


def ask(
    *, by: str, at: datetime, week: str = "", revision: int = 0, file: UploadedFile | None = None
) -> uuid.UUID:
    """Puts a check aside and has it made: of a file, of a sealed report, or, without either, of
    the whole ledger. Raises NotAllowed for a report that is not sealed or a file that is too big.
    """
    asked: Found = {"by": by, "ledger": ledger_name(), "at": at.isoformat()}
    if file is not None:
        if (file.size or 0) > settings.UPLOAD_BYTES:
            raise NotAllowed(f"The file may have {settings.UPLOAD_BYTES // 2**20} MiB.")
        asked |= {"kind": "file", "name": clean_name(file.name or "")}
    elif week:
        report = report_of(week, revision)
        if report is None or standing(report).seal is None:
            raise NotAllowed(f"{week}/{revision} is not a sealed report.")
        asked |= {"kind": "report", "week": week, "revision": revision}
    else:
        asked |= {"kind": "ledger"}
    _tidy()
    key = uuid.uuid4()
    place = _folder() / str(key)
    place.mkdir(mode=0o700)
    if file is not None:
        with (place / "file").open("wb") as target:
            for chunk in file.chunks():
                target.write(chunk)
    _write(place, asked | {"steps": [], "done": False})
    _send(key)
    return key


def _send(key: uuid.UUID) -> None:
    """Leaves the check to a worker; without one it is made now."""
    if not left_to_worker(TASK, check=str(key)):
        run(str(key))


def run(key: str) -> Found:
    """Makes a check, and notes each step as it ends and the outcome in the trail; once."""
    place = _folder() / key
    asked = state_of(key)
    if asked is None or asked["done"]:
        return asked or {}
    with use_ledger(_ledger_of(asked)):
        if "ok" not in asked:  # else it was ended between the outcome and its entry
            _go_through(asked, place)
        _close(key, asked)
    return asked


def _ledger_of(asked: Found) -> LedgerName:
    return "sample" if asked["ledger"] == "sample" else "default"


def _go_through(asked: Found, place: Path) -> None:
    """Every step, unless the time is up or too many workers were killed at it."""
    asked["begun"] = asked.get("begun", 0) + 1
    steps = list(_steps(asked, place))
    asked["steps"] = [{"title": title, "state": WAITING, "problems": []} for title, _ in steps]
    if asked["begun"] > MOST_BEGUN:
        _cut_short(asked, KILLED)
        return
    try:
        for shown, (_, work) in zip(asked["steps"], steps, strict=True):
            shown["state"] = RUNNING
            _write(place, asked)
            shown |= _made(work)
    except SoftTimeLimitExceeded:
        _cut_short(asked, LATE)
        _leave_query()


def _made(work: Callable[[], Found]) -> Found:
    """What a step found, its state by its problems. What cannot be read is wrong; what lacks time,
    room or the database is not finished. Raises SoftTimeLimitExceeded when the time is up."""
    found: Found = {"problems": []}
    try:
        found |= work()
    except SoftTimeLimitExceeded:
        raise
    except NotFinished as error:
        return {"state": UNFINISHED, "text": f"{error}."}
    except (MemoryError, OperationalError, InterfaceError) as error:
        return {"state": UNFINISHED, "text": f"The check stopped: {type(error).__name__}."}
    except (Gone, NotAllowed, ValueError, OSError) as error:
        found = {"problems": [str(error)]}
    except Exception as error:  # noqa: BLE001 - a file from anywhere may break anything
        found = {"problems": [f"the check stopped: {type(error).__name__}"]}
    return {"state": WRONG if found["problems"] else WHOLE} | found


def _cut_short(asked: Found, why: str) -> None:
    """The steps that were not made are not finished, the first of them with the reason."""
    left = [one for one in asked["steps"] if one["state"] in (WAITING, RUNNING)]
    for one in left:
        one["state"] = UNFINISHED
    if left:
        left[0]["text"] = why
    asked["why"] = why


def _leave_query() -> None:
    """Leaves a connection that was cut off within a query; the next one opens another."""
    connection = connections[ledger_name()]
    inner = connection.connection
    if inner is not None and inner.info.transaction_status == TransactionStatus.ACTIVE:
        connection.close()


def _close(key: str, asked: Found) -> None:
    """Writes the outcome, then its entry, then that all is done: whoever is killed in between
    leaves the rest to the next run, which changes no outcome and writes no second entry."""
    place = _folder() / key
    problems = [text for one in asked["steps"] for text in one["problems"]]
    unfinished = "why" in asked or any(one["state"] == UNFINISHED for one in asked["steps"])
    asked |= {"ok": False if problems else None if unfinished else True, "finished": not unfinished}
    _write(place, asked)
    if not Entry.objects.filter(action=ACTION, detail__check=key).exists():
        _note(key, asked, problems)
    asked["done"] = True
    _write(place, asked)
    (place / "file").unlink(missing_ok=True)


def _steps(asked: Found, place: Path) -> Iterator[Step]:
    if asked["kind"] == "file":
        yield asked["name"], lambda: check_bytes((place / "file").read_bytes())
        return
    yield "Seals and reports: digests, chain, acts", lambda: {"problems": verify_seals()}
    yield "Trail: every entry follows the one before it", lambda: {"problems": verify_trail()}
    yield "Rows of reports as they were fixed, and the guards", lambda: {"problems": _rows()}
    if asked["kind"] == "report":
        yield "Evidence pack: its files, and every figure again", partial(_packed, asked)
        for size in ("A4", "Letter"):
            yield f"PDF, {size}: bytes and signature", partial(_printed, asked, size)


def _stand(asked: Found) -> Standing:
    report = report_of(asked["week"], asked["revision"])
    if report is None:
        raise NotAllowed(f"{asked['week']}/{asked['revision']} is gone")
    return standing(report)


def _rows() -> list[str]:
    said = [table for table in guarded_tables() if table.startswith("reports_")]
    return [*changed_rows(said), *missing_guards()]


def _packed(asked: Found) -> Found:
    stand = _stand(asked)
    path = papers.path_of(papers.key_of(stand, "A4"))
    printed = path.read_bytes() if path.exists() else None
    return check_bytes(pack(stand, printed=printed).content)


def _printed(asked: Found, size: str) -> Found:
    """The PDF that people downloaded, where one was made here."""
    key = papers.key_of(_stand(asked), size)
    for kind in ("signed.pdf", "pdf"):
        path = papers.path_of(key, kind)
        if path.exists():
            return check_bytes(path.read_bytes())
    return {"state": SAID, "text": "It was not printed yet, so there is nothing to check."}


def _note(key: str, asked: Found, problems: list[str]) -> None:
    subjects = {"file": "file", "ledger": "ledger"}
    subject = subjects.get(asked["kind"]) or f"report {asked['week']}"
    detail: Found = {n: asked[n] for n in ("name", "revision", "why") if n in asked}
    unchecked = [name for one in asked["steps"] for name in one.get("not_checked", ())]
    unfinished = [one["title"] for one in asked["steps"] if one["state"] == UNFINISHED]
    detail |= {"not_checked": unchecked} if unchecked else {}
    detail |= {} if asked["finished"] else {"not_finished": unfinished}
    record(
        at=timezone.now(),
        actor=asked["by"],
        action=ACTION,
        subject=subject,
        detail=detail | {"check": key, "ok": asked["ok"], "problems": problems[:20]},
    )


def state_of(key: str) -> Found | None:
    """What was asked and how far it has come; None when there is no such check (any more)."""
    try:
        found: Found = json.loads((_folder() / key / "check.json").read_text())
    except FileNotFoundError:
        return None
    return found


def shown(key: str) -> Found | None:
    """As `state_of`; a check that nobody goes on with is shown as not finished."""
    found = state_of(key)
    if found is not None and _is_given_up(key, found):
        found["given_up"] = True
        if "ok" not in found:
            found |= {"ok": None, "finished": False}
            _cut_short(found, GIVEN_UP)
    return found


def _is_given_up(key: str, asked: Found) -> bool:
    try:
        written = (_folder() / key / "check.json").stat().st_mtime
    except FileNotFoundError:  # taken away meanwhile
        return False
    return not asked["done"] and time.time() - written > GIVEN_UP_SECONDS


def _folder() -> Path:
    path: Path = settings.DATA / "checks"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _write(place: Path, value: Found) -> None:
    appear(place / "check.json", json.dumps(value).encode())


def _tidy() -> None:
    """Takes away the checks of more than a week ago; notes those that nobody goes on with."""
    for place in _folder().iterdir():
        if time.time() - place.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(place, ignore_errors=True)
            continue
        asked = state_of(place.name)
        if asked is not None and _is_given_up(place.name, asked):
            if "ok" not in asked:
                _cut_short(asked, GIVEN_UP)
            with use_ledger(_ledger_of(asked)):
                _close(place.name, asked)
