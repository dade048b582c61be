"""The ledger's tables: what happened. Evidence, readings, charges, and who claims them."""

from .allocation import Baseline, Rule, SharedKey, Workload
from .charges import (
    Charge,
    Delivery,
    InvoiceAmount,
    PeriodConfirmation,
    Snapshot,
    SnapshotDecision,
    SnapshotDocument,
)
from .evidence import Document, Fetch, RejectedRow, Source
from .memory import DeviceHour, EngineStart, EvidenceLink, ModelConfig
from .readings import CacheHour, ReadingBlock, Series, Target, TokenHour, UsageHour

__all__ = [
    "Baseline",
    "CacheHour",
    "Charge",
    "Delivery",
    "DeviceHour",
    "Document",
    "EngineStart",
    "EvidenceLink",
    "Fetch",
    "InvoiceAmount",
    "ModelConfig",
    "PeriodConfirmation",
    "ReadingBlock",
    "RejectedRow",
    "Rule",
    "Series",
    "SharedKey",
    "Snapshot",
    "SnapshotDecision",
    "SnapshotDocument",
    "Source",
    "Target",
    "TokenHour",
    "UsageHour",
    "Workload",
]
