"""verify.py is read part by part: what its guide says of the parts holds."""

from __future__ import annotations

import re
from pathlib import Path

from reports.evidence import verify

LONGEST_LINES = 200


def parts() -> list[tuple[int, str, int]]:
    """The number of each part, its title and its lines."""
    text = Path(verify.__file__).read_text()
    heads = re.split(r"^# ==== part (\d+): (.*?) =+$", text, flags=re.MULTILINE)[1:]
    rows = zip(heads[::3], heads[1::3], heads[2::3], strict=True)
    return [(int(number), title, body.count("\n") + 1) for number, title, body in rows]


def test_no_part_is_longer_than_the_docs_say() -> None:
    found = parts()
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1)) and len(found) > 9
    assert [one for one in found if one[2] > LONGEST_LINES] == []


def test_the_guide_names_each_part_with_the_method_it_follows() -> None:
    guide = verify.__doc__ or ""
    for number, title, _ in parts():
        line = re.search(rf"^    part {number:>2}  (.*)$", guide, re.MULTILINE)
        assert line, number
        said = set(re.findall(r"§[0-9.]*[0-9]", title))
        assert said <= set(re.findall(r"§[0-9.]*[0-9]", line[1])), title


def test_every_section_stands_in_a_part_and_says_what_it_follows() -> None:
    text = Path(verify.__file__).read_text()
    first = text[: text.index("# ==== part 1:")].count("\n")
    for one in verify.SECTIONS:
        assert one.__code__.co_firstlineno > first and one.__doc__, one.__name__
