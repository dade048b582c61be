"""Pages, CSV and PDF are for the person who asked: no cache on the way or on disk keeps them."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class PrivateMiddleware:
    """Says so in each answer that does not say anything of its own; static files come earlier."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        answer.headers.setdefault("Cache-Control", "private, no-store")
        return answer
