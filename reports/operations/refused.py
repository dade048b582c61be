"""What an operation raises when the rules do not allow what was asked."""

from __future__ import annotations


class NotAllowed(ValueError):
    """The act is against a rule; the text says which, for the person who asked."""


class NoSuchWeek(NotAllowed):
    """What was given as a week names none."""
