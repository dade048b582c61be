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
from .pack import VERIFY
from .sealed import zip_bytes

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
    """The pack's bytes first, then its figures, computed by *our* verify.py in a process of its
    own: a pack may come from anywhere."""
    problems: list[str] = []
    files = _files_of(content, problems)
    record = files.get("seal.json", b"")
    found, week, computed = digest(record), None, None
    if not Seal.objects.filter(digest=found).exists():
        problems.append("no seal in this ledger has this digest")
    if not problems:
        week = json.loads(record)["week"]
        lines, errors = _computed(content)
        problems += [line for line in lines if line.startswith(("UNEQUAL", "This is not"))][:20]
        computed = next((line for line in lines if line.endswith(" equal.")), None)
        if computed is None and not problems:
            problems.append("verify.py stopped: " + errors[-200:])
    return {"kind": "pack", "digest": found, "week": week, "problems": problems,
            "computed": computed}  # fmt: skip


def _files_of(content: bytes, problems: list[str]) -> dict[str, bytes]:
    """The files of a pack; it must be, byte for byte, the zip that is made of them again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(one.file_size for one in archive.infolist()) > 2 * len(content):
                raise ValueError("its files are larger than itself")
            files = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, NotImplementedError, RuntimeError,
            EOFError) as error:  # fmt: skip
        problems.append(f"the pack cannot be read: {error}")
        return {}
    if zip_bytes(files, compressed=False) != content:
        problems.append("the zip itself is not as it was written")
    if files.get("verify.py") != VERIFY.read_bytes():
        problems.append("verify.py is not the one of this version")
    sums = {name: hashlib.sha256(one).hexdigest() for name, one in files.items()}
    sums.pop("SHA256SUMS", None)
    listed = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    if files.get("SHA256SUMS") != listed:
        problems.append("SHA256SUMS does not fit the files")
    return files


def _computed(content: bytes) -> tuple[list[str], str]:
    """What verify.py prints of a pack, and what it says when it stops."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pack.zip"
        path.write_bytes(content)
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(VERIFY), str(path)],
                capture_output=True,
                text=True,
                timeout=LONGEST_SECONDS,
                env={"PYTHONUTF8": "1"},
            )
        except subprocess.TimeoutExpired:
            return [], f"it took longer than {LONGEST_SECONDS} s"
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
