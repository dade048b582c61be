"""Who the sample organisation is: its models, engines, nodes, prices and what befell them.

Everything here is invented. Prices are of the size that public clouds ask for such machines;
memory pools follow from the models' layers and the cards' memory as vLLM would print them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from finops.sample.calendar import MINUTE_MS, Calendar

PREPARER = "Ada Okafor"
APPROVER = "Benedikt Sommer"
ENGINEER = "Ines Carvalho"

Ending = Literal["drained", "killed", "running"]


@dataclass(frozen=True)
class Pool:
    """An engine's KV cache: what `vllm:cache_config_info` tells of it."""

    utilization: str
    blocks: int
    max_model_len: int
    engines: int = 1
    block_size: int = 16

    @property
    def tokens(self) -> int:
        """Tokens that the pool of one engine holds."""
        return self.blocks * self.block_size


@dataclass(frozen=True)
class Life:
    """One process from the birth of its counters to its end. `drained`: it stopped when no
    request was left; `killed`: in the midst of work; `running`: it lives at the horizon."""

    born_ms: int
    stop_ms: int
    ending: Ending
    pool: Pool
    loading_ms: int = 44_000


@dataclass(frozen=True)
class Target:
    """One scraped address and the processes that lived behind it, in order of time."""

    pod: str
    instance: str
    node: str
    phase_ms: int
    from_ms: int
    to_ms: int
    lives: tuple[Life, ...]


@dataclass(frozen=True)
class Traffic:
    """The load of one engine: whole numbers; shares are per thousand."""

    milli_requests_per_second: int
    prompt_tokens: int
    generation_tokens: int
    cached_share: int
    aborted_share: int
    seconds_a_request: int
    night_share: int
    weekend_share: int
    growth_a_week: int = 12
    before_week: int = 0
    share_before: int = 1000
    late_first: int = 10
    late_between: int = 5


@dataclass(frozen=True)
class Service:
    """One vLLM workload: what people call it, where it runs, its engines and its load."""

    slug: str
    model: str
    team: str
    cluster: str
    namespace: str
    kv_bytes_per_token: int
    traffic: Traffic
    targets: tuple[Target, ...] = field(default=())


CLUSTERS = ("eu-prod-1", "us-prod-1")
LEGACY = "legacy-fastchat"
LEGACY_MODEL = "vicuna-13b-v1.5"
TRAINING = "train-reranker"
LEGACY_WEEKS = 4

POOL_70B = Pool("0.92", 28_672, 32_768, engines=2)
POOL_32B = Pool("0.92", 23_040, 32_768)
# Of 44.39 GiB a step of 0.05 takes 2.22 GiB from the pool, in blocks of 1 MiB a GPU.
STEPS_32B = (
    Pool("0.87", 20_766, 32_768),
    Pool("0.82", 18_493, 32_768),
    Pool("0.77", 16_220, 32_768),
)
WEEKS_OF_STEPS = (6, 8, 10)
POOL_8B = Pool("0.92", 2_048, 8_192)
POOL_7B = Pool("0.92", 2_816, 16_384)

SAVINGS_PLAN = "arn:aws:savingsplans::012345678901:savingsplan/4f1c7d52-0b1e-4a57-9d0c-6f1f0c2a9e11"
PLAN_RATES = {"p5.48xlarge": Decimal("33.024"), "g6e.12xlarge": Decimal("8.394157")}
PLAN_COMMITMENT_AN_HOUR = Decimal("41.5")


@dataclass(frozen=True)
class Node:
    """A GPU machine: its shape, prices an hour and the workload that has it to itself."""

    name: str
    resource: str
    shape: str
    region: str
    sub_account: str
    on_demand: Decimal
    workload: str


NODES = (
    Node("node-eu-a", "i-0a41f6c2d97be8301", "p5.48xlarge", "eu-central-1", "eu", Decimal("55.04"), "chat-70b"),
    Node("node-eu-b", "i-0c8e2b7714fd0a952", "g6e.12xlarge", "eu-central-1", "eu", Decimal("13.11587"), "code-32b"),
    Node("node-us-a", "i-07d5b90e3c16fa248", "g5.2xlarge", "us-east-1", "us", Decimal("1.212"), "assist-8b"),
    Node("node-us-b", "i-0f93ac5581e02d76b", "g5.xlarge", "us-east-1", "us", Decimal("1.006"), "extract-7b"),
)  # fmt: skip
TRAINING_NODE = Node(
    "node-us-t", "i-0be17740ca98d35f6", "p4d.24xlarge", "us-east-1", "us", Decimal("21.957642"), TRAINING
)  # fmt: skip


def maintenance(calendar: Calendar) -> tuple[int, int]:
    """When the big node was switched off in week 4: not billed, so its commitment lay unused."""
    return calendar.ms(3, 2, 1), calendar.ms(3, 2, 4)


def gaps(calendar: Calendar, cluster: str) -> tuple[tuple[int, int], ...]:
    """When the cluster's Prometheus was down while the engines went on counting."""
    if cluster == "us-prod-1":
        return (
            (calendar.ms(5, 5, 2, 10), calendar.ms(5, 5, 6, 40)),
            (calendar.ms(11, 1, 3, 20), calendar.ms(11, 1, 8, 50)),
        )
    return ()


def _lives(
    calendar: Calendar, pool: Pool, *breaks: tuple[int, int, Ending, Pool]
) -> tuple[Life, ...]:
    """Lives from the first hour to the horizon, cut by (stop, born again, how, next pool)."""
    lives, born = [], calendar.ms(0, minutes=7)
    for stop, again, ending, following in breaks:
        lives.append(Life(born, stop, ending, pool))
        born, pool = again, following
    lives.append(Life(born, calendar.beyond_ms, "running", pool))
    return tuple(lives)


def _chat(c: Calendar) -> tuple[Target, ...]:
    stop, again = maintenance(c)
    lives = _lives(
        c,
        POOL_70B,
        (stop, again + 9 * MINUTE_MS, "drained", POOL_70B),
        (c.ms(11, 4, 10, 12, 13), c.ms(11, 4, 10, 19, 2), "killed", POOL_70B),
    )
    return (
        Target("chat-70b-0", "10.42.1.17:8000", "node-eu-a", 2_604, c.ms(0), c.beyond_ms, lives),
    )


def _code(c: Calendar) -> tuple[Target, ...]:
    """Its share of memory goes down by 0.05 every other Tuesday."""
    steps: list[tuple[int, int, Ending, Pool]] = [
        (c.ms(week, 1, 6, 2), c.ms(week, 1, 6, 13), "drained", pool)
        for week, pool in zip(WEEKS_OF_STEPS, STEPS_32B, strict=True)
    ]
    lives = _lives(c, POOL_32B, *steps)
    return (
        Target("code-32b-0", "10.42.1.31:8000", "node-eu-b", 11_917, c.ms(0), c.beyond_ms, lives),
    )


def _assist(c: Calendar) -> tuple[Target, ...]:
    """A kill, a replaced pod, and in the newest week a restart followed by a hidden reset."""
    killed, moved, back = c.ms(1, 1, 11, 7, 40), c.ms(6, 3, 9, 20, 51), c.ms(6, 3, 9, 24, 33)
    first = (
        Life(c.ms(0, minutes=7), killed, "killed", POOL_8B),
        Life(c.ms(1, 1, 11, 16, 10), moved, "killed", POOL_8B),
    )
    second = (
        Life(back, c.ms(11, 1, 3, 0), "drained", POOL_8B),
        Life(c.ms(11, 1, 3, 2, 40), c.ms(11, 1, 3, 31), "killed", POOL_8B),
        Life(c.ms(11, 1, 3, 36), c.beyond_ms, "running", POOL_8B),
    )
    old, new = "assist-8b-6d5f7c9b4-h2k9p", "assist-8b-6d5f7c9b4-xw7rn"
    return (
        Target(old, "10.60.3.8:8000", "node-us-a", 5_271, c.ms(0), moved, first),
        Target(
            new, "10.60.3.44:8000", "node-us-a", 21_083, back - 2 * MINUTE_MS, c.beyond_ms, second
        ),
    )


def _extract(c: Calendar) -> tuple[Target, ...]:
    lives = _lives(c, POOL_7B)
    return (
        Target("extract-7b-0", "10.60.4.12:8000", "node-us-b", 16_350, c.ms(0), c.beyond_ms, lives),
    )


def services(calendar: Calendar) -> tuple[Service, ...]:
    """The four vLLM workloads with their targets' lives in these weeks."""
    return (
        Service(
            "chat-70b", "meta-llama/Llama-3.3-70B-Instruct", "Customer assistant", "eu-prod-1", "chat", 81_920,
            Traffic(800, 4_200, 260, 420, 14, 20, 260, 620, late_first=24, late_between=9), _chat(calendar),
        ),
        Service(
            "code-32b", "Qwen/Qwen2.5-Coder-32B-Instruct", "Developer tools", "eu-prod-1", "code", 65_536,
            Traffic(900, 2_600, 180, 560, 22, 9, 120, 180, late_first=52, late_between=12), _code(calendar),
        ),
        Service(
            "assist-8b", "meta-llama/Llama-3.1-8B-Instruct", "Back office", "us-prod-1", "assist", 131_072,
            Traffic(130, 2_700, 330, 240, 9, 60, 180, 350, before_week=LEGACY_WEEKS, share_before=520, late_first=96, late_between=31),
            _assist(calendar),
        ),
        Service(
            "extract-7b", "mistralai/Mistral-7B-Instruct-v0.3", "Back office", "us-prod-1", "extract", 131_072,
            Traffic(4, 3_400, 150, 90, 4, 6, 120, 100), _extract(calendar),
        ),
    )  # fmt: skip
