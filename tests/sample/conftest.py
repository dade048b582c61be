"""The sample organisation, made once for all tests here by the same call as the command's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from finops.ledger.which import use_ledger
from finops.sample import demo
from finops.sample.generator import Made

AT = datetime(2026, 11, 29, 17, tzinfo=UTC)


@pytest.fixture(scope="package")
def sample(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[demo.Sample]:
    """The sample as `demo` makes it; its database is emptied afterwards."""
    with django_db_blocker.unblock():
        yield demo.make(AT)
        with use_ledger("sample"):
            demo._clear(lambda _: None)
        connections.close_all()


@pytest.fixture
def made(sample: demo.Sample) -> Made:
    """The truth of the sample that is in the ledger."""
    assert sample.made is not None
    return sample.made
