"""What an operation raises when the rules do not allow what was asked."""

from __future__ import annotations

from finops.core import signs


class NotAllowed(ValueError):
    """The act is against a rule; the text says which, for the person who asked."""


class NoSuchWeek(NotAllowed):
    """What was given as a week names none."""


def refuse_unseen(text: str) -> None:
    """NotAllowed for a text with a sign that cannot be seen and changes how it reads."""
    if reason := signs.refusal(text):
        raise NotAllowed(f"{reason[:1].upper()}{reason[1:]}.")
