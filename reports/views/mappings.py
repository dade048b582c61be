"""CSV mappings: the saved ones, and making one over the first rows of a real file."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.core.files import File
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from finops.ledger.operations.mappings import save_mapping
from finops.ledger.queries import mappings
from finops.ledger.which import use_ledger
from finops.sources.csv_mapping import PREFIX
from finops.sources.records import Refused
from reports import mapping_draft as draft
from reports.forms_data import MappingStartForm
from reports.operations.drafts import files_of, put_aside
from reports.operations.refused import NotAllowed
from reports.operations.uploads import take
from reports.roles import allowed

from .page import page, typed

CONSTANTS = (
    ("BillingCurrency", "Currency", "Like EUR."),
    ("InvoiceIssuerName", "Issuer of the invoice", "Like Rechenzentrum GmbH."),
    ("BillingAccountId", "Billing account", "Your number with the issuer."),
    ("ServiceName", "Service", "Like GPU hosting."),
)
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows come from: a file put aside, or pasted lines."""

    path: Path
    name: str
    upload: str = ""
    file: str = ""
    text: str = ""


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The saved mappings with their versions, and how to begin one."""
    rows = [_described(one) for one in mappings.mappings()]
    form = MappingStartForm(names=mappings.names())
    return page(request, "reports/mappings.html", {"rows": rows, "form": form})


def _described(mapping: dict[str, Any]) -> dict[str, Any]:
    for version in mapping["versions"]:
        content = version["row"].content
        version["lines"] = [
            (column, draft.NAMES.get(choice := draft.choice_of(targets), choice))
            for column, targets in content["columns"].items()
        ]
        constants = content.get("constants") or {}
        version["constants"] = [(draft.NAMES.get(k, k), text) for k, text in constants.items()]
        dates = content.get("dates") or ""
        version["dates"] = dict(draft.DATES).get(dates, dates)
        version["decimal"] = content.get("decimal", ".")
    return mapping


@require_http_methods(["GET", "POST"])
@allowed("mapping")
def edit(request: HttpRequest) -> HttpResponse:
    """Columns to FOCUS columns over a file's first rows: preview, save, save and read the file."""
    if request.method == "POST" and request.FILES:
        return _begin(request)
    values = request.POST if request.method == "POST" else request.GET
    with _source(values) as source:
        if source is None:
            messages.error(request, "The file is no longer here. Choose it again, or paste lines.")
            return redirect("mappings")
        try:
            head = draft.head_of(source.path, source.name)
        except Refused as refused:
            messages.error(request, str(refused))
            return redirect("mappings")
        is_made = request.method == "POST" and "action" in request.POST
        chosen = _chosen(request, head) if is_made else _proposed(head, typed(values, "mapping"))
        context = _tried(source, chosen)
        action = typed(request.POST, "action")
        if is_made and action in ("save", "ingest") and not context["problem"]:
            answer = _save(request, source, chosen, action == "ingest", context)
            if answer is not None:
                return answer
        context |= _form(head, chosen, source)
    return page(request, "reports/mapping_edit.html", context)


def _begin(request: HttpRequest) -> HttpResponse:
    """Puts a chosen file aside and goes on with its columns."""
    form = MappingStartForm(request.POST, request.FILES, names=mappings.names())
    file: UploadedFile | None = request.FILES.get("file")
    try:
        if not form.is_valid() or file is None:
            raise NotAllowed("Choose a file with rows in it, or paste lines.")
        key = put_aside(file)
    except NotAllowed as refused:
        messages.error(request, str(refused))
        return redirect("mappings")
    query = f"?upload={key}"
    if form.cleaned_data["mapping"]:
        query += f"&mapping={form.cleaned_data['mapping']}"
    return redirect(reverse("mapping-edit") + query)


@contextmanager
def _source(values: Any) -> Iterator[Source | None]:
    """The rows to map; None when there are none, or they have left."""
    try:
        key = uuid.UUID(typed(values, "upload"))
    except ValueError:
        key = None
    files = files_of(key) if key else []
    wanted = typed(values, "file")
    found = next((path for path in files if wanted in ("", path.name)), None)
    if found is not None:
        yield Source(found, found.name, str(key), found.name)
        return
    text = values.get("text", "").replace("\0", "").lstrip("\ufeff\r\n")
    if not text.strip():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="headroom-mapping-") as folder:
        path = Path(folder) / "pasted.csv"
        path.write_text(text, encoding="utf-8")
        yield Source(path, "pasted.csv", text=text)


def _chosen(request: HttpRequest, head: draft.Head) -> dict[str, Any]:
    """What the form says."""
    given = request.POST
    return {
        "name": typed(given, "name")[:LONGEST_NAME],
        "columns": {c: typed(given, f"c{n}")[:200] for n, c in enumerate(head.columns) if c},
        "constants": {key: typed(given, key)[:400] for key, *_ in CONSTANTS},
        "dates": typed(given, "dates")[:60],
        "decimal": typed(given, "decimal", "."),
    }


def _proposed(head: draft.Head, name: str) -> dict[str, Any]:
    """The choices of the named mapping, else of a saved one whose columns the file has; else guesses."""
    row = mappings.newest(name) if name else mappings.fitting(head.columns)
    if row is not None:
        saved = {c: draft.choice_of(targets) for c, targets in row.content["columns"].items()}
        return {
            "name": row.name,
            "proposed": not name,
            "columns": {c: saved.get(c, "") for c in head.columns if c},
            "constants": row.content.get("constants") or {},
            "dates": row.content.get("dates") or "",
            "decimal": row.content.get("decimal", "."),
        }
    guessed = draft.guesses([c for c in head.columns if c])
    by_name = {name: column for column, name in guessed.items()}
    days = [
        text for n in ("ChargePeriodStart",) if n in by_name for text in head.examples(by_name[n])
    ]
    amounts = [
        text
        for n in (draft.SAME, "BilledCost")
        if n in by_name
        for text in head.examples(by_name[n])
    ]
    return {
        "name": "",
        "columns": {c: guessed.get(c, "") for c in head.columns if c},
        "constants": {},
        "dates": draft.dates_of(days),
        "decimal": draft.decimal_of(amounts),
    }


def _content(chosen: dict[str, Any]) -> draft.Content:
    parts = (chosen["columns"], chosen["constants"], chosen["dates"], chosen["decimal"])
    return draft.content_of(*parts)


def _tried(source: Source, chosen: dict[str, Any]) -> dict[str, Any]:
    """The preview, or what keeps the mapping from being used."""
    try:
        return {"preview": draft.preview(source.path, source.name, _content(chosen)), "problem": ""}
    except (ValueError, Refused) as error:
        return {"preview": None, "problem": str(error)}


def _save(
    request: HttpRequest,
    source: Source,
    chosen: dict[str, Any],
    read: bool,
    context: dict[str, Any],
) -> HttpResponse | None:
    """Saves a version, reads the file by it when asked; None with the problem said."""
    by, at = request.user.get_username(), timezone.now()
    with use_ledger("default"):
        try:
            row = save_mapping(chosen["name"], _content(chosen), by=by, at=at)
            messages.success(request, f"The mapping {row.name} is kept as version {row.version}.")
            if not read or not source.upload:
                return redirect("mappings")
            with source.path.open("rb") as stream:
                taken = take([File(stream, source.name)], by=by, at=at, format=PREFIX + row.name)  # type: ignore[list-item]
        except (ValueError, NotAllowed) as error:
            context["problem"] = str(error)
            return None
    return redirect("upload", key=taken.pk)


def _form(head: draft.Head, chosen: dict[str, Any], source: Source) -> dict[str, Any]:
    """The form's values for the template."""
    columns = []
    for number, column in enumerate(head.columns):
        if not column:
            continue
        choice = chosen["columns"][column]
        extra = choice if choice and choice not in draft.KNOWN else ""
        examples = head.examples(column)
        columns.append(
            {"key": f"c{number}", "column": column, "choice": choice, "extra": extra,
             "examples": examples}
        )  # fmt: skip
    constants = [
        {"key": key, "label": label, "help": text, "value": chosen["constants"].get(key, "")}
        for key, label, text in CONSTANTS
    ]
    dates = list(draft.DATES)
    if chosen["dates"] not in dict(dates):
        dates.append((chosen["dates"], "as typed"))
    return {
        "source": source,
        "columns": columns,
        "constants": constants,
        "groups": draft.GROUPS,
        "dates": dates,
        "chosen": chosen,
    }
