"""Writes what the gateway in front of the legacy stack logged: one JSON line a request.

FastChat itself counts nothing; its gateway kept the `usage` of every reply, as OpenAI's API spells
it. One file a week, for the weeks before the move to vLLM.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from finops.core.period import milliseconds
from finops.sample.calendar import HOUR_MS, Calendar
from finops.sample.fleet import LEGACY, LEGACY_MODEL, LEGACY_WEEKS
from finops.sample.load import DAY
from finops.sample.truth import Truth

REQUESTS_A_PEAK_HOUR = 110
APPS = ("mailroom", "claims", "search")


def write_weeks(folder: Path, calendar: Calendar, rng: Random, truth: Truth) -> Iterator[Path]:
    """Writes the legacy weeks' files; books each request as delivered in the truth."""
    for number in range(LEGACY_WEEKS):
        path = folder / f"gateway-{LEGACY}-{calendar.names[number]}.jsonl"
        week = calendar.weeks[number]
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for hour_ms in range(milliseconds(week.start), milliseconds(week.end), HOUR_MS):
                file.writelines(_hour(hour_ms, rng, truth))
        yield path


def _hour(hour_ms: int, rng: Random, truth: Truth) -> Iterator[str]:
    hours = hour_ms // HOUR_MS
    weekend = (hours // 24 + 3) % 7 >= 5
    level = (120 + DAY[hours % 24]) // (4 if weekend else 1)
    requests = REQUESTS_A_PEAK_HOUR * level * rng.randint(800, 1200) // 1_000_000
    for at_ms in sorted(hour_ms + rng.randrange(HOUR_MS) for _ in range(requests)):
        yield _request(at_ms, rng, truth)


def _request(at_ms: int, rng: Random, truth: Truth) -> str:
    prompt, completion = rng.randint(900, 4_700), rng.randint(40, 600)
    truth.book(LEGACY, at_ms, (0, 0, 0, prompt, completion, 0))
    return (
        f'{{"id":"cmpl-{rng.getrandbits(64):016x}","created":{at_ms // 1000},"model":"{LEGACY_MODEL}",'
        f'"app":"{rng.choice(APPS)}","stream":false,"usage":{{"prompt_tokens":{prompt},'
        f'"completion_tokens":{completion},"total_tokens":{prompt + completion}}}}}\n'
    )
