"""The layers of a model by its configuration: what each keeps of a token (method §8.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from .kv_models import BESIDE_STATES, ENCODERS, TWICE, WHOLE_HEADS, is_known

NESTED: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
FULL: Final = frozenset({"full_attention", "attention", "global", "global_attention", "full"})
WINDOWED: Final = frozenset({"sliding_attention", "sliding", "local", "chunked_attention"})
STATES: Final = frozenset(
    {"mamba", "mamba2", "linear_attention", "recurrent", "conv", "ssm", "lightning", "linear"}
)
ATTENTION_FREE: Final = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv7"})
MOST_LAYERS: Final = 10_000
DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: attention with its heads, a latent vector, or a fixed state.

    `window` is how many tokens it keeps at most; None keeps all. A layer of kind `none` keeps nothing
    of its own. `index` is the head size of the keys by which sparse attention finds its tokens. `times`
    is how often the layer attends, `is_beside_state` whether it keeps a fixed state as well.
    """

    kind: Literal["attention", "state", "none"]
    heads: int = 0
    kv_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    latent: int | None = None
    window: int | None = None
    index: int = 0
    times: int = 1
    is_beside_state: bool = False


def text_part(config: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """The part of a configuration that describes the language model.

    Raises ValueError for parts within parts beyond what any model has.
    """
    if depth > DEEPEST:
        raise ValueError(f"text_config: nested more than {DEEPEST} deep; no model's is")
    for name in NESTED:
        inner = config.get(name)
        if not isinstance(inner, Mapping):
            continue
        found = text_part(inner, depth + 1)
        if found is not inner or is_known(inner) or any("layer" in str(key) for key in inner):
            return found
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
    """The layers in the model's order, also those that keep nothing between tokens.

    Raises ValueError naming the key for what does not describe a language model, or one whose layers
    cannot be told from its configuration.
    """
    count = needed(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if count > MOST_LAYERS:
        raise ValueError(f"num_hidden_layers: {count} layers are no language model")
    family = str(text.get("model_type"))
    if family in ATTENTION_FREE:
        return [Layer("state")] * count
    if family in ENCODERS:
        raise ValueError(f"model_type: {family!r} is an encoder; it keeps no KV cache")
    if text.get("compress_ratios"):
        raise ValueError(
            "compress_ratios: layers that keep one entry for several tokens are not derived here; the "
            "start-up log tells the cache"
        )
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and blocks:
        return _by_block(text, blocks, count)
    whole_layer = replace(
        _attention(text), times=2 if family in TWICE else 1, is_beside_state=family in BESIDE_STATES
    )
    kinds = list(_kinds(text, count))
    if len(kinds) < count:
        raise ValueError(f"num_hidden_layers: {count}, but {len(kinds)} kinds of layers are listed")
    # Layers that share the cache of an earlier one keep nothing themselves.
    shared = whole(text, "num_kv_shared_layers") or 0
    kinds = kinds[: max(0, count - shared)] + ["none"] * min(shared, count)
    made = {
        "full": _whole_range(text, whole_layer),
        "window": _windowed(text, whole_layer),
        "both": replace(whole_layer, is_beside_state=True),
        "state": Layer("state"),
        "none": Layer("none"),
    }
    return [made[kind] for kind in kinds]


def _by_block(text: Mapping[str, Any], blocks: Sequence[Any], count: int) -> list[Layer]:
    """Layers told one by one, each with the query heads that share a KV head, or without attention."""
    if len(blocks) != count:
        raise ValueError(f"block_configs: {len(blocks)} blocks for {count} layers")
    heads = needed(text, "num_attention_heads")
    size = whole(text, "head_dim") or needed(text, "hidden_size") // heads
    found = []
    for block in blocks:
        told = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(told, Mapping):
            raise ValueError("block_configs: a block without its attention")
        if told.get("no_op") or told.get("replace_with_linear"):
            found.append(Layer("none"))
            continue
        kv_heads = heads // needed(told, "n_heads_in_group")
        found.append(Layer("attention", heads, max(1, kv_heads), size, size))
    return found


def _attention(text: Mapping[str, Any]) -> Layer:
    inner = text.get("attn_config")
    more = inner if isinstance(inner, Mapping) else {}
    heads = needed(text, "num_attention_heads", "n_head", "n_heads", "num_heads")
    rank = whole(text, "kv_lora_rank")
    rope = whole(text, "qk_rope_head_dim") or 0
    if rank and text.get("model_type") in WHOLE_HEADS:
        both = needed(text, "qk_nope_head_dim") + rope
        return Layer("attention", heads, heads, both, both)
    if rank:
        index = (whole(text, "index_head_dim") or 0) if text.get("index_topk") else 0
        return Layer("attention", heads, 1, rank, rope, latent=rank + rope, index=index)
    kv_heads = whole(
        text, "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"
    )
    kv_heads = whole(more, "kv_n_heads") if kv_heads is None else kv_heads
    if kv_heads == 0:
        raise ValueError("num_key_value_heads: 0; this does not describe a language model")
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        kv_heads = 1
    hidden = whole(text, "hidden_size", "n_embd", "d_model", "dim")
    size = whole(text, "head_dim", "kv_channels", "attention_head_dim")
    if size is None:
        if not hidden:
            raise ValueError("hidden_size: absent; this does not describe a language model")
        size = hidden // heads
    if not size:
        raise ValueError("head_dim: 0; this does not describe a language model")
    return Layer("attention", heads, kv_heads or heads, size, whole(text, "v_head_dim") or size)


def _whole_range(text: Mapping[str, Any], layer: Layer) -> Layer:
    """A layer that keeps every token; where such layers have heads of their own, with those."""
    heads, size = whole(text, "num_global_key_value_heads"), whole(text, "global_head_dim")
    if layer.latent is not None or not (heads or size):
        return layer
    return replace(
        layer,
        kv_heads=heads or layer.kv_heads,
        key_size=size or layer.key_size,
        value_size=size or layer.value_size,
    )


def _windowed(text: Mapping[str, Any], layer: Layer) -> Layer:
    """A layer with a window; where such layers have heads of their own, with those."""
    size = whole(text, "swa_head_dim")
    return replace(
        layer,
        window=_window(text),
        kv_heads=whole(text, "swa_num_key_value_heads") or layer.kv_heads,
        key_size=size or layer.key_size,
        value_size=whole(text, "swa_v_head_dim") or size or layer.value_size,
    )


def _window(text: Mapping[str, Any]) -> int | None:
    if text.get("use_sliding_window") is False:
        return None
    return whole(text, "sliding_window", "sliding_window_size", "attention_chunk_size")


def _kinds(text: Mapping[str, Any], count: int) -> Sequence[str]:
    """Of each layer: full, window, state, both (full, beside a state), or none (keeps nothing)."""
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
    if name in FULL:
        return "full"
    if name == "hybrid":
        return "both"
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
        full = _numbers(linear, "full_attn_layers")
        return ["full" if i + 1 in full else "state" for i in range(count)]
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if isinstance(text.get(name), list):
            full = _numbers(text, name)
            return ["full" if i in full else "state" for i in range(count)]
    if isinstance(text.get("attn_type_list"), list):
        return ["full" if one == 1 else "state" for one in text["attn_type_list"]]
    if isinstance(text.get("cross_attention_layers"), list):
        # What such a layer attends to is an image's: it is kept once a request.
        once = _numbers(text, "cross_attention_layers")
        return ["state" if i in once else "full" for i in range(count)]
    if isinstance(text.get("local_layer_ids"), list):
        local = _numbers(text, "local_layer_ids")
        return ["window" if i in local else "full" for i in range(count)]
    windows = text.get("hybrid_layer_pattern")
    if isinstance(windows, list):
        return ["window" if i == 1 else "full" for i in windows]
    rope = text.get("no_rope_layers")
    if text.get("attention_chunk_size") and (rope is None or isinstance(rope, list)):
        # An empty list stands for a period, as an absent one does.
        period = whole(text, "no_rope_layer_interval") or 4
        rope = rope or [(i + 1) % period for i in range(count)]
        return ["window" if i else "full" for i in rope]
    return None


def _numbers(text: Mapping[str, Any], name: str) -> set[int]:
    """The numbers of layers in a list."""
    if any(one is None for one in text[name]):
        raise ValueError(f"{name}: a layer without its number")
    return {whole({name: one}, name) or 0 for one in text[name]}


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
    written = text.get("sliding_window_pattern")
    if isinstance(written, str) and written:  # such as LLLG, again and again
        return ["window" if written[i % len(written)] == "L" else "full" for i in range(count)]
    period = whole(text, "sliding_window_pattern") or (2 if _alternates(text) else None)
    if period:
        return ["full" if (i + 1) % period == 0 else "window" for i in range(count)]
    upper = whole(text, "max_window_layers")
    if upper is not None and text.get("use_sliding_window") is True:
        return ["full" if i < upper else "window" for i in range(count)]
    return None


def _alternates(text: Mapping[str, Any]) -> bool:
    return str(text.get("model_type")) == "gemma2"
