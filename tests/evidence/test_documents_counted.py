"""A pack that holds its documents: their bytes and rows are counted again (method §11)."""

from __future__ import annotations

import copy

import pytest

from reports.evidence import verify
from reports.evidence.pack import pack
from tests.evidence.conftest import Sealed, unpacked

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_the_rows_of_documents_in_a_pack_are_counted(sealed: Sealed) -> None:
    content = pack(sealed.stand, printed=None, with_documents=True).content
    files = unpacked(content)
    statement = sealed.stand.statement
    checks = verify.recompute(verify.Pack(files), statement)
    assert checks.wrong == []
    counted = [line for line in checks.lines if line[0].endswith(": rows_read")]
    assert counted and all(line[1] == line[2] > 0 for line in counted)
    named = {one["sha256"]: one for one in statement["control_totals"]["documents"]}
    invoice = next(sha for sha, one in named.items() if one["format"] == "focus")
    said = named[invoice]["rows_read"]
    # Both places that tell the count say one more: only the file itself tells.
    table = files["ledgers/documents_read.csv"].decode().splitlines(keepends=True)
    at = next(i for i, line in enumerate(table) if line.startswith(invoice))
    table[at] = table[at].replace(f",{said},", f",{said + 1},", 1)
    changed = copy.deepcopy(statement)
    for one in changed["control_totals"]["documents"]:
        one["rows_read"] += one["sha256"] == invoice
    forged = files | {"ledgers/documents_read.csv": "".join(table).encode()}
    wrong = verify.recompute(verify.Pack(forged), changed).wrong
    assert [line[0].partition(": ")[2] for line in wrong] == ["rows_read"]


def test_answers_one_after_the_other_and_what_is_not_counted() -> None:
    answer = '{"data": {"result": [{"values": [[1, "2"], [2, "3"]]}, {"metric": {}}]}}'
    store = {"format": "prometheus-json", "rows_rejected": 0}
    assert verify.rows_in(f"{answer}\n{answer} \n".encode(), store) == 4
    assert verify.rows_in(answer.encode(), store | {"rows_rejected": 1}) is None
    invoice = {"format": "focus", "rows_rejected": 0}
    assert verify.rows_in('\ufeffa,b\n1,"2\n3"\n\n4,5\n'.encode(), invoice) == 2
    assert verify.rows_in(b"PAR1\xff\xfe", invoice) is None
    assert verify.rows_in(b'[{"a": 1}]', invoice) is None
