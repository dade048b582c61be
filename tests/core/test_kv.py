"""KV bytes of a token against public numbers (method §8.3).

Sources: the models' published `config.json`; parameter counts as published with the weights;
24.0 GiB from vLLM's own error text for a 262,144-token request; 65,536 bytes a token from a public
log of an 8B Llama on two GPUs (3.76 GiB in 3,852 blocks of 16).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.kv import kv_shape

LLAMA_2_7B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "torch_dtype": "float16",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "vocab_size": 32000, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_3_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "torch_dtype": "bfloat16", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_3_70B = LLAMA_3_8B | {
    "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
    "num_hidden_layers": 80,
}  # fmt: skip
QWEN_25_7B = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "torch_dtype": "bfloat16", "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
    "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28,
    "tie_word_embeddings": False,
}  # fmt: skip
QWEN_3_CODER_30B = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 5472, "head_dim": 128,
    "moe_intermediate_size": 768, "num_experts": 128, "torch_dtype": "bfloat16",
    "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4,
    "vocab_size": 151936, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "torch_dtype": "bfloat16", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "num_local_experts": 8, "vocab_size": 32000, "sliding_window": None,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "torch_dtype": "bfloat16", "max_position_embeddings": 163840,
}  # fmt: skip
FALCON_7B = {
    "model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "multi_query": True,
    "num_hidden_layers": 32, "torch_dtype": "bfloat16", "new_decoder_architecture": False,
}  # fmt: skip
GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "head_dim": 128, "sliding_window": 1024,
        "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
        "sliding_window_pattern": 6, "max_position_embeddings": 131072,
    },
    "torch_dtype": "bfloat16",
}  # fmt: skip
MISTRAL_01 = LLAMA_2_7B | {
    "model_type": "mistral", "num_key_value_heads": 8, "sliding_window": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 32768,
}  # fmt: skip
JAMBA = {
    "model_type": "jamba", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4,
    "torch_dtype": "bfloat16", "max_position_embeddings": 262144,
}  # fmt: skip
MAMBA = {"model_type": "mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16}


@pytest.mark.parametrize(
    ("config", "attention", "a_token"),
    [
        (LLAMA_2_7B, "mha", 524_288),
        (LLAMA_3_8B, "gqa", 131_072),
        (LLAMA_3_70B, "gqa", 327_680),
        (QWEN_25_7B, "gqa", 57_344),
        (QWEN_3_CODER_30B, "gqa", 98_304),
        (DEEPSEEK_V3, "mla", 70_272),
        (FALCON_7B, "mqa", 32 * 2 * 64 * 2),
        (MISTRAL_01, "sliding", 131_072),
        (MAMBA, "mamba", 0),
    ],
)
def test_published_bytes_of_a_token(config, attention, a_token):
    found = kv_shape(config)
    assert (found.attention, found.bytes_per_token_per_gpu) == (attention, a_token)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA_2_7B, 6_738_415_616),
        (LLAMA_3_8B, 8_030_261_248),
        (LLAMA_3_70B, 70_553_706_496),
        (QWEN_25_7B, 7_615_616_512),
        (QWEN_3_CODER_30B, 30_532_122_624),
        (MIXTRAL, 46_702_792_704),
    ],
)
def test_published_parameter_counts(config, parameters):
    assert kv_shape(config).weights_bytes_per_gpu == 2 * parameters


def test_the_longest_request_of_a_public_error_text():
    needed = kv_shape(QWEN_3_CODER_30B, max_model_len=262_144).bytes_for_max_model_len_per_gpu
    assert needed == 24 * 2**30


def test_two_gpus_halve_the_heads_and_a_latent_vector_stays_whole():
    assert kv_shape(LLAMA_3_8B, tensor_parallel=2).bytes_per_token_per_gpu == 65_536
    assert kv_shape(DEEPSEEK_V3, tensor_parallel=8).bytes_per_token_per_gpu == 70_272


def test_fewer_heads_than_gpus_are_repeated():
    found = kv_shape(QWEN_25_7B, tensor_parallel=8)
    assert found.bytes_per_token_per_gpu == 57_344 // 4
    assert any("repeated" in note for note in found.notes)


def test_eight_bits_halve_and_four_bits_carry_their_scales():
    assert kv_shape(LLAMA_3_8B, kv_dtype="fp8").bytes_per_token_per_gpu == 65_536
    assert kv_shape(LLAMA_3_8B, kv_dtype="nvfp4").bytes_per_token_per_gpu == 65_536 * 9 // 16
    with pytest.raises(ValueError, match="kv-dtype"):
        kv_shape(LLAMA_3_8B, kv_dtype="fp3")


def test_the_largest_pipeline_stage_counts():
    # 61 layers on 4 stages: 15, 15, 16, 15.
    assert kv_shape(DEEPSEEK_V3, pipeline_parallel=4).bytes_per_token_per_gpu == 16 * 576 * 2


def test_windows_bound_a_long_request():
    found = kv_shape(GEMMA_3_27B, max_model_len=131_072)
    a_layer = 2 * 16 * 128 * 2
    assert found.attention == "hybrid" and not found.is_single_group
    assert found.bytes_per_token_per_gpu == 62 * a_layer
    # Every sixth of 62 layers keeps all: 10; the other 52 keep 1,024 tokens.
    assert found.bytes_for_max_model_len_per_gpu == a_layer * (10 * 131_072 + 52 * 1024)


def test_states_take_nothing_for_a_token():
    found = kv_shape(JAMBA)
    assert (found.attention, found.bytes_per_token_per_gpu) == ("hybrid", 4 * 2 * 8 * 128 * 2)
    assert any("fixed state" in note for note in found.notes)


def test_quantized_weights_are_smaller_and_unknown_ones_unknown():
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    small = kv_shape(LLAMA_3_8B | {"quantization_config": awq}).weights_bytes_per_gpu
    # The published AWQ 4-bit Llama-3-8B is 5.3–5.8 GB, embeddings in 16 bits.
    assert 5_300_000_000 < small < 5_800_000_000
    other = LLAMA_3_8B | {"quantization_config": {"quant_method": "bitsandbytes"}}
    assert kv_shape(other).weights_bytes_per_gpu is None
    assert kv_shape(DEEPSEEK_V3).weights_bytes_per_gpu is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"torch_dtype": "complex64"}, "torch_dtype"),
        ({"layer_types": ["surprise"] * 32}, "layer_types"),
    ],
)
def test_what_is_no_model_is_refused_by_name(change, word):
    with pytest.raises(ValueError, match=word):
        kv_shape(LLAMA_3_8B | change)


@given(tp=st.sampled_from([1, 2, 4, 8, 16]), pp=st.integers(1, 32))
def test_gpus_together_hold_at_least_one_copy(tp, pp):
    whole = kv_shape(LLAMA_3_8B).bytes_per_token_per_gpu
    share = kv_shape(LLAMA_3_8B, tensor_parallel=tp, pipeline_parallel=pp)
    assert whole <= share.bytes_per_token_per_gpu * tp * pp
    assert share.bytes_per_token_per_gpu <= whole
