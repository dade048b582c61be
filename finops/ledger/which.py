"""Which ledger a piece of work reads and writes: the organisation's own, or the sample's.

The two live in two databases (`default` and `sample`). The choice is a context variable, so that
models, queries and operations need not carry a database name about: the router reads it. Work that
names no ledger uses the own one. Users, sessions and the schedule are always in `default`, so a
model of the ledger, the trail or the reports holds no foreign key to a user: it keeps the name.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from django.apps import apps
from django.db import models, transaction
from django.http import HttpRequest, HttpResponseBase

LedgerName = Literal["default", "sample"]

# The apps whose tables stand in both databases.
LEDGER_APPS = frozenset({"ledger", "trail", "reports"})

_ledger: ContextVar[LedgerName] = ContextVar("ledger", default="default")


def ledger_name() -> LedgerName:
    """The database of the ledger in use: "default" (own) or "sample"."""
    return _ledger.get()


@contextmanager
def use_ledger(name: LedgerName) -> Iterator[None]:
    """Everything inside reads and writes the ledger `name`."""
    if name not in ("default", "sample"):
        raise ValueError(f"There is no ledger {name!r}; there are 'default' and 'sample'.")
    token = _ledger.set(name)
    try:
        yield
    finally:
        _ledger.reset(token)


def atomic() -> AbstractContextManager[None]:
    """A transaction on the ledger in use: `transaction.atomic` alone would take `default`."""
    return transaction.atomic(using=ledger_name())


def on_commit(action: Callable[[], object]) -> None:
    """Calls `action` once the transaction on the ledger in use has been committed."""
    transaction.on_commit(action, using=ledger_name())


def chosen_ledger() -> LedgerName:
    """The ledger to show: the own one once it holds a document, else the sample."""
    documents = apps.get_model("ledger", "Document").objects
    return "default" if documents.using("default").exists() else "sample"


class LedgerRouter:
    """Sends the ledger's apps to the ledger in use and all others to `default`."""

    def db_for_read(self, model: type[models.Model], **hints: Any) -> str:
        if model._meta.app_label not in LEDGER_APPS:
            return "default"
        instance = hints.get("instance")
        # A row read from one ledger follows its relations in that ledger.
        return (instance is not None and instance._state.db) or ledger_name()

    db_for_write = db_for_read

    def allow_relation(self, one: models.Model, other: models.Model, **hints: Any) -> bool:
        return one._state.db == other._state.db

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == "default" or app_label in LEDGER_APPS


class LedgerMiddleware:
    """Gives each request `request.ledger` and runs it on that ledger (see `chosen_ledger`).

    A view that stores what people hand over writes to the own ledger: `use_ledger("default")`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith(("/healthz", "/static/")):
            return self.get_response(request)
        name = chosen_ledger()
        request.ledger = name  # type: ignore[attr-defined]
        with use_ledger(name):
            return self.get_response(request)
