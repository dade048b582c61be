"""Leaving work to a worker."""

from __future__ import annotations

from celery import current_app


def left_to_worker(task: str, **values: str | int) -> bool:
    """Sends a task, of whose result nobody asks; False when no broker takes it."""
    from kombu.exceptions import (
        OperationalError,  # what a request that sends nothing can do without
    )

    try:
        current_app.send_task(task, kwargs=values, ignore_result=True, retry=False)
    except OperationalError:
        return False
    return True
