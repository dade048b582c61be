"""Sets of files that belong together: the parts a manifest names, the members of a zip (§3.2).

A snapshot is complete only when its manifest is. So a set of which one part is refused is refused
whole, and a newer set takes over the parts whose bytes did not change: the ledger holds those
already, and they are read once more into the new snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from finops.ledger.models import Document
from finops.ledger.operations.charges import Offered
from finops.ledger.operations.documents import Kept
from finops.ledger.operations.manifest_files import Verdict
from finops.ledger.operations.parsing import exported_at
from finops.ledger.operations.reach import Reach, parse_again
from finops.sources.azure_cost import ACTUAL, AMORTISED, FORMAT
from finops.sources.records import Refused

PART = "a part of a newer set that did not change"
_FORCED = {ACTUAL: f"{FORMAT}-actual", AMORTISED: f"{FORMAT}-amortized"}


class Broken(Exception):
    """Parts of sets were refused: by manifest, what is said of the others."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = dict(reasons)


@dataclass(frozen=True, slots=True)
class Held:
    """A document of the ledger that was given again, and what its manifest says of it."""

    kept: Kept
    said: Verdict
    document: Document

    @property
    def format(self) -> str:
        """The format with the view it was read as, where there are two."""
        is_azure = self.document.format == FORMAT
        return _FORCED.get(self.document.version, FORMAT) if is_azure else self.document.format

    def offered(self, under: Reach) -> Offered:
        """The document as it was read before, for the new snapshot."""
        kept, parsed = parse_again(self.document, under)
        exported: datetime | None = self.said.exported_at or exported_at(self.document)
        return Offered(kept, self.document.format, parsed, again=PART, exported_at=exported)


def set_of(kept: Kept, said: Verdict) -> str:
    """The set a file belongs to; empty for a file by itself."""
    return said.manifest or kept.archive


def parts_held(sets: set[str], held: Sequence[Held]) -> Iterator[Held]:
    """The documents with charges that belong to one of the sets of a new delivery."""
    for one in held:
        if one.document.charges and set_of(one.kept, one.said) in sets - {""}:
            yield one


def check_whole(outcomes: Mapping[str, object], said: Mapping[str, tuple[str, Verdict]]) -> None:
    """Broken when of a manifest's files one was refused and another was not.

    `said` holds name and verdict by digest.
    """
    refused: dict[str, str] = {}
    taken = set[str]()
    for sha256, outcome in outcomes.items():
        name, verdict = said[sha256]
        if isinstance(outcome, Refused):
            refused.setdefault(verdict.manifest, name)
        else:
            taken.add(verdict.manifest)
    if reasons := {m: reason(m, name) for m, name in refused.items() if m and m in taken}:
        raise Broken(reasons)


def reason(manifest: str, name: str) -> str:
    """Why the other parts of a set are not taken."""
    return f"{manifest} names {name} too, which was refused: nothing of the set is taken"
