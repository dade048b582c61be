"""Counters whose labels were changed and changed back: what they counted meanwhile (method §2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from finops.core.facts import Notice

from .token_rows import Known


def changed_back(found: Sequence[Known]) -> Iterator[Notice]:
    """Series that fell silent while others went on with their counter, and came back with the sum of all:
    what the others booked in between stands in them a second time."""
    engines: dict[tuple[int, str, str], list[Known]] = {}
    for one in found:
        key = (one.series.target_id, one.series.metric, one.series.engine)
        engines.setdefault(key, []).append(one)
    for known in engines.values():
        if any("continues" in row.facts for one in known for row in one.rows):
            for one in known:
                yield from _in_gaps(one, [other for other in known if other is not one])


def _in_gaps(known: Known, others: Sequence[Known]) -> Iterator[Notice]:
    twice, named = 0, set[int]()
    for since_ms, until_ms, _, tokens in known.around.gaps():
        booked = 0
        for other in others:
            rows = [r for r in other.rows if since_ms < r.first_ms and r.last_ms < until_ms]
            if any("continues" in row.facts for row in other.rows) and rows:
                booked += sum(row.tokens for row in rows)
                named.add(other.series.pk)
        twice += min(tokens, booked)
    if twice:
        target = known.series.target
        yield Notice(
            "labels-changed",
            f"{target.instance} series {known.series.pk} ({known.source})",
            f"{target.instance}: the labels of {known.series.metric} were changed and changed back. "
            f"{twice:,} tokens, counted under other labels meanwhile (series "
            f"{', '.join(map(str, sorted(named)))}), stand in series {known.series.pk} a second time: put "
            "the others out of scope for that time by a rule on the label.",
        )
