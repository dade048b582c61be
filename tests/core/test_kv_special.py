"""Models whose layers differ among themselves: heads of their own, a shared cache, an index (§8.3).

Expected bytes are counted by hand from the models' published `config.json`, named beside each.
"""

from __future__ import annotations

import pytest

from finops.core.kv import kv_shape
from tests.core.test_kv import DEEPSEEK_V3, LLAMA_3_8B

# MiMo-V2: 9 of 48 layers keep all with 4 KV heads, 39 a window of 128 with 8; keys 192, values 128.
MIMO_V2 = {
    "model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 48,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
    "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "sliding_window_size": 128, "hybrid_layer_pattern": [0, *([1] * 5 + [0]) * 7, *[1] * 4, 0],
    "torch_dtype": "bfloat16", "max_position_embeddings": 262144,
}  # fmt: skip
# Gemma 3n E4B: 35 layers, the last 15 use the cache of earlier ones; 2 KV heads of 256.
GEMMA_3N = {
    "model_type": "gemma3n", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3n_text", "hidden_size": 2048, "head_dim": 256,
        "num_attention_heads": 8, "num_hidden_layers": 35, "num_key_value_heads": 2,
        "num_kv_shared_layers": 15, "sliding_window": 512, "max_position_embeddings": 32768,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
}  # fmt: skip
# DeepSeek-V3.2: the index of sparse attention has keys of 128.
DEEPSEEK_V32 = DEEPSEEK_V3 | {"index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64}


def test_windowed_layers_may_have_heads_of_their_own():
    assert MIMO_V2["hybrid_layer_pattern"].count(0) == 9
    found = kv_shape(MIMO_V2, max_model_len=128_000)
    assert (found.attention, found.is_single_group) == ("hybrid", False)
    assert found.bytes_per_token_per_gpu == 2 * (9 * 4 + 39 * 8) * (192 + 128)
    # 1,474,560,000 values in the full layers; the others hold 128 tokens.
    assert found.bytes_for_max_model_len_per_gpu == 2 * (1_474_560_000 + 39 * 128 * 8 * 320)


def test_layers_that_keep_all_may_have_heads_of_their_own():
    gemma_4 = {
        "model_type": "gemma4_text", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_global_key_value_heads": 1,
        "head_dim": 16, "global_head_dim": 32, "sliding_window": 8, "torch_dtype": "bfloat16",
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    assert kv_shape(gemma_4).bytes_per_token_per_gpu == 2 * 2 * (16 + 32)
    one = kv_shape(gemma_4 | {"num_global_key_value_heads": None})
    assert one.bytes_per_token_per_gpu == 2 * 2 * (16 + 32)


def test_layers_that_share_a_cache_keep_nothing():
    found = kv_shape(GEMMA_3N)
    assert found.bytes_per_token_per_gpu == 20 * 2 * 2 * 256 * 2
    assert any("15 of 35 layers keep nothing" in note for note in found.notes)


def test_the_index_of_sparse_attention_is_counted():
    # 512 + 64 values of 2 bytes, and 128 of 1 byte with a scale of 4.
    assert kv_shape(DEEPSEEK_V32).bytes_per_token_per_gpu == 61 * (1152 + 132)
    # In 8 bits: 512 with 4 scales of 4 bytes, and the 64 rotated values in 16 bits: 656.
    eight = kv_shape(DEEPSEEK_V32, kv_dtype="fp8", tensor_parallel=8)
    assert eight.bytes_per_token_per_gpu == 61 * (656 + 132)
    assert kv_shape(DEEPSEEK_V3, kv_dtype="fp8").bytes_per_token_per_gpu == 61 * 576


def test_blocks_told_one_by_one():
    nas = {
        "model_type": "nemotron-nas", "hidden_size": 8192, "num_attention_heads": 64,
        "num_hidden_layers": 4, "num_key_value_heads": None, "torch_dtype": "bfloat16",
        "block_configs": [
            {"attention": {"n_heads_in_group": 8, "no_op": False}},
            {"attention": {"n_heads_in_group": None, "no_op": True}},
            {"attention": {"n_heads_in_group": 16, "no_op": False}},
            {"attention": {"n_heads_in_group": None, "replace_with_linear": True}},
        ],
    }  # fmt: skip
    found = kv_shape(nas)
    assert found.bytes_per_token_per_gpu == (8 + 4) * 2 * 128 * 2
    assert not found.is_single_group
    # A stage counts all layers, also those that keep nothing: two and two.
    assert kv_shape(nas, pipeline_parallel=2).bytes_per_token_per_gpu == 8 * 2 * 128 * 2


def test_a_pattern_in_letters_and_a_length_by_another_name():
    exaone = LLAMA_3_8B | {"model_type": "exaone4", "sliding_window": 4096,
                           "sliding_window_pattern": "LLLG"}  # fmt: skip
    found = kv_shape(exaone, max_model_len=131_072)
    assert found.bytes_for_max_model_len_per_gpu == 4096 * (8 * 131_072 + 24 * 4096)
    glm = {"model_type": "chatglm", "hidden_size": 4096, "kv_channels": 128, "num_layers": 28,
           "multi_query_group_num": 2, "num_attention_heads": 32, "torch_dtype": "float16",
           "seq_length": 32768}  # fmt: skip
    assert kv_shape(glm).bytes_for_max_model_len_per_gpu == 28 * 2 * 2 * 128 * 2 * 32768


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"head_dim": 0}, "head_dim"),
        ({"layer_types": ["full_attention"] * 31}, "31 kinds of layers"),
        ({"hybrid_override_pattern": "M*"}, "2 kinds of layers"),
        ({"attn_layer_indices": ["9"]}, "attn_layer_indices"),
        ({"attn_layer_indices": [None]}, "attn_layer_indices"),
        ({"linear_attn_config": {"full_attn_layers": ["x"]}}, "full_attn_layers"),
        ({"block_configs": [{}] * 32}, "block_configs"),
        ({"block_configs": [{"attention": {"n_heads_in_group": 0}}] * 32}, "n_heads_in_group"),
        ({"compress_ratios": [1, 4] * 16}, "compress_ratios"),
        ({"num_kv_shared_layers": 32}, "no layer keeps anything"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 0]}}, "weight_block_size"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}}, "weight_block_size"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": 5}}, "weight_block_size"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_by_name(change, word):
    with pytest.raises(ValueError, match=word):
        kv_shape(LLAMA_3_8B | change)


def test_parts_within_parts_end_somewhere():
    nested = LLAMA_3_8B
    for _ in range(900):
        nested = {"text_config": nested, "num_layers": 1}
    with pytest.raises(ValueError, match="text_config"):
        kv_shape(nested)
