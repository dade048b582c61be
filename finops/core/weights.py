"""Bytes of a model's weights on one GPU, where its configuration says enough (method §8.2).

Only families whose parameters follow from their configuration are counted; for others the engine's
own line "Model loading took …" is the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final

from .kv_layers import needed, text_part, whole

FAMILIES: Final = frozenset({"llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe"})
DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 2}
"""float32 checkpoints are served in 16 bits by default."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Parameters of one layer on one GPU: matrices that quantization packs, and the rest."""

    packed: int
    plain: int


def weights_bytes(
    config: Mapping[str, Any],
    *,
    tensor_parallel: int,
    stages: Sequence[range],
    notes: list[str],
) -> int | None:
    """Bytes of weights on the fullest GPU; None with a note where they cannot be derived."""
    text = text_part(config)
    family = str(text.get("model_type"))
    if family not in FAMILIES or text is not config:
        notes.append("Weights are not derived for this kind of model; its start-up log tells them.")
        return None
    named = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    plain_bytes = DTYPE_BYTES.get(named.removeprefix("torch."))
    packed = _packed_bytes(config, plain_bytes, notes)
    if plain_bytes is None or packed is None:
        return None
    layer = _layer(config, family, tensor_parallel)
    hidden = needed(config, "hidden_size")
    table = ceil(needed(config, "vocab_size") / tensor_parallel) * hidden
    tied = bool(config.get("tie_word_embeddings", False))
    best = 0
    for number, stage in enumerate(stages):
        first, last = number == 0, number == len(stages) - 1
        plain = len(stage) * layer.plain + (hidden if last else 0)
        tables = (1 if first else 0) + (1 if last and not (tied and first) else 0)
        total = packed * (len(stage) * layer.packed) + plain_bytes * (plain + tables * table)
        best = max(best, ceil(total))
    return best


def _scales(block: Any) -> Fraction:
    """Bytes of scales a parameter takes, one of 4 bytes for each block of so many by so many."""
    if not block:
        return Fraction(0)
    if not isinstance(block, list) or len(block) != 2:
        raise ValueError(f"weight_block_size: {str(block)[:40]!r} is not two whole numbers")
    high, wide = (needed({"weight_block_size": one}, "weight_block_size") for one in block)
    return Fraction(4, high * wide)


def _packed_bytes(
    config: Mapping[str, Any], plain_bytes: int | None, notes: list[str]
) -> Fraction | None:
    """Bytes a parameter of the layers' matrices takes."""
    quantized = config.get("quantization_config")
    if plain_bytes is None or not isinstance(quantized, Mapping):
        return None if plain_bytes is None else Fraction(plain_bytes)
    method = str(quantized.get("quant_method"))
    if method == "fp8":
        scales = _scales(quantized.get("weight_block_size"))
        notes.append("Weights of the layers in 8 bits (fp8); embeddings in the model's type.")
        return 1 + scales
    if method in ("awq", "gptq"):
        bits, group = whole(quantized, "bits", "w_bit"), whole(quantized, "group_size")
        if bits and group:
            notes.append(f"Weights of the layers in {bits} bits ({method}) with a 16-bit scale and "
                         f"a zero for {group} of them.")  # fmt: skip
            return Fraction(bits, 8) + Fraction(16 + bits, 8 * group)
    notes.append(f"Weights quantized by {method} are not derived; the start-up log tells them.")
    return None


def _layer(config: Mapping[str, Any], family: str, tp: int) -> _Layer:
    hidden = needed(config, "hidden_size")
    heads = needed(config, "num_attention_heads")
    kv_heads = whole(config, "num_key_value_heads") or heads
    size = whole(config, "head_dim") or hidden // heads
    own_heads, own_kv = ceil(heads / tp), max(1, ceil(kv_heads / tp))
    attention = hidden * size * (2 * own_heads + 2 * own_kv)
    plain = 2 * hidden
    if family == "qwen2" or config.get("attention_bias"):
        plain += size * (own_heads + 2 * own_kv)
        plain += hidden if config.get("attention_bias") and family == "llama" else 0
    if family in ("qwen3", "qwen3_moe"):
        plain += 2 * size
    matrices, router = _mixing(config, family, hidden, tp)
    return _Layer(attention + matrices, plain + router)


def _mixing(config: Mapping[str, Any], family: str, hidden: int, tp: int) -> tuple[int, int]:
    """Parameters of a layer's feed-forward part on one GPU, and of its router."""
    width = needed(config, "intermediate_size")
    if family == "mixtral":
        experts = needed(config, "num_local_experts")
    elif family == "qwen3_moe":
        experts = needed(config, "num_experts")
        width = needed(config, "moe_intermediate_size")
    else:
        return 3 * hidden * ceil(width / tp), 0
    return experts * 3 * hidden * ceil(width / tp), experts * hidden
