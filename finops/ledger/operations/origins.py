"""Where bytes came from a second time: kept beside the document, which is read once (method §3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from finops.ledger.models import Document, Origin
from finops.ledger.which import atomic
from finops.trail import operations as trail

from .charge_rows import storable
from .documents import Kept
from .locks import lock

Place = tuple[str, str, str]  # document, origin, source


def record(kept: Sequence[Kept], source: str, *, by: str, at: datetime) -> None:
    """Adds the origins of known bytes that are not known themselves; the same again adds nothing.

    `source` is what was named for readings; documents of another kind have none.
    """
    places: dict[Place, str] = {}
    held = Document.objects.in_bulk({one.sha256 for one in kept})
    for one in kept:
        if (document := held.get(one.sha256)) is not None:
            first = document.account.get("source", "")
            place = (document.sha256, storable(one.origin), source if first else "")
            if place != (document.sha256, document.origin, first):
                places.setdefault(place, storable(one.name))
    if not _new(places):
        return
    with atomic():
        for document_id in sorted({place[0] for place in _new(places)}):
            lock("document", document_id)
        for place in sorted(_new(places)):  # another process may have added one meanwhile
            _add(place, places[place], by=by, at=at)


def _new(places: Iterable[Place]) -> set[Place]:
    rows = Origin.objects.filter(document__in={place[0] for place in places})
    return set(places) - set(rows.values_list("document_id", "origin", "source"))


def _add(place: Place, name: str, *, by: str, at: datetime) -> None:
    document, origin, source = place
    Origin.objects.create(
        document_id=document, name=name, origin=origin, source=source, at=at, by=by
    )
    detail = {"name": name, "origin": origin} | ({"source": source} if source else {})
    trail.record(at=at, actor=by, action="document.origin", subject=document, detail=detail)
