"""KV cache bytes of one token, from a model's own configuration (method §8.3).

The configuration is the `config.json` that comes with a model's weights. Keys and values of full
attention are `2 × KV heads × head size` values a layer; a latent cache (MLA) is one vector a layer
and is not divided by tensor parallelism; fewer KV heads than GPUs are repeated, not divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final

from .kv_layers import Layer, layers_of, text_part, whole
from .kv_models import as_its_class
from .weights import weights_bytes

FULL_BYTES: Final = {
    "bfloat16": Fraction(2),
    "float16": Fraction(2),
    "half": Fraction(2),
    "float32": Fraction(4),
    "float": Fraction(4),
    "fp8": Fraction(1),
    "fp8_e4m3": Fraction(1),
    "fp8_e5m2": Fraction(1),
    "fp8_inc": Fraction(1),
    "int8": Fraction(1),
    "nvfp4": Fraction(9, 16),
    "fp4": Fraction(9, 16),
}
"""Bytes a value; nvfp4 keeps one 8-bit scale for 16 values of 4 bits."""
KV_DTYPES: Final = ("auto", *FULL_BYTES)
LONGEST_KEYS: Final = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length",
)  # fmt: skip
MOST_LAYERS: Final = 10_000
SCALED: Final = 128


@dataclass(frozen=True, slots=True)
class KvShape:
    """What a model's KV cache takes on one GPU (the fullest, where pipeline stages differ).

    `bytes_per_token_per_gpu` is what a token takes while every attention layer keeps it; layers
    with a window let it go later, which `bytes_for_max_model_len_per_gpu` (one request) respects.
    `is_single_group` tells whether blocks × block size are tokens of the pool (method §8.3).
    """

    attention: str
    bytes_per_token_per_gpu: int
    bytes_for_max_model_len_per_gpu: int | None
    weights_bytes_per_gpu: int | None
    max_model_len: int | None
    is_single_group: bool
    notes: tuple[str, ...]


def kv_shape(
    config: Mapping[str, Any],
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    kv_dtype: str = "auto",
    max_model_len: int | None = None,
) -> KvShape:
    """The KV cache of a model by its `config.json` (method §8.3).

    Raises ValueError naming the key when the configuration does not describe a language model, and
    for parallelism, lengths and cache types that cannot be.
    """
    _check(tensor_parallel, pipeline_parallel, max_model_len)
    notes: list[str] = []
    text = as_its_class(text_part(config), notes)
    layers = layers_of(text)
    _check_layers(layers, pipeline_parallel)
    value_bytes = _value_bytes(text, config, kv_dtype, notes)
    length = max_model_len or whole(text, *LONGEST_KEYS)
    sizes = [_layer_bytes(layer, tensor_parallel, value_bytes) for layer in layers]
    stages = _stages(len(layers), pipeline_parallel)
    a_token = max(sum(sizes[i] for i in stage) for stage in stages)
    a_request = None
    if length is not None:
        held = [s * _tokens_held(one, length) for s, one in zip(sizes, layers, strict=True)]
        a_request = max(sum(held[i] for i in stage) for stage in stages)
    _explain(layers, tensor_parallel, pipeline_parallel, length, notes)
    keeping = [one for one in layers if one.kind != "none"]
    return KvShape(
        attention=_attention(keeping),
        bytes_per_token_per_gpu=ceil(a_token),
        bytes_for_max_model_len_per_gpu=None if a_request is None else ceil(a_request),
        weights_bytes_per_gpu=weights_bytes(
            config, tensor_parallel=tensor_parallel, stages=stages, notes=notes
        ),
        max_model_len=length,
        is_single_group=len({_group(one) for one in keeping}) == 1 and not _has_state(keeping[0]),
        notes=tuple(notes),
    )


def _check(tensor_parallel: int, pipeline_parallel: int, max_model_len: int | None) -> None:
    for name, value in (("tp", tensor_parallel), ("pp", pipeline_parallel)):
        if not 1 <= value <= 4096:
            raise ValueError(f"{name} must be from 1 to 4096, not {value}")
    if max_model_len is not None and not 1 <= max_model_len <= 1 << 40:
        raise ValueError(f"max-model-len must be a positive number of tokens, not {max_model_len}")


def _check_layers(layers: Sequence[Layer], pipeline_parallel: int) -> None:
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise ValueError(f"num_hidden_layers: {len(layers)} layers are no language model")
    if pipeline_parallel > len(layers):
        raise ValueError(f"pp: {pipeline_parallel} stages for {len(layers)} layers")


def _value_bytes(
    text: Mapping[str, Any], config: Mapping[str, Any], kv_dtype: str, notes: list[str]
) -> Fraction:
    if kv_dtype != "auto":
        if kv_dtype not in FULL_BYTES:
            raise ValueError(f"kv-dtype: {kv_dtype!r} is not one of {', '.join(KV_DTYPES)}")
        if kv_dtype in ("nvfp4", "fp4"):
            notes.append("4-bit values with one 8-bit scale for 16 of them: 9/16 byte a value.")
        return FULL_BYTES[kv_dtype]
    named = text.get("dtype") or text.get("torch_dtype")
    named = named or config.get("dtype") or config.get("torch_dtype")
    if named in (None, "float32", "float"):
        said = "names no dtype" if named is None else "says float32"
        notes.append(f"The configuration {said}; with `auto` vLLM serves in 16 bits: 2 bytes.")
        return Fraction(2)
    if str(named).removeprefix("torch.") not in FULL_BYTES:
        raise ValueError(f"torch_dtype: {named!r} is no type of a KV cache; give --kv-dtype")
    quantized = config.get("quantization_config")
    if isinstance(quantized, Mapping) and quantized.get("kv_cache_scheme"):
        notes.append("The checkpoint brings a scheme for a quantized KV cache; if the engine uses "
                     "it, give --kv-dtype fp8.")  # fmt: skip
    return FULL_BYTES[str(named).removeprefix("torch.")]


def _layer_bytes(layer: Layer, tensor_parallel: int, value_bytes: Fraction) -> Fraction:
    """Bytes of one token in one layer on one GPU."""
    if layer.kind != "attention":
        return Fraction(0)
    if layer.latent is not None:
        return layer.times * (_latent_bytes(layer, value_bytes) + _index_bytes(layer))
    heads = max(1, ceil(layer.kv_heads / tensor_parallel))
    return layer.times * heads * (layer.key_size + layer.value_size) * value_bytes


def _latent_bytes(layer: Layer, value_bytes: Fraction) -> Fraction:
    """The latent vector; in 8 bits beside an index its rotated part stays in 16 bits, and each
    SCALED values of the rest have a scale of 4 bytes (vLLM's `fp8_ds_mla`)."""
    if layer.latent is None or not layer.index or value_bytes != 1:
        return (layer.latent or 0) * value_bytes
    return Fraction(layer.key_size + layer.key_size // SCALED * 4 + 2 * layer.value_size)


def _index_bytes(layer: Layer) -> Fraction:
    """The keys of sparse attention's index: 8 bits a value and a scale of 4 bytes for SCALED."""
    return Fraction(layer.index + layer.index // SCALED * 4)


def _group(layer: Layer) -> tuple[object, ...]:
    """What layers must have in common for blocks × block size to be tokens of the pool."""
    return layer.kind, layer.window, layer.kv_heads, layer.key_size, layer.value_size


def _has_state(layer: Layer) -> bool:
    return layer.kind == "state" or layer.is_beside_state


def _tokens_held(layer: Layer, length: int) -> int:
    return length if layer.window is None else min(length, layer.window)


def _stages(layers: int, stages: int) -> list[range]:
    """The layers of each pipeline stage, as vLLM deals them: what is left over goes to the stages
    before the last one, from the back."""
    sizes = [layers // stages] * stages
    for i in range(2, layers % stages + 2):
        sizes[-i] += 1
    ends = [sum(sizes[: i + 1]) for i in range(stages)]
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _attention(layers: Sequence[Layer]) -> str:
    if not layers:
        raise ValueError("num_hidden_layers: no layer keeps anything; this is no language model")
    kinds = {(one.kind, one.window is not None) for one in layers}
    if kinds == {("state", False)}:
        return "mamba"
    if len(kinds) > 1 or any(one.is_beside_state for one in layers):
        return "hybrid"
    first = layers[0]
    if first.window is not None:
        return "sliding"
    if first.latent is not None:
        return "mla"
    if first.kv_heads == first.heads:
        return "mha"
    return "mqa" if first.kv_heads == 1 else "gqa"


def _explain(
    layers: Sequence[Layer], tp: int, pp: int, length: int | None, notes: list[str]
) -> None:
    ordinary = [one for one in layers if one.kind == "attention" and one.latent is None]
    heads = max((one.kv_heads for one in ordinary), default=0)
    if any(one.latent is not None for one in layers) and tp > 1:
        notes.append("The latent vector is kept whole on every GPU: tp does not divide it.")
    if ordinary and heads < tp:
        notes.append(f"{heads} KV heads for {tp} GPUs: heads are repeated, not divided.")
    elif ordinary and heads % tp:
        notes.append(f"{heads} KV heads do not divide by {tp} GPUs; engines refuse this.")
    if pp > 1 and len(layers) % pp:
        notes.append("Pipeline stages differ in layers; figures are of the largest stage.")
    windows = sorted({one.window for one in layers if one.window is not None})
    if windows:
        count = sum(one.window is not None for one in layers)
        names = ", ".join(f"{window:,}" for window in windows)
        notes.append(
            f"{count} of {len(layers)} layers keep a window of {names} tokens (and those in "
            "flight); an engine that does not use this keeps every token in them."
        )
    nothing = sum(one.kind == "none" for one in layers)
    if nothing:
        notes.append(f"{nothing} of {len(layers)} layers keep nothing of their own.")
    if any(one.index for one in layers):
        notes.append("The index of sparse attention keeps keys of its own beside the latent vector, in "
                     "8 bits with scales; they are counted.")  # fmt: skip
    states = sum(_has_state(one) for one in layers)
    if states:
        notes.append(f"{states} of {len(layers)} layers keep a fixed state for each sequence, "
                     "not for each token; it is not counted here.")  # fmt: skip
    if any(one.times > 1 for one in layers):
        notes.append("Each layer attends twice and keeps both.")
    if len({_group(one) for one in layers if one.kind != "none"}) > 1:
        notes.append("Several kinds of layers share one pool: blocks × block size are not tokens.")
    if length is None:
        notes.append("The configuration names no longest length; give --max-model-len.")
