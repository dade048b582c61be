"""The same statement gives the same bytes, whatever the order or the hash seed (§11)."""

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finops.core.canonical import canonical_bytes, digest

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=6), st.randoms(use_true_random=False))
def test_order_of_keys_does_not_matter(value, random):
    keys = list(value)
    random.shuffle(keys)
    assert canonical_bytes({key: value[key] for key in keys}) == canonical_bytes(value)


def test_the_form_is_sorted_tight_utf8():
    assert (
        canonical_bytes({"b": ["€", 1, None], "a": True}) == '{"a":true,"b":["€",1,null]}'.encode()
    )


def test_the_hash_seed_does_not_matter():
    program = (
        "from finops.core.canonical import *;"
        "print(digest(canonical_bytes({k: list({'x'}) for k in {'q', 'w', 'e', 'r', 't'}})))"
    )
    answers = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True,
                       env={"PYTHONHASHSEED": str(seed)}).stdout
        for seed in (1, 2, 3)
    }  # fmt: skip
    expected = hashlib.sha256(b'{"e":["x"],"q":["x"],"r":["x"],"t":["x"],"w":["x"]}').hexdigest()
    assert answers == {expected.encode() + b"\n"}


@pytest.mark.parametrize("wrong", [1.5, {"a": {1: 2}}, {"a": [object()]}, {"a": {"b"}}])
def test_what_has_no_one_form_is_refused(wrong):
    with pytest.raises(TypeError):
        canonical_bytes(wrong)


def test_the_digest_is_sha256():
    # FIPS 180-4 example: the digest of "abc".
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
