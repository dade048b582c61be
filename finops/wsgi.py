"""The web server's entry point."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")

from django.core.wsgi import get_wsgi_application

import finops.celery  # noqa: F401 - makes it the application that views send their tasks to

application = get_wsgi_application()
