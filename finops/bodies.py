"""How large a request's body may be, told before a byte of it is read.

Django bounds the fields of a form, not its files: without this, anyone could fill the disk with a
file attached to the sign-in page, which is read whole before its view may refuse it.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from reports.roles import may

UPLOADS = {  # where files are handed over, and by whom
    "/imports/": "upload",
    "/baselines/": "baseline",
    "/mappings/": "mapping",
    "/invoices/": "invoice",
    "/memory/log/": "upload",
}
FRAME_BYTES = 2**20  # what a form adds around its files


class BodyLimitMiddleware:
    """Answers 413 to a body that is larger than the page takes from this person."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        size = _declared(request)
        if size > most and any(
            request.path.startswith(path) and may(request.user, permission)
            for path, permission in UPLOADS.items()
        ):
            most = settings.UPLOAD_BYTES + FRAME_BYTES
        if size <= most:
            return self.get_response(request)
        text = f"The request has {size} bytes; here it may have {most}.\n"
        return HttpResponse(text, status=413, content_type="text/plain; charset=utf-8")


def _declared(request: HttpRequest) -> int:
    """The body's length as the web server passes it; a body of unknown length is not read."""
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0
