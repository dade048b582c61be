"""The base of the commands: what goes to stdout and stderr, and the exit codes."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.core.management.base import CommandParser

from finops.ledger import cli

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


class Echo(cli.Command):
    """Gives back its word; stumbles when told to."""

    writes = True

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("word")

    def prepare(self) -> None:
        """The test's databases have their tables."""

    def run(self, **options: Any) -> tuple[dict[str, Any], bool]:
        if options["word"] == "refuse":
            raise cli.CannotRun("bad.csv line 3 column Cost: '1e400' is no amount")
        if options["word"] == "stumble":
            raise RuntimeError("inner trouble")
        return {"word": options["word"], "cost": Decimal("1E+3")}, options["word"] != "problem"


def run(*words: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of the command."""
    out, err = io.StringIO(), io.StringIO()
    try:
        Echo(stdout=out, stderr=err).run_from_argv(["manage.py", "echo", *words])  # type: ignore[arg-type]
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_fine_is_0_and_stdout_is_one_document() -> None:
    code, out, err = run("hello", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"word": "hello", "cost": "1000"}


def test_a_problem_found_is_1() -> None:
    code, out, _ = run("problem", "--json")
    assert code == 1
    assert json.loads(out)["word"] == "problem"


@pytest.mark.parametrize(
    ("word", "said"),
    [("refuse", "bad.csv line 3 column Cost: '1e400' is no amount"), ("stumble", "inner trouble")],
)
def test_cannot_run_is_2_with_a_sentence_and_no_traceback(word: str, said: str) -> None:
    code, out, err = run(word, "--json")
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["ok"] is False
    assert said in document["error"]


def test_a_wrong_argument_is_2() -> None:
    assert run("hello", "--no-such-option")[0] == 2


def test_the_sample_is_named() -> None:
    assert json.loads(run("hello", "--json", "--sample")[1])["sample"] is True


def test_text_for_people_is_not_json() -> None:
    code, out, _ = run("hello")
    assert code == 0
    assert out == "word: hello\ncost: 1000\n"


def test_values_become_the_contracts_forms() -> None:
    berlin = timezone(timedelta(hours=1))
    assert cli.plain(
        {
            "tiny": Decimal("1.81E-8"),
            "at": datetime(2026, 11, 29, 15, tzinfo=berlin),
            "unknown": None,
            "tokens": 2**60,
            "parts": (1, True),
        }
    ) == {
        "tiny": "0.0000000181",
        "at": "2026-11-29T14:00:00Z",
        "unknown": None,
        "tokens": 2**60,
        "parts": [1, True],
    }


@pytest.mark.parametrize("value", [0.1, b"bytes", datetime(2026, 1, 1)])
def test_floats_bytes_and_naive_times_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        cli.plain({"x": value})


def test_rows_become_a_table() -> None:
    rows = [{"key": "a", "tokens": 1234}, {"key": "long", "tokens": None}]
    assert cli.table(rows) == ["key   tokens", "a      1,234", "long       –"]


def test_an_instant_keeps_utc() -> None:
    assert cli.instant(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"
