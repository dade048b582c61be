"""One value at a time changed in a statement or in the rows behind it, and whether that is found."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, localcontext
from itertools import combinations
from typing import Any

from reports.evidence import verify

NUMBER = re.compile(r"-?\d+(\.\d+)?")
Place = tuple[Any, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a statement that holds no others, and where it stands."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from leaves(one, (*place, key))
    else:
        yield place, value


def kind(place: Place) -> str:
    """A place without the numbers of rows: `workloads.*.figures.coverage`."""
    return ".".join("*" if isinstance(key, int) else key for key in place)


def other(value: Any) -> Any:
    """Another value of the same kind; null becomes a value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value is None:
        return "1"
    return str(Decimal(value) + 1) if NUMBER.fullmatch(value) else value + "x"


FLAGS = {"ended", "other_half", "unmarked", "sized_by_hand"}


def other_cell(text: str, column: str = "") -> str:
    """Another cell of a table: a number, an instant, JSON, a word; an empty one becomes a number."""
    if column in FLAGS:
        return "0" if text == "1" else "1"
    if NUMBER.fullmatch(text):
        return str(Decimal(text) * 2 + 1001)  # more than what rounding to seconds hides
    if re.match(r"\d{4}-\d\d-\d\dT", text):
        return f"{int(text[:4]) - 1}{text[4:]}"
    if text[:1] in ("[", "{"):
        return json.dumps(_all_other(json.loads(text)))
    return text + "x" if text else "1"


def _all_other(value: Any) -> Any:
    """JSON with every value in it changed, and the keys that are numbers, like levels."""
    if isinstance(value, dict):
        return {_other_key(key): _all_other(one) for key, one in value.items()} or {
            "prompt": "1",
            "generation": "1",
        }
    if isinstance(value, list):
        return [_all_other(one) for one in value] or ["1"]
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 2 + 1001
    return other(value)


def _other_key(key: str) -> str:
    return str(other(key)) if NUMBER.fullmatch(key) else key


def is_found(files: Mapping[str, bytes], statement: Mapping[str, Any]) -> bool:
    """Whether the second computation differs from the statement, or stops."""
    try:
        return bool(verify.recompute(verify.Pack(dict(files)), statement).wrong)
    except Exception:  # whatever stops it: a pack that is not confirmed
        return True


def figures_not_found(
    files: Mapping[str, bytes], statement: dict[str, Any], places: Iterable[Place]
) -> list[Place]:
    """The places of a statement whose changed value the second computation does not find."""
    missed = []
    for place in places:
        changed = copy.deepcopy(statement)
        holder: Any = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = other(holder[place[-1]])
        if not is_found(files, changed):
            missed.append(place)
    return missed


STANDS_ALONE = re.compile(r"(?<![\w.,:/-])[0-9][0-9.,\u202f]*(?=[ );:.]|$)")
TELLS = {
    "headline": verify.organisation,
    "training": verify.training,
    "memory": verify.memory,
    "exceptions": verify.exceptions,
    "rightsizing": verify.rightsizing,
}


def with_another_number(text: str) -> Iterator[str]:
    """A sentence with one number after the other changed; those inside names are left."""
    for one in STANDS_ALONE.finditer(text):
        yield f"{text[: one.start()]}987654321987654{text[one.end() :]}"


def with_two_swapped(text: str) -> Iterator[str]:
    """A sentence with each two of its numbers that differ in each other's place."""
    spans = [one.span() for one in STANDS_ALONE.finditer(text.rstrip("."))]
    for (a, b), (c, d) in combinations(spans, 2):
        if verify.numbers(text[a:b]) != verify.numbers(text[c:d]):
            yield text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def sentences_not_found(
    files: Mapping[str, bytes],
    statement: dict[str, Any],
    others: Callable[[str], Iterable[str]],
) -> tuple[int, list[tuple[Place, str]]]:
    """How many other sentences were tried, and those that the section which tells them did not
    find."""
    with localcontext(verify.EXACT):
        changed = copy.deepcopy(statement)
        week = verify.Week(verify.Pack(dict(files)), changed)
        for one in verify.SECTIONS:  # a later one takes what an earlier one computed
            one(week)
        count, missed = 0, []
        for place, text in list(leaves(changed)):
            if not (text and re.fullmatch(verify.SENTENCES, kind(place)) and _told(changed, place)):
                continue
            holder: Any = changed
            for key in place[:-1]:
                holder = holder[key]
            for one in others(text):
                week.check, count = verify.Checks(), count + 1
                holder[place[-1]] = one
                TELLS[place[0]](week)
                if not week.check.wrong:
                    missed.append((place, one))
            holder[place[-1]] = text
    return count, missed


def _told(statement: Mapping[str, Any], place: Place) -> bool:
    """Not of an exception whose rows the pack does not hold, nor of advice that none can be given."""
    if place[0] == "exceptions":
        return statement["exceptions"][place[1]]["kind"] in verify.TOLD
    holder: Any = statement
    for key in place[:-1]:
        holder = holder[key]
    return not str(holder[place[-1]]).startswith("Not enough evidence")


def columns_not_found(
    files: Mapping[str, bytes],
    statement: Mapping[str, Any],
    *,
    tables: Iterable[str],
    untold: Mapping[str, set[str]],
    drawn: random.Random,
    rows: int,
) -> list[str]:
    """The columns that were changed as a whole, and in some drawn rows one at a time, and never
    found.

    Sums are taken to be written anew by whoever changed it: only the figures can tell.
    """
    missed = []
    for table in tables:
        path = f"ledgers/{table}.csv"
        head, *body = csv.reader(io.StringIO(files[path].decode(), newline=""))
        for at, column in enumerate(head):
            full = [number for number, row in enumerate(body) if row[at]]
            if not full or column in untold.get(table, set()):
                continue
            picked = [set(full), *({n} for n in drawn.sample(full, min(rows, len(full))))]
            changed = (with_other(head, body, numbers, at) for numbers in picked)
            if not any(is_found(files | {path: content}, statement) for content in changed):
                missed.append(f"{table}.{column}")
    return missed


def with_other(head: list[str], body: list[list[str]], numbers: set[int], at: int) -> bytes:
    """A table with the cells of one column changed in some rows."""
    rows = [list(row) if index in numbers else row for index, row in enumerate(body)]
    for number in numbers:
        rows[number][at] = other_cell(rows[number][at], head[at])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue().encode()
