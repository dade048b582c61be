"""The Celery application: how background work is sent, queued and limited.

Queues: `default` (short work), `collect` (reads Prometheus), `pdf` (heavy: a process of its own with
limits on time and memory), `parts` (long part files of a delivery, whose caller waits for them). A
task is acknowledged when it is done, so a worker killed in the middle loses nothing: every task is
therefore written to be safe when it runs twice.
"""

import os

from celery import Celery
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "finops.settings")

QUEUES = ("default", "collect", "pdf", "parts")
DAY_SECONDS = 24 * 3600
VISIBILITY_SECONDS = 2 * 3600  # longer than the longest task; then an unacknowledged one is resent
BROKER_OPTIONS = {
    "visibility_timeout": VISIBILITY_SECONDS,
    # Whoever sends a task has a person waiting: one more try at once, not two in six seconds.
    "max_retries": 1,
    "interval_start": 0.2,
}


def urls(redis_url: str) -> tuple[str, str]:
    """The broker's and the results' URL for a `redis://` or `unix://` URL."""
    if not redis_url.startswith("unix://"):
        return redis_url, redis_url
    path = redis_url.removeprefix("unix://").partition("?")[0]
    return f"redis+socket://{path}?virtual_host=0", f"redis+socket://{path}?virtual_host=1"


def make_app() -> Celery:
    """The application, with its settings; `finops.settings` is read when the first is needed."""
    from django.conf import settings

    broker, results = urls(settings.REDIS_URL)
    app = Celery("headroom", broker=broker, backend=results)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_track_started=True,
        task_time_limit=3600,
        task_soft_time_limit=3300,
        result_expires=DAY_SECONDS,
        broker_transport_options=BROKER_OPTIONS,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        worker_max_tasks_per_child=500,
        task_default_queue="default",
        # Each with a key of its own: with none, all would get every message.
        task_queues=[Queue(name, routing_key=name) for name in QUEUES],
        task_routes={
            "finops.ledger.tasks.collect*": {"queue": "collect"},
            "finops.ledger.tasks.read_part": {"queue": "parts"},
            "reports.tasks.*pdf*": {"queue": "pdf"},
        },
        timezone=settings.ORGANISATION_ZONE.key,
        enable_utc=True,
        beat_scheduler="django_celery_beat.schedulers:DatabaseScheduler",
        task_always_eager=False,
    )
    app.autodiscover_tasks(["finops.ledger", "reports"])
    return app


app = make_app()
