"""One digest of all that decides which lines are GPU time: data, patterns, lists of words.

Another digest means that a document may be read otherwise now than when it came (method §3.3).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from finops.sources import azure_cost, focus, focus_columns, gcp_billing, gpu_shapes

READING: Final = 2
"""The way that lines are read for GPUs and tags, where code and no pattern or list says it: one
more with each change of it."""

_DATA: Final = Path(gpu_shapes.__file__).parent / "data"
_FILES: Final = ("gpu_shapes.csv", "gpu_parts.csv")


@cache
def catalogue_digest() -> str:
    """The SHA-256 of the catalogue: another one may see GPU time where this one sees none."""
    made = hashlib.sha256()
    for name in _FILES:
        made.update((_DATA / name).read_bytes())
    made.update("\n".join(decisive()).encode())
    return made.hexdigest()


def decisive() -> Iterator[str]:
    """Each pattern and list that decides GPU time, by its name; all constants of `gpu_shapes`."""
    yield f"reading {READING}"
    found = {
        "focus.NAMES": focus_columns.NAMES,
        "focus.CALLED": focus_columns.CALLED,
        "focus.UNITS": focus_columns.UNITS,
        "focus.NO_MACHINES": focus.NO_MACHINES,
        "azure.MACHINES": azure_cost.MACHINES,
        "gcp.HOST_PARTS": gcp_billing.HOST_PARTS,
    } | {name: value for name, value in vars(gpu_shapes).items() if _is_constant(name, value)}
    for name, value in sorted(found.items()):
        yield f"{name} = {_text(value)}"


def _is_constant(name: str, value: object) -> bool:
    return name.isupper() and not isinstance(value, Path)


def _text(value: object) -> str:
    """A value as text that is the same in every process: sets in order, patterns with flags."""
    if isinstance(value, re.Pattern):
        return f"{value.pattern!r} {value.flags}"
    if isinstance(value, Mapping):
        return repr([(key, _text(one)) for key, one in value.items()])
    if isinstance(value, set | frozenset):
        return repr(sorted(map(_text, value)))
    if isinstance(value, list | tuple):
        return repr([_text(one) for one in value])
    return repr(value)
