"""`explain-log FILE`: what an engine's start-up log says of memory, and what helps if it failed."""  # noqa: N999 - the command's name

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.engine_start import gib
from finops.ledger.plain_command import Command as Base
from finops.sources import engine_log
from finops.sources.records import EngineStartRecord, Refused

SHOWN = (
    ("weights_bytes", "weights"),
    ("weights_and_non_torch_bytes", "weights and non-torch"),
    ("non_torch_bytes", "non-torch (context, NCCL)"),
    ("activation_peak_bytes", "activation peak (budgeted, not held)"),
    ("graphs_bytes", "CUDA graphs"),
    ("kv_bytes", "KV cache"),
    ("budget_bytes", "budget"),
    ("total_bytes", "device total"),
)


class Command(Base):
    """Prints each engine's start; a start that failed is a result, not an error of the command."""

    help = "Explain an engine's start-up log: memory by worker, and why a start failed."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the engine's log, plain or gzip")

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        path = self.file_of(options["file"])
        try:
            records = list(engine_log.parse(path, path.name, engine_log.FORMATS[0]).records)
        except Refused as refused:
            return self.refused(refused) if options["json"] else self._say(refused)
        engines = [one.engine.as_json() for one in records if isinstance(one, EngineStartRecord)]
        return {"engines": engines}, True

    def _say(self, refused: Refused) -> tuple[dict[str, Any], bool]:
        return {"engines": [], "error": str(refused)}, False

    def render(self, result: dict[str, Any]) -> str:
        parts = [_engine(engine) for engine in result["engines"]]
        return "\n\n".join(parts or [result.get("error", "")])


def _engine(engine: dict[str, Any]) -> str:
    rank = engine["data_parallel_rank"]
    name = f"vLLM {engine['engine_version'] or '(version not told)'}, {engine['model'] or 'model not told'}"
    text = [name if rank is None else f"{name}, data-parallel rank {rank}"]
    for worker in engine["workers"]:
        text.append(f"  worker {'' if worker['rank'] is None else worker['rank']}".rstrip())
        text += [
            f"    {label:<38}{gib(worker[key]):>14}"
            for key, label in SHOWN
            if worker[key] is not None
        ]
        if worker["kv_tokens"] is not None:
            text.append(f"    {'tokens in the KV cache':<38}{worker['kv_tokens']:>14,}")
    if engine["identity"]:
        word = "add up" if engine["identity"]["holds"] else "do NOT add up"
        text.append(f"  The log's figures {word} (budget − parts − KV cache = "
                    f"{gib(engine['identity']['difference_bytes'])}).")  # fmt: skip
    text += [f"  Note: {note}" for note in engine["notes"]]
    if engine["failure"]:
        text += _failure(engine["failure"])
    return "\n".join(text)


def _failure(failure: dict[str, Any]) -> list[str]:
    text = [
        f"  It did not start: {failure['summary']}",
        f"    (line {failure['line']}) {failure['text'][:160]}",
    ]
    for name, word in (("remedies", "Helps"), ("wrong_remedies", "Does not help")):
        for remedy in failure[name]:
            to = f" → {remedy['to']}" if remedy["to"] else ""
            alone = name != "remedies" or remedy["kind"] not in failure["not_enough_alone"]
            said = word if alone else "Helps, but is not enough alone"
            text.append(f"    {said}: {remedy['kind']}{to}. {remedy['why']}")
    return text
