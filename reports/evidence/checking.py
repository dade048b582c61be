"""Checking one file that left the house: a record, a statement, a pack or a PDF (method §11)."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from finops.core.canonical import canonical_bytes, digest
from reports.models import Report, Seal

from . import signing

LONGEST_SECONDS = 300


def check_file(path: Path) -> dict[str, Any]:
    """What is known of a file: `kind`, `digest`, `week` and `problems`, empty when it is whole
    and of this ledger. Raises OSError when it cannot be read, ValueError for another kind of file.
    """
    content = path.read_bytes()
    if content[:5] == b"%PDF-":
        return _pdf(content)
    if content[:2] == b"PK":
        return _pack(content)
    return _json(content)


def _json(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ValueError(f"neither a record, a pack nor a PDF: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("neither a record, a pack nor a PDF: no object")
    problems, found = [], digest(content)
    try:
        whole = canonical_bytes(value) == content
    except TypeError:
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
    week = value.get("period", {}).get("week") if is_statement else value.get("week")
    kind = "statement" if is_statement else "seal"
    return {"kind": kind, "digest": found, "week": week, "problems": problems}


def _pack(content: bytes) -> dict[str, Any]:
    """Runs the pack's own computation with *our* verify.py, and looks the seal up."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pack.zip"
        path.write_bytes(content)
        script = Path(__file__).with_name("verify.py")
        done = subprocess.run(
            [sys.executable, "-I", str(script), str(path)],
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            env={"PYTHONUTF8": "1"},
        )
    lines = done.stdout.splitlines()
    if done.returncode:
        problems += [line for line in lines if line.startswith(("UNEQUAL", "This is not"))][:20]
        problems = problems or ["verify.py stopped: " + done.stderr.strip()[-200:]]
    record, week = _record_of(content, problems)
    found = digest(record)
    if not Seal.objects.filter(digest=found).exists():
        problems.append("no seal in this ledger has this digest")
    computed = [line for line in lines if line.endswith(" equal.")]
    return {"kind": "pack", "digest": found, "week": week, "problems": problems,
            "computed": computed[0] if computed else None}  # fmt: skip


def _record_of(content: bytes, problems: list[str]) -> tuple[bytes, str | None]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            record = archive.read("seal.json")
            ours = Path(__file__).with_name("verify.py").read_bytes()
            if archive.read("verify.py") != ours:
                problems.append("verify.py is not the one of this version")
            _check_stretches(content, archive, problems)
        return record, json.loads(record).get("week")
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, NotImplementedError) as error:
        problems.append(f"the pack cannot be read: {error}")
        return b"", None


def _check_stretches(content: bytes, archive: zipfile.ZipFile, problems: list[str]) -> None:
    """A pack has nothing outside its files: made again from them it has the same bytes."""
    from .sealed import zip_bytes

    files = {name: archive.read(name) for name in archive.namelist()}
    if zip_bytes(files, compressed=False) != content:
        problems.append("the zip itself is not as it was written")


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
    return {
        "kind": "pdf",
        "digest": seal_digest,
        "unsigned_sha256": found,
        "sha256": hashlib.sha256(content).hexdigest(),
        "week": seal.report.week if seal else None,
        "signature": signed.text,
        "problems": problems,
    }
