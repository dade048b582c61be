"""Checking one file that left the house: a record, a statement, a pack or a PDF (method §11)."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.db.models import Q

from finops.core.canonical import canonical_bytes, digest
from reports.models import Report, Seal
from reports.queries.standing import SUPERSEDED, Standing, standing

from . import signing
from .pack import SUMS, WORDS, beside, sums_of, told
from .parquet import parquet_files, telling_other_rows
from .sealed import DICTIONARY, zip_bytes

LONGEST_SECONDS = 300
MOST_JSON_BYTES = 64 * 2**20
"""No foreign record or statement is read beyond this: its text takes many times its size."""
NEITHER = "neither a record, a pack nor a PDF"
PRINTED = "report.pdf"


class NotFinished(Exception):
    """A check was cut short: it says neither that the file is whole nor that it is not."""


def check_file(path: Path) -> dict[str, Any]:
    """What is known of a file: `kind`, `digest`, `week` and `problems`, empty when it is whole
    and of this ledger. Raises OSError when it cannot be read, ValueError for another kind of file,
    NotFinished when its figures took too long to compute.
    """
    return check_bytes(path.read_bytes())


def check_bytes(content: bytes) -> dict[str, Any]:
    """As `check_file`, of bytes at hand. Raises ValueError and NotFinished as it does. `notes` say
    that a later revision superseded the report: its bytes stay whole."""
    if content[:5] == b"%PDF-":
        found = _pdf(content)
    elif content[:2] == b"PK":
        found = _pack(content)
    else:
        found = _json(content)
    return found | {"notes": [*found.get("notes", ()), *_superseded(found["digest"])]}


def _superseded(found: str | None) -> list[str]:
    """That the report of this digest, its seal's or its statement's, is no longer the one that holds."""
    if found is None:
        return []
    known = Q(seal__digest=found) | Q(digest=found)
    report = Report.objects.filter(known, events__kind=SUPERSEDED).order_by("-revision").first()
    if report is None:
        return []
    newest = standing(report).sealed_revision
    return [f"revision {newest} superseded this report, which is revision {report.revision}"]


def _json(content: bytes) -> dict[str, Any]:
    value = _object(content)
    problems, found = [], digest(content)
    try:
        whole = canonical_bytes(value) == content
    except (TypeError, ValueError):  # a binary float, or half of a sign
        whole = False
    if not whole:
        problems.append("the file is not in canonical form")
    is_statement = "statement" not in value
    if is_statement:
        known = Report.objects.filter(digest=found).exists()
    else:
        known = Seal.objects.filter(digest=found).exists()
    if not known:
        noun = "report" if is_statement else "seal"
        problems.append(f"no {noun} in this ledger has this digest")
    period = value.get("period")
    holder = (period if isinstance(period, dict) else {}) if is_statement else value
    week = holder.get("week")
    kind = "statement" if is_statement else "seal"
    return {
        "kind": kind,
        "digest": found,
        "week": week if isinstance(week, str) else None,
        "problems": problems,
    }


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object of these bytes. Raises ValueError for anything else, from anywhere."""
    if not content:
        raise ValueError("the file is empty")
    if len(content) > MOST_JSON_BYTES:
        raise ValueError(f"{NEITHER}: too large for a record")
    try:
        value = json.loads(content)
    except UnicodeDecodeError:
        raise ValueError(f"{NEITHER}: no text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{NEITHER}: {error}") from error
    except (ValueError, RecursionError):  # a number of many thousand digits; lists in lists
        raise ValueError(f"{NEITHER}: no JSON that can be read") from None
    if not isinstance(value, dict):
        raise ValueError(f"{NEITHER}: no object")
    return value


def _pack(content: bytes) -> dict[str, Any]:
    """The pack's bytes first, then its figures, by the verify.py that was sealed with it, in a
    process of its own. `not_checked` names files that nothing sealed tells of."""
    problems: list[str] = []
    notes: list[str] = []
    unchecked: list[str] = []
    files = _files_of(content, problems)
    record, week, computed = files.get("seal.json"), None, None
    found = None if record is None else digest(record)
    seal = Seal.objects.filter(digest=found).select_related("report").first()
    if seal is None:
        problems.append(
            "no seal in this ledger has this digest" if found else "it holds no seal.json"
        )
    else:
        stand = standing(seal.report)
        week = stand.week
        problems += [] if problems else _differing(files, stand, seal)
        if not problems:
            unchecked = _otherwise(files, told(stand, files))
            notes = [
                f"{name} tells the rows of its CSV, but not in the bytes this version writes"
                for name in _otherwise(files, parquet_files(files))
            ]
            lines, errors = _computed(content, files["verify.py"])
            problems += [line for line in lines if line.startswith(("UNEQUAL", "This is not"))][:20]
            computed = next((line for line in lines if line.endswith(" equal.")), None)
            if computed is None and not problems:
                problems.append("verify.py stopped: " + errors[-200:])
    return {"kind": "pack", "digest": found, "week": week, "problems": problems, "notes": notes,
            "not_checked": unchecked, "computed": computed}  # fmt: skip


def _otherwise(files: Mapping[str, bytes], written: Mapping[str, bytes]) -> list[str]:
    """The files that this version would write otherwise."""
    return [name for name, content in sorted(written.items()) if files.get(name) != content]


def _files_of(content: bytes, problems: list[str]) -> dict[str, bytes]:
    """The files of a pack; it must be, byte for byte, the zip that is made of them again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(one.file_size for one in archive.infolist()) > 2 * len(content):
                raise ValueError("its files are larger than itself")
            if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
                raise ValueError("its files are packed, and no pack from here is")  # may be a bomb
            files = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, NotImplementedError, RuntimeError,
            EOFError) as error:  # fmt: skip
        problems.append(f"the pack cannot be read: {error}")
        return {}
    if zip_bytes(files, compressed=False) != content:
        problems.append("the zip itself is not as it was written")
    if files.get("SHA256SUMS") != sums_of(files):
        problems.append("SHA256SUMS does not fit the files")
    return files


def _differing(files: dict[str, bytes], stand: Standing, seal: Seal) -> Iterator[str]:
    """Files that are not what was sealed, not what the seal's record gives, or of no pack."""
    sealed = ((stand.seal or {}).get("evidence") or {}).get("files") or {}
    if "verify.py" not in sealed:  # then nothing says what may be run
        yield "this report was sealed without its rows, so no pack was ever made of it"
        return
    whole = {name for name, content in files.items()
             if hashlib.sha256(content).hexdigest() == sealed.get(name)}  # fmt: skip
    for name in sorted(set(sealed) - whole):
        yield f"{name} is not what was sealed"
    given = beside(stand)
    for name, content in given.items():
        if files.get(name) != content:
            yield f"{name} is not what the seal's record gives"
    tables = {
        name.removesuffix("csv") + "parquet": name
        for name in sealed
        if name.startswith("ledgers/") and name.endswith(".csv")
    }
    there = {name: of for name, of in tables.items() if name in files and of in whole}
    for name in telling_other_rows(files, there):
        yield f"{name} does not tell the rows of its CSV"
    if PRINTED in files:
        printed = hashlib.sha256(files[PRINTED]).hexdigest()
        if printed not in signing.printings_of(seal):
            yield f"{PRINTED} is not what was printed from this seal"
    named = {f"documents/{d['sha256']}" for d in stand.statement["control_totals"]["documents"]}
    for name in named & set(files):
        if hashlib.sha256(files[name]).hexdigest() != name.removeprefix("documents/"):
            yield f"{name} does not give its digest"
    for name in WORDS:
        if name not in files:
            yield f"{name} is missing"
    known = {*sealed, *given, *tables, PRINTED, *named, *WORDS, DICTIONARY, SUMS}
    for name in sorted(set(files) - known):
        yield f"{name} is no file of this report's pack"


def _computed(content: bytes, script: bytes) -> tuple[list[str], str]:
    """What a sealed verify.py prints of a pack, and what it says when it stops. Raises NotFinished
    when it was ended from outside or took too long."""
    with tempfile.TemporaryDirectory() as folder:
        path, program = Path(folder) / "pack.zip", Path(folder) / "verify.py"
        path.write_bytes(content)
        program.write_bytes(script)
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(program), str(path)],
                capture_output=True,
                text=True,
                timeout=LONGEST_SECONDS,
                env={"PYTHONUTF8": "1"},
            )
        except subprocess.TimeoutExpired as late:
            raise NotFinished(f"verify.py took longer than {LONGEST_SECONDS} s") from late
    if done.returncode < 0:
        raise NotFinished(f"verify.py was ended by signal {-done.returncode}")
    return done.stdout.splitlines(), done.stderr.strip()


def _pdf(content: bytes) -> dict[str, Any]:
    """A PDF printed here bears the digest of its seal; signed, its signature must hold."""
    problems: list[str] = []
    signed = signing.examine(content)
    problems += signed.problems
    unsigned = content[: signed.signed_length] if signed.signed_length else content
    found = hashlib.sha256(unsigned).hexdigest()
    seal_digest = signing.identifier_of(unsigned)
    seal = Seal.objects.filter(digest=seal_digest).select_related("report").first()
    if seal is None:
        problems.append("it bears the digest of no seal in this ledger")
    elif found not in signing.printings_of(seal):
        problems.append("its bytes are not those printed from this seal")
    elif signed.signed_length and not signing.signed_here(seal, content):
        problems.append("its signed bytes are not those written here")
    return {
        "kind": "pdf",
        "digest": seal_digest,
        "unsigned_sha256": found,
        "sha256": hashlib.sha256(content).hexdigest(),
        "week": seal.report.week if seal else None,
        "signature": signed.text,
        "problems": problems,
    }
