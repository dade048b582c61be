"""Matchers of allocation rules: `label=value,label=~regex`, read and applied (method §4).

Patterns come from people and files and run over labels and invoice columns, so they are held to a
small language whose matching time is bounded before the first value is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as tokens  # type: ignore[attr-defined]
from re import _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, Protocol

LONGEST_PATTERN = 200
LONGEST_MATCHED_VALUE = 4096
MOST_MATCHERS = 50
MOST_ATTEMPTS = 1_000_000  # two open repeats over a value of a thousand characters
OPEN_REPEAT = 1_000

OPERATORS = ("=~", "!~", "!=", "=")
MATCHER = re.compile(
    r"""\s*(?P<name>[^=!~,"\s][^=!~,"]*?)\s*(?P<op>=~|!~|!=|=)\s*
        (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^,"]*?))\s*(?:,|\Z)""",
    re.VERBOSE | re.DOTALL,
)


class Columns(Protocol):
    """The columns and tags of a charge or the labels of a series, by name; None: there is none."""

    def get(self, name: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label or column; a value that is absent is the empty text.

    Patterns are anchored and see the first 4096 characters of a value.
    """

    name: str
    op: str
    value: str

    def holds(self, columns: Columns) -> bool:
        """Whether the condition holds for these labels or columns."""
        value = columns.get(self.name) or ""
        if self.op == "=":
            return value == self.value
        if self.op == "!=":
            return value != self.value
        return _matches(self.value, value) is (self.op == "=~")

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.name}{self.op}"{escaped}"'


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """The matchers of `name=value,name=~regex`; a value with a comma stands in double quotes.

    Raises ValueError naming the place and the reason, also for a pattern that could run long.
    """
    matchers: list[Matcher] = []
    position = 0
    while position < len(text):
        match = MATCHER.match(text, position)
        if not match:
            raise ValueError(f"not a condition like name=value: {text[position : position + 60]!r}")
        quoted = match["quoted"]
        value = match["bare"] if quoted is None else re.sub(r"\\([\\\"])", r"\1", quoted)
        matchers.append(Matcher(match["name"], match["op"], value))
        position = match.end()
    return checked(matchers)


def checked(matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    """The matchers themselves, when every one is sound; raises ValueError otherwise."""
    found = tuple(matchers)
    if not found:
        raise ValueError("a rule needs at least one condition like name=value")
    if len(found) > MOST_MATCHERS:
        raise ValueError(f"a rule holds at most {MOST_MATCHERS} conditions, not {len(found)}")
    for matcher in found:
        if matcher.op not in OPERATORS:
            raise ValueError(f"no such operator: {matcher.op!r}; use one of {', '.join(OPERATORS)}")
        if matcher.op in ("=~", "!~"):
            check_pattern(matcher.value)
    return found


def check_pattern(pattern: str) -> None:
    """Refuses a pattern that is wrong or could run long; raises ValueError with the reason.

    Allowed: characters, classes, alternatives and repeats of single characters. Refused: repeats
    of anything variable (nested quantifiers), look-around, back-references, and more than two open
    repeats before the last one.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"pattern longer than {LONGEST_PATTERN} characters: {pattern[:40]!r}…")
    try:
        tree = list(regex_parser.parse(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {pattern!r} ({error})") from None
    if tree and _is_everything(tree[-1]):
        tree = tree[:-1]  # a closing `.*` never has to step back
    if _attempts(tree, pattern) > MOST_ATTEMPTS:
        raise ValueError(f"pattern with too many repeats, use at most two open ones: {pattern!r}")


def _is_everything(node: tuple[Any, Any]) -> bool:
    op, argument = node
    return (
        op in (tokens.MAX_REPEAT, tokens.MIN_REPEAT)
        and argument[1] is tokens.MAXREPEAT
        and [step[0] for step in argument[2]] == [tokens.ANY]
    )


def _attempts(tree: Iterable[tuple[Any, Any]], pattern: str) -> int:
    """An upper bound of the ways to try a sequence."""
    ways = 1
    for op, argument in tree:
        ways = min(ways * _node_attempts(op, argument, pattern), MOST_ATTEMPTS * 1000)
    return ways


def _node_attempts(op: Any, argument: Any, pattern: str) -> int:
    if op in (tokens.LITERAL, tokens.NOT_LITERAL, tokens.ANY, tokens.IN, tokens.AT):
        return 1
    if op is tokens.BRANCH:
        return sum(_attempts(branch, pattern) for branch in argument[1])
    if op is tokens.SUBPATTERN:
        return _attempts(argument[3], pattern)
    if op in (tokens.MAX_REPEAT, tokens.MIN_REPEAT):
        least, most, repeated = argument
        if _attempts(repeated, pattern) > 1:
            raise ValueError(f"pattern with a repeat of something variable: {pattern!r}")
        return OPEN_REPEAT if most is tokens.MAXREPEAT else int(most) - int(least) + 1
    raise ValueError(f"pattern uses what rules do not allow ({op}): {pattern!r}")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    check_pattern(pattern)
    return re.compile(pattern, re.DOTALL)


@lru_cache(maxsize=65_536)
def _matches(pattern: str, value: str) -> bool:
    return _compiled(pattern).fullmatch(value[:LONGEST_MATCHED_VALUE]) is not None
