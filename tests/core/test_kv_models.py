"""What a configuration leaves to its model's class, and models that keep other than it says (§8.3).

Expected bytes are counted by hand from the models' published `config.json` and, where a key is not
in it, from the class's own value in `transformers`; each is named beside its model.
"""

from __future__ import annotations

import pytest

from finops.core.kv import kv_shape
from tests.core.test_kv import LLAMA_3_8B


def seeing(text, kind="gemma3"):
    """A model that sees, with its language model inside."""
    return {"model_type": kind, "torch_dtype": "bfloat16", "text_config": text}


# The files as published: the heads of the 4B and the head size of the 12B (256, not 3840 / 16) are the
# class's, and so is that every sixth layer keeps all.
GEMMA_3_4B = seeing({"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
                     "intermediate_size": 10240, "sliding_window": 1024})  # fmt: skip
GEMMA_3_12B = seeing({"model_type": "gemma3_text", "hidden_size": 3840, "num_hidden_layers": 48,
                      "num_attention_heads": 16, "num_key_value_heads": 8,
                      "intermediate_size": 15360, "sliding_window": 1024})  # fmt: skip
GEMMA_3_27B = seeing({"model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
                      "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
                      "sliding_window": 1024})  # fmt: skip
PIXTRAL = seeing({"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128,
                  "num_key_value_heads": 8, "sliding_window": None,
                  "max_position_embeddings": 1024000}, "llava")  # fmt: skip
LLAVA_15 = seeing(
    {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}, "llava"
)


@pytest.mark.parametrize(
    ("config", "whole", "windowed", "a_layer"),
    [
        (GEMMA_3_4B, 5, 29, 2 * 4 * 256 * 2),
        (GEMMA_3_12B, 8, 40, 2 * 8 * 256 * 2),
        (GEMMA_3_27B, 10, 52, 2 * 16 * 128 * 2),
    ],
)
def test_gemma_3_as_published(config, whole, windowed, a_layer):
    found = kv_shape(config, max_model_len=131_072)
    assert (found.attention, found.is_single_group) == ("hybrid", False)
    assert found.bytes_per_token_per_gpu == (whole + windowed) * a_layer
    assert found.bytes_for_max_model_len_per_gpu == a_layer * (whole * 131_072 + windowed * 1024)
    assert any("leaves out" in note and "sliding_window_pattern 6" in note for note in found.notes)


def test_a_language_model_that_names_little_more_than_its_class():
    found = kv_shape(PIXTRAL)
    assert (found.attention, found.bytes_per_token_per_gpu) == ("gqa", 40 * 2 * 8 * 128 * 2)
    assert any("num_attention_heads 32" in note for note in found.notes)
    # LLaVA 1.5: a Llama of 7B, whose 32 layers and heads of 128 the class says.
    assert kv_shape(LLAVA_15).bytes_per_token_per_gpu == 524_288
    # What hears and speaks has its thinker around it.
    omni = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": LLAMA_3_8B}}
    assert kv_shape(omni).bytes_per_token_per_gpu == 131_072


def test_a_window_that_is_not_switched_on_is_none():
    qwen = LLAMA_3_8B | {"model_type": "qwen2", "sliding_window": 4096}
    assert (kv_shape(qwen).attention, kv_shape(qwen).is_single_group) == ("gqa", True)
    on = kv_shape(qwen | {"use_sliding_window": True, "max_window_layers": 28})
    assert on.attention == "hybrid"


@pytest.mark.parametrize(
    "rope", [{"no_rope_layers": []}, {}, {"no_rope_layers": [1, 1, 1, 0] * 12}]
)
def test_llama_4_keeps_all_in_every_fourth_layer(rope):
    scout = seeing({"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
                    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
                    "attention_chunk_size": 8192, **rope}, "llama4")  # fmt: skip
    found = kv_shape(scout, max_model_len=100_000)
    assert found.attention == "hybrid"
    assert found.bytes_for_max_model_len_per_gpu == 4096 * (12 * 100_000 + 36 * 8192)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        # MiniMax-Text-01 tells by 1 which layers keep keys and values; LFM2 by their numbers.
        ({"attn_type_list": ([0] * 7 + [1]) * 4}, 4),
        ({"full_attn_idxs": [2, 5, 8, 10, 12, 14]}, 6),
        # Llama 3.2 Vision: these attend to the image alone.
        ({"cross_attention_layers": [3, 8, 13, 18]}, 28),
    ],
)
def test_layers_told_by_their_numbers(change, kept):
    found = kv_shape(LLAMA_3_8B | change)
    assert (found.attention, found.is_single_group) == ("hybrid", False)
    assert found.bytes_per_token_per_gpu == kept * 4096
    assert any(f"{32 - kept} of 32 layers keep a fixed state" in note for note in found.notes)


def test_all_layers_of_full_attention_in_a_list_are_one_group():
    found = kv_shape(LLAMA_3_8B | {"attn_type_list": [1] * 32})
    assert (found.attention, found.is_single_group) == ("gqa", True)


def test_a_state_beside_each_attention_makes_blocks_no_tokens():
    found = kv_shape(LLAMA_3_8B | {"model_type": "falcon_h1"})
    assert (found.attention, found.is_single_group) == ("hybrid", False)
    assert found.bytes_per_token_per_gpu == 131_072
    zamba = kv_shape(LLAMA_3_8B | {"layers_block_type": ["hybrid"] * 32})
    assert (zamba.attention, zamba.is_single_group) == ("hybrid", False)


def test_whole_heads_where_the_engine_keeps_no_latent_vector():
    # MiniCPM3: 40 heads of 64 + 32, values filled up to 96.
    minicpm = LLAMA_3_8B | {
        "model_type": "minicpm3", "num_hidden_layers": 62, "num_attention_heads": 40,
        "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
    }  # fmt: skip
    assert kv_shape(minicpm).bytes_per_token_per_gpu == 62 * 40 * 2 * 96 * 2
    assert kv_shape(minicpm, tensor_parallel=4).bytes_per_token_per_gpu == 62 * 10 * 2 * 96 * 2


def test_two_attentions_a_layer():
    # LongCat-Flash: 28 layers, each with two latent vectors of 512 + 64.
    longcat = {
        "model_type": "longcat_flash", "num_layers": 28, "hidden_size": 6144, "torch_dtype": "bfloat16",
        "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    }  # fmt: skip
    found = kv_shape(longcat, tensor_parallel=8)
    assert (found.attention, found.bytes_per_token_per_gpu) == ("mla", 28 * 2 * 576 * 2)


def test_the_first_falcon_names_its_heads_by_another_name():
    falcon = {"model_type": "RefinedWeb", "n_head": 128, "n_head_kv": 8, "n_layer": 60,
              "hidden_size": 8192, "torch_dtype": "bfloat16"}  # fmt: skip
    assert kv_shape(falcon).bytes_per_token_per_gpu == 60 * 2 * 8 * 64 * 2


def test_an_encoder_keeps_no_cache():
    with pytest.raises(ValueError, match="encoder"):
        kv_shape(LLAMA_3_8B | {"model_type": "bert"})
