"""The layers of a model by its configuration: what each keeps of a token (method §8.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

NESTED: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
FULL: Final = frozenset({"full_attention", "attention", "global", "global_attention", "full"})
WINDOWED: Final = frozenset({"sliding_attention", "sliding", "local", "chunked_attention"})
STATES: Final = frozenset(
    {"mamba", "mamba2", "linear_attention", "recurrent", "conv", "ssm", "lightning", "linear"}
)
ATTENTION_FREE: Final = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv7"})
MOST_LAYERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: attention with its heads, a latent vector, or a fixed state.

    `window` is how many tokens it keeps at most; None keeps all.
    """

    kind: Literal["attention", "state"]
    heads: int = 0
    kv_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    latent: int | None = None
    window: int | None = None


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a configuration that describes the language model."""
    for name in NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping) and any("layer" in str(key) for key in inner):
            return text_part(inner)
    return config


def whole(config: Mapping[str, Any], *names: str) -> int | None:
    """The first of these keys that is set, as a whole number.

    Raises ValueError naming the key where the value is none.
    """
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 50:
            raise ValueError(f"{name}: not a whole number: {str(value)[:40]!r}")
        return value
    return None


def needed(config: Mapping[str, Any], *names: str) -> int:
    """The same, for keys without which nothing can be said. Raises ValueError when absent or 0."""
    found = whole(config, *names)
    if not found:
        raise ValueError(f"{names[0]}: absent; this does not describe a language model")
    return found


def layers_of(text: Mapping[str, Any]) -> list[Layer]:
    """The layers that keep something between tokens, in the model's order."""
    count = needed(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if count > MOST_LAYERS:
        raise ValueError(f"num_hidden_layers: {count} layers are no language model")
    if str(text.get("model_type")) in ATTENTION_FREE:
        return [Layer("state")] * count
    whole_layer = _attention(text)
    kinds = _kinds(text, count)
    window = _window(text)
    made = {
        "full": whole_layer,
        "window": _with_window(whole_layer, window),
        "state": Layer("state"),
    }
    return [made[kind] for kind in kinds if kind in made]


def _attention(text: Mapping[str, Any]) -> Layer:
    inner = text.get("attn_config")
    more = inner if isinstance(inner, Mapping) else {}
    heads = needed(text, "num_attention_heads", "n_head", "n_heads", "num_heads")
    rank = whole(text, "kv_lora_rank")
    if rank:
        rope = whole(text, "qk_rope_head_dim") or 0
        return Layer("attention", heads, 1, rank, rope, latent=rank + rope)
    kv_heads = whole(text, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")
    kv_heads = kv_heads or whole(more, "kv_n_heads")
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        kv_heads = 1
    hidden = whole(text, "hidden_size", "n_embd", "d_model", "dim")
    size = whole(text, "head_dim", "kv_channels", "attention_head_dim")
    if size is None:
        if not hidden:
            raise ValueError("hidden_size: absent; this does not describe a language model")
        size = hidden // heads
    return Layer("attention", heads, kv_heads or heads, size, whole(text, "v_head_dim") or size)


def _with_window(layer: Layer, window: int | None) -> Layer:
    return Layer(
        layer.kind,
        layer.heads,
        layer.kv_heads,
        layer.key_size,
        layer.value_size,
        layer.latent,
        window,
    )


def _window(text: Mapping[str, Any]) -> int | None:
    if text.get("use_sliding_window") is False:
        return None
    return whole(text, "sliding_window", "sliding_window_size", "attention_chunk_size")


def _kinds(text: Mapping[str, Any], count: int) -> Sequence[str]:
    """Of each layer: full, window, state, or none (keeps nothing)."""
    for found in (_listed(text), _patterned(text, count), _periodic(text, count)):
        if found is not None:
            return found
    return ["full" if _window(text) is None else "window"] * count


def _listed(text: Mapping[str, Any]) -> list[str] | None:
    names = text.get("layer_types") or text.get("layers_block_type")
    if not isinstance(names, list):
        return None
    return [_kind_of(str(name)) for name in names]


def _kind_of(name: str) -> str:
    if name in FULL or name == "hybrid":
        return "full"
    if name in WINDOWED:
        return "window"
    if name in STATES:
        return "state"
    if name in ("mlp", "moe"):
        return "none"
    raise ValueError(f"layer_types: {name[:40]!r} is no kind of layer that is known")


def _patterned(text: Mapping[str, Any], count: int) -> list[str] | None:
    """Layers written as a pattern: `M-M*` of Nemotron-H, lists of indices of others."""
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return [{"*": "full", "M": "state"}.get(sign, "none") for sign in pattern]
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        full = {int(i) for i in linear["full_attn_layers"]}
        return ["full" if i + 1 in full else "state" for i in range(count)]
    indices = text.get("attn_layer_indices")
    if isinstance(indices, list):
        return ["full" if i in indices else "state" for i in range(count)]
    rope = text.get("no_rope_layers")
    if isinstance(rope, list) and text.get("attention_chunk_size") and len(rope) == count:
        return ["window" if i else "full" for i in rope]
    return None


def _periodic(text: Mapping[str, Any], count: int) -> list[str] | None:
    """Layers told by a period: every n-th keeps all, the others a window or a state."""
    period = whole(text, "attn_layer_period")
    if period:
        offset = whole(text, "attn_layer_offset") or 0
        return ["full" if i % period == offset else "state" for i in range(count)]
    period = whole(text, "full_attention_interval")
    if period:
        return ["full" if (i + 1) % period == 0 else "state" for i in range(count)]
    if _window(text) is None:
        return None
    period = whole(text, "sliding_window_pattern") or (2 if _alternates(text) else None)
    if period:
        return ["full" if (i + 1) % period == 0 else "window" for i in range(count)]
    upper = whole(text, "max_window_layers")
    if upper is not None and text.get("use_sliding_window") is True:
        return ["full" if i < upper else "window" for i in range(count)]
    return None


def _alternates(text: Mapping[str, Any]) -> bool:
    return str(text.get("model_type")) == "gemma2"
