"""Configuration and log of one pool, by hand (method §8.3)."""

from finops.core.engine_start import GIB
from finops.core.kv_agreement import agreement

PRINTED = round(53.65 * 100) * GIB // 100


def test_a_pool_that_both_tell_alike():
    # 439,536 × 131,072 bytes are 53.654 GiB, printed as 53.65.
    found = agreement(131_072, 439_536, PRINTED, 16)
    assert found.holds and found.config_bytes == 439_536 * 131_072
    assert abs(found.difference_bytes) < GIB // 200 and "they agree" in found.sentence
    assert "131\u202f072 bytes" in found.sentence and "439\u202f536 tokens" in found.sentence


def test_half_the_bytes_of_a_token_differ():
    # An 8-bit cache, or two GPUs: 26.83 GiB by the configuration.
    found = agreement(65_536, 439_536, PRINTED, 16)
    assert not found.holds and "differ by 26.82 GiB" in found.sentence
    assert found.as_json()["agrees"] is False


def test_less_than_a_block_may_be_left_over():
    block = 16 * 131_072
    exact = 1000 * block
    assert agreement(131_072, 16_000, exact + block - 1, 16).holds
    assert not agreement(131_072, 16_000, exact + block + GIB // 200 + 1, 16).holds
    assert not agreement(131_072, 16_000, exact - GIB // 200 - 1, 16).holds


def test_what_one_of_them_does_not_tell_is_not_compared():
    assert agreement(None, 1, 1, 16) is None
    assert agreement(1, None, 1, 16) is None
    assert agreement(1, 1, None, 16) is None
