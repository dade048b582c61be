"""The dashboard *Cost per million tokens*: figures of the newest closed week, as Headroom's own
`/metrics/cost` shows them, beside the live rate of tokens."""

from __future__ import annotations

from typing import Any, Final

from .panels import bars, dashboard, lines, query, stat, table, text, variable

OURS: Final = 'sample=~"$sample"'
CHOSEN: Final = f'namespace=~"$namespace", model_name=~"$model_name", {OURS}'
BLENDED: Final = f'llm_cost_per_million_tokens{{phase="", {CHOSEN}}}'
MODEL: Final = "{{model_name}} {{namespace}} {{workload}}"
WORDS: Final = """\
These figures come from Headroom's newest closed week: invoiced cost divided by tokens read from raw
samples. They change when a week is closed or restated, not with each scrape. **allocation** is all
that was paid for the model, idle time included, and the one to compare with a price list. **usage**
is its share in hours with tokens moving. Prometheus keeps 64-bit floats: the exact decimals, the
evidence and the state (*preliminary* or *final*) are in the report. The live rates below are
Prometheus's own and are no basis of any cost."""


def cost_per_million_tokens() -> dict[str, Any]:
    """The dashboard as a dictionary."""
    panels = [
        text("How to read this", WORDS, height=5),
        *_numbers(),
        lines(
            "Cost per million tokens by model",
            "Allocation basis, per model and namespace. The unit is the report's currency.",
            [query(BLENDED.replace("{", '{cost_basis="allocation", ', 1), MODEL)],
            "none",
        ),
        lines(
            "Allocation and usage",
            "Their distance is what idle hours cost.",
            [query(BLENDED, MODEL + " {{cost_basis}}")],
            "none",
        ),
        bars(
            "By week",
            "The organisation's cost per million tokens in the newest closed weeks.",
            f"headroom_week_cost_per_million_tokens{{{OURS}}}",
            "{{week}} {{currency}}",
            "none",
        ),
        bars(
            "By class of token",
            "Prompt tokens that were computed, prompt tokens from the cache, generated tokens.",
            f'llm_cost_per_million_tokens{{phase!="", {CHOSEN}}}',
            MODEL + " {{phase}}",
            "none",
        ),
        *_levels(),
        *_rates(),
        table(
            "The report behind these figures",
            "Week, revision, state and digest: what to open in Headroom to see the evidence.",
            f"headroom_report_info{{{OURS}}}",
            hidden=("Value", "job", "instance"),
            height=5,
        ),
    ]
    return dashboard(
        "headroom-cost-per-million-tokens",
        "Headroom: cost per million tokens",
        "Unit costs of the newest closed week, by model and namespace, beside the live rates.",
        [
            variable(
                "namespace", "Namespace", "label_values(llm_cost_per_million_tokens, namespace)"
            ),
            variable(
                "model_name", "Model", "label_values(llm_cost_per_million_tokens, model_name)"
            ),
            variable("sample", "Sample figures", "label_values(headroom_report_info, sample)"),
        ],
        panels,
        since="now-30d",
    )


def _numbers() -> list[dict[str, Any]]:
    basis = 'cost_basis="allocation"'
    shown = (
        (
            "Cost per million tokens",
            "The organisation's, blended.",
            f"headroom_cost_per_million_tokens{{{basis}, {OURS}}}",
            "none",
            4,
        ),
        (
            "Tokens per unit of money",
            "",
            f"headroom_tokens_per_currency_unit{{{OURS}}}",
            "short",
            1,
        ),
        (
            "Saving against the legacy stack",
            "In the week, where a baseline is recorded.",
            f"headroom_saving_vs_baseline{{{OURS}}}",
            "none",
            2,
        ),
        ("Coverage", "", f"headroom_token_coverage_ratio{{{OURS}}}", "percentunit", 2),
        ("Restarts", "Of engines, in the week.", f"headroom_engine_restarts{{{OURS}}}", "none", 0),
        (
            "Tokens reach to",
            "Unit costs use only hours that have both cost and tokens.",
            f"headroom_tokens_reach_timestamp_seconds{{{OURS}}} * 1000",
            "dateTimeAsIso",
            None,
        ),
    )
    return [stat(title, why, expr, unit, decimals=at) for title, why, expr, unit, at in shown]


def _levels() -> list[dict[str, Any]]:
    """What came in time: no cost per token without the service it was given with."""
    where = f'workload!="", namespace=~"$namespace", model_name=~"$model_name", {OURS}'
    return [
        lines(
            "In time, by model",
            "Share of first tokens, and of the time between tokens, within the objective's"
            " thresholds in the newest closed week. Two lines of a measure where the threshold lies"
            " between two buckets.",
            [query(f"headroom_in_time_ratio{{{where}}}", MODEL + " {{measure}} {{bound}}")],
            "percentunit",
        ),
        lines(
            "Cost per million tokens in time",
            "The same cost against the tokens that came in time alone.",
            [query(f"headroom_cost_per_million_tokens_in_time{{{where}}}", MODEL + " {{bound}}")],
            "none",
        ),
        bars(
            "In time, by week",
            "The organisation's, at least, in the newest closed weeks.",
            f'headroom_week_in_time_ratio{{bound="lower", {OURS}}}',
            "{{week}} {{measure}}",
            "percentunit",
        ),
        bars(
            "Asked for",
            "The share that each objective asks to be in time.",
            f"headroom_in_time_target_ratio{{{where}}}",
            MODEL,
            "percentunit",
        ),
    ]


def _rates() -> list[dict[str, Any]]:
    where = 'namespace=~"$namespace", model_name=~"$model_name"'
    return [
        lines(
            "Tokens per second now",
            "Prompt tokens include cached ones. Prefill and decode engines of a split service both"
            " count the prompt. For the eye only.",
            [
                query(f"sum(llm:prompt_tokens:rate5m{{{where}}})", "prompt"),
                query(f"sum(llm:cached_prompt_tokens:rate5m{{{where}}})", "of which cached"),
                query(f"sum(llm:generation_tokens:rate5m{{{where}}})", "generation"),
            ],
            "short",
        ),
        lines(
            "Hourly cost by model",
            "The week's effective cost divided by its hours.",
            [query(f"llm_total_hourly_cost{{{CHOSEN}}}", MODEL)],
            "none",
        ),
    ]
