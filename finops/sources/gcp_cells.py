"""Cells of Google's export: nested fields by dotted name, and the amounts of credits, exactly.

Numbers keep the digits they are written with: none passes through a binary float.
"""

from __future__ import annotations

import ast
import json
import re
from decimal import Decimal
from typing import Any

from finops.sources.cells import MAX_MAP_CHARACTERS, NULLS, number

LISTS = ("labels", "system_labels", "tags", "credits", "project.labels", "project.ancestors")


def plain(column: str) -> str:
    """A name as it is compared: dots and underscores make no difference."""
    return re.sub(r"[^a-z0-9]", "", column.lower())


def json_line(content: bytes) -> Any:
    """The JSON value with numbers as the text they are written with; None when it is no JSON."""
    try:
        return json.loads(content, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None


def nested(value: Any, prefix: str = "") -> dict[str, str | None]:
    """The fields of an object by dotted name; lists and maps of lists stay JSON text."""
    if not isinstance(value, dict):
        return {}
    found: dict[str, str | None] = {}
    for key, part in value.items():
        name = f"{prefix}{key}"
        if isinstance(part, dict) and name not in LISTS:
            found |= nested(part, f"{name}.")
        elif part is None or isinstance(part, str):
            found[name] = part
        else:
            found[name] = json.dumps(part, ensure_ascii=False)
    return found


def amounts_of(text: str) -> list[Decimal]:
    """The amounts of a cell of credits: JSON, or a list as Python prints it (`[{'amount': -0.58}]`).

    ValueError when it is neither, or a credit has no amount.
    """
    if len(text) > MAX_MAP_CHARACTERS:
        raise ValueError("credits of more than 256 KiB")
    value = json_line(text.encode())
    if value is None:
        value = _printed(text)
    if isinstance(value, str) and value in NULLS:
        return []
    if not isinstance(value, list):
        raise ValueError("not a list of credits")
    return [_amount(credit) for credit in value]


def _amount(credit: object) -> Decimal:
    amount = credit.get("amount") if isinstance(credit, dict) else None
    if not isinstance(amount, str):
        raise ValueError("a credit without an amount")
    return number(amount)


def _printed(text: str) -> Any:
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body, text.strip())
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        raise ValueError("not a list of credits") from None


def _literal(node: ast.AST, source: str) -> Any:
    """A literal's value, its numbers as the text in the source."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(one, source) for one in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_literal(key, source) for key in node.keys if key is not None]
        return dict(zip(keys, [_literal(one, source) for one in node.values], strict=True))
    if isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, str | bool)
    ):
        return node.value
    if isinstance(node, ast.Constant | ast.UnaryOp):
        return ast.get_source_segment(source, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Decimal":
        return _literal(node.args[0], source)
    raise ValueError("not a literal")
