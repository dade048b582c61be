"""Writes the pack's files: YAML for Prometheus, JSON for Grafana. Same input, same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

MADE: Final = "# Made by `./run grafana_pack`; change finops/monitoring, not this file.\n"


def rules_file(opening: str, groups: Sequence[Mapping[str, Any]]) -> str:
    """A file of Prometheus rules; `opening` is a comment for its reader."""
    said = "".join(f"# {line}\n" for line in opening.splitlines())
    return said + MADE + "\n" + "\n".join(_lines({"groups": groups}, "")) + "\n"


def dashboard_file(dashboard: Mapping[str, Any]) -> str:
    """A dashboard as Grafana imports and provisions it."""
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _lines(value: Any, indent: str) -> list[str]:
    found: list[str] = []
    for key, one in value.items():
        if isinstance(one, Mapping):
            found += [f"{indent}{key}:", *_lines(one, indent + "  ")]
        elif isinstance(one, str):
            found += _text(key, one, indent)
        else:
            found.append(f"{indent}{key}:")
            for item in one:
                first, *others = _lines(item, indent + "    ")
                found += [f"{indent}  - {first.strip()}", *others]
    return found


def _text(key: str, text: str, indent: str) -> list[str]:
    if "\n" in text or '"' in text:
        return [f"{indent}{key}: |-", *(f"{indent}  {line}" for line in text.splitlines())]
    # A JSON string is a YAML string; plain words stand without quotes.
    plain = text.replace("-", "").replace("_", "").replace(":", "").isalnum() and ": " not in text
    return [
        f"{indent}{key}: {text if plain and not text.isdigit() else json.dumps(text, ensure_ascii=False)}"
    ]
