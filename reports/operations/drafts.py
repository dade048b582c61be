"""Files put aside for a person to map their columns; they go with the uploads, and leave in time."""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from reports.models import Upload

from .refused import NotAllowed
from .uploads import clean_name, folder

KEPT_SECONDS = 7 * 86_400


def put_aside(file: UploadedFile) -> uuid.UUID:
    """Keeps a file for a week, unread; its key. NotAllowed when it is empty or too large."""
    most: int = settings.UPLOAD_BYTES
    if not file.size or file.size > most:
        raise NotAllowed(f"The file must hold something, and at most {most // 2**20} MiB.")
    sweep()
    key = uuid.uuid4()
    with (folder(key) / clean_name(file.name or "file.csv")).open("wb") as target:
        for chunk in file.chunks():
            target.write(chunk)
    return key


def files_of(key: uuid.UUID) -> list[Path]:
    """The files that wait under a key, by name; none once they have left."""
    place = Path(settings.DATA) / "uploads" / str(key)
    return sorted(path for path in place.glob("*") if path.is_file()) if place.is_dir() else []


def sweep() -> None:
    """Takes away what has waited longer than a week and no worker still has to read."""
    for place in (Path(settings.DATA) / "uploads").glob("*"):
        if time.time() - place.stat().st_mtime < KEPT_SECONDS:
            continue
        unread = Upload.objects.filter(pk=place.name, outcome__isnull=True)
        if not unread.exists():
            shutil.rmtree(place, ignore_errors=True)
