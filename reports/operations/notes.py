"""Writing annotations: append-only, an edit is a new row that replaces the old one (method §10)."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from django.db import IntegrityError

from finops.core.period import rfc3339
from finops.ledger.which import atomic
from finops.trail.operations import record as trail
from reports.models import Annotation

from .refused import NotAllowed, refuse_unseen

LONGEST_TEXT = 2000
FIRST_YEAR, LAST_YEAR = 2000, 2200  # a day at the calendar's edge has no place in every zone
LONGEST_URL = 500


def annotate(
    *,
    instant: datetime,
    text: str,
    author: str,
    at: datetime,
    workload: str = "",
    kind: str = "other",
    url: str = "",
    replaces: Annotation | None = None,
) -> Annotation:
    """Writes an annotation for `instant`, or a new version of `replaces`.

    Raises NotAllowed for an empty or overlong text, an unknown kind, a URL that is not http(s), a
    year that cannot be meant,
    and when someone else replaced the same version first.
    """
    text, url = text.strip(), url.strip()
    if not text or len(text) > LONGEST_TEXT:
        raise NotAllowed(f"An annotation needs a text of 1 to {LONGEST_TEXT} characters.")
    refuse_unseen(text)
    if kind not in dict(Annotation.KINDS):
        raise NotAllowed(f"There is no kind of annotation {kind[:40]!r}.")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise NotAllowed(f"An annotation is of the years {FIRST_YEAR} to {LAST_YEAR}.")
    _check_url(url)
    try:
        with atomic():
            row = Annotation.objects.create(
                at=instant,
                workload=workload,
                text=text,
                kind=kind,
                url=url,
                author=author,
                written_at=at,
                replaces=replaces,
            )
            trail(
                at=at,
                actor=author,
                action="annotation edited" if replaces else "annotation written",
                subject=f"annotation {row.pk}",
                detail={"at": rfc3339(instant), "workload": workload, "text": text}
                | ({"replaces": str(replaces.pk)} if replaces else {}),
            )
    except IntegrityError as error:
        if "replaces" in str(error):
            raise NotAllowed("Someone else has edited this annotation; look again.") from error
        raise
    return row


def _check_url(url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in ("http", "https")
        or not parts.netloc
        or len(url) > LONGEST_URL
        or any(character.isspace() for character in url)
    ):
        raise NotAllowed("The link of an annotation must begin with http:// or https://.")
