"""Canonical bytes of a statement: the one form that is digested, sealed and printed (§11)."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_bytes(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys and no white space; the same value gives the same bytes.

    Only text, whole numbers, booleans, null, lists and text-keyed objects are taken: decimals and
    instants are text by then. Raises TypeError for anything else, a binary float above all.
    """
    _check(value, "$")
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")


def digest(content: bytes) -> str:
    """The SHA-256 of bytes in lower-case hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _check(value: Any, where: str) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where}: key {key!r} is not text")
            _check(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check(inner, f"{where}[{index}]")
    else:
        raise TypeError(f"{where}: {type(value).__name__} {value!r} has no canonical form")
