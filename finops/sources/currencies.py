"""The codes that amounts may stand in: ISO 4217's, those of past years too (method §1, §3.9).

FOCUS lets prices be told in virtual currencies (tokens, credits, DBU); what is billed is always in
money that ISO 4217 names. `data/currencies.csv` holds each code with its name, the month it was
withdrawn in, and the list it is from: the current one without the code for tests (XTS), and of the
historic ones those withdrawn since 2000, since no bill read here is older.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def codes() -> frozenset[str]:
    """Every code, in capital letters."""
    text = files("finops.sources").joinpath("data/currencies.csv").read_text("utf-8")
    return frozenset(row["code"] for row in csv.DictReader(text.splitlines()))


def in_capitals(text: str) -> str:
    """A code in small letters as a code. Letters of other scripts stay what they are: some have a
    capital that is an ordinary one (`uſd`)."""
    return text.upper() if text.isascii() else text


def refusal(text: str) -> str | None:
    """Why a text is no currency's code; None where it is one, in capital letters."""
    if text in codes():
        return None
    if in_capitals(text) in codes():
        return f"is written in capital letters: {text.upper()}"
    if not (len(text) == 3 and text.isascii() and text.isalpha()):
        return "is no currency: it has a code like USD, of three letters"
    return "is no currency of ISO 4217"
