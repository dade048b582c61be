"""What the README of a pack says to type in a terminal is typed, and gives what the report says."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import zipfile
from decimal import Decimal
from pathlib import Path

import pytest

from reports.evidence import verify
from tests.evidence.conftest import Sealed

pytestmark = [
    pytest.mark.django_db(databases=["default", "sample"]),
    pytest.mark.skipif(not shutil.which("bc"), reason="this machine has no bc"),
]


def test_the_commands_of_a_readme_give_the_headline(sealed: Sealed, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(sealed.pack())) as archive:
        archive.extractall(tmp_path / "pack")
        files = {name: archive.read(name) for name in archive.namelist()}
    typed = "\n".join(re.findall(r"```sh\n(.*?)```", files["README.md"].decode(), re.DOTALL))
    done = subprocess.run(["sh", "-euc", typed], cwd=tmp_path / "pack", capture_output=True,
                          text=True, check=True)  # fmt: skip
    *lines, price = done.stdout.splitlines()
    statement, told = sealed.stand.statement, {}
    for line in lines:
        kind, name, amount = line.split()
        told[(amount, kind) if amount == "tokens" else (kind, name)] = Decimal(
            name if amount == "tokens" else amount
        )
    week = verify.Week(verify.Pack(files), statement)
    assert week.counting
    for w in week.counting:
        tokens = w["counted"]["prompt"] + w["counted"]["generation"]
        assert told["tokens", w["slug"]] == tokens
        own = week.costs(w["common"]).places.get((("workload", w["slug"]), week.currency))
        assert own is None or told["workload", w["slug"]] == own[1]
    said = statement["figures"]["cost_per_million_tokens"]
    assert price[:50] == said[:50] or Decimal(price).quantize(Decimal(said)) == Decimal(said)
