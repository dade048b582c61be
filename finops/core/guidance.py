"""Guidance on an engine's other settings, each from evidence with its numbers and source (method §9).

An engine is judged at its busiest, never at idle: peaks and high percentiles decide, stale time is
left out.
"""

from __future__ import annotations

from .guidance_beside import context, parallel
from .guidance_cache import kv_dtype, longest, prefixes
from .guidance_seen import Guidance, Seen, load_missing
from .guidance_steps import sequences, step_tokens


def guidance(seen: Seen) -> list[Guidance]:
    """What the evidence says of every setting, in the order of the method."""
    load = load_missing(seen)
    return [
        sequences(seen, load),
        step_tokens(seen, load),
        parallel(seen),
        context(seen),
        kv_dtype(seen, load),
        prefixes(seen, load),
        longest(seen, load),
    ]
