"""COPY beside the work: the database takes rows in while the caller makes the next ones.

One COPY at a time, on the caller's own connection and inside its transaction, fed by a thread; of a
bill some more wait for it, so that many rows that come at once keep nobody from reading on. The
connection is the caller's again as soon as it asks anything of it: every statement waits first. A
row that is refused is said there or at the end, in any case before the transaction is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from typing import Any

import psycopg
from django.db import connections, models
from psycopg import sql

from finops.ledger.operations import bulk
from finops.ledger.operations.bulk import Line, feed, fill_through_table
from finops.ledger.which import ledger_name

_POINT = sql.Identifier("headroom_copying")
_SET = """
DO $$ BEGIN EXECUTE (
    SELECT 'SET CONSTRAINTS ' || string_agg(quote_ident(conname), ', ') || ' {when}'
    FROM pg_constraint
    WHERE contype = 'f' AND confrelid IN ({tables})
); END $$
"""
_SERIES = "'ledger_series'::regclass, 'ledger_target'::regclass"
_DOCUMENTS = "'ledger_document'::regclass"
_open: ContextVar[Copying | None] = ContextVar("copying", default=None)


def copy_lines(model: type[models.Model], names: Sequence[str], lines: Sequence[Line]) -> None:
    """As `bulk.copy_lines`; inside a `Copying`, begun here and done later."""
    if lines:
        beside(lambda cursor: feed(cursor, model._meta.db_table, names, lines))


def copy_new_lines(
    model: type[models.Model],
    names: Sequence[str],
    lines: Sequence[Line],
    *,
    is_binary: bool = False,
) -> None:
    """As `bulk.copy_new_lines`; inside a `Copying`, begun here and done later."""
    copying = _open.get()
    if copying is None or not lines:
        bulk.copy_new_lines(model, names, lines, is_binary=is_binary)
    else:

        def work(cursor: psycopg.Cursor[Any]) -> None:
            def fill(table: str) -> None:
                feed(cursor, table, names, lines, is_binary=is_binary)

            _feed_new(cursor, model, fill)

        copying.begin(work)


def beside(work: Callable[[Any], None]) -> None:
    """Does some work with a cursor; inside a `Copying`, begun here and done later.

    A broken constraint raises django.db.IntegrityError, here or when the work is waited for.
    """
    copying = _open.get()
    if copying is not None:
        copying.begin(work)
        return
    connection = connections[ledger_name()]
    with connection.wrap_database_errors, connection.cursor() as cursor:
        work(cursor)


def look_for_documents() -> None:
    """Has the database see now, beside the work, that each row so far names a document that stands
    there: left to the end of the transaction, everyone would wait for it."""

    def work(cursor: Any) -> None:
        for when in ("IMMEDIATE", "DEFERRED"):
            cursor.execute(_SET.format(when=when, tables=_DOCUMENTS))

    beside(work)


class Copying:
    """Lets the copies of its caller be done beside the work. A context manager inside a
    transaction; leaving it waits for what is under way. `of_series`: the rows name series and
    targets, which are there already. `at_once` is how many copies may be begun and not done."""

    def __init__(self, *, of_series: bool = True, at_once: int = 1) -> None:
        self._of_series, self._at_once = of_series, at_once
        self._connection = connections[ledger_name()]
        self._within = ExitStack()
        self._under_way: deque[Future[None]] = deque()

    def __enter__(self) -> Copying:
        if self._of_series:
            self._name_at_once()
        self._thread = self._within.enter_context(ThreadPoolExecutor(1))
        self._within.enter_context(self._connection.execute_wrapper(self._after_it))
        token = _open.set(self)
        self._within.callback(lambda: _open.reset(token))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._within:
            if kind is None:
                self.wait()
            else:  # what is raised already gives the transaction up
                with suppress(Exception):
                    self.wait()

    def _name_at_once(self) -> None:
        """Whether rows name a series or target that stands there is asked as they come, beside the
        work; left to the end, everyone would wait for it. What a row names is always there first,
        but for the document, which is written last."""
        with self._connection.cursor() as cursor:
            cursor.execute(_SET.format(when="IMMEDIATE", tables=_SERIES))

    def begin(self, work: Callable[[psycopg.Cursor[Any]], None]) -> None:
        """Does some work with a cursor of the driver's own, once the work before is done."""
        if len(self._under_way) >= self._at_once:
            self._finish(1)
        connection = self._connection.connection

        def run() -> None:
            with connection.cursor() as cursor:
                work(cursor)

        self._under_way.append(self._thread.submit(run))

    def wait(self) -> None:
        """Until nothing is under way. A broken constraint raises django.db.IntegrityError."""
        self._finish(len(self._under_way))

    def _finish(self, count: int) -> None:
        """Waits for the first copies; for all where one fails, for then the connection is the
        caller's to give the transaction up."""
        with self._connection.wrap_database_errors:
            for _ in range(count):
                try:
                    self._under_way.popleft().result()
                except BaseException:
                    wait(self._under_way)
                    self._under_way.clear()
                    raise

    def _after_it(
        self, execute: Callable[..., Any], statement: str, parameters: Any, many: bool, context: Any
    ) -> Any:
        self.wait()
        return execute(statement, parameters, many, context)


def _feed_new(
    cursor: psycopg.Cursor[Any], model: type[models.Model], fill: Callable[[str], None]
) -> None:
    cursor.execute(sql.SQL("SAVEPOINT {}").format(_POINT))
    try:
        fill(model._meta.db_table)
    except psycopg.errors.UniqueViolation:
        cursor.execute(sql.SQL("ROLLBACK TO SAVEPOINT {}").format(_POINT))
        fill_through_table(cursor, model, fill)
    cursor.execute(sql.SQL("RELEASE SAVEPOINT {}").format(_POINT))
