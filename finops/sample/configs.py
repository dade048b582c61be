"""Writes the `config.json` of the sample's models, as their makers publish them beside the weights.

Only the keys that tell of layers, heads, vocabulary and number type; the values are the published ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from finops.sample.calendar import Calendar
from finops.sample.fleet import services

_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": 8,
    "vocab_size": 128_256, "max_position_embeddings": 131_072,
}  # fmt: skip
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "meta-llama/Llama-3.3-70B-Instruct": _LLAMA | {
        "hidden_size": 8_192, "intermediate_size": 28_672, "num_hidden_layers": 80,
        "num_attention_heads": 64,
    },
    "meta-llama/Llama-3.1-8B-Instruct": _LLAMA | {
        "hidden_size": 4_096, "intermediate_size": 14_336, "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    "Qwen/Qwen2.5-Coder-32B-Instruct": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 5_120,
        "intermediate_size": 27_648, "num_hidden_layers": 64, "num_attention_heads": 40,
        "num_key_value_heads": 8, "vocab_size": 152_064, "max_position_embeddings": 32_768,
        "use_sliding_window": False, "sliding_window": 131_072, "max_window_layers": 70,
    },
    "mistralai/Mistral-7B-Instruct-v0.3": {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4_096,
        "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32_768, "max_position_embeddings": 32_768,
        "sliding_window": None,
    },
}  # fmt: skip


def write(folder: Path, calendar: Calendar) -> Iterator[Path]:
    """The configuration of each model that an engine of the fleet serves."""
    for service in services(calendar):
        path = folder / f"{service.slug}-config.json"
        config = {
            "_name_or_path": service.model, **CONFIGS[service.model], "torch_dtype": "bfloat16",
            "tie_word_embeddings": False,
        }  # fmt: skip
        path.write_text(json.dumps(config, indent=2) + "\n")
        yield path
