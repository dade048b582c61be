"""Packs that were changed on their way, through the page Verify and the command."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from finops.trail.models import Entry
from reports.evidence import dictionary, texts, verify
from reports.evidence import sealed as sealing
from reports.evidence.checking import check_bytes
from reports.evidence.pack import beside, sums_of, told
from reports.evidence.sealed import zip_bytes
from reports.queries.standing import report_of, standing
from tests.evidence.conftest import Sealed, seal_week, unpacked
from tests.evidence.test_audit_pages import checked
from tests.ledger import small_company
from tests.reports.conftest import *  # noqa: F403 - the same people
from tests.reports.test_closing import WEEK, command, whole_week

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
Clients = Callable[..., Client]


def zipped(files: dict[str, bytes]) -> bytes:
    """A pack of these files, whole in itself."""
    files = files | {"SHA256SUMS": sums_of(files)}
    return zip_bytes(files, compressed=False)


def printed(name: str, *arguments: object) -> str:
    """What a command prints with `--json`, also when it could not run."""
    out = io.StringIO()
    with suppress(CommandError):
        call_command(name, *map(str, arguments), "--json", stdout=out)
    assert isinstance(json.loads(out.getvalue()), dict)
    return out.getvalue()


@pytest.fixture
def auditor(client_of: Clients) -> Client:
    return client_of("auditor")


def page_of(client: Client, content: bytes) -> str:
    return checked(client, what="file", file=SimpleUploadedFile("p.zip", content))


def test_nothing_of_a_pack_is_run_that_no_seal_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auditor: Client
) -> None:  # fmt: skip
    small_company.found(tmp_path)
    whole_week(tmp_path)
    monkeypatch.setattr(sealing, "gather", lambda *_: None)
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    stand = standing(report)
    assert stand.seal and stand.seal["evidence"] is None
    ran = tmp_path / "ran"
    script = f"open({str(ran)!r}, 'w').close(); print('9 of 9 equal.')".encode()
    files = beside(stand)
    files |= told(stand, files) | {"verify.py": script}
    page = page_of(auditor, zipped(files))
    assert not ran.exists()
    assert "Not everything fits." in page and "sealed without its rows" in page
    assert "9 of 9" not in page


def test_another_verify_py_is_not_run(
    sealed: Sealed, tmp_path: Path, auditor: Client
) -> None:  # fmt: skip
    ran = tmp_path / "ran"
    script = f"open({str(ran)!r}, 'w').close(); print('9 of 9 equal.')".encode()
    page = page_of(auditor, zipped(unpacked(sealed.pack()) | {"verify.py": script}))
    assert not ran.exists()
    assert "verify.py is not what was sealed" in page


def test_files_that_belong_to_no_pack_are_named(sealed: Sealed, auditor: Client) -> None:
    other = "documents/" + "0" * 64
    files = unpacked(sealed.pack()) | {
        "report-final.pdf": b"%PDF-1.4 forged",
        "ledgers/extra.csv": b"a,b\n1,2\n",
        "ledgers/extra.parquet": b"PAR1",
        other: b"",
    }
    page = page_of(auditor, zipped(files))
    assert "Not everything fits." in page
    for name in ("report-final.pdf", "ledgers/extra.csv", "ledgers/extra.parquet", other):
        assert f"{name} is no file of this report" in page
    empty = page_of(auditor, zipped(unpacked(sealed.pack()) | {"report.pdf": b""}))
    assert "report.pdf is not what was printed from this seal" in empty
    without = unpacked(sealed.pack())
    del without["IPE.md"]
    assert "IPE.md is missing" in page_of(auditor, zipped(without))


@pytest.mark.parametrize("row", [b"1,2\r\n", b"," * 200 + b"\r\n"], ids=["cut off", "too long"])
def test_a_row_of_another_length_is_named(
    sealed: Sealed, tmp_path: Path, capsys: pytest.CaptureFixture[str], row: bytes
) -> None:
    files = unpacked(sealed.pack())
    table = files["ledgers/charges.csv"]
    rows = len(list(csv.reader(io.StringIO(table.decode(), newline="")))) - 1
    path = tmp_path / "pack.zip"
    path.write_bytes(zipped(files | {"ledgers/charges.csv": table + row}))
    assert verify.main([str(path)]) == 1
    said = f"ledgers/charges.csv, row {rows + 1}: more or fewer cells than columns"
    assert said in capsys.readouterr().out


def test_words_that_cannot_be_compared_are_told_as_not_checked(
    sealed: Sealed, tmp_path: Path, auditor: Client
) -> None:  # fmt: skip
    page = page_of(auditor, sealed.pack())
    assert "Everything fits." in page and "Not checked" not in page
    forged = {"IPE.md": b"# All is complete.\n", "README.md": b"# Headline 0.01 USD\n"}
    content = zipped(unpacked(sealed.pack()) | forged)
    page = page_of(auditor, content)
    assert "Everything fits." not in page
    assert "What was checked fits. Not checked: IPE.md, README.md." in page
    entry = Entry.objects.filter(action="verified").order_by("-number").first()
    assert entry and entry.detail["not_checked"] == ["IPE.md", "README.md"]
    (tmp_path / "forged.zip").write_bytes(content)
    answer = command("verify", tmp_path / "forged.zip")
    assert answer["ok"] and answer["not_checked"] == ["IPE.md", "README.md"]


def test_a_pack_handed_out_before_an_upgrade_still_fits(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch, auditor: Client
) -> None:  # fmt: skip
    content, real = sealed.pack(), dictionary.as_table()
    shorter = dataclasses.replace(real, rows=list(real.rows)[:-1])
    monkeypatch.setattr(dictionary, "as_table", lambda: shorter)
    assert "Everything fits." in page_of(auditor, content)
    assert unpacked(sealed.pack())["dictionary.csv"] == unpacked(content)["dictionary.csv"]
    monkeypatch.setattr(texts, "README", texts.README + "More of a later version.\n")
    page = page_of(auditor, content)
    assert "What was checked fits. Not checked: README.md." in page


def test_a_report_sealed_before_the_dictionary_was_has_that_of_this_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auditor: Client
) -> None:  # fmt: skip
    small_company.found(tmp_path)
    whole_week(tmp_path)
    real = sealing.gather

    def before(*given: object) -> object:
        found = real(*given)  # type: ignore[arg-type]
        assert found is not None
        kept = {name: one for name, one in found.files.items() if name != "dictionary.csv"}
        return dataclasses.replace(found, files=kept)

    monkeypatch.setattr(sealing, "gather", before)
    seal_week()
    report = report_of(WEEK)
    assert report is not None
    content = Sealed(standing(report), tmp_path).pack()
    assert "Everything fits." in page_of(auditor, content)
    table = dictionary.as_table()
    shorter = dataclasses.replace(table, rows=list(table.rows)[:-1])
    monkeypatch.setattr(dictionary, "as_table", lambda: shorter)
    assert "What was checked fits. Not checked: dictionary.csv." in page_of(auditor, content)


def test_a_pack_that_unpacks_to_more_than_it_is_is_not_unpacked(
    sealed: Sealed, auditor: Client
) -> None:  # fmt: skip
    """A packed file may say that it is short and be gigabytes; packs from here are not packed."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("seal.json", bytes(8 * 2**20))
    content = bytearray(target.getvalue())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", content, content.find(mark) + at, 100)
    tracemalloc.start()
    try:
        found = check_bytes(bytes(content))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert "no pack from here is" in found["problems"][0] and found["digest"] is None
    page = page_of(auditor, bytes(content))
    assert "Not everything fits." in page and "no pack from here is" in page
    assert "Fingerprint none" in page


def test_a_zip_without_a_seal_has_no_fingerprint(sealed: Sealed, auditor: Client) -> None:
    files = unpacked(sealed.pack())
    del files["seal.json"]
    page = page_of(auditor, zipped(files))
    assert "it holds no seal.json" in page and "Fingerprint none" in page
    assert sha256(b"").hexdigest() not in page


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"hello", "neither a record, a pack nor a PDF: Expecting value"),
        (b"\xff\xfe\xff", "no text in UTF-8"),
        (b"[" * 100_000, "no JSON that can be read"),
        (b'{"a":' + b"9" * 5000 + b"}", "no JSON that can be read"),
        (b'{"period":[1]}', "no report in this ledger has this digest"),
        (b'{"statement":1,"week":{"a":1}}', "no seal in this ledger has this digest"),
        (b'{"a":"\\ud800"}', "the file is not in canonical form"),
    ],
)
def test_what_is_no_record_is_told_in_words(
    content: bytes, said: str, tmp_path: Path, auditor: Client
) -> None:
    page = page_of(auditor, content) if content else ""
    assert not content or (said in page and "Not everything fits." in page)
    (tmp_path / "any.json").write_bytes(content)
    answer = printed("verify", tmp_path / "any.json")
    assert said in answer and "Unexpected" not in answer
