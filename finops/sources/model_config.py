"""A model's own `config.json`, as it lies beside the weights: what its KV cache takes follows.

The document is kept as it came; only whether it describes a language model is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from finops.core.kv import kv_shape
from finops.sources.files import read_whole
from finops.sources.records import Account, ModelConfigRecord, Parsed, Refused

FORMATS: Final[tuple[str, ...]] = ("model-config",)
MAX_BYTES: Final = 4 << 20

_LAYERS: Final = re.compile(rb'"(num_hidden_layers|n_layers?|num_layers)"\s*:')
_KIND: Final = re.compile(rb'"(model_type|architectures)"\s*:')


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document is one JSON object that describes a model."""
    start = head.lstrip()
    if not start.startswith(b"{") or b'"__name__"' in head[:65536]:
        return None
    return FORMATS[0] if _KIND.search(head) and _LAYERS.search(head) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """One record; Refused, naming the key, for what does not describe a language model."""
    account = Account(format, rows_read=1)
    config = read_config(path, name)
    account.version = str(config.get("transformers_version") or "") or None
    return Parsed(account, _records(config))


def read_config(path: Path, name: str) -> dict[str, Any]:
    """The configuration as a dictionary, checked. Refused with line and column, or the key."""
    content = read_whole(path, name, MAX_BYTES)
    if rb"\u0000" in content:
        raise Refused(f"{name}: a NUL character in a text; no model's configuration holds one")
    try:
        config = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Refused(
            f"{name}: line {error.lineno}, column {error.colno}: {error.msg}", line=error.lineno
        ) from None
    if not isinstance(config, dict):
        raise Refused(
            f"{name}: line 1: a JSON object is expected, as in a model's config.json", line=1
        )
    try:
        kv_shape(config)
    except (ValueError, TypeError) as error:
        raise Refused(f"{name}: {error}") from None
    return config


def _records(config: dict[str, Any]) -> Iterator[ModelConfigRecord]:
    named = config.get("_name_or_path")
    yield ModelConfigRecord(1, named if isinstance(named, str) and named else None, config)
