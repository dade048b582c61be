"""The sample's files say what is true: read by the parsers, added up plainly, compared."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from finops.sample import fleet
from finops.sample.generator import Made, write_files
from finops.sample.truth import KINDS, part
from finops.sources import registry
from finops.sources.records import ChargeRecord, Rejection, SeriesReadings, UsageRecord
from tests.sample.restarts import restarts_of

AT = datetime(2026, 11, 29, 17, tzinfo=UTC)
COUNTERS = {
    "vllm:prompt_tokens_total": "prompt",
    "vllm:generation_tokens_total": "generation",
    "vllm:prompt_tokens_cached_total": "cached_prompt",
    "vllm:request_prompt_tokens_sum": "delivered_prompt",
    "vllm:request_generation_tokens_sum": "delivered_generation",
    "vllm:num_preemptions_total": "preemptions",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return write_files(tmp_path_factory.mktemp("sample"), AT, ZoneInfo("UTC"))


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _records(path: Path) -> Iterator[object]:
    for record in registry.parse(path, path.name).records:
        assert not isinstance(record, Rejection), record
        yield record


def test_twelve_complete_weeks_before_the_instant(made: Made) -> None:
    calendar = made.calendar
    assert calendar.names[0] == "2026-W36" and calendar.names[-1] == "2026-W47"
    assert len(calendar.names) == 12
    assert calendar.start == datetime(2026, 8, 31, tzinfo=UTC)
    assert calendar.horizon == datetime(2026, 11, 23, 1, tzinfo=UTC) <= AT


@pytest.mark.parametrize(
    ("at", "newest"),
    [("2026-11-30T00:59:59Z", "2026-W47"), ("2026-11-30T01:00:00Z", "2026-W48")],
)
def test_a_week_is_complete_an_hour_after_its_end(at: str, newest: str) -> None:
    from finops.sample.calendar import calendar_before

    assert calendar_before(datetime.fromisoformat(at), ZoneInfo("UTC")).names[-1] == newest


def test_every_file_is_recognised(made: Made) -> None:
    formats = {path.name: registry.detect(path, path.name) for path in made.paths()}
    assert set(formats.values()) == {
        "focus", "usage-records", "prometheus-json", "engine-log", "model-config",
    }  # fmt: skip


def test_the_same_seed_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    again = write_files(tmp_path, AT + timedelta(hours=3), ZoneInfo("UTC"))
    names = {path.name: path for path in made.paths()}
    assert set(names) == {path.name for path in again.paths()}
    for path in again.paths():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest == hashlib.sha256(names[path.name].read_bytes()).hexdigest(), path.name


def test_charges_in_the_files_are_the_truths(made: Made) -> None:
    billed: dict[tuple[str, str, str | None], Decimal] = defaultdict(Decimal)
    lines: dict[tuple[str, str, str | None], int] = defaultdict(int)
    effective = Decimal(0)
    for invoice in made.invoices:
        for record in _records(invoice.path):
            assert isinstance(record, ChargeRecord)
            assert record.billed_cost is not None and record.effective_cost is not None
            key = (record.issuer, f"{record.billing_period_start:%Y-%m}", record.invoice)
            billed[key] += record.billed_cost
            lines[key] += 1
            effective += record.effective_cost
    assert {key: (lines[key], billed[key]) for key in billed} == made.truth.invoices()
    assert effective == sum(line.effective for line in made.truth.lines)


def test_a_commitment_gives_in_use_what_was_paid_for_it(made: Made) -> None:
    """FOCUS: effective cost of used and unused hours together is what the purchase billed."""
    paid = used = Decimal(0)
    for invoice in made.invoices:
        for record in _records(invoice.path):
            assert isinstance(record, ChargeRecord)
            if record.commitment and record.category == "Purchase":
                assert record.effective_cost == 0
                paid += record.billed_cost or 0
            elif record.commitment:
                assert record.billed_cost == 0
                used += record.effective_cost or 0
    assert paid == used > 80_000


def test_issued_invoices_are_whole_cents_and_the_open_month_has_no_number(made: Made) -> None:
    issued = [invoice for invoice in made.invoices if invoice.number]
    assert all(one.amount == one.amount.quantize(Decimal("0.01")) for one in issued if one.amount)
    assert [one.month for one in made.invoices if not one.number] == ["2026-11"]


def test_the_correction_comes_in_a_later_month_than_its_charge(made: Made) -> None:
    found = [
        record
        for invoice in made.invoices
        for record in _records(invoice.path)
        if isinstance(record, ChargeRecord) and record.charge_class == "Correction"
    ]
    assert len(found) == 1 and found[0].billed_cost == Decimal("-14.544")
    assert found[0].billing_period_start > found[0].charge_period_start


def test_usage_records_are_the_truths(made: Made) -> None:
    since, until = _ms(made.calendar.start), _ms(made.calendar.weeks[3].end)
    prompt = generation = 0
    for path in made.gateway:
        for record in _records(path):
            assert isinstance(record, UsageRecord)
            assert record.cached_tokens is None and record.quality == "measured"
            prompt, generation = (
                prompt + record.prompt_tokens,
                generation + record.generation_tokens,
            )
    truth = made.truth.tokens(fleet.LEGACY, since, until)
    assert (prompt, generation) == (truth["delivered_prompt"], truth["delivered_generation"])
    assert prompt > 10**7


def _counted(made: Made) -> dict[tuple[str, str], int]:
    """Σ over every process of its last value, told apart by the marks in the files alone."""
    last: dict[tuple[str, str, tuple[tuple[str, str], ...], float], float] = {}
    for paths in made.readings.values():
        for path in paths:
            starts: dict[str, dict[int, float]] = {}
            series: list[SeriesReadings] = []
            for record in _records(path):
                assert isinstance(record, SeriesReadings)
                labels = dict(record.labels)
                if record.metric == "process_start_time_seconds":
                    starts[labels["instance"]] = dict(
                        zip(record.times_ms, record.values, strict=True)
                    )
                elif record.metric in COUNTERS:
                    series.append(record)
            for record in series:
                labels = dict(record.labels)
                births = starts[labels["instance"]]
                for time, value in zip(record.times_ms, record.values, strict=True):
                    key = (COUNTERS[record.metric], labels["job"], record.labels, births[time])
                    assert value >= last.get(key, 0), "a counter of one process never falls"
                    last[key] = value
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for (kind, job, _, _), value in last.items():
        assert value == int(value)
        sums[job, kind] += int(value)
    return sums


def test_what_the_readings_show_is_the_truths(made: Made) -> None:
    since, until = _ms(made.calendar.start), _ms(made.calendar.horizon)
    sums = _counted(made)
    for service in fleet.services(made.calendar):
        truth = made.truth.tokens(service.slug, since, until)
        assert {kind: sums[service.slug, kind] for kind in KINDS} == truth
        assert truth["prompt"] > truth["delivered_prompt"] > 0
        assert truth["prompt"] > truth["cached_prompt"] > 0


def test_what_befell_the_fleet(made: Made) -> None:
    """Losses, restarts and the one hidden reset stand where the story has them."""
    truth, calendar = made.truth, made.calendar
    weeks = [(_ms(week.start), _ms(week.end)) for week in calendar.weeks]
    lost = {
        (service.slug, number)
        for service in fleet.services(calendar)
        for number, span in enumerate(weeks)
        if truth.lost(service.slug, *span)["prompt"]
    }
    assert lost == {("assist-8b", 1), ("assist-8b", 6), ("assist-8b", 11), ("chat-70b", 11)}
    assert restarts_of(truth, "assist-8b", *weeks[11]) == (2, 1)
    assert restarts_of(truth, "chat-70b", *weeks[3]) == (2, 0)  # two engines in one pod
    for week in fleet.WEEKS_OF_STEPS:
        assert restarts_of(truth, "code-32b", *weeks[week]) == (1, 0)
    assert truth.tokens("assist-8b", *weeks[11])["preemptions"] > 0
    assert (
        truth.tokens("extract-7b", *weeks[11])["prompt"] * 100
        < (truth.tokens("code-32b", *weeks[11])["prompt"])
    )


def test_no_fall_shows_the_hidden_reset(made: Made) -> None:
    path = next(p for p in made.readings["us-prod-1"] if "W47" in p.name)
    marks: set[float] = set()
    falls = 0
    for record in _records(path):
        assert isinstance(record, SeriesReadings)
        if dict(record.labels)["job"] != "assist-8b":
            continue
        if record.metric == "vllm:prompt_tokens_created":
            marks = set(record.values)
        if record.metric == "vllm:prompt_tokens_total":
            values = record.values
            falls = sum(b < a for a, b in itertools.pairwise(values))
    assert len(marks) == 3 and falls == 1, "three lives, and a fall for one of the two restarts"


def test_data_parallel_engines_print_the_blocks_of_both(made: Made) -> None:
    path = made.readings["eu-prod-1"][-1]
    infos = [
        dict(record.labels)
        for record in _records(path)
        if isinstance(record, SeriesReadings) and record.metric == "vllm:cache_config_info"
    ]
    chat = [labels for labels in infos if labels["job"] == "chat-70b"]
    assert {labels["engine"] for labels in chat} == {"0", "1"}
    assert {labels["num_gpu_blocks"] for labels in chat} == {"57344"}
    assert {labels["kv_cache_size_tokens"] for labels in chat} == {str(57_344 // 2 * 16)}


@pytest.mark.parametrize(
    ("cost", "cuts"),
    [("812.50", [0, 7, 13, 24]), ("-180.00", [0, 1, 2, 3, 24]), ("0.0000001", [0, 5, 24])],
)
def test_the_oracles_parts_add_up(cost: str, cuts: list[int]) -> None:
    whole = Decimal(cost)
    parts = [part(whole, 0, 24, a, b) for a, b in itertools.pairwise(cuts)]
    assert sum(parts) == whole
    assert part(whole, 0, 24, -5, 99) == whole
