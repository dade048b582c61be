"""The dark before a restart: how long a process may have counted unseen (method §2.6)."""

from __future__ import annotations

from finops.core.dark import Ups, dark_of

USUAL = 30_000
LAST, NEXT = 1_000_000, 20_000_000


def _dark(ups: list[tuple[int, int]], others: list[int], mark_ms: int | None = None) -> int:
    """The dark of a restart between LAST and NEXT where other targets were read at `others`."""
    return dark_of(
        from_ms=LAST,
        to_ms=NEXT,
        mark_us=None if mark_ms is None else mark_ms * 1000,
        value=7,
        usual_ms=USUAL,
        ups=Ups([t for t, _ in ups], [v for _, v in ups]),
        source_goes_on=lambda since, until: any(since < t < until for t in others),
    ).ms


def test_a_source_that_stops_and_comes_back_did_not_go_on() -> None:
    """Another target is read a few seconds before ours when the store comes back: the whole gap
    is dark, up to the new process's mark."""
    ups = [(LAST, 1), (NEXT, 1)]
    others = [LAST - 5_000, LAST + 20_000, NEXT - 4_000, NEXT + 26_000]
    assert _dark(ups, others) == NEXT - LAST
    assert _dark(ups, others, mark_ms=LAST + 960_000) == 960_000


def test_a_target_that_vanishes_while_its_source_goes_on_is_dark_for_one_interval() -> None:
    others = list(range(LAST - 5_000, NEXT, USUAL))
    assert _dark([(LAST, 1), (NEXT, 1)], others) == USUAL


def test_the_first_down_ends_the_dark() -> None:
    assert _dark([(LAST, 1), (LAST + 12_000, 0), (NEXT, 1)], []) == 12_000
