"""The columns of Azure's cost files: their generations' names, and localised headers.

Enterprise agreements (two generations), customer agreements, and the older usage file name the same
things differently; German and mixed files write `Name der Verbrauchseinheit (MeterName)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# The first of these names that a file has is read.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "date": ("Date", "UsageDateTime", "UsageDate"),
    "cost": ("CostInBillingCurrency", "Cost", "PreTaxCost"),
    "currency": ("BillingCurrencyCode", "BillingCurrency", "Currency"),
    "account": ("BillingAccountId",),
    "account name": ("BillingAccountName",),
    "period start": ("BillingPeriodStartDate",),
    "period end": ("BillingPeriodEndDate",),
    "subscription": ("SubscriptionId", "SubscriptionGuid"),
    "subscription name": ("SubscriptionName",),
    "charge type": ("ChargeType",),
    "pricing model": ("PricingModel",),
    "frequency": ("Frequency",),
    "reservation": ("ReservationId",),
    "reservation name": ("ReservationName",),
    "benefit": ("benefitId",),
    "benefit name": ("benefitName",),
    "order": ("ProductOrderId",),
    "invoice": ("invoiceId",),
    "product": ("ProductName", "Product"),
    "category": ("MeterCategory",),
    "subcategory": ("MeterSubCategory",),
    "meter": ("MeterName",),
    "meter id": ("MeterId",),
    "part": ("PartNumber",),
    "service": ("ServiceName", "ConsumedService"),
    "resource": ("ResourceId", "InstanceId"),
    "resource name": ("ResourceName", "InstanceName"),
    "resource type": ("ResourceType", "ConsumedService"),
    "resource group": ("ResourceGroup", "ResourceGroupName"),
    "location": ("ResourceLocation", "ResourceLocationNormalized", "Location"),
    "quantity": ("Quantity", "UsageQuantity"),
    "unit": ("UnitOfMeasure",),
    "unit price": ("UnitPrice", "ResourceRate"),
    "list unit price": ("PayGPrice",),
    "list cost": ("paygCostInBillingCurrency",),
    "tags": ("Tags",),
    "details": ("AdditionalInfo",),
    "publisher type": ("PublisherType",),
    "publisher": ("PublisherName",),
}
# Without these something of the report is missing; not all generations have them.
WANTED: Final = (
    "account",
    "period start",
    "period end",
    "currency",
    "charge type",
    "invoice",
    "unit",
)

_ENGLISH: Final = re.compile(r".*\(\s*([A-Za-z0-9]+)\s*\)\s*", re.DOTALL)
_SIGNS: Final = ("date", "cost")
_OTHER_SIGNS: Final = ("category", "meter id", "service")


def plain(column: str) -> str:
    """A name as it is compared: the English one of a localised header, without case or signs."""
    found = _ENGLISH.fullmatch(column)
    text = found.group(1) if found else column
    return re.sub(r"[\W_]", "", text).lower()


def placed(header: Sequence[str]) -> dict[str, int]:
    """Where each known column stands, by its name here; the first of two alike."""
    places: dict[str, int] = {}
    for place, column in enumerate(header):
        places.setdefault(plain(column), place)
    found = {}
    for name, spellings in NAMES.items():
        standing = [places[s.lower()] for s in spellings if s.lower() in places]
        if standing:
            found[name] = standing[0]
    return found


def duplicates(header: Sequence[str]) -> list[str]:
    """Columns that are read and stand more than once, as written."""
    known = {spelling.lower() for spellings in NAMES.values() for spelling in spellings}
    seen = set[str]()
    twice = []
    for column in header:
        if plain(column) in known & seen:
            twice.append(column)
        seen.add(plain(column))
    return twice


def looks_like_azure(header: Sequence[str]) -> bool:
    """Whether a header is of a cost file of Azure."""
    places = placed(header)
    some = any(sign in places for sign in _OTHER_SIGNS)
    return some and all(sign in places for sign in _SIGNS)


def missing(places: dict[str, int]) -> tuple[str, ...]:
    """The wanted columns that a file has not, by their newest name."""
    return tuple(NAMES[name][0] for name in WANTED if name not in places)
