"""What a model's KV cache takes on each GPU, by its own configuration (method §8.3)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from finops.core.kv import kv_shape
from finops.ledger.queries.evidence import stored_configs
from finops.sources.model_config import read_config
from finops.sources.records import Refused
from reports.forms_kv import KvForm
from reports.roles import allowed

from .page import page

ATTENTION = {
    "mha": "every query head has keys and values of its own (MHA)",
    "gqa": "groups of query heads share keys and values (GQA)",
    "mqa": "all query heads share one set of keys and values (MQA)",
    "mla": "one latent vector a token and layer (MLA)",
    "sliding": "every layer keeps a window of tokens",
    "hybrid": "layers of several kinds",
    "mamba": "a fixed state for each sequence, nothing for a token",
}


@require_http_methods(["GET", "POST"])
@allowed("read")
def kv(request: HttpRequest) -> HttpResponse:
    """The arithmetic for a configuration that is handed over, pasted or already here; it keeps
    nothing."""
    stored = stored_configs()
    names = [(str(pk), name) for pk, (name, _) in stored.items()]
    given = (request.POST, request.FILES) if request.method == "POST" else ()
    form = KvForm(*given, stored=names)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        context |= _reckoned(form, {str(pk): config for pk, (_, config) in stored.items()})
    return page(request, "reports/memory_kv.html", context)


def _reckoned(form: KvForm, stored: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The cache's figures; what cannot be read or cannot be stands at the form."""
    values = form.cleaned_data
    try:
        config = stored.get(values["stored"]) or _read(form)
        shape = kv_shape(
            config,
            tensor_parallel=values["tensor_parallel"],
            pipeline_parallel=values["pipeline_parallel"],
            kv_dtype=values["kv_dtype"],
            max_model_len=values["max_model_len"],
        )
    except (Refused, ValueError) as error:
        form.add_error(None, str(error))
        return {}
    return {"shape": shape, "attention": ATTENTION[shape.attention], "given": values}


def _read(form: KvForm) -> dict[str, Any]:
    name, content = form.given()
    with tempfile.TemporaryDirectory(prefix="headroom-config-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return read_config(path, name)
