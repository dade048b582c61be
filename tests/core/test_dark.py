"""The dark before a restart: how long a process may have counted unseen (method §2.6)."""

from __future__ import annotations

from finops.core.dark import Ups, dark_of, silence_of

USUAL = 30_000
LAST, NEXT = 1_000_000, 20_000_000


def _ups(*readings: tuple[int, int]) -> Ups:
    return Ups([time for time, _ in readings], [value for _, value in readings])


def _goes_on(ups: Ups, others: list[int]) -> bool:
    """Whether targets read at these instants show that the source went on."""
    silence = silence_of(LAST, NEXT, USUAL, ups)
    assert silence is not None
    return any(silence[0] < time < silence[1] for time in others)


def test_a_source_that_stops_and_comes_back_did_not_go_on() -> None:
    """Another target is read a few seconds before ours when the store comes back."""
    others = [LAST - 5_000, LAST + 20_000, NEXT - 4_000, NEXT + 26_000]
    assert not _goes_on(_ups((LAST, 1), (NEXT, 1)), others)


def test_a_source_whose_other_targets_are_read_meanwhile_went_on() -> None:
    assert _goes_on(_ups((LAST, 1), (NEXT, 1)), list(range(LAST - 5_000, NEXT, USUAL)))


def test_a_target_that_was_read_all_the_time_was_never_silent() -> None:
    ups = _ups(*((time, 1) for time in range(LAST, NEXT + USUAL, USUAL)))
    assert silence_of(LAST, NEXT, USUAL, ups) is None


def test_the_earliest_sign_ends_the_dark() -> None:
    seen = {"from_ms": LAST, "to_ms": NEXT, "value": 7}
    up, down = _ups((LAST, 1), (NEXT, 1)), _ups((LAST, 1), (LAST + 12_000, 0), (NEXT, 1))
    assert dark_of(**seen, mark_us=None, ups=up).ms == NEXT - LAST
    assert dark_of(**seen, mark_us=(LAST + 960_000) * 1000, ups=up).ms == 960_000
    assert dark_of(**seen, mark_us=(LAST + 960_000) * 1000, ups=down).ms == 12_000
