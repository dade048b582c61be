"""The worked examples of docs/method.md: fenced blocks `example NAME` of `key = value` lines."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
METHOD = ROOT / "docs" / "method.md"
BLOCK = re.compile(r"^```example (?P<name>[\w-]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class Example:
    """One block: `one` value of a key, or `all` of them, as text or as numbers."""

    def __init__(self, body: str) -> None:
        self.values: dict[str, list[str]] = {}
        for line in body.strip().splitlines():
            key, _, value = line.partition(" = ")
            self.values.setdefault(key, []).append(value.strip())

    def all(self, key: str) -> list[str]:
        return self.values[key]

    def text(self, key: str) -> str:
        (value,) = self.values[key]
        return value

    def whole(self, key: str) -> int:
        return int(self.text(key))

    def fraction(self, key: str) -> Fraction:
        return Fraction(self.text(key))

    def decimal(self, key: str) -> Decimal:
        return Decimal(self.text(key))


@cache
def examples() -> dict[str, Example]:
    found = BLOCK.finditer(METHOD.read_text(encoding="utf-8"))
    return {one["name"]: Example(one["body"]) for one in found}
