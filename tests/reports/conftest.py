"""People of each role, and an own ledger that holds a document, so that it is the one shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from finops.ledger.models import Document
from reports.roles import ROLES, ensure_groups

from .helpers import NOW


@pytest.fixture
def own_ledger(db: None) -> Document:
    return Document.objects.create(
        sha256="ab" * 32,
        size_bytes=3,
        name="invoice <b>.csv",
        origin="test",
        format="focus",
        received_at=NOW,
        received_by="Ada Okafor",
    )


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    def make(name: str, *roles: str, superuser: bool = False) -> User:
        ensure_groups()
        user = User.objects.create_user(name, password="a long enough one", is_superuser=superuser)
        user.groups.set(Group.objects.filter(name__in=roles))
        return user

    return make


@pytest.fixture
def client_of(person: Callable[..., User]) -> Callable[..., Client]:
    """A browser signed in as a person with the roles."""

    def make(*roles: str, name: str = "") -> Client:
        client = Client()
        client.force_login(person(name or "-".join(roles) or "nobody", *roles))
        return client

    return make


@pytest.fixture
def admin(client_of: Callable[..., Client]) -> Client:
    return client_of("admin", name="Mira Lindqvist")


assert set(ROLES) == {"finance", "engineer", "auditor", "admin"}
