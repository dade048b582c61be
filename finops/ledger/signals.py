"""What the ledger tells those above it: that something arrived, which may touch what was said.

The ledger knows nothing of reports (imports run downhill); they listen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from django.dispatch import Signal

logger = logging.getLogger(__name__)

arrived: Final = Signal()
"""Sent after documents were taken in or a snapshot was decided on, with `at` and `tell`."""


def tell_of_arrival(at: datetime, tell: Callable[[str], None] | None = None) -> list[str]:
    """Lets those above know; what goes wrong with them does not undo what was taken in.

    It is told, written into the log (the dispatcher adds where it happened), and given: a sentence
    each.
    """
    problems = []
    for _, answer in arrived.send_robust(sender=None, at=at, tell=tell):
        if isinstance(answer, Exception):
            problem = (
                f"sealed weeks were not looked at again: {type(answer).__name__}: {answer}; "
                "the day's run does it"
            )
            logger.error(problem)
            if tell:
                tell(problem)
            problems.append(problem)
    return problems
