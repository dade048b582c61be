"""The ledger's tables: what happened. Evidence, readings, charges, and who claims them."""

from .allocation import Baseline, BaselineDecision, Rule, SharedKey, Workload
from .charges import (
    Charge,
    Delivery,
    InvoiceAmount,
    PeriodConfirmation,
    Reread,
    Snapshot,
    SnapshotDecision,
    SnapshotDocument,
)
from .evidence import (
    Document,
    Fetch,
    FetchedPart,
    Origin,
    QuietHour,
    RejectedRow,
    Source,
)
from .memory import DeviceHour, EngineStart, EvidenceLink, ModelConfig
from .nodes import GpuHour
from .objectives import ChangeDecision, ServiceObjective, TrainingBudget
from .pricing import CsvMapping, FxRate, PeriodStatus, RateCard
from .readings import BLOCK_MS, CacheHour, ReadingBlock, Series, Target, TokenHour, UsageHour

__all__ = [
    "BLOCK_MS",
    "Baseline",
    "BaselineDecision",
    "CacheHour",
    "ChangeDecision",
    "Charge",
    "CsvMapping",
    "Delivery",
    "DeviceHour",
    "Document",
    "EngineStart",
    "EvidenceLink",
    "Fetch",
    "FetchedPart",
    "FxRate",
    "GpuHour",
    "InvoiceAmount",
    "ModelConfig",
    "Origin",
    "PeriodConfirmation",
    "PeriodStatus",
    "QuietHour",
    "RateCard",
    "ReadingBlock",
    "RejectedRow",
    "Reread",
    "Rule",
    "Series",
    "ServiceObjective",
    "SharedKey",
    "Snapshot",
    "SnapshotDecision",
    "SnapshotDocument",
    "Source",
    "Target",
    "TokenHour",
    "TrainingBudget",
    "UsageHour",
    "Workload",
]
