"""Counters whose labels were changed and changed back: what they counted meanwhile (method §2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from finops.core.facts import Notice

from .token_rows import Known


def changed_back(found: Sequence[Known]) -> Iterator[Notice]:
    """Series that fell silent while another went on with their counter, and came back with the sum of
    both: what the other booked in between stands in them a second time."""
    by_key = {one.series.pk: one for one in found}
    for other in found:
        for row in other.rows:
            if "continues" in row.facts and (known := by_key.get(row.facts["continues"][0])):
                yield from _between(known, other, row.first_ms)


def _between(known: Known, other: Known, first_ms: int) -> Iterator[Notice]:
    for since_ms, until_ms, _, tokens in known.around.gaps():
        if since_ms < first_ms <= until_ms:
            booked = sum(one.tokens for one in other.rows if since_ms < one.last_ms <= until_ms)
            target, twice = known.series.target, min(tokens, booked)
            if twice:
                yield Notice(
                    "labels-changed",
                    f"{target.instance} {known.series.metric} {known.series.engine} "
                    f"({known.source})".strip(),
                    f"{target.instance}: the labels of {known.series.metric} were changed and changed "
                    f"back. {twice:,} tokens, counted under the other labels meanwhile, stand in both "
                    f"series: put series {other.series.pk} out of scope by a rule on the label.",
                )
