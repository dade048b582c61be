"""Pages show signs that cannot be seen: none of our own has any, so all come from foreign files."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from finops.core.signs import shown_in_bytes


class SeenMiddleware:
    """Controls and turns of direction in labels, names and values stand on pages as escapes."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = shown_in_bytes(response.content)  # type: ignore[attr-defined]
        return response
