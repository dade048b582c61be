"""The documents name what there is: every setting, every metric and only real commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from finops.ledger.operations.roles import OTHER_ROLES, TOKEN_ROLES
from finops.sources.engines import ROLES
from finops.sources.focus_columns import ALIASES

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SETTING = re.compile(
    r"\b(HEADROOM_[A-Z]+(?:_[A-Z]+)*|EMBEDDED_[A-Z_]+|DATABASE_URL|REDIS_URL|SECRET_KEY"
    r"|ALLOWED_HOSTS|REQUESTS_CA_BUNDLE)\b"
)
READ = re.compile(
    r"(?:environ|environment|text|flag|listed|whole_number)[\w.]*[(\[]\s*\"([A-Z_]+)\""
)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_setting_is_in_the_table() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "finops").rglob("*.py"))
    read = {name for name in READ.findall(code) if SETTING.fullmatch(name)}
    table = page("operations.md").partition("## Settings")[2].partition("\n## ")[0]
    rows = {
        name for row in re.findall(r"^\| (.+?) \|", table, re.M) for name in SETTING.findall(row)
    }
    assert len(read) > 15
    assert read - rows == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_names_a_setting_that_is_not_there(path: Path) -> None:
    sources = [
        p
        for folder in ("finops", "reports", "tests", "scripts")
        for p in (ROOT / folder).rglob("*.*")
    ]
    code = "".join(p.read_text("utf-8") for p in sources if p.suffix in (".py", ".sh"))
    known = set(SETTING.findall(code)) | {"HEADROOM_SECRET_PROM"}  # an example's name
    named = set(SETTING.findall(path.read_text(encoding="utf-8")))
    assert {name for name in named - known if name not in code} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_typed_on_a_page_is_there(path: Path) -> None:
    typed = re.findall(r"\./run ([a-z][\w-]*)", path.read_text(encoding="utf-8"))
    assert set(typed) - set(get_commands()) - {"help"} == set()


def test_every_metric_that_counts_is_in_the_table() -> None:
    text = page("sources.md")
    counting = {
        name
        for name, role in ROLES.items()
        if role.name in TOKEN_ROLES | OTHER_ROLES and not name.startswith("ray_")
    }
    assert {name for name in counting if f"`{name}`" not in text} == set()


def test_every_old_name_of_a_column_is_told() -> None:
    text = page("sources.md")
    assert {name for name in ALIASES if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []
