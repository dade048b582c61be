"""Every value a statement prints and every column behind it, changed one at a time (method §11).

The sums of the pack are taken to be made anew by whoever changed it, so that only the second
computation can tell. What it cannot tell is named here and in docs/evidence.md, with the reason.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from reports.evidence import dictionary, verify
from tests.evidence.conftest import Sealed, closed_week, unpacked
from tests.evidence.flips import (
    NUMBER,
    columns_not_found,
    figures_not_found,
    is_found,
    kind,
    leaves,
    sentences_not_found,
    with_another_number,
    with_other,
    with_two_swapped,
)
from tests.ledger import test_nodes
from tests.paths import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.django_db(databases=["default", "sample"])]
SEED = 20261129

EVIDENCE_ALONE: Mapping[str, set[str]] = {
    "charges": {
        "line", "account_name", "sub_account", "sub_account_name", "provider", "service",
        "service_category", "sku", "sku_price", "resource_name", "resource_type", "region",
        "instance_type", "pricing_category", "commitment_name", "description", "frequency",
        "billing_period",
        "rate_day",
    },
    "series": {"metric"},
    "engine_logs": {"number"},
    "preemptions": {"series"},
    "restarts": {"at_ms"},
    "lost_before": {"rate_tokens", "rate_ms"},
    "earlier_weeks": {"revision"},
    "readings": {"document"},
    "usage_hours": {"requests", "quality"},
    "training_charges": {"document", "line"},
    "invoice_amounts": {"from_details", "document_id", "at", "by"},
    "confirmations": {"at", "by"},
    "period_statuses": {"updated_at", "document_id", "at"},
    "objectives": {"at"},
}  # fmt: skip
"""Columns that lead to a document, or name things, and that no figure is made of."""


def told(statement: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The places of all values that verify.py does not name as given, with its reason."""
    every = [place for place, _ in leaves(statement)]
    return [
        place
        for place in every
        if not verify.is_given(kind(place)) or (place[-1] == "amount" and _counts(statement, place))
    ]


def _counts(statement: Mapping[str, Any], place: tuple[Any, ...]) -> bool:
    return statement["exceptions"][place[1]]["kind"] not in verify.NOT_IN_THE_PACK


def census(statement: Mapping[str, Any]) -> None:
    """What is named as given holds no figure by itself: words, names and instants alone."""
    given = {
        kind(place): value for place, value in leaves(statement) if place not in told(statement)
    }
    figures = [name for name, value in given.items()
               if isinstance(value, int) or (isinstance(value, str) and NUMBER.fullmatch(value))]  # fmt: skip
    assert [name for name in figures if name not in ("sample", "method_version")] == []


def test_every_number_of_a_sentence_is_computed_again(sealed: Sealed) -> None:
    files, statement = unpacked(sealed.pack()), sealed.stand.statement
    for others in (with_another_number, with_two_swapped):
        changed, missed = sentences_not_found(files, statement, others)
        assert changed > 5 and missed == []


def test_every_figure_of_a_statement_is_computed_again(sealed: Sealed) -> None:
    files, statement = unpacked(sealed.pack()), sealed.stand.statement
    places = told(statement)
    assert len(places) > 500 and not is_found(files, statement)
    assert "exceptions.*.amount" in map(kind, places)
    census(statement)
    missed = {kind(place) for place in figures_not_found(files, statement, places)}
    assert missed == set()


def test_every_column_of_a_pack_is_found_or_is_evidence_alone(sealed: Sealed) -> None:
    files, statement = unpacked(sealed.pack()), sealed.stand.statement
    tables = ("rules", "workloads", "objectives", "latency_buckets", "training_budget",
              "invoice_lines", "documents_read")  # fmt: skip
    assert columns_not_found(
        files, statement, tables=tables, untold=EVIDENCE_ALONE, drawn=random.Random(SEED), rows=12
    ) == []  # fmt: skip
    # How often a bucket was read counts beside the last bucket of its engine's hour alone.
    every = files["ledgers/latency_hours.csv"].count(b"\n")
    assert columns_not_found(
        files, statement, tables=("latency_hours",), untold=EVIDENCE_ALONE,
        drawn=random.Random(SEED), rows=every,
    ) == []  # fmt: skip


def test_nodes_and_who_held_their_gpus_are_computed_again(cluster: None) -> None:
    files, statement = closed_week()
    assert statement["nodes"]["idle_gpu_hours"] != "0" and statement["nodes"]["unmatched_charges"]
    places = [p for p in told(statement) if p[0] in ("nodes", "allocation", "workloads")]
    assert len(places) > 50 and figures_not_found(files, statement, places) == []
    tables = ("nodes", "node_hours", "gpu_holders", "gpu_hours")
    assert columns_not_found(
        files, statement, tables=tables, untold={}, drawn=random.Random(SEED), rows=12
    ) == []  # fmt: skip


cluster = test_nodes.cluster


def test_the_sums_tell_a_changed_row_of_every_table(sealed: Sealed) -> None:
    files, drawn = unpacked(sealed.pack()), random.Random(SEED)
    tables = [name for name, content in files.items()
              if name.endswith(".csv") and content.count(b"\n") > 1]  # fmt: skip
    assert len(tables) > 15
    for name in tables:
        head, *body = csv.reader(io.StringIO(files[name].decode(), newline=""))
        column = drawn.choice([at for at in range(len(head)) if any(row[at] for row in body)])
        number = drawn.choice([n for n, row in enumerate(body) if row[column]])
        check = verify.Checks()
        changed = files | {name: with_other(head, body, {number}, column)}
        verify.digests(verify.Pack(changed), check)
        assert any(line[0] == f"SHA-256 of {name}" for line in check.wrong), name


def test_a_changed_figure_ends_with_one_and_names_its_section(
    sealed: Sealed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(BytesIO(sealed.pack())) as archive:
        archive.extractall(tmp_path / "unpacked")
    folder = tmp_path / "unpacked"
    assert verify.main([str(folder), "--contents"]) == 0
    listed = capsys.readouterr().out
    assert all(one.__name__ in listed for one in verify.SECTIONS)
    path = folder / "statement.json"
    value = json.loads(path.read_bytes())
    value["figures"]["prompt_tokens"] += 1
    path.write_bytes(verify.canonical(value))
    assert verify.main([str(folder)]) == 1
    told = capsys.readouterr().out
    assert "UNEQUAL figures prompt_tokens" in told and "(organisation, line " in told


def test_the_docs_name_what_is_evidence_alone_and_nothing_else() -> None:
    text = (REPOSITORY / "docs" / "evidence.md").read_text()
    known = {(one.table, one.name) for one in dictionary.columns()}
    assert {(table, name) for table, names in EVIDENCE_ALONE.items() for name in names} <= known
    head, rows = "columns that only the sealed digest guards |\n|---|---|\n", {}
    assert text.count(head) == 1
    for line in text.partition(head)[2].partition("\n\n")[0].splitlines():
        (table,), names = (re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|"))
        rows[table] = set(names)
    assert rows == EVIDENCE_ALONE
    left = text.partition("Not computed again")[2].partition("\n\nA table")[0]
    (amounts,) = [one for one in left.split("\n- ") if one.startswith("the amounts of exceptions")]
    assert set(re.findall(r"`([^`]+)`", amounts)) == verify.NOT_IN_THE_PACK


def test_the_statement_is_json_of_plain_values(sealed: Sealed) -> None:
    """What `leaves` walks is all of it: the bytes hold nothing else."""
    statement = sealed.stand.statement
    assert json.loads(unpacked(sealed.pack())["statement.json"]) == statement
