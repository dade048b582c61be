"""`kv CONFIG.json`: what a model's KV cache takes on a GPU, from its own configuration."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from finops.core.kv import KV_DTYPES, KvShape, kv_shape
from finops.core.kv_agreement import agreement
from finops.ledger.cli import CannotRun, whole_number
from finops.ledger.plain_command import Command as Base
from finops.sources import engine_log
from finops.sources.model_config import read_config
from finops.sources.records import Refused


class Command(Base):
    """Prints bytes of a token, of a longest request and of the weights, per GPU."""

    help = "KV cache bytes of a model by its config.json."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("config", metavar="CONFIG.json", help="the model's config.json")
        parser.add_argument("--tp", type=whole_number, default=1, help="GPUs of tensor parallelism")
        parser.add_argument(
            "--pp", type=whole_number, default=1, help="stages of pipeline parallelism"
        )
        parser.add_argument("--kv-dtype", default="auto", help=", ".join(KV_DTYPES))
        parser.add_argument("--log", metavar="ENGINE.LOG", help="a start-up log to compare with")
        parser.add_argument(
            "--max-model-len", type=whole_number, help="tokens of the longest request"
        )

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        path = self.file_of(options["config"])
        try:
            config = read_config(path, path.name)
        except Refused as refused:
            return self.refused(refused)
        try:
            shape = kv_shape(
                config,
                tensor_parallel=options["tp"],
                pipeline_parallel=options["pp"],
                kv_dtype=options["kv_dtype"],
                max_model_len=options["max_model_len"],
            )
        except ValueError as error:
            raise CannotRun(str(error)) from error
        found: dict[str, Any] = {
            "attention": shape.attention,
            "bytes_per_token_per_gpu": shape.bytes_per_token_per_gpu,
            "bytes_for_max_model_len_per_gpu": shape.bytes_for_max_model_len_per_gpu,
            "weights_bytes_per_gpu": shape.weights_bytes_per_gpu,
            "max_model_len": shape.max_model_len,
            "notes": list(shape.notes),
        }
        found |= self._compared(shape, options["log"])
        return found, all(one["agrees"] for one in found.get("agreement", ()))

    def _compared(self, shape: KvShape, log: str | None) -> dict[str, Any]:
        """What each engine of a log printed of its cache, beside the configuration's own."""
        if log is None:
            return {}
        starts = engine_log.read_text(self.file_of(log).read_text("utf-8", "replace"))
        size = shape.bytes_per_token_per_gpu if shape.is_single_group else None
        firsts = [one.workers[0] for one in starts if one.workers]
        told = [agreement(size, w.kv_tokens, w.kv_bytes, w.block_size) for w in firsts]
        return {"agreement": [one.as_json() | {"says": one.sentence} for one in told if one]}
