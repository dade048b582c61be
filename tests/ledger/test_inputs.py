"""What may be shown of where a document came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from finops.ledger.operations.inputs import Found, NotFound, find, is_data, masked, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:secret@host/x.csv?sig=abc#f", "https://host/x.csv"),
        ("s3://bucket/part/*.parquet", "s3://bucket/part/*.parquet"),
    ],
)
def test_secrets_of_a_url_are_not_shown(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
    assert "secret" not in masked(f"404 for '{url}'")
    assert "abc" not in masked(f"404 for '{url}'")


def test_a_store_that_cannot_be_reached_is_named_without_its_secrets() -> None:
    (missing,) = find(["nosuch://ada:secret@host/x.csv?sig=abc"])
    assert isinstance(missing, NotFound)
    assert "nosuch://host/x.csv" in str(missing)
    assert "secret" not in str(missing)
    assert "abc" not in str(missing)


def test_devices_are_no_documents() -> None:
    (missing,) = find(["/dev/zero"])
    assert isinstance(missing, NotFound)


def test_an_object_in_another_store_is_read(tmp_path: Path) -> None:
    import fsspec

    with fsspec.open("memory://exports/october/a.csv", "wb") as file:
        file.write(b"x")
    with fsspec.open("memory://exports/october/manifest.json", "wb") as file:
        file.write(b"{}")
    found, manifest = find(["memory://exports/october"])
    assert isinstance(found, Found) and isinstance(manifest, Found)
    assert (found.name, found.is_manifest) == ("a.csv", False)
    assert (manifest.name, manifest.is_manifest) == ("manifest.json", True)
    with found.open() as stream:
        assert stream.read() == b"x"


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("a.csv", True),
        ("A.CSV.GZ", True),
        ("b.parquet", True),
        (".c.csv", False),
        ("_SUCCESS", False),
        ("x-Manifest.json", False),
        ("notes.pdf", False),
    ],
)
def test_which_files_of_a_folder_are_data(name: str, taken: bool) -> None:
    assert is_data(name) is taken
