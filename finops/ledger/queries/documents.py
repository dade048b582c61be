"""What the ledger says of a document: counts, control totals, rejections and snapshots."""

from __future__ import annotations

from typing import Any

from finops.core.period import rfc3339
from finops.ledger.models import Document, Origin, RejectedRow
from finops.ledger.queries.snapshots import with_verdict
from finops.sources.records import Refused, Rejection

SHOWN_REJECTIONS = 100


def known(sha256: str) -> Document | None:
    """The document of a digest in the ledger in use."""
    return Document.objects.filter(pk=sha256).first()


def has_documents() -> bool:
    """Whether the ledger in use holds any document."""
    return Document.objects.exists()


def report(document: Document, path: str, *, is_new: bool = True) -> dict[str, Any]:
    """A document as `ingest` prints it: status `posted`, `waiting`, or `unchanged` if not new."""
    snapshots = _snapshots(document)
    waits = any(one.verdict == "waiting" for one in snapshots)
    account = document.account
    return {
        "path": path,
        "sha256": document.sha256,
        "archive_sha256": account.get("archive_sha256"),
        "exported_at": account.get("exported_at"),
        "format": document.format,
        "version": document.version or None,
        "status": "unchanged" if not is_new else "waiting" if waits else "posted",
        "rows_read": document.rows_read,
        "charges": document.charges,
        "readings": document.readings,
        "records": account.get("records", 0),
        "rows_in_parent": account.get("rows_in_parent", 0),
        "rows_summed": account.get("rows_summed", 0),
        "sums": account.get("sums", 0),
        "rows_rejected": document.rows_rejected,
        "rejections": _rejections(document),
        "unknown_columns": account.get("unknown_columns", []),
        "missing_columns": account.get("missing_columns", []),
        "warnings": account.get("warnings", []),
        "ignored_metrics": account.get("ignored_metrics", {}),
        "totals": account.get("totals", {}),
        "gpu_totals": account.get("gpu_totals", {}),
        "gpu_unrecognised_totals": account.get("gpu_unrecognised_totals", {}),
        "priced_totals": account.get("priced_totals", {}),
        "origins": _origins(document),
        "snapshots": [
            {
                "id": one.pk,
                "issuer": one.issuer,
                "billing_account": one.billing_account,
                "billing_period": one.billing_period,
                "current": one.verdict == "current",
                "verdict": one.verdict,
            }
            for one in snapshots
        ],
    }


def refusal(path: str, sha256: str | None, refused: Refused | ValueError) -> dict[str, Any]:
    """A document that could not be taken at all, in the same shape; nothing of it is kept."""
    if isinstance(refused, Refused):
        rejection = Rejection.of(refused.line, refused.column, refused.value, str(refused))
    else:
        rejection = Rejection.of(0, None, "", str(refused))
    return {
        "path": path,
        "sha256": sha256,
        "archive_sha256": None,
        "exported_at": None,
        "format": None,
        "version": None,
        "status": "rejected",
        "rows_read": 0,
        "charges": 0,
        "readings": 0,
        "records": 0,
        "rows_in_parent": 0,
        "rows_summed": 0,
        "sums": 0,
        "rows_rejected": 0,
        "rejections": [_rejection(rejection)],
        "unknown_columns": [],
        "missing_columns": [],
        "warnings": [],
        "ignored_metrics": {},
        "totals": {},
        "gpu_totals": {},
        "gpu_unrecognised_totals": {},
        "priced_totals": {},
        "origins": [],
        "snapshots": [],
    }


def set_aside(path: str, status: str, reason: str) -> dict[str, Any]:
    """A file that a manifest keeps from being read now: `waiting` or, of an older set, `unchanged`.

    Nothing of it is kept.
    """
    nothing = refusal(path, None, ValueError(reason))
    return nothing | {"status": status, "rejections": [], "warnings": [reason]}


def _origins(document: Document) -> list[dict[str, Any]]:
    """Where a document's bytes came from: where they were read, then every other place."""
    source = document.account.get("source")
    first = Origin(origin=document.origin, source=source or "", at=document.received_at,
                   by=document.received_by)  # fmt: skip
    return [
        {"origin": one.origin, "source": one.source or None, "at": rfc3339(one.at), "by": one.by}
        for one in (first, *document.origins.order_by("pk"))
    ]


def _snapshots(document: Document) -> list[Any]:
    mine = with_verdict().filter(parts__document=document)
    return list(mine.order_by("issuer", "billing_account", "billing_period"))


def _rejections(document: Document) -> list[dict[str, Any]]:
    if not document.rows_rejected:
        return []
    rows = RejectedRow.objects.filter(document=document).order_by("line", "pk")
    return [_rejection(row) for row in rows[:SHOWN_REJECTIONS]]


def _rejection(row: RejectedRow | Rejection) -> dict[str, Any]:
    return {
        "line": row.line or None,
        "column": row.column or None,
        "value": row.value,
        "reason": row.reason,
    }
