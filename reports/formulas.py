"""How each printed figure follows from others, in words and with its numbers (method §5, §6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

EFFECTIVE, WEEK = "effective_cost", "period_effective_cost"
CLASS = (
    "effective_cost × the weight of the class × 1,000,000 ÷ Σ weight × tokens of each class; the "
    "weights stand with the parameters"
)
PARTS = "the parts of the charges below inside the hours that have both cost and tokens"
OWN = "own charges and the share of what is shared"
FORMULAS = {
    "cost_per_million_tokens": "effective_cost ÷ (prompt_tokens + generation_tokens) × 1,000,000",
    "cost_per_million_prompt_tokens": CLASS,
    "cost_per_million_cached_prompt_tokens": CLASS,
    "cost_per_million_generation_tokens": CLASS,
    "cost_per_million_lower": "effective_cost ÷ tokens_upper × 1,000,000",
    "cost_per_million_upper": "effective_cost ÷ tokens_lower × 1,000,000",
    "usage_cost_per_million_tokens": "effective_cost × the share of hours in which tokens moved ÷ "
    "(prompt_tokens + generation_tokens) × 1,000,000; of the organisation, summed by workload",
    "tokens_per_dollar": "(prompt_tokens + generation_tokens) ÷ effective_cost",
    "tokens_per_dollar_change": "(tokens_per_dollar − the week before's) ÷ the week before's",
    "prompt_tokens": "the sum of what the prompt counters rose in the hours that have both cost and "
    "tokens",
    "cached_prompt_tokens": "the sum of what the counters of cached prompt tokens rose in those "
    "hours; a part of prompt_tokens",
    "generation_tokens": "the sum of what the generation counters rose in the hours that have both "
    "cost and tokens",
    "delivered_prompt_tokens": "prompt tokens of requests that finished, by the engines' sums or by "
    "usage records",
    "delivered_generation_tokens": "generated tokens of requests that finished, by the engines' "
    "sums or by usage records",
    "tokens_lower": "tokens counted, less those that the first reading after a start that nobody "
    "read shows",
    "tokens_upper": "tokens counted, those that the first reading after an end that nobody read "
    "shows, and for each restart and end the highest rate × the time in the dark",
    "coverage": "1 − Σ unobserved time ÷ Σ living time of the prompt counters in the hours that "
    "have both cost and tokens",
    "restarts": "counters that began again, counted once for each engine",
    "hidden_resets": "restarts that no fall of a value shows, but the mark of a new process",
    "exact": "no restart, no end, no opening without a place, no edge in a gap or between a birth "
    "and a late first reading",
    "effective_cost": f"{PARTS}: {OWN}",
    "period_effective_cost": f"the parts of the charges below inside the week: {OWN}",
    "cost_own": "the parts inside the week of the charges that rules give to the workload",
    "cost_shared": "the workload's share of the shared charges of the week, by their keys",
    "gpu_hours": "GPUs × hours of the week by the source that gpu_hours_source names",
    "gpu_hours_source": "requests of pods, else devices, else the shapes of the charges below",
    "saving_vs_baseline": "this week's tokens × the baseline's price − effective_cost",
    "saving_lower": "as saving_vs_baseline, of the fewest tokens that can have been",
    "saving_upper": "as saving_vs_baseline, of the most tokens that can have been",
}
"""Each figure that a report prints, of the organisation or of a workload."""

WEEKS = (WEEK, "cost_own", "cost_shared", "gpu_hours", "gpu_hours_source")
_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")


def of(figure: str, figures: Mapping[str, Any]) -> str:
    """The formula of a figure; where it is made of other figures alone, with their numbers too."""
    text = FORMULAS.get(figure, "method §5")
    names = [name for name in _NAME.findall(text) if name in FORMULAS]
    known = all(figures.get(name) is not None for name in names)
    is_closed = "÷" in text and not re.search(r"the |Σ|;", text)
    if not names or not known or not is_closed:
        return text
    return f"{text} = {_NAME.sub(lambda found: str(figures.get(found[0], found[0])), text)}"


def cost_of(figure: str) -> str:
    """The figure of cost that the charges behind a figure add up to."""
    return WEEK if figure in WEEKS else EFFECTIVE
