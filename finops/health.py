"""The health check of a container or load balancer: is the web process up and the database there?"""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """200 "ok", or 503 with one line; says nothing about data or versions."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except DatabaseError:
        return HttpResponse("database not reachable\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")
