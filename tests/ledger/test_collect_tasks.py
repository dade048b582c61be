"""The scheduled work in a real worker with a real broker: twice at once, killed, and again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery

from finops import embedded
from finops.celery import urls
from finops.sources.engines import metrics_to_collect
from tests.house.product import environment
from tests.ledger.focus_files import focus_text
from tests.ledger.stores import Reply, Store, recorded, replay
from tests.ledger.workers import Worker, started
from tests.paths import REPOSITORY
from tests.settings import TEMPORARY

pytestmark = pytest.mark.slow

PROMPT_TOKENS, GENERATION_TOKENS = 1_494_578, 202_099
WINDOWS = (
    {"start": "2026-11-29T14:00:00Z", "end": "2026-11-29T15:00:00Z"},
    {"start": "2026-11-29T15:00:00Z", "end": "2026-11-29T16:00:00Z"},
)
AT = "2026-11-29T16:10:30Z"
WINDOW_TASK = "finops.ledger.tasks.collect_source_window"


@dataclass
class Product:
    """A data folder with its servers up, and the means to send tasks and to look."""

    data: Path
    environment: dict[str, str]
    celery: Celery
    database: str

    def command(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY, env=self.environment, check=True, capture_output=True, timeout=120,
        )  # fmt: skip

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(query, values).fetchall()

    def send(self, task: str, queue: str = "collect", **values: Any) -> Any:
        return self.celery.send_task(task, kwargs=values, queue=queue)

    def send_windows(self, source: str, queue: str = "collect") -> list[Any]:
        return [self.send(WINDOW_TASK, queue, source=source, **window) for window in WINDOWS]

    def send_shards(self, source: str, count: int, queue: str) -> list[Any]:
        return [
            self.send(WINDOW_TASK, queue, source=source, shard=shard, shards=count, **window)
            for window in WINDOWS
            for shard in range(1, count + 1)
        ]


@pytest.fixture(scope="module")
def product() -> Product:
    """The product on the test servers, in the database that Django's own tests leave alone."""
    database, redis = embedded.ensure_database(TEMPORARY), embedded.ensure_broker(TEMPORARY)
    broker, results = urls(redis)
    invoices = TEMPORARY / "invoices"
    invoices.mkdir()
    variables = environment(
        TEMPORARY,
        HEADROOM_TEST="1",
        HEADROOM_INVOICES=str(invoices),
        HEADROOM_SECRET_STORE="s3cr3t",
    )
    product = Product(TEMPORARY, variables, Celery(broker=broker, backend=results), database)
    product.command("sources")  # makes the tables
    return product


@pytest.fixture(scope="module")
def worker(product: Product) -> Iterator[Worker]:
    """The worker of the tests that leave it alive."""
    with running(product, "default,collect") as one:
        yield one


@contextmanager
def running(product: Product, queues: str) -> Iterator[Worker]:
    """A worker that has said itself that it is there, so that its children are there too.

    Tests that kill a worker give it a queue that no other worker reads.
    """
    with started(product.data / "worker.log", queues, product.environment) as worker:
        until(lambda: bool(product.celery.control.ping([worker.name], timeout=2)), 60)
        yield worker


def until(fine: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not fine():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.1)


def fetched(product: Product, source: str) -> list[tuple[Any, ...]]:
    return product.rows(
        "SELECT f.window_start, f.complete, f.document_id, f.readings FROM ledger_fetch f"
        " JOIN ledger_source s ON s.id = f.source_id WHERE s.name = %s ORDER BY 1",
        source,
    )


def fetched_parts(product: Product, source: str) -> list[tuple[Any, ...]]:
    return product.rows(
        "SELECT extract(hour FROM p.window_start AT TIME ZONE 'UTC')::int, p.part"
        " FROM ledger_fetchedpart p JOIN ledger_source s ON s.id = p.source_id"
        " WHERE s.name = %s AND p.parts = 3 ORDER BY 1, 2",
        source,
    )


def assert_the_ledger_is_the_recordings(product: Product, source: str) -> None:
    """Each window once, each sample once, each token once, and nothing corrected twice."""
    fetches = fetched(product, source)
    assert [f[1] for f in fetches] == [True, True]
    names = set(metrics_to_collect())
    samples = sum(len(r["values"]) for r in recorded() if r["metric"]["__name__"] in names)
    assert sum(f[3] for f in fetches) == samples
    tokens = product.rows(
        "SELECT s.role, sum(h.tokens)::bigint FROM ledger_tokenhour h"
        " JOIN ledger_series s ON s.id = h.series_id JOIN ledger_target t ON t.id = s.target_id"
        " JOIN ledger_source o ON o.id = t.source_id WHERE o.name = %s"
        " AND s.role IN ('prompt', 'generation') AND h.revision = (SELECT max(revision)"
        " FROM ledger_tokenhour x WHERE x.series_id = h.series_id AND x.hour = h.hour) GROUP BY 1",
        source,
    )
    assert dict(tokens) == {"prompt": PROMPT_TOKENS, "generation": GENERATION_TOKENS}
    twice = product.rows(
        "SELECT b.series_id, b.hour, b.replica FROM ledger_readingblock b"
        " JOIN ledger_series s ON s.id = b.series_id JOIN ledger_target t ON t.id = s.target_id"
        " JOIN ledger_source o ON o.id = t.source_id WHERE o.name = %s"
        " GROUP BY 1, 2, 3 HAVING count(*) > 1",
        source,
    )
    assert twice == []


@pytest.fixture
def store() -> Iterator[Store]:
    with replay() as running_store:
        yield running_store


def test_every_window_twice_at_once(product: Product, worker: Worker, store: Store) -> None:
    product.command("sources", "add", "twice", store.url, "--secret", "HEADROOM_SECRET_STORE")
    store.delay_seconds = 0.2
    results = [*product.send_windows("twice"), *product.send_windows("twice")]
    answers = [result.get(timeout=90) for result in results]
    assert sorted(answer["fresh"] for answer in answers) == [False, False, True, True]
    assert_the_ledger_is_the_recordings(product, "twice")
    assert {head["Authorization"] for _, _, head in store.seen} == {"Bearer s3cr3t"}
    # A third time, later: nothing is even asked.
    seen = len(store.seen)
    assert not any(r.get(timeout=60)["fresh"] for r in product.send_windows("twice"))
    assert len(store.seen) == seen


def test_children_killed_at_any_instant(product: Product, worker: Worker, store: Store) -> None:
    product.command("sources", "add", "killed", store.url)
    # The store is slow, so whoever has asked still waits for the answer when the first kill comes:
    # that work is cut off for certain. The kills after it fall at any instant.
    store.delay_seconds = 5.0
    chance = random.Random(7)
    results = [*product.send_windows("killed"), *product.send_windows("killed")]
    until(lambda: bool(store.seen))
    worker.kill_children()
    cut_off = len(store.seen)
    assert [f[1] for f in fetched(product, "killed") if f[1]] == []
    store.delay_seconds = 0.15
    for _ in range(5):
        time.sleep(chance.uniform(0.1, 1.2))
        worker.kill_children()
    store.delay_seconds = 0.0
    until(lambda: [f[1] for f in fetched(product, "killed")] == [True, True])
    for result in results:
        result.get(timeout=90)
    assert_the_ledger_is_the_recordings(product, "killed")
    asked = [(path, form) for path, form, _ in store.seen]
    assert all(one in asked[cut_off:] for one in asked[:cut_off])  # all of it was asked for again


def test_parts_of_a_window_whose_workers_are_killed(product: Product, store: Store) -> None:
    """Two workers take shards of the same hours; one is killed whole, the other's children too."""
    product.command("sources", "add", "parted", store.url)
    chance, queue = random.Random(11), "parted"
    store.delay_seconds = 5.0
    with running(product, queue) as first, running(product, queue) as second:
        results = [
            *product.send_shards("parted", 3, queue),
            *product.send_shards("parted", 3, queue),
        ]
        until(lambda: len(store.seen) >= 4)  # all four children wait for an answer
        first.kill()
        assert fetched_parts(product, "parted") == fetched(product, "parted") == []
        store.delay_seconds = 0.15
        for _ in range(4):
            time.sleep(chance.uniform(0.1, 1.2))
            second.kill_children()
        store.delay_seconds = 0.0
        # What the killed worker held comes back when the broker misses it, or with the next run.
        results += product.send_shards("parted", 3, queue)
        until(lambda: [f[1] for f in fetched(product, "parted")] == [True, True])
        for result in results[-6:]:
            result.get(timeout=90)
    assert fetched_parts(product, "parted") == [
        (number, shard) for number in (14, 15) for shard in (1, 2, 3)
    ]
    assert_the_ledger_is_the_recordings(product, "parted")


def test_a_worker_killed_whole_is_made_good_by_the_next_run(
    product: Product, worker: Worker, store: Store
) -> None:
    product.command("sources", "add", "whole", store.url)
    store.delay_seconds = 5.0
    with running(product, "whole") as first:
        product.send_windows("whole", "whole")
        until(lambda: len(store.seen) >= 2)
        first.kill()
    assert fetched(product, "whole") == []
    store.delay_seconds = 0.0
    # The schedule's next run finds what is missing by itself, whatever became of the messages.
    next_run = product.send("finops.ledger.tasks.collect_source", source="whole", at=AT)
    assert next_run.get(timeout=60) == 2
    until(lambda: [f[1] for f in fetched(product, "whole")] == [True, True])
    assert_the_ledger_is_the_recordings(product, "whole")


def test_a_store_that_fails_is_tried_again_later(
    product: Product, worker: Worker, store: Store
) -> None:
    product.command("sources", "add", "failing", store.url)
    store.replies = [Reply(b'{"error":"out of order"}', 422)]
    result = product.send(WINDOW_TASK, source="failing", **WINDOWS[0])
    until(lambda: result.state == "RETRY")
    assert [f[1] for f in fetched(product, "failing")] == [False]


def test_all_active_sources_get_a_task(product: Product, worker: Worker, store: Store) -> None:
    product.command("sources", "add", "quiet", store.url + "/stopped")
    product.command("sources", "stop", "quiet")
    (active,) = product.rows("SELECT count(*) FROM ledger_source WHERE active")[0]
    assert product.send("finops.ledger.tasks.collect_all").get(timeout=60) == active >= 1


def test_the_invoice_folder_is_read_once(product: Product, worker: Worker) -> None:
    folder = Path(product.environment["HEADROOM_INVOICES"])
    old = time.time() - 3600
    names = ("november.csv", ".part.csv", "still-being-written.csv")
    for number, name in enumerate(names, 1):
        (folder / name).write_text(focus_text([{"BilledCost": str(number)}]))
    for name in ("november.csv", ".part.csv"):
        os.utime(folder / name, (old, old))
    task = "finops.ledger.tasks.look_into_invoice_folder"
    answers = [r.get(timeout=60) for r in [product.send(task, "default") for _ in range(2)]]
    assert sum(answer.get("posted", 0) for answer in answers) == 1
    # Other tests put documents of their own into this database.
    found = "SELECT name, charges FROM ledger_document WHERE format = 'focus' AND name = ANY(%s)"
    assert product.rows(found, list(names)) == [("november.csv", 1)]
    assert product.send(task, "default").get(timeout=60) == {"unchanged": 1}
