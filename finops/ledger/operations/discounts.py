"""Discounts of AWS reports: in lines of their own or in the Net columns, never both (method §3.5).

Which of the two it is, only the whole delivery tells: lines of discounts may stand in one part alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from finops.ledger.operations.documents import Kept
from finops.sources import aws_cur
from finops.sources.records import Refused

BY_CONTENT = (aws_cur.LEGACY, aws_cur.CUR_2)


def net_formats(offered: Mapping[str, tuple[Kept, str]]) -> dict[str, str]:
    """The formats, by digest, of reports whose costs are to be read after discounts.

    Those that have such costs, when no report of the delivery has a line of a discount.
    """
    found = {
        sha256: _discounts(kept)
        for sha256, (kept, format) in offered.items()
        if format in BY_CONTENT
    }
    if any(has_lines for has_lines, _ in found.values()):
        return {}
    return {
        sha256: offered[sha256][1] + aws_cur.NET
        for sha256, (_, has_net) in found.items()
        if has_net
    }


def _discounts(kept: Kept) -> tuple[bool, bool]:
    try:
        return aws_cur.discounts_of(kept.path, kept.name)
    except Refused:
        return False, False  # whoever posts it says so
