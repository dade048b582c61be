"""Uploads: files are put aside under clean names, then read through the same door as `ingest`."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone

from finops.ledger.operations.ingest import ingest
from finops.ledger.which import atomic, on_commit
from reports.models import Upload, UploadOutcome

from .refused import NotAllowed
from .sending import left_to_worker

MOST_FILES = 50
TASK = "reports.tasks.read_upload"
SMALL_BYTES = 2**20  # read while the person waits; larger ones by a worker
UNSAFE = re.compile(r"[^\w.+ ()-]+", re.ASCII)


def clean_name(name: str) -> str:
    """A file name without folders, control characters, wildcards or a leading dot."""
    last = name.replace("\\", "/").rpartition("/")[2]
    text = UNSAFE.sub("_", last).strip(" .")
    return text[-120:] or "file"


def take(files: Sequence[UploadedFile], *, by: str, at: datetime, format: str = "") -> Upload:
    """Puts the files aside as one delivery and has them read. Raises NotAllowed when there are
    none, too many, or they are larger than HEADROOM_UPLOAD_MIB allows."""
    total = sum(file.size or 0 for file in files)
    most: int = settings.UPLOAD_BYTES
    if not files:
        raise NotAllowed("Choose at least one file.")
    if len(files) > MOST_FILES:
        raise NotAllowed(f"Hand over at most {MOST_FILES} files at a time.")
    if total > most:
        raise NotAllowed(f"Together the files may have {most // 2**20} MiB; put larger ones into "
                         "the invoice folder or use the command `ingest`.")  # fmt: skip
    key = uuid.uuid4()
    place = folder(key)
    names = _unlike([clean_name(file.name or "") for file in files])
    for file, name in zip(files, names, strict=True):
        with (place / name).open("wb") as target:
            for chunk in file.chunks():
                target.write(chunk)
    with atomic():
        upload = Upload.objects.create(
            id=key, names=names, size_bytes=total, format=format, at=at, by=by
        )
        if total > SMALL_BYTES:
            on_commit(lambda: _send(key))
    if total <= SMALL_BYTES:
        read(str(key))
    return upload


def _send(key: uuid.UUID) -> None:
    """Leaves the reading to a worker; without one the files are read now."""
    if not left_to_worker(TASK, upload=str(key)):
        read(str(key))


def folder(key: uuid.UUID) -> Path:
    """Where an upload's files wait."""
    path: Path = settings.DATA / "uploads" / str(key)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _unlike(names: Sequence[str]) -> list[str]:
    """The names, numbered where two are alike."""
    found: list[str] = []
    for name in names:
        number, candidate = 2, name
        while candidate in found:
            candidate = f"{number}-{name}"
            number += 1
        found.append(candidate)
    return found


def read(key: str) -> UploadOutcome:
    """Reads an upload into the ledger in use and notes what came of it; once."""
    upload = Upload.objects.get(pk=key)
    known = UploadOutcome.objects.filter(upload=upload).first()
    if known:
        return known
    place = folder(upload.pk)
    paths = [str(place / name) for name in upload.names]
    documents: list[dict[str, Any]] = []
    problem = ""
    try:
        documents = ingest(
            paths, by=upload.by, at=timezone.now(), format=upload.format or None, source="files"
        )
    except Exception as error:  # noqa: BLE001 - the person must learn of it, whatever it was
        problem = f"{type(error).__name__}: {error}"
    for document in documents:
        document["path"] = str(document["path"]).removeprefix(f"{place}/")
    outcome, _ = UploadOutcome.objects.get_or_create(
        upload=upload,
        defaults={"at": timezone.now(), "documents": documents, "error": problem},
    )
    # What no format fits stays a week, so that a person can map its columns.
    if not problem and not any(document["status"] == "rejected" for document in documents):
        shutil.rmtree(place, ignore_errors=True)
    return outcome
