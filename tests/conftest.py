"""What all tests share: a real PostgreSQL of their own, and on request a real Valkey.

The servers live in a temporary data folder with fsync off; nothing need run beforehand. With
DATABASE_URL set, the tests use that server instead.
"""

import os
import shutil
from pathlib import Path

import pytest
from celery import current_app
from django.db.backends.postgresql.operations import DatabaseOperations
from hypothesis import settings

from finops import embedded
from tests.settings import TEMPORARY

# How long an example takes says nothing on a machine that does other work beside.
settings.register_profile("headroom", deadline=None)
settings.load_profile("headroom")

LONG_FIRST = ("sample", "browser", "evidence", "ledger", "house", "paper")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that no processor waits at the end for another's."""
    rank, here = {name: number for number, name in enumerate(LONG_FIRST)}, Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(here).parts[0], len(rank)))


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Starts PostgreSQL for the first test that needs a database."""
    if not os.environ.get("DATABASE_URL"):
        embedded.ensure_database(TEMPORARY)


@pytest.fixture(scope="session", autouse=True)
def emptying_between_tests() -> None:
    """Lets Django empty the append-only tables after a test that commits; needs a superuser."""
    flush = DatabaseOperations.execute_sql_flush

    def without_triggers(self: DatabaseOperations, sql_list: list[str]) -> None:
        flush(self, ["SET LOCAL session_replication_role = replica", *sql_list])

    DatabaseOperations.execute_sql_flush = without_triggers


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_a_broker() -> None:
    """Where no broker runs, sending a task fails at once, and not after six seconds of trying."""
    current_app.conf.broker_transport_options |= {"max_retries": 1, "interval_start": 0}


@pytest.fixture(scope="session")
def broker() -> str:
    """The URL of a running Valkey."""
    return os.environ.get("REDIS_URL") or embedded.ensure_broker(TEMPORARY)


def pytest_unconfigure() -> None:
    """Stops the servers and removes their files."""
    embedded.release_all()
    shutil.rmtree(TEMPORARY, ignore_errors=True)
