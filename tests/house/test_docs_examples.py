"""The worked examples of docs/method.md: each computed by plain fractions, and by the product.

What a reader can redo by hand is redone here; the same inputs then go through `finops.core`. A number
changed on the page, or in the code, fails. Money's examples are in `test_docs_money.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil
from zoneinfo import ZoneInfo

import pytest

from finops.core import cache as kv_cache
from finops.core import counter, counter_values, memory, period, slices
from finops.core.money import EXACT
from finops.core.statement import METHOD_VERSION
from finops.core.tokens import Dark, Rate, SeriesPeriod, coverage

from .examples import METHOD, ROOT, Example, examples

RECORDING = ROOT / "tests" / "data" / "vllm-recorded" / "README.md"
NAMES = {
    "week", "restart", "hidden-reset", "gap", "bounds", "part", "exchange", "split", "tolerance",
    "unit-cost", "saving", "bridge", "kv", "goodput", "gpu-parts", "training", "impact",
}  # fmt: skip


def test_every_example_is_checked_here() -> None:
    assert set(examples()) == NAMES


def test_the_page_states_the_version_that_reports_print() -> None:
    assert f"**Method {METHOD_VERSION}.**" in METHOD.read_text(encoding="utf-8")


def test_sections_that_the_code_cites_are_on_the_page() -> None:
    page = METHOD.read_text(encoding="utf-8")
    there = set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)", page, re.MULTILINE))
    not_yet = {"8.1", "8.2", "8.5", "8.6", "8.8"}  # named together under §8
    cited = set()
    for folder in ("finops", "reports", "templates"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".html"):
                text = path.read_text(encoding="utf-8")
                cited |= set(re.findall(r"§(\d+(?:\.\d+)?)", text))
    assert cited
    assert cited - there - not_yet == set()


def test_every_kind_of_exception_is_explained() -> None:
    page = METHOD.read_text(encoding="utf-8")
    table = page.partition("| kind | meaning |")[2].partition("\n\n")[0]
    explained = set(re.findall(r"`([a-z-]+)`", table))
    files = (path for folder in ("finops", "reports") for path in (ROOT / folder).rglob("*.py"))
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    raised = set(re.findall(r'(?:Notice|MoneyException)\(\s*"([a-z-]+)"', code))
    assert raised - explained == set()
    made = {kind for kind in explained if f'"{kind.rpartition("-")[0]}-{{' in code}
    assert {kind for kind in explained - made if f'"{kind}"' not in code} == set()


# -- §4, GPU-hours ----------------------------------------------------------------------------


def test_parts_of_a_gpu() -> None:
    said = examples()["gpu-parts"]
    counts = [said.whole(f) for f in ("whole_gpus", "slices_of_1g_10gb", "time_sliced_replicas")]
    by_hand = [1, said.fraction("part_of_a_slice"), 1 / said.fraction("replicas_a_gpu")]
    shape = slices.Shape(replicas=said.whole("replicas_a_gpu"))
    by_product = [
        slices.part_of_gpu("nvidia_com_gpu", slices.Shape()),
        slices.part_of_gpu("nvidia_com_mig_1g_10gb", slices.Shape()),
        slices.part_of_gpu("nvidia_com_gpu_shared", shape),
    ]
    assert by_product == by_hand
    gpus = sum(n * part for n, part in zip(counts, by_hand, strict=True))
    assert gpus * said.whole("hours") == said.whole("gpu_hours")


# -- §1 ------------------------------------------------------------------------------------------


def test_week() -> None:
    e = examples()["week"]
    zone = ZoneInfo(e.text("zone"))
    # Thursday of an ISO week lies in its year: 4 January is always in week 1.
    monday = datetime.strptime(e.text("week") + "-1", "%G-W%V-%u").replace(tzinfo=zone)
    assert monday.astimezone(UTC) == datetime.fromisoformat(e.text("start"))
    found = period.week_of(e.text("week"), zone)
    assert (period.rfc3339(found.start), period.rfc3339(found.end)) == (
        e.text("start"),
        e.text("end"),
    )


# -- §2 ------------------------------------------------------------------------------------------

READING = re.compile(r"(?P<at>\S+) (?P<value>\d+) born (?P<born>\S+)")


def ms(clock: str) -> int:
    return period.milliseconds(datetime.fromisoformat(f"2026-11-30T{clock}Z"))


def readings_of(e: Example) -> list[tuple[int, int, int]]:
    """Time, value and birth of each reading, in milliseconds."""
    found = [READING.fullmatch(text) for text in e.all("reading")]
    return [(ms(r["at"]), int(r["value"]), ms(r["born"])) for r in found if r]


def derived(e: Example) -> counter_values.HourRow:
    rows = readings_of(e)
    hour = counter_values.HourReadings(
        ms("10:00:00"),
        {
            "": counter_values.Readings(
                [at for at, _, _ in rows],
                [value for _, value, _ in rows],
                [("created", born * 1000) for _, _, born in rows],
            )
        },
    )
    context = counter_values.Context(earliest_ms=ms(e.text("job_earliest_reading")))
    (row,), _ = counter.derive([hour], counter_values.Carry(), context)
    return row


def by_lives(rows: list[tuple[int, int, int]]) -> dict[int, int]:
    """The highest value of each life: what was counted and seen."""
    highest: dict[int, int] = {}
    for _, value, born in rows:
        highest[born] = max(value, highest.get(born, 0))
    return highest


def by_falls(rows: list[tuple[int, int, int]]) -> int:
    """What a reader of values alone books, the first value counted."""
    total, before = 0, 0
    for _, value, _ in rows:
        total += value - before if value >= before else value
        before = value
    return total


@pytest.mark.parametrize("name", ["restart", "hidden-reset", "gap"])
def test_readings(name: str) -> None:
    e = examples()[name]
    rows = readings_of(e)
    lives = by_lives(rows)
    assert sum(lives.values()) == e.whole("booked")
    assert len(lives) - 1 == e.whole("restarts")
    row = derived(e)
    assert row.tokens == e.whole("booked")
    assert len(row.restarts) == e.whole("restarts")
    assert row.openings == []


def test_hidden_reset_is_told_by_the_mark_alone() -> None:
    seen, hidden = examples()["restart"], examples()["hidden-reset"]
    assert by_falls(readings_of(hidden)) == hidden.whole("booked_by_falls_only")
    assert hidden.whole("booked_by_falls_only") < hidden.whole("booked")
    assert by_falls(readings_of(seen)) == seen.whole("booked")
    for e in (seen, hidden):
        assert sum(r.hidden for r in derived(e).restarts) == e.whole("hidden_resets")


def test_gap_and_coverage() -> None:
    e = examples()["gap"]
    times = [at for at, _, _ in readings_of(e)]
    steps = sorted(b - a for a, b in pairwise(times))
    usual = steps[(len(steps) - 1) // 2]
    assert usual == e.whole("usual_seconds") * 1000
    assert steps[-1] == e.whole("gap_seconds") * 1000 > 2.5 * usual
    assert steps[-1] - usual == e.whole("unobserved_seconds") * 1000
    share = 1 - e.fraction("unobserved_seconds") / e.fraction("living_seconds")
    assert share == e.fraction("coverage")
    (gap,) = derived(e).gaps
    assert (gap.to_ms - gap.from_ms, gap.usual_ms) == (steps[-1], usual)
    assert gap.tokens == e.whole("booked_by_the_reading_after_the_gap")
    shown = coverage(e.whole("living_seconds") * 1000, e.whole("unobserved_seconds") * 1000)
    assert str(shown) == e.text("coverage")


def test_bounds() -> None:
    e = examples()["bounds"]
    rate = e.fraction("rate_tokens") / e.fraction("rate_seconds")
    booked = e.whole("booked")
    assert booked - e.whole("straddles_start") == e.whole("lower")
    assert booked + ceil(rate * e.whole("dark_seconds")) == e.whole("upper")
    shown = e.whole("without_mark_next_reading_shows")
    unmarked = ceil(rate * e.whole("without_mark_dark_seconds")) - shown
    assert booked + unmarked == e.whole("without_mark_upper")
    row = derived(examples()["restart"])
    assert (row.rate_tokens, row.rate_ms) == (
        e.whole("rate_tokens"),
        1000 * e.whole("rate_seconds"),
    )
    (restart,) = row.restarts
    assert restart.mark_us is not None
    assert restart.mark_us // 1000 - restart.from_ms == 1000 * e.whole("dark_seconds")
    assert restart.to_ms - restart.from_ms == 1000 * e.whole("without_mark_dark_seconds")

    def series(dark: Dark) -> SeriesPeriod:
        return SeriesPeriod(
            booked=row.tokens,
            rate=Rate(row.rate_tokens, row.rate_ms),
            darks=[dark],
            straddles_start=e.whole("straddles_start"),
        )

    marked = series(Dark(1000 * e.whole("dark_seconds")))
    assert (marked.lower(), marked.upper()) == (e.whole("lower"), e.whole("upper"))
    without = series(Dark(1000 * e.whole("without_mark_dark_seconds"), shown))
    assert without.upper() == e.whole("without_mark_upper")


ROW = re.compile(r"^\| (?P<name>[^|]+?) \| (?P<prompt>[^|]+?) \| (?P<generation>[^|]+?) \|$", re.M)
SAME_ROWS = {
    "truth": "truth:",
    "**booked by the ledger**": "in Prometheus at all",
    "falls only, first values counted": "reset-aware by drops only, first values counted",
    "`increase()` over the whole range": "`increase()` over the whole range",
    "Σ `increase(x[15m])` over aligned windows": "Σ of aligned `increase(x[15m])`",
    "Σ `increase(x[1m])` over aligned windows": "Σ of aligned `increase(x[1m])`",
}


def numbers(text: str) -> tuple[int, str | None]:
    found = re.search(r"[\d,]+", text)
    assert found
    share = re.search(r"\((.*) %\)", text)
    return int(found[0].replace(",", "")), share[1] if share else None


def test_the_recording_is_quoted_rightly() -> None:
    """The recording's own table is the source; shares are of what the ledger books."""
    page = {r["name"]: r for r in ROW.finditer(METHOD.read_text(encoding="utf-8"))}
    source = {r["name"]: r for r in ROW.finditer(RECORDING.read_text(encoding="utf-8"))}
    for name, begins in SAME_ROWS.items():
        (original,) = [r for key, r in source.items() if key.startswith(begins)]
        for column in ("prompt", "generation"):
            value, share = numbers(page[name][column])
            booked, _ = numbers(page["**booked by the ledger**"][column])
            assert value == numbers(original[column])[0], name
            if share is not None:
                change = Fraction(value - booked, booked) * 100
                assert f"{float(change):+.1f}".replace("-", "−") == share, name


# -- §8 ------------------------------------------------------------------------------------------

USAGE = re.compile(r"(?P<share>\S+) for (?P<seconds>\d+) s")


def test_kv_cache_by_hand() -> None:
    e = examples()["kv"]
    spans = [
        (Fraction(u["share"]), int(u["seconds"]))
        for text in e.all("usage")
        if (u := USAGE.fullmatch(text))
    ]
    usable, size, each = e.whole("blocks") - 1, e.whole("block_size"), e.whole("bytes_per_token")
    assert (usable + 1) * size == e.whole("reserved_tokens")
    seconds = sum(held for _, held in spans)
    mean = sum(share * usable * size * held for share, held in spans) / seconds
    assert mean == e.whole("active_tokens_mean")
    assert mean * each == e.whole("active_bytes_mean")
    assert e.whole("reserved_tokens") * each == e.whole("reserved_bytes")
    reserved, active = e.whole("reserved_bytes"), e.whole("active_bytes_mean")
    assert reserved - active == e.whole("unreferenced_bytes_mean")
    assert max(share for share, _ in spans) * usable * size == e.whole("peak_active_tokens")
    assert usable * size // e.whole("max_model_len") == e.whole("contiguous_slots")


def test_kv_cache_by_the_product() -> None:
    e = examples()["kv"]
    step = 60_000
    times, values = [], []
    for text in e.all("usage"):
        found = USAGE.fullmatch(text)
        assert found
        for _ in range(int(found["seconds"]) * 1000 // step):
            times.append(ms("10:00:00") + len(times) * step)
            values.append(float(found["share"]))
    blocks, size = e.whole("blocks"), e.whole("block_size")
    pool = kv_cache.Pool(0, blocks, size, blocks * size, e.whole("max_model_len"))
    nothing = kv_cache.Gauge()
    engine = kv_cache.Engine(kv_cache.Gauge(times, values), nothing, nothing, times, [pool])
    (row,) = kv_cache.cache_hours(engine)
    assert row.observed_ms == 3_600_000
    kept = memory.CacheRow(
        hour=period.instant_of(row.hour_ms), blocks=pool.blocks, block_size=pool.block_size,
        pool_tokens=pool.pool_tokens, max_model_len=pool.max_model_len,
        observed_ms=row.observed_ms, active_block_ms=Decimal(row.active_block_ms or 0),
        peak_blocks=row.peak_blocks, peak_ms=row.peak_ms, peak_running=None, stale_ms=row.stale_ms,
    )  # fmt: skip
    figures = memory.kv_figures([kept], e.whole("bytes_per_token"))
    assert figures is not None
    names = (
        "reserved_tokens", "reserved_bytes", "active_tokens_mean", "active_bytes_mean",
        "unreferenced_bytes_mean", "peak_active_tokens", "contiguous_slots",
    )  # fmt: skip
    for name in names:
        assert getattr(figures, name) == e.whole(name), name
    assert EXACT.add(figures.active_bytes_mean, figures.unreferenced_bytes_mean) == e.decimal(
        "reserved_bytes"
    )
