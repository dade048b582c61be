"""Replicas that stand out, by hand (method §8.3; vllm#55169: an occasional gross profiling error)."""

from decimal import Decimal

from finops.core.replicas_memory import standing_out


def test_one_of_three_measured_wrongly():
    pools = [("a", "x", 27_471), ("b", "x", 27_468), ("c", "x", 13_000)]
    ((name, pool, middle, away),) = standing_out(pools)
    assert (name, pool, middle) == ("c", 13_000, 27_468)
    assert round(away, 4) == Decimal("-0.5267")  # 14,468 of 27,468


def test_of_two_the_smaller_is_told():
    assert [one[0] for one in standing_out([("a", "x", 100), ("b", "x", 94)])] == ["b"]
    assert standing_out([("a", "x", 100), ("b", "x", 95)]) == []


def test_other_kinds_and_single_engines_are_not_compared():
    assert standing_out([("a", "x", 100), ("b", "y", 10)]) == []
    assert standing_out([]) == []
