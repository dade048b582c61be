"""A counter that goes on under other labels is booked once (method §2.4): every expected figure by hand.

An engine counts ten tokens a minute. At minute 90 somebody changes a label in the scrape's
configuration: its series ends, another begins, and the process lives on.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from finops.core.statement import statement
from finops.ledger.queries.facts import facts
from tests.ledger.doors import command, ingested
from tests.ledger.fleet import PERIOD, START

pytestmark = pytest.mark.django_db(databases=["default", "sample"])

SPAN = ("--from", "2026-11-16T00:00:00Z", "--to", "2026-11-16T03:00:00Z")
CHANGED, ENDS = 90, 180
TARGET = {"job": "vllm", "instance": "10.0.0.1:8000"}
RISE = 10


def lines(
    metric: str, labels: dict[str, str], minutes: Iterable[int], value: Any
) -> tuple[str, list[str]]:
    written = ",".join(f'{name}="{text}"' for name, text in labels.items())
    times = [(minute, int(START.timestamp()) + 60 * minute) for minute in minutes]
    return metric, [f"{metric}{{{written}}} {value(minute)} {at}" for minute, at in times]


def engine(
    minutes: Iterable[int],
    *,
    born: int | None = 1,
    begins: int = 1,
    inner: dict[str, str] | None = None,
    **labels: str,
) -> list[Any]:
    """`up`, the counter and (with `born`) the process's mark; the counter has stood at 0 in `begins`.

    `labels` are of the scrape's configuration, `inner` of the counter alone."""
    minutes, own = list(minutes), TARGET | labels
    counted = own | (inner or {}) | {"model_name": labels.get("model_name", "llama"), "engine": "0"}
    alive = [minute for minute in minutes if minute >= begins]
    found = [
        lines("up", own, minutes, lambda _: 1),
        lines("vllm:prompt_tokens_total", counted, alive, lambda m: RISE * (m - begins)),
    ]
    if born is not None:
        mark = int(START.timestamp()) + 60 * born
        found.append(lines("process_start_time_seconds", own, alive, lambda _: mark))
    return found


def ingest(folder: Path, name: str, *fleet: list[Any]) -> None:
    by_metric: dict[str, list[str]] = {}
    for metric, found in (one for part in fleet for one in part):
        by_metric.setdefault(metric, []).extend(found)
    text = [
        line for metric, found in by_metric.items() for line in (f"# TYPE {metric} unknown", *found)
    ]
    (folder / name).write_text("\n".join([*text, "# EOF", ""]))
    ingested(folder / name)


def rows() -> list[dict[str, Any]]:
    return sorted(command("series", *SPAN)["rows"], key=lambda row: row["series_id"])


def kinds() -> set[str]:
    return {one["kind"] for one in statement(facts(PERIOD, week="2026-W47"))["exceptions"]}


@pytest.mark.parametrize("born", [1, None])
@pytest.mark.parametrize("order", ["at once", "in order", "newest first", "by the hour"])
def test_a_changed_label_counts_nothing_twice(tmp_path: Path, born: int | None, order: str) -> None:
    old = engine(range(CHANGED), born=born, zone="a")
    new = engine(range(CHANGED, ENDS), born=born, zone="b")
    parts = {
        "at once": [[old, new]],
        "in order": [[old], [new]],
        "newest first": [[new], [old]],
        "by the hour": [
            [engine(range(60), born=born, zone="a")],
            [engine(range(60, CHANGED), born=born, zone="a"),
             engine(range(CHANGED, 120), born=born, zone="b")],
            [engine(range(120, ENDS), born=born, zone="b")],
        ],
    }[order]  # fmt: skip
    for number, part in enumerate(parts):
        ingest(tmp_path, f"{number}.om", *part)
    told = {row["labels"]["zone"]: row for row in rows()}
    # Readings at minutes 1 to 89 show 0 to 880; those at minutes 90 to 179 show 890 to 1,780.
    assert (told["a"]["tokens"], told["b"]["tokens"]) == (880, 900)
    assert (told["b"]["lower"], told["b"]["upper"], told["b"]["exact"]) == (900, 900, True)
    assert command("totals", *SPAN)["tokens"]["prompt"] == 1780
    assert "replicas-suspected" not in kinds() and "unplaced-openings" not in kinds()
    assert command("check-ledger")["problems"] == []


@pytest.mark.parametrize("born", [1, None])
@pytest.mark.parametrize("order", ["at once", "in order", "newest first"])
def test_a_pair_that_changes_one_after_the_other_counts_nothing_twice(
    tmp_path: Path, born: int | None, order: str
) -> None:
    """Replica `x` takes the new configuration at minute 90, replica `y` at minute 95."""
    taken = {"x": CHANGED, "y": CHANGED + 5}
    old = [
        engine(range(at), born=born, zone="a", prometheus_replica=name)
        for name, at in taken.items()
    ]
    new = [
        engine(range(at, ENDS), born=born, zone="b", prometheus_replica=name)
        for name, at in taken.items()
    ]
    parts = {"at once": [[*old, *new]], "in order": [old, new], "newest first": [new, old]}[order]
    for number, part in enumerate(parts):
        ingest(tmp_path, f"{number}.om", *part)
    told = {row["labels"]["zone"]: row["tokens"] for row in rows()}
    # The old series ends with the 930 of minute 94; the new one shows 1,780 in minute 179.
    assert told == {"a": 930, "b": 850}
    assert command("totals", *SPAN)["tokens"]["prompt"] == 1780
    assert "replicas-suspected" not in kinds()
    assert command("check-ledger")["problems"] == []


def test_the_counter_of_the_process_that_lives_on_is_gone_on_with(tmp_path: Path) -> None:
    """Replica `x` is down from minute 61 on and never saw the process that began at minute 70."""
    ingest(
        tmp_path,
        "x.om",
        engine(range(61), zone="a", prometheus_replica="x"),
        engine(range(70), zone="a", prometheus_replica="y"),
        engine(range(70, CHANGED), born=70, begins=70, zone="a", prometheus_replica="y"),
        engine(range(CHANGED, ENDS), born=70, begins=70, zone="b", prometheus_replica="y"),
    )
    told = {row["labels"]["zone"]: row["tokens"] for row in rows()}
    # Minute 69 shows 680, minute 89 the 190 of the next process; minute 179 shows 1,090 of it.
    assert told == {"a": 680 + 190, "b": 1090 - 190}
    assert command("check-ledger")["problems"] == []


def test_the_arithmetic_says_where_the_counter_stood(tmp_path: Path) -> None:
    ingest(
        tmp_path, "x.om", engine(range(CHANGED), zone="a"), engine(range(CHANGED, ENDS), zone="b")
    )
    old, new = rows()
    told = command("explain", new["series_id"], "2026-11-16T01:00:00Z")
    assert told["arithmetic"] == (
        f"1180 (highest reading) − 880 (highest already booked 880, as series {old['series_id']} under "
        "other labels) = 300"
    )


def test_a_counter_that_is_read_beside_it_is_another(tmp_path: Path) -> None:
    """Both go on: replicas perhaps, which a person has to say; nothing is taken over."""
    both = engine(range(CHANGED), zone="a"), engine(range(CHANGED - 30, CHANGED), zone="b")
    ingest(tmp_path, "x.om", *both)
    assert [row["tokens"] for row in rows()] == [880, 880]
    assert "replicas-suspected" in kinds()


@pytest.mark.parametrize("born", [1, None])
def test_another_model_has_a_counter_of_its_own(tmp_path: Path, born: int | None) -> None:
    ingest(tmp_path, "x.om", engine(range(CHANGED), born=born),
           engine(range(CHANGED, ENDS), born=born, model_name="adapter"))  # fmt: skip
    assert [row["tokens"] for row in rows()] == [880, 1780]


@pytest.mark.parametrize("born", [1, None])
def test_a_label_of_the_engines_own_tells_another_counter(tmp_path: Path, born: int | None) -> None:
    """One process lets go of an adapter and loads another: `up` does not know that label."""
    ingest(tmp_path, "x.om", engine(range(CHANGED), born=born, inner={"adapter": "a"}),
           engine(range(CHANGED, ENDS), born=born, inner={"adapter": "b"}))  # fmt: skip
    assert [row["tokens"] for row in rows()] == [880, 1780]


def test_another_process_behind_the_address_is_born(tmp_path: Path) -> None:
    """A new pod got the address of the old one, and its count is the higher: the mark says so."""
    ingest(tmp_path, "x.om", engine(range(50), zone="a"),
           engine(range(100, ENDS), born=51, begins=51, zone="b"))  # fmt: skip
    assert [row["tokens"] for row in rows()] == [480, (ENDS - 1 - 51) * RISE]


def test_without_a_mark_another_pod_is_another_process(tmp_path: Path) -> None:
    ingest(tmp_path, "x.om", engine(range(50), born=None, pod="llama-0"),
           engine(range(100, ENDS), born=None, begins=51, pod="llama-1"))  # fmt: skip
    assert [row["tokens"] for row in rows()] == [480, (ENDS - 1 - 51) * RISE]


def test_without_a_mark_a_gap_at_the_change_may_hide_a_restart(tmp_path: Path) -> None:
    """As of one series: the counter stands higher after the gap, so it goes on, and is not exact."""
    ingest(tmp_path, "x.om", engine(range(50), born=None, zone="a"),
           engine(range(100, ENDS), born=None, zone="b"))  # fmt: skip
    old, new = rows()
    assert (old["tokens"], new["tokens"]) == (480, 1780 - 480)
    assert new["exact"] is False


def test_a_pod_that_was_not_told_before_may_be_the_same(tmp_path: Path) -> None:
    ingest(tmp_path, "x.om", engine(range(CHANGED)), engine(range(CHANGED, ENDS), pod="llama-0"))
    assert [row["tokens"] for row in rows()] == [880, 900]


def test_a_gap_at_the_change_stands_on_both_sides_of_an_edge(tmp_path: Path) -> None:
    """Nobody read minutes 100 to 129, and the label changed meanwhile: an hour's edge lies in it."""
    ingest(tmp_path, "x.om", engine(range(100), zone="a"), engine(range(130, ENDS), zone="b"))
    _, new = rows()
    assert (new["tokens"], new["exact"]) == (800, True)
    later = command("series", "--from", "2026-11-16T02:00:00Z", "--to", "2026-11-16T03:00:00Z")
    (row,) = [one for one in later["rows"] if one["labels"]["zone"] == "b"]
    # 310 tokens came with the reading at minute 130, since 980 at minute 99.
    assert (row["tokens"], row["lower"], row["exact"]) == (800, 800 - 310, False)


def test_labels_that_are_changed_back_are_told_with_what_is_booked_twice(tmp_path: Path) -> None:
    """Under zone b for minutes 90 to 119; at minute 120 zone a shows 1,190, after 880 at minute 89."""
    away = range(CHANGED, 120)
    ingest(tmp_path, "x.om", engine([m for m in range(ENDS) if m not in away], zone="a"),
           engine(away, zone="b"))  # fmt: skip
    assert [row["tokens"] for row in rows()] == [1780, 300]
    (said,) = (
        one["text"]
        for one in statement(facts(PERIOD, week="2026-W47"))["exceptions"]
        if one["kind"] == "labels-changed"
    )
    assert "300 tokens" in said and "changed back" in said


def test_of_labels_that_go_round_every_one_in_between_is_told(tmp_path: Path) -> None:
    """Zones a, b, c for thirty minutes each, then a again: 300 tokens of b and 300 of c are in it twice."""
    zones = {"a": [*range(30), *range(90, 120)], "b": range(30, 60), "c": range(60, 90)}
    ingest(tmp_path, "x.om", *(engine(minutes, zone=zone) for zone, minutes in zones.items()))
    assert sorted(row["tokens"] for row in rows()) == [300, 300, 1180]
    (said,) = (
        one["text"]
        for one in statement(facts(PERIOD, week="2026-W47"))["exceptions"]
        if one["kind"] == "labels-changed"
    )
    assert "600 tokens" in said
