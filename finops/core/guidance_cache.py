"""Guidance on the cache itself: its bits, reuse of prompts, the longest request (method §9)."""

from __future__ import annotations

from decimal import Decimal

from .guidance_seen import (
    KEEP,
    KV_DTYPE,
    LEAST_HITS,
    LONGEST,
    LOWER,
    PREFIXES,
    TRY,
    Guidance,
    Seen,
    edge,
    missing,
    percent,
    sources_of,
)
from .kv import FULL_BYTES
from .money import divide, plain, round_half_even
from .rightsizing import AT_RISK, OVER_RESERVED, TIGHT


def kv_dtype(seen: Seen, load: list[str]) -> Guidance:
    numbers = {
        "kv_dtype": seen.kv_dtype,
        "pool_tokens": seen.pool_tokens,
        "p99": None if seen.p99 is None else plain(round_half_even(seen.p99, 4)),
    }
    needs = list(load)
    if seen.kv_dtype is None:
        needs.append("the cache's type (label cache_dtype, or the start-up log)")
    if needs or seen.kv_dtype is None or seen.p99 is None:
        return missing(KV_DTYPE, needs or ["readings of the cache's use"], numbers)
    sources = sources_of(seen, "cache_config_info", "kv_cache_usage_perc")
    size = FULL_BYTES.get(seen.kv_dtype)
    if size is not None and size <= 1:
        return Guidance(KV_DTYPE, KEEP, f"The cache is kept in {seen.kv_dtype} already.", numbers,
                        sources)  # fmt: skip
    use = f"at most {percent(seen.p99)} of the cache was in use for 99 % of the time"
    if seen.verdict not in (AT_RISK, TIGHT):
        return Guidance(KV_DTYPE, KEEP, f"There is room in 16 bits: {use}. Fewer bits would change "
                        "answers and buy nothing.", numbers, sources)  # fmt: skip
    half = round_half_even(seen.p99 / 2, 4)
    more = "" if seen.pool_tokens is None else f" ({seen.pool_tokens * 2:,} tokens)"
    return Guidance(
        KV_DTYPE, TRY,
        f"Now {use}. In 8 bits the same memory holds twice the tokens{more}: {percent(half)}. "
        "Answers change slightly; measure their quality before.",
        numbers | {"p99_in_8_bits": plain(half)}, sources,
    )  # fmt: skip


def prefixes(seen: Seen, load: list[str]) -> Guidance:
    queries, hits = seen.prefix_queries, seen.prefix_hits
    share = divide(Decimal(hits), Decimal(queries)) if hits is not None and queries else None
    numbers = {
        "prefix_caching": seen.prefix_caching,
        "prefix_queries": queries,
        "prefix_hits": hits,
        "hit_share": None if share is None else plain(round_half_even(share, 4)),
    }
    sources = sources_of(seen, "cache_config_info", "prefix_cache_hits", "prefix_cache_queries")
    if seen.prefix_caching is None:
        return missing(PREFIXES, ["the label enable_prefix_caching, or the start-up log"], numbers)
    if not seen.prefix_caching:
        return Guidance(
            PREFIXES, TRY,
            "It is off, so nothing tells how often prompts begin alike. It takes no memory of its "
            "own: a trial for a day shows the share of prompt tokens that are not computed again.",
            numbers, sources,
        )  # fmt: skip
    if share is None or queries is None or hits is None:
        needs = [*load, "prefix_cache_queries and prefix_cache_hits of the engine"]
        return missing(PREFIXES, needs, numbers)
    if share < LEAST_HITS:
        return Guidance(PREFIXES, KEEP, f"Of {queries:,} prompt tokens looked up {hits:,} were found "
                        f"({percent(share)}): it brings little, and costs no memory.", numbers,
                        sources)  # fmt: skip
    text = (
        f"Of {queries:,} prompt tokens looked up {hits:,} were found ({percent(share)}) and not "
        "computed again. They lie in the part of the cache that no live request references"
    )
    if seen.verdict == OVER_RESERVED:
        text += ": a smaller cache keeps fewer of them. Watch this share after each step down"
    return Guidance(PREFIXES, KEEP, text + ".", numbers, sources)


def longest(seen: Seen, load: list[str]) -> Guidance:
    prompt, answer = seen.prompts.longest, seen.answers.longest
    p99 = seen.prompts.quantile(Decimal("0.99"))
    numbers = {
        "max_model_len": seen.max_model_len,
        "requests": seen.prompts.count or None,
        "longest_prompt": prompt.as_json() if prompt else None,
        "longest_answer": answer.as_json() if answer else None,
        "p99_prompt": p99.as_json() if p99 else None,
    }
    needs = list(load)
    if seen.max_model_len is None:
        needs.append("the longest request allowed (start-up log, or workload --max-model-len)")
    if prompt is None or answer is None:
        needs.append("histograms of request lengths (request_prompt_tokens, "
                     "request_generation_tokens)")  # fmt: skip
    limit = seen.max_model_len
    if needs or limit is None or prompt is None or answer is None or p99 is None:
        return missing(LONGEST, needs, numbers)
    sources = sources_of(seen, "request_prompt_tokens", "request_generation_tokens", log=True)
    text = (
        f"Of {seen.prompts.count:,} finished requests the longest prompt had {prompt.words()}, the "
        f"longest answer {answer.words()}; 99 % of prompts had at most {edge(p99)}. {limit:,} are "
        "allowed"
    )
    if prompt.most is None or answer.most is None or prompt.most + answer.most > limit // 2:
        return Guidance(LONGEST, KEEP, text + ".", numbers, sources)
    enough = prompt.most + answer.most
    return Guidance(
        LONGEST, LOWER,
        f"{text}: {enough:,} would hold every one of them. That frees no memory by itself (blocks "
        "are taken as tokens come); it lowers the least that the cache must hold, and so the lowest "
        "setting that starts. Requests that clients broke off are not in these lengths.",
        numbers | {"enough": enough}, sources,
    )  # fmt: skip
