"""Usage records out of dumps: pg_dump's two ways of writing, mysqldump's, and a mapping."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finops.sources import registry, sql_dump
from finops.sources.records import Parsed, Refused, Rejection, UsageRecord
from finops.sources.sql_text import Dump

# As LiteLLM's schema.prisma names the columns; times are UTC, as Prisma writes them.
COLUMNS = (
    'request_id, call_type, api_key, spend, total_tokens, prompt_tokens, completion_tokens, '
    '"startTime", "endTime", model, model_group, "user", metadata, cache_hit, team_id, status'
)  # fmt: skip
USAGE = json.dumps({"usage_object": {"prompt_tokens_details": {"cached_tokens": 149_936}}})
POSTGRES = f"""--
-- PostgreSQL database dump
--

-- Dumped from database version 16.4

SET standard_conforming_strings = on;

COPY public."LiteLLM_UserTable" (user_id, spend) FROM stdin;
u1\t0
\\.

COPY public."LiteLLM_SpendLogs" ({COLUMNS}) FROM stdin;
r1\tacompletion\tsk-hash\t0\t150687\t150383\t304\t2026-11-29 14:34:40.1\t2026-11-29 14:34:49.164\tvllm/qwen\tqwen\t\t{USAGE}\tFalse\tsearch\tsuccess
r2\tacompletion\tsk-hash\t0\t30\t20\t10\t2026-11-29 15:00:00\t2026-11-29 15:00:01\tvllm/qwen\t\\N\ta\\tb\\\\c\t{{}}\tNone\t\\N\t\\N
r3\tacompletion\tsk-hash\t0\t30\t20\t10\t2026-11-29 15:00:00\t2026-11-29 15:00:02\tvllm/qwen\t\\N\t\t{{}}\tTrue\t\\N\t\\N
r4\tacompletion\tsk-hash\t0\t0\t0\t0\t2026-11-29 15:00:00\t2026-11-29 15:00:03\t\t\\N\t\t{{}}\tFalse\t\\N\tfailure
r5\tacompletion\tsk-hash\t0\t1\tmany\t1\t2026-11-29 15:00:00\t2026-11-29 15:00:04\tvllm/qwen\t\\N\t\t{{}}\tFalse\t\\N\t\\N
\\.
"""
MYSQL = r"""-- MySQL dump 10.13  Distrib 8.0.39, for Linux (x86_64)
CREATE TABLE `usage_log` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `model` varchar(80) DEFAULT NULL,
  `tokens_in` int NOT NULL,
  `tokens_out` int NOT NULL,
  `done_at` datetime(3) NOT NULL,
  `note` text,
  PRIMARY KEY (`id`),
  KEY `done` (`done_at`)
) ENGINE=InnoDB;
LOCK TABLES `usage_log` WRITE;
INSERT INTO `usage_log` VALUES (1,'vicuna',217,32,'2026-11-29 14:34:49.164','it\'s (a, note); \\'),
(2,'vicuna',10,1,'2026-11-29 14:40:00.000',NULL);
INSERT INTO `other` VALUES (1,'x;');
INSERT INTO `usage_log` VALUES (3,'vicuna',7,2,'2026-11-29 15:00:00.000','two ''quotes''');
"""


def read(tmp_path: Path, text: str, mapping: object = None) -> tuple[Parsed, list[object]]:
    path = tmp_path / "dump.sql"
    path.write_text(text)
    if mapping is None:
        parsed = registry.parse(path, "dump.sql")
    else:
        beside = tmp_path / "mapping.json"
        beside.write_text(json.dumps(mapping))
        parsed = sql_dump.parse_with(path, "dump.sql", "sql:x", beside)
    return parsed, list(parsed.records)


def test_litellm_s_spend_log_is_read_out_of_a_dump(tmp_path: Path) -> None:
    parsed, found = read(tmp_path, POSTGRES)
    first, second, refused = found
    assert isinstance(first, UsageRecord) and isinstance(second, UsageRecord)
    assert (first.request, first.model, first.labels) == ("r1", "vllm/qwen", (("team", "search"),))
    assert (first.prompt_tokens, first.cached_tokens) == (150_383, 149_936)
    assert (first.generation_tokens, first.at.isoformat()) == (
        304,
        "2026-11-29T14:34:49.164000+00:00",
    )
    assert (second.prompt_tokens, second.cached_tokens) == (20, None)
    # An answer of the gateway's own cache and a request that failed are passed over.
    assert parsed.account.rows_read == 5 and parsed.account.rows_in_parent == 2
    assert "own cache" in parsed.account.warnings[0]
    assert isinstance(refused, Rejection)
    assert (refused.column, refused.value) == ("prompt_tokens", "many")
    assert POSTGRES.splitlines()[refused.line - 1].startswith("r5")
    assert "sk-hash" not in repr(found)


MAPPING = {
    "table": "usage_log",
    "columns": {"tokens_in": "prompt_tokens", "tokens_out": "completion_tokens", "done_at": "time"},
}


def test_a_table_of_mysql_is_read_by_a_mapping(tmp_path: Path) -> None:
    parsed, found = read(tmp_path, MYSQL, MAPPING)
    assert [(r.request, r.prompt_tokens, r.generation_tokens) for r in found] == [  # type: ignore[attr-defined]
        ("1", 217, 32), ("2", 10, 1), ("3", 7, 2),
    ]  # fmt: skip
    assert parsed.account.rows_read == 3


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE usage_log (id int, model text DEFAULT 'a, (b', tokens_in int, tokens_out int, "
        "done_at numeric(10, 2), note text, PRIMARY KEY (id, model));",
        "CREATE TABLE usage_log (id int,\n model text,\n tokens_in int,\n tokens_out int,\n"
        " done_at text,\n note text);",
    ],
)
def test_rows_behind_a_table_made_in_one_line_are_read(tmp_path: Path, create: str) -> None:
    """Once they were taken for more of the statement, to the next line with a bracket."""
    rows = "INSERT INTO usage_log VALUES (1,'m',217,32,'2026-11-29 14:34:49.164',NULL);"
    others = "CREATE TABLE others (\n  id int\n);\nINSERT INTO others VALUES (1);"
    _, found = read(tmp_path, f"{create}\n{rows}\n{others}\n", MAPPING)
    assert [(r.request, r.prompt_tokens, r.generation_tokens) for r in found] == [("1", 217, 32)]  # type: ignore[attr-defined]


def test_strings_keep_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "d.sql").write_text(MYSQL)
    rows = [values for _, values, _ in Dump(tmp_path / "d.sql", "d.sql").rows("usage_log")]
    assert [row[5] for row in rows] == ["it's (a, note); \\", None, "two 'quotes'"]


def test_inserts_of_postgres_may_hold_lines_and_backslashes(tmp_path: Path) -> None:
    text = """-- PostgreSQL database dump
INSERT INTO public.calls (id, model, prompt_tokens, completion_tokens, ts, note) VALUES ('a', 'm', 5, 6, '2026-11-29 14:00:00+00', 'C:\\new; it''s
two (lines), too');
INSERT INTO public.calls (id, model, prompt_tokens, completion_tokens, ts, note) VALUES ('b', 'm', -5, 6, '2026-11-29 14:00:00+00', NULL);
"""
    _, found = read(tmp_path, text, {"table": "public.calls"})
    record, refused = found
    assert isinstance(record, UsageRecord) and (record.prompt_tokens, record.request) == (5, "a")
    assert isinstance(refused, Rejection) and refused.line == 4
    ((_, values, _), _) = Dump(tmp_path / "dump.sql", "x").rows("calls")
    assert values[5] == "C:\\new; it's\ntwo (lines), too"


@pytest.mark.parametrize(
    ("text", "mapping", "words"),
    [
        (POSTGRES.rsplit("\\.", 1)[0], None, "cut off"),
        (MYSQL, None, "no rows of a table LiteLLM_SpendLogs; found: usage_log, other"),
        (MYSQL, MAPPING | {"table": "nothing"}, "no rows of a table nothing"),
        (MYSQL.replace("'two ''quotes''');", "'two"), MAPPING, "the statement is cut off"),
        (MYSQL.replace("(3,'vicuna'", "3,'vicuna'"), MAPPING, "not readable as rows"),
        ("INSERT INTO `t` VALUES (1);\n", {"table": "t"}, "nothing names the columns of t"),
        (MYSQL, {"table": "usage_log", "columns": {"a": "tokens"}}, "'tokens' is none of"),
        (MYSQL, {"columns": {}}, "a mapping is an object"),
        (MYSQL, MAPPING | {"more": 1}, "'more' is no part"),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, text: str, mapping: object, words: str
) -> None:
    with pytest.raises(Refused, match=words.replace("(", "\\(")):
        read(tmp_path, text, mapping)


def test_a_row_of_another_length_is_named(tmp_path: Path) -> None:
    _, found = read(tmp_path, MYSQL.replace("(3,'vicuna',7,2,", "(3,'vicuna',7,"), MAPPING)
    assert isinstance(found[-1], Rejection)
    assert "5 values, the table 6 columns" in found[-1].reason


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r")) | st.none(),
                min_size=1, max_size=4))  # fmt: skip
def test_any_text_comes_back_out_of_each_way_of_writing(cells: list[str | None]) -> None:
    """Written by the rules of each manual, read back."""
    import tempfile

    def copied(cell: str | None) -> str:
        if cell is None:
            return "\\N"
        for plain, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\v", "\\v"),
                               ("\f", "\\f"), ("\b", "\\b")):  # fmt: skip
            cell = cell.replace(plain, written)
        return cell

    def postgres(cell: str | None) -> str:
        return "NULL" if cell is None else "'" + cell.replace("'", "''") + "'"

    def mysql(cell: str | None) -> str:
        if cell is None:
            return "NULL"
        return "'" + cell.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    names = [f"c{n}" for n in range(len(cells))]
    texts = [
        f"COPY public.t ({', '.join(names)}) FROM stdin;\n"
        + "\t".join(map(copied, cells)) + "\n\\.\n",
        f"INSERT INTO public.t ({', '.join(names)}) VALUES ({', '.join(map(postgres, cells))});\n",
        f"INSERT INTO `t` ({', '.join(names)}) VALUES ({','.join(map(mysql, cells))}),"
        f"({','.join(map(mysql, cells))});\n",
    ]  # fmt: skip
    for text in texts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "d.sql")
            path.write_bytes(text.encode())
            for _, values, columns in Dump(path, "d.sql").rows("t"):
                assert (list(values), list(columns)) == (cells, names)
