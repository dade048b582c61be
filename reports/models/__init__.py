"""The reports' tables: what was said, by whom, and what people noted. All are append-only.

No row holds a foreign key into the ledger: reports name documents by digest and workloads by slug,
so that neither side can rewrite the other.
"""

from .notes import Annotation, Disposition
from .statements import FreshLook, LeftProposal, Report, ReportEvent, Seal, Waiver
from .uploads import Upload, UploadOutcome

__all__ = [
    "Annotation",
    "Disposition",
    "FreshLook",
    "LeftProposal",
    "Report",
    "ReportEvent",
    "Seal",
    "Upload",
    "UploadOutcome",
    "Waiver",
]
