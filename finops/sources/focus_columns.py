"""The columns of FOCUS Cost and Usage, 1.0 to the draft of 1.5: names, ages, who must be there.

Files are read by name: five generations of headers occur, older exports carry older names, and no
absent or unknown column stops an import (both are reported).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SINCE: Final[dict[str, str]] = {
    "1.0": """
        AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingCurrency
        BillingPeriodEnd BillingPeriodStart ChargeCategory ChargeClass ChargeDescription
        ChargeFrequency ChargePeriodEnd ChargePeriodStart CommitmentDiscountCategory
        CommitmentDiscountId CommitmentDiscountName CommitmentDiscountStatus
        CommitmentDiscountType ConsumedQuantity ConsumedUnit ContractedCost ContractedUnitPrice
        EffectiveCost InvoiceIssuerName ListCost ListUnitPrice PricingCategory PricingQuantity
        PricingUnit ProviderName PublisherName RegionId RegionName ResourceId ResourceName
        ResourceType ServiceCategory ServiceName SkuId SkuPriceId SubAccountId SubAccountName Tags
    """,
    "1.1": """
        CapacityReservationId CapacityReservationStatus CommitmentDiscountQuantity
        CommitmentDiscountUnit ServiceSubcategory SkuMeter SkuPriceDetails
    """,
    "1.2": """
        BillingAccountType SubAccountType InvoiceId PricingCurrency
        PricingCurrencyContractedUnitPrice PricingCurrencyEffectiveCost
        PricingCurrencyListUnitPrice
    """,
    "1.3": """
        AllocatedMethodId AllocatedMethodDetails AllocatedResourceId AllocatedResourceName
        AllocatedTags ContractApplied HostProviderName ServiceProviderName
    """,
    "1.4": "CommitmentProgramEligibilityDetails InvoiceDetailId",
    "1.5": "CredentialId PrincipalId RequesterDetails",
}
SINCE: Final[dict[str, str]] = {
    column: version for version, columns in _SINCE.items() for column in columns.split()
}

# Old names of OCI's export and of Azure's previews; a column of the true name goes before them.
ALIASES: Final[dict[str, str]] = {
    "Provider": "ProviderName",
    "Publisher": "PublisherName",
    "InvoiceIssuer": "InvoiceIssuerName",
    "Region": "RegionId",
    "UsageQuantity": "ConsumedQuantity",
    "UsageUnit": "ConsumedUnit",
    "SkuMeterName": "SkuMeter",
    "x_InvoiceId": "InvoiceId",
}

# Columns beside the specification that tell an instance type or a part number.
EXTRAS: Final = (
    "x_InstanceType",
    "x_SkuDetails",
    "x_UsageType",
    "x_SkuDescription",
    "x_SkuMeterName",
)

# What price lists, and at last people, call things: asked for a GPU when nothing else tells one.
NAMES: Final = ("SkuId", "ServiceSubcategory", "ServiceName")
CALLED: Final = "ResourceName"
ALLOCATED: Final = {
    "allocated_resource": "AllocatedResourceId",
    "allocated_resource_name": "AllocatedResourceName",
}
"""What a part of a split line is for, by the tag that it is kept as (1.3 and newer)."""
ALLOCATED_TAGS: Final = "AllocatedTags"
UNITS: Final = ("PricingUnit", "ConsumedUnit")

_MANDATORY: Final = [
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "BillingCurrency",
    "BillingAccountId",
    "BillingAccountName",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "PricingQuantity",
    "PricingUnit",
    "InvoiceIssuerName",
    "ServiceCategory",
    "ServiceName",
]
_SIGNS: Final = frozenset(
    [
        "BilledCost",
        "EffectiveCost",
        "ListCost",
        "ContractedCost",
        "BillingCurrency",
        "BillingAccountId",
        "BillingPeriodStart",
        "BillingPeriodEnd",
        "ChargePeriodStart",
        "ChargePeriodEnd",
        "ChargeCategory",
        "ChargeFrequency",
        "ChargeDescription",
        "PricingCategory",
        "CommitmentDiscountId",
    ]
)
_ENOUGH_SIGNS: Final = 6


def _plain(column: str) -> str:
    """A name as it is compared: without case, blanks, underscores and hyphens."""
    return "".join(sign for sign in column.lower() if sign not in " _-")


_CANONICAL: Final = {_plain(column): column for column in (*SINCE, *EXTRAS)}
_OLD: Final = {_plain(old): new for old, new in ALIASES.items()}


def duplicates(header: Sequence[str]) -> list[str]:
    """Names that stand more than once in a header, as written."""
    seen: dict[str, int] = {}
    for column in header:
        seen[_plain(column)] = seen.get(_plain(column), 0) + 1
    return [
        column for column in dict.fromkeys(header) if column.strip() and seen[_plain(column)] > 1
    ]


def placed(header: Sequence[str]) -> dict[str, int]:
    """Where each known column stands, by its true name."""
    places: dict[str, int] = {}
    for place, column in enumerate(header):
        known = _CANONICAL.get(_plain(column))
        if known:
            places[known] = place
    for place, column in enumerate(header):
        old = _OLD.get(_plain(column))
        if old and old not in places:
            places[old] = place
    return places


def unknown(header: Sequence[str], places: dict[str, int]) -> tuple[str, ...]:
    """The columns that were not read, as written, in their order."""
    taken = set(places.values())
    return tuple(column for place, column in enumerate(header) if place not in taken)


def looks_like_focus(header: Sequence[str]) -> bool:
    """Whether a header is of the Cost and Usage data set (not of invoice details)."""
    found = placed(header).keys() & _SIGNS
    has_cost = bool(found & {"BilledCost", "EffectiveCost"})
    has_period = bool(found & {"ChargePeriodStart", "ChargePeriodEnd"})
    return has_cost and has_period and len(found) >= _ENOUGH_SIGNS


def version_of(header: Sequence[str]) -> str:
    """The version a header is written in, told by its newest column.

    1.4 took ProviderName and PublisherName away, so a header without them that names the service
    provider is at least 1.4.
    """
    exact = {_plain(column) for column in header}
    present = {column for column in SINCE if _plain(column) in exact}
    newest = max((SINCE[column] for column in present), default="1.0")
    if newest == "1.3" and not present & {"ProviderName", "PublisherName"}:
        return "1.4" if "ServiceProviderName" in present else newest
    return newest


def missing(places: dict[str, int], version: str) -> tuple[str, ...]:
    """Columns that a file of this version must have and has not.

    InvoiceId is always told, because without it no month can be known to be final.
    """
    wanted = list(_MANDATORY)
    if version < "1.4":
        wanted += ["ProviderName", "PublisherName"]
    if version >= "1.3":
        wanted += ["ServiceProviderName", "HostProviderName"]
    return tuple(column for column in (*wanted, "InvoiceId") if column not in places)
