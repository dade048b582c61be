"""The kinds of line of an AWS report, and what each costs on the effective basis (method §3.5).

A savings plan stands in a report several times: the plan's fee, usage at the on-demand price, and its
negation. Billed takes all of them as they are; effective takes covered usage at the plan's price,
the negation as nothing, and of the fee only what no usage took.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from finops.core.money import EXACT
from finops.sources.rows import Fault, Row

UNNAMED_PLAN: Final = "savings plan without a name"
UNNAMED_RESERVATION: Final = "reservation without a name"
_PLAN_PRODUCTS: Final = frozenset(
    ["ComputeSavingsPlans", "MachineLearningSavingsPlans", "DatabaseSavingsPlans"]
)
_PLAN: Final = "savingsPlan/SavingsPlanARN"
_RESERVATION: Final = "reservation/ReservationARN"
_ZERO: Final = Decimal(0)

# Category, frequency, effective rule.
_KINDS: Final[dict[str, tuple[str, str | None, str]]] = {
    "Usage": ("Usage", "Usage-Based", "billed"),
    "SavingsPlanCoveredUsage": ("Usage", "Usage-Based", "plan price"),
    "SavingsPlanNegation": ("Adjustment", None, "nothing"),
    "SavingsPlanRecurringFee": ("Purchase", "Recurring", "unused plan"),
    "SavingsPlanUpfrontFee": ("Purchase", "One-Time", "nothing"),
    "DiscountedUsage": ("Usage", "Usage-Based", "reservation price"),
    "RIFee": ("Purchase", "Recurring", "unused reservation"),
    "Fee": ("Purchase", "One-Time", "billed"),
    "Tax": ("Tax", None, "billed"),
    "Credit": ("Credit", None, "billed"),
    "Refund": ("Credit", None, "billed"),
    "EdpDiscount": ("Credit", None, "billed"),
    "PrivateRateDiscount": ("Credit", None, "billed"),
    "RiVolumeDiscount": ("Credit", None, "billed"),
    "BundledDiscount": ("Credit", None, "billed"),
    "Discount": ("Credit", None, "billed"),
}
DISCOUNTS: Final = frozenset(name for name in _KINDS if name.endswith("Discount"))
_OF_PLANS: Final = frozenset(
    ["SavingsPlanCoveredUsage", "SavingsPlanNegation", "SavingsPlanRecurringFee", "SavingsPlanUpfrontFee"]
)  # fmt: skip
_OF_RESERVATIONS: Final = frozenset(["DiscountedUsage", "RIFee"])
_STATUS: Final = {
    "SavingsPlanCoveredUsage": "Used",
    "DiscountedUsage": "Used",
    "SavingsPlanRecurringFee": "Unused",
    "RIFee": "Unused",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What kind of line a row is: its category, its commitment, and its effective rule."""

    name: str
    category: str
    frequency: str | None
    rule: str
    commitment: str | None
    status: str | None

    @property
    def is_usage(self) -> bool:
        """Whether its quantity is use; a negation repeats the quantity of the usage it negates."""
        return self.category == "Usage"


def kind_of(row: Row) -> Kind:
    """The kind of a row. One that is not known is taken as an adjustment, with a note."""
    name = row.required("lineItem/LineItemType")
    if name not in _KINDS:
        row.notes.append(f"lineItem/LineItemType {name} is not known: taken as an adjustment")
    category, frequency, rule = _KINDS.get(name, ("Adjustment", None, "billed"))
    plan, reservation = row.text(_PLAN), row.text(_RESERVATION)
    commitment = plan or reservation
    if name in _OF_PLANS:
        commitment = plan or UNNAMED_PLAN
    elif name in _OF_RESERVATIONS:
        commitment = reservation or UNNAMED_RESERVATION
    if name == "Fee" and reservation:
        rule = "nothing"
    if name == "Refund" and (plan or row.text("lineItem/ProductCode") in _PLAN_PRODUCTS):
        commitment, rule = plan or UNNAMED_PLAN, "nothing"
    return Kind(name, category, frequency, rule, commitment, _STATUS.get(name))


def effective(row: Row, kind: Kind, net: bool = False) -> Decimal | None:
    """The amortised cost of a row; None when the report lacks the columns for it.

    `net` takes of each column its twin after discounts where the row has one. Source: the cost
    rules of the CUDOS dashboards' summary view.
    """
    if kind.rule == "billed":
        return billed(row, net)
    if kind.rule == "nothing":
        return _ZERO
    if kind.rule == "plan price":
        return _money(row, "savingsPlan/", "SavingsPlanEffectiveCost", net)
    if kind.rule == "reservation price":
        return _money(row, "reservation/", "EffectiveCost", net)
    if kind.rule == "unused plan":
        return _unused_of_plan(row)
    return _unused_of_reservation(row, net)


def billed(row: Row, net: bool = False) -> Decimal | None:
    """What a row costs on the bill: before discounts, or after them where the row says so."""
    return _money(row, "lineItem/", "UnblendedCost", net)


def _money(row: Row, family: str, column: str, net: bool, required: bool = True) -> Decimal | None:
    after = row.money(f"{family}Net{column}", required=False) if net else None
    return row.money(f"{family}{column}", required=required) if after is None else after


def _unused_of_plan(row: Row) -> Decimal | None:
    committed = row.money("savingsPlan/TotalCommitmentToDate", required=True)
    used = row.money("savingsPlan/UsedCommitment", required=True)
    return None if committed is None or used is None else EXACT.subtract(committed, used)


def _unused_of_reservation(row: Row, net: bool) -> Decimal | None:
    name = "UnusedAmortizedUpfrontFeeForBillingPeriod"
    upfront = _money(row, "reservation/", name, net, required=False)
    recurring = _money(row, "reservation/", "UnusedRecurringFee", net, required=False)
    if upfront is None and recurring is None:
        if row.has("reservation/UnusedRecurringFee"):
            raise Fault("reservation/UnusedRecurringFee", None, "missing")
        return None
    return EXACT.add(upfront or _ZERO, recurring or _ZERO)
