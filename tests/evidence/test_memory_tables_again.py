"""Memory tables and which GPUs an engine is on, computed a second time from hours and logs (§8.5).

The fleets are those of the ledger's own tests, so that each way of joining engines and GPUs, and of
telling who holds one, is computed here as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.conftest import closed_week
from tests.evidence.flips import columns_not_found, figures_not_found, leaves
from tests.ledger import small_company
from tests.ledger import test_gpus_by_log as by_log
from tests.ledger import test_memory_hosts as hosts
from tests.ledger import test_memory_in_reports as reported
from tests.ledger import test_memory_table as told
from tests.ledger import test_shared_gpus as shared
from tests.ledger.doors import ingested
from tests.paths import SAMPLES

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129
TABLES = ("devices", "device_hours", "engine_settings")
ALONE = {"kind", "log", "log_setting", "log_max_model_len", "sized_by_hand"}
"""Columns of right-sizing, which needs seven days."""
FLEETS: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "one card with a log": (
        told.test_a_card_with_everything_known_closes_to_the_byte,
        {"tenants", "workers"},
    ),
    "another pool within an hour": (
        told.test_an_hour_in_which_an_engine_came_back_with_a_smaller_pool,
        {"reserved_block_ms"},
    ),
    "no GPU metrics": (told.test_an_engine_without_gpu_metrics_has_no_device_total, set()),
    "data parallel": (told.test_data_parallel_engines_of_a_pod_have_gpus_of_their_own, set()),
    "pods tell": (told.test_programs_that_are_no_engine_are_told_by_pod, {"holders"}),
    "only others": (told.test_a_gpu_that_only_other_pods_hold_is_theirs, set()),
    "processes tell": (
        hosts.test_programs_that_are_no_engine_are_told_by_process,
        {"holders", "instance"},
    ),
    "two engines": (hosts.test_several_engines_on_one_gpu_are_added_and_others_stay_apart, set()),
    "one after the other": (
        told.test_pods_that_follow_each_other_on_a_card_are_one_at_a_time,
        {"hour", "observed_ms"},
    ),
    "two hosts of a name": (
        hosts.test_hosts_of_one_name_in_two_sources_are_two_hosts,
        {"source"},
    ),
    "two cards of a host": (
        partial(hosts.test_a_host_s_gpus_are_an_engine_s_only_when_no_other_is_there, engines=1),
        {"log_gpus"},
    ),
    "not guessed": (hosts.test_which_gpu_of_several_an_engine_has_is_not_guessed, set()),
    "of another source": (
        hosts.test_an_engine_is_not_on_the_gpu_of_another_source_s_host_of_that_name,
        set(),
    ),
    "slices": (
        shared.test_slices_are_cards_of_their_own_and_the_card_is_not_added_to_them,
        {"device"},
    ),
    "four cards": (shared.test_an_engine_on_four_cards_has_all_four_once, {"total_bytes"}),
    "a spare card": (
        by_log.test_a_card_that_the_engine_is_not_spread_over_holds_nothing_of_it,
        {"gpus_told"},
    ),
    "a newer log": (
        by_log.test_non_torch_memory_is_what_newer_logs_print_beyond_the_weights,
        {"workers"},
    ),
    "ranks and spare cards": (
        by_log.test_ranks_of_a_pod_have_as_many_cards_as_the_log_tells,
        set(),
    ),
    "a model on one and on two cards": (reported.spread_over_gpus, {"kv_bytes_per_token"}),
    "gauges of its own": (told.test_sglang_tells_its_memory_itself, {"workers"}),
}
"""Each fleet, and columns whose change must show in its tables."""


def named(name: str) -> Any:
    """A fleet by its name; skipped where it is read from samples that are not there."""
    is_there = name != "gauges of its own" or (SAMPLES / "metrics").is_dir()
    return pytest.param(
        name, marks=[] if is_there else pytest.mark.skip(reason="needs the exposition samples")
    )


@pytest.mark.parametrize("name", map(named, FLEETS))
def test_each_part_of_the_tables_is_computed_from_hours_and_logs(name: str, tmp_path: Path) -> None:
    made, columns = FLEETS[name]
    made(tmp_path)
    invoice = tmp_path / "invoice.csv"
    invoice.write_text(small_company.csv_text(small_company.charges()))
    ingested(invoice)
    files, statement = closed_week()
    places = [place for place, _ in leaves(statement) if place[0] == "memory_tables"]
    assert len(places) > 14 and figures_not_found(files, statement, places) == []
    missed = columns_not_found(
        files, statement, tables=TABLES, untold=dict.fromkeys(TABLES, ALONE),
        drawn=random.Random(SEED), rows=2,
    )  # fmt: skip
    assert {one.partition(".")[2] for one in missed} & columns == set(), missed
