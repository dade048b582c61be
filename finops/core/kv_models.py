"""What a model's configuration leaves to its class, and models that keep more or less than it says.

A `config.json` inside another (`text_config` of models that see or hear) names only what differs
from its class; the rest are the class's own values, as `transformers` publishes them (method §8.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LLAMA: Final = {
    "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
}  # fmt: skip
_QWEN: Final = {"use_sliding_window": False}
CLASSES: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama": _LLAMA | {"max_position_embeddings": 2048},
    "mistral": _LLAMA | {
        "num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131_072,
    },
    "qwen2": _LLAMA | _QWEN | {"max_position_embeddings": 32_768},
    "qwen2_moe": _QWEN,
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3": _LLAMA | _QWEN | {"head_dim": 128, "max_position_embeddings": 32_768},
    "qwen3_moe": _QWEN,
    "gemma": {
        "num_hidden_layers": 28, "hidden_size": 3072, "num_attention_heads": 16,
        "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
    },
    "gemma2": {
        "num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "max_position_embeddings": 8192,
    },
    "gemma3_text": {
        "num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "max_position_embeddings": 131_072,
    },
    "llama4_text": {
        "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192,
        "max_position_embeddings": 131_072,
    },
}  # fmt: skip
"""Values of a class where its configuration does not hold the key; `null` is a value."""
ENCODERS: Final = frozenset(
    {"bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "nomic_bert", "electra", "deberta-v2"}
)  # fmt: skip
BESIDE_STATES: Final = frozenset({"falcon_h1"})
"""Models each of whose layers keeps a fixed state beside its attention."""
TWICE: Final = frozenset({"longcat_flash"})
"""Models whose layers have two attentions each."""
WHOLE_HEADS: Final = frozenset({"minicpm3"})
"""Models with a latent vector for which engines keep whole keys and values all the same."""

# Where the class's own value is worth a word: it decides the bytes.
_SAID: Final = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "sliding_window", "sliding_window_pattern", "attention_chunk_size",
)  # fmt: skip


def as_its_class(text: Mapping[str, Any], notes: list[str]) -> Mapping[str, Any]:
    """The configuration of a language model with what its class adds (method §8.3).

    A note names the keys that are taken from the class. A configuration without `model_type`, or of a
    class that is not known here, comes back as it is.
    """
    taken = {
        name: value
        for name, value in CLASSES.get(str(text.get("model_type")), {}).items()
        if name not in text
    }
    # Layers that are listed one by one need no period; heads of whole width no head size.
    if text.get("layer_types") or text.get("_sliding_window_pattern"):
        taken.pop("sliding_window_pattern", None)
    said = [f"{name} {taken[name]}" for name in _SAID if name in taken]
    if said:
        notes.append(
            f"The configuration leaves out {', '.join(said)}; taken as {text['model_type']} has them "
            "unless told otherwise."
        )
    return {**text, **taken} if taken else text


def is_known(text: Mapping[str, Any]) -> bool:
    """Whether a class is known that describes the whole model where its configuration does not."""
    return "num_hidden_layers" in CLASSES.get(str(text.get("model_type")), {})
