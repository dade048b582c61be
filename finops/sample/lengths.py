"""Lengths of the sample's requests and steps: cumulative buckets that follow from its counters.

The fleet's Prometheus keeps few of them, every quarter of an hour and in the newest week only. Shares
are per thousand of what was counted; an engine's own counts make them whole numbers that only rise.
"""

from __future__ import annotations

from collections.abc import Iterator

from finops.sample.fleet import Traffic

EVERY = 30
"""Of how many scrapes one is kept."""
PROMPT, ANSWER = "vllm:request_prompt_tokens_bucket", "vllm:request_generation_tokens_bucket"
STEP = "vllm:iteration_tokens_total_bucket"
EDGES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
STEP_EDGES = ((128, 900), (512, 930), (1_024, 952), (2_048, 984), (4_096, 1_000), (8_192, 1_000))
ALL = 1_000
TOKENS_A_STEP = 6


def buckets(traffic: Traffic) -> Iterator[tuple[str, str, int, int, int]]:
    """Metric, edge, which of the engine's two counts it is a share of (requests 0, answers' tokens
    1), the share per thousand, and what the count is divided by."""
    for metric, mean in ((PROMPT, traffic.prompt_tokens), (ANSWER, traffic.generation_tokens)):
        for edge in EDGES:
            yield metric, f"{edge}.0", 0, _share(edge, mean), 1
        yield metric, "+Inf", 0, ALL, 1
    for edge, share in STEP_EDGES:
        yield STEP, f"{edge}.0", 1, share, TOKENS_A_STEP
    yield STEP, "+Inf", 1, ALL, TOKENS_A_STEP


def _share(edge: int, mean: int) -> int:
    """How many of a thousand requests are at most so long: half are near the mean."""
    steps = ((3 * mean, ALL), (2 * mean, 985), (mean, 640), (mean // 2, 130), (mean // 4, 20))
    return next((share for least, share in steps if edge >= least), 2)
