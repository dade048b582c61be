"""Each column of the rows that figures come from, changed by one who switched the triggers off.

A column is either found or named here with the reason why nothing can tell: a new column has to be
decided on.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models

from finops.ledger.models import ChangeDecision, Charge, GpuHour, InvoiceAmount, PeriodConfirmation
from finops.trail import operations as trail
from finops.trail.fingerprints import CHANGES, changed_rows, fix_rows
from finops.trail.guards import GUARDED_APPS
from finops.trail.models import Entry
from reports.models import (
    Annotation,
    FreshLook,
    LeftProposal,
    Report,
    ReportEvent,
    Seal,
    Upload,
    UploadOutcome,
    Waiver,
)
from reports.queries.verifying import verify_seals
from tests.evidence.conftest import Sealed
from tests.evidence.test_mutations import changed_and_found
from tests.ledger import test_append_only as growing
from tests.ledger import test_constraints as some
from tests.reports.helpers import NOW, make_report
from tests.reports.test_closing import command

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129
ROWS = 3

OTHER = {
    "category": "CASE {0} WHEN 'Usage' THEN 'Tax' ELSE 'Usage' END",
    "currency": "CASE {0} WHEN 'USD' THEN 'EUR' ELSE 'USD' END",
    "billing_period": "'2026-01'",
    "document_id": "coalesce(translate({0}, '0123456789abcdef', '123456789abcdef0'), '0')",
    "line": "{0} + 100000",
    "number": "{0} + 100000",
    "kind": "'dismissed'",
    "upload_id": "gen_random_uuid()",
    "digest": "translate({0}, '0123456789abcdef', '123456789abcdef0')",
    "valid_to": "'2999-01-01'",
    "url": "'https://example.org/' || {0}",
    "week": "'2020-W01'",
    "quarter": "'2020-Q1'",
    "target": "{0} / 2",
}
"""Columns whose values are bound by a constraint."""
OTHER_KIND = "CASE {0} WHEN 'configuration' THEN 'replicas' ELSE 'configuration' END"
REFUSED = {
    "ledger_baseline.kind",
    "ledger_baselinedecision.verdict",
    "ledger_charge.last_line",
    "ledger_charge.line_count",
    "ledger_document.sha256",
    "ledger_fetch.complete",
    "ledger_rule.place",
    "ledger_rule.shared_key_id",
    "ledger_source.kind",
}
"""Columns that hold one value alone beside the others of their row: the schema refuses another."""
BY_TYPE: list[tuple[type[models.Field], str]] = [  # type: ignore[type-arg]
    (models.DateTimeField, "coalesce({0}, 'epoch') + interval '1 microsecond'"),
    (models.DateField, "coalesce({0}, 'epoch'::date) + 1"),
    (models.UUIDField, "gen_random_uuid()"),
    (models.JSONField, """coalesce({0}, '{{}}') || '{{"x": 1}}'"""),
    (models.BinaryField, "set_byte({0}, length({0}) / 2, get_byte({0}, length({0}) / 2) # 1)"),
    (models.BooleanField, "NOT {0}"),
    (
        models.CharField,
        "CASE WHEN coalesce({0}, '') = '' THEN 'x' ELSE overlay({0} placing 'y' from 1 for 1) END",
    ),
    (models.TextField, "coalesce({0}, '') || 'x'"),
    (models.ForeignKey, "coalesce({0}, 0) + 100000"),
    (models.Field, "coalesce({0}, 0) + 1"),
]
"""The smallest change of a value, by its type; null becomes a value."""


def columns(model: type[models.Model], untold: set[str]) -> list[tuple[str, str]]:
    """Each column that must be found, and the SQL of its changed value."""
    found = []
    for field in model._meta.concrete_fields:
        if isinstance(field, models.AutoField) or field.column in untold:
            continue
        change = OTHER.get(field.column) or next(c for t, c in BY_TYPE if isinstance(field, t))
        if (model, field.column) == (ChangeDecision, "kind"):
            change = OTHER_KIND
        elif (model, field.column) == (GpuHour, "observed_ms"):
            change = "{0} - 1"
        elif field.choices and field.column not in ("category", "place"):
            first, second, *_ = (value for value, _ in field.choices)
            change = f"CASE {{0}} WHEN '{first}' THEN '{second}' ELSE '{first}' END"
        found.append((field.column, change.format(f'"{field.column}"')))
    return found


def keys(model: type[models.Model], drawn: random.Random, where: str = "true") -> list[object]:
    table, key = model._meta.db_table, model._meta.pk.column  # type: ignore[union-attr]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {key} FROM {table} WHERE {where} ORDER BY 1")
        found = [row[0] for row in cursor.fetchall()]
    assert found, table
    return drawn.sample(found, min(ROWS, len(found)))


def ledger_problems() -> list[str]:
    problems: list[str] = command("check-ledger")["problems"]
    return problems


def missed(
    model: type[models.Model],
    check: Callable[[], list[str]],
    *,
    untold: set[str],
    where: str = "true",
) -> Iterator[str]:
    """The changes of a table's rows that a check does not find."""
    drawn, table = random.Random(SEED), model._meta.db_table
    key = model._meta.pk.column  # type: ignore[union-attr]
    rows = keys(model, drawn, where)
    for column, change in columns(model, untold):
        refused = 0
        tried = rows[: 1 if check is ledger_problems else ROWS]
        for row in tried:
            sql = f'UPDATE {table} SET "{column}" = {change} WHERE {key} = %s'
            try:
                found = changed_and_found(sql, check, row)
            except IntegrityError:  # refused by the table's own constraints
                refused += 1
                continue
            if not found:
                yield f"{table}.{column} of {row}"
        if refused == len(tried) and f"{table}.{column}" not in REFUSED:
            yield f"{table}.{column} never changed"
    for row in rows:
        if not changed_and_found(f"DELETE FROM {table} WHERE {key} = %s", check, row):
            yield f"{table}: {row} deleted"


def test_each_column_of_a_charge(sealed: Sealed) -> None:
    assert ledger_problems() == []
    assert list(missed(Charge, ledger_problems, untold={"last_line", "line_count"})) == []


def test_each_column_of_the_trail(sealed: Sealed) -> None:
    newest = "number < (SELECT max(number) FROM trail_entry)"  # its loss is found by a seal alone
    assert list(missed(Entry, trail.verify, untold=set(), where=newest)) == []


def test_each_column_of_reports_and_seals(sealed: Sealed) -> None:
    assert verify_seals() == []
    found = [
        one for m in (Report, Seal, ReportEvent) for one in missed(m, verify_seals, untold=set())
    ]
    assert found == []


def upload() -> models.Model:
    return Upload(names=["a.csv"], size_bytes=1, at=NOW, by="Ada")


def outcome() -> models.Model:
    return UploadOutcome(
        upload=Upload.objects.create(names=["a"], size_bytes=1, at=NOW, by="A"), at=NOW
    )


def waiver() -> models.Model:
    report = Report.objects.create(
        week="2026-W47", revision=1, statement=b"{}", digest="0" * 64, method_version="1.0",
        created_at=NOW, prepared_by="Ada",
    )  # fmt: skip
    return Waiver(
        report=report, kind="provisional-month", subject="2026-11", text="t", by="Ben", at=NOW
    )


def left_proposal() -> models.Model:
    look = FreshLook.objects.create(report=make_report(), at=NOW, digest="a" * 64, differences=[])
    return LeftProposal(look=look, text="Small.", at=NOW, by="Ada")


def of_a_document(name: str, /, **values: object) -> models.Model:
    model = apps.get_model("ledger", name)
    return model(document=growing.saved(growing.document()), **values)


BUILDERS: dict[str, Callable[[], models.Model]] = {
    "Annotation": lambda: Annotation(at=NOW, text="t", author="Ada", written_at=NOW),
    "Baseline": some.baseline,
    "BaselineDecision": some.decision,
    "CacheHour": some.cache_hour,
    "ChangeDecision": some.verdict,
    "CsvMapping": some.mapping,
    "DeviceHour": some.device_hour,
    "EngineStart": some.engine_start,
    "EvidenceLink": some.link,
    "Fetch": growing.fetch,
    "FetchedPart": growing.fetched_part,
    "FreshLook": lambda: FreshLook(report=make_report(), at=NOW, digest="a" * 64, differences=[]),
    "FxRate": some.fx_rate,
    "GpuHour": some.gpu_hour,
    "InvoiceAmount": lambda: InvoiceAmount(
        invoice="I-1", issuer="i", amount=Decimal(7), currency="USD", at=NOW, by="Ada"
    ),
    "LeftProposal": left_proposal,
    "ModelConfig": lambda: of_a_document("ModelConfig", model="m", config={}, posted_at=NOW),
    "Origin": lambda: of_a_document("Origin", name="n", origin="o", source="s", at=NOW, by="Ada"),
    "PeriodConfirmation": lambda: PeriodConfirmation(
        issuer="i", billing_period="2026-11", at=NOW, by="Ada"
    ),
    "PeriodStatus": some.period_status,
    "QuietHour": growing.quiet_hour,
    "RateCard": some.rate_card,
    "RejectedRow": lambda: of_a_document("RejectedRow", line=3, column="c", value="v", reason="r"),
    "Reread": some.reread,
    "Upload": upload,
    "UploadOutcome": outcome,
    "UsageHour": growing.usage_hour,
    "Waiver": waiver,
}
"""A row of each table that the sealed company has no use for."""


def fixed_models() -> list[type[models.Model]]:
    found = [model for app in GUARDED_APPS for model in apps.get_app_config(app).get_models()]
    return [model for model in found if model is not Entry]


def unfixed(model: type[models.Model]) -> list[str]:
    """The changes of a table's rows that no fingerprint shows."""
    table = model._meta.db_table
    check = functools.partial(lambda table: list(changed_rows([table])), table)
    return list(missed(model, check, untold=CHANGES.get(table, set())))


def test_each_column_of_each_table_of_a_sealed_company(sealed: Sealed) -> None:
    """What no document tells again is held by the trail's fingerprints: rules, decisions, amounts,
    token hours, reading blocks, settings of workloads."""
    fix_rows(by="Ada", at=NOW)
    assert list(changed_rows()) == []
    full = [model for model in fixed_models() if model._default_manager.exists()]
    assert {m.__name__ for m in fixed_models()} - {m.__name__ for m in full} <= set(BUILDERS)
    assert sum(len(columns(model, set())) for model in full) > 150
    assert [one for model in full for one in unfixed(model)] == []


@pytest.mark.parametrize("name", BUILDERS)
def test_each_column_of_the_other_tables(name: str) -> None:
    growing.saved(BUILDERS[name]())
    fix_rows(by="Ada", at=NOW)
    (model,) = [model for model in fixed_models() if model.__name__ == name]
    assert list(changed_rows()) == [] and unfixed(model) == []
