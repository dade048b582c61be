"""The cloud's charges of the sample organisation: GPU machines by the hour, and all around them.

Each function gives the rows of one kind; the places are what the allocation rules of `books` must
find again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

from finops.core.period import HOUR, milliseconds
from finops.sample.calendar import Calendar
from finops.sample.fleet import (
    NODES,
    PLAN_COMMITMENT_AN_HOUR,
    PLAN_RATES,
    SAVINGS_PLAN,
    TRAINING_NODE,
    Node,
    maintenance,
)
from finops.sample.focus import Row

DAY = timedelta(days=1)
SUB_ACCOUNTS = {
    "eu": ("210987654321", "fernhill-llm-eu"),
    "us": ("098765432109", "fernhill-llm-us"),
}
REGIONS = {
    "eu": ("eu-central-1", "Europe (Frankfurt)"),
    "us": ("us-east-1", "US East (N. Virginia)"),
}
COMPUTE = {
    "ServiceCategory": "Compute",
    "ServiceSubcategory": "Virtual Machines",
    "ServiceName": "Amazon Elastic Compute Cloud",
}
PLAN = {
    "CommitmentDiscountCategory": "Spend",
    "CommitmentDiscountId": SAVINGS_PLAN,
    "CommitmentDiscountName": "Compute Savings Plan 2026",
    "CommitmentDiscountType": "Compute Savings Plans",
    "CommitmentDiscountUnit": "USD",
}


def usage(calendar: Calendar, rng: Random) -> list[Row]:
    """All that was used: machines, what is shared, and the odd thing nobody has claimed."""
    hours = [*_hours(calendar.start, calendar.horizon)]
    days = [*_days(calendar.start, calendar.horizon)]
    return [
        *(row for node in NODES for row in _node(node, hours, calendar)),
        *_unused(hours, calendar),
        *_training(hours, rng),
        *(row for side in SUB_ACCOUNTS for row in _shared(side, days, rng)),
        _unassigned(calendar),
    ]


def _hours(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += HOUR


def _days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Days of the charges' UTC calendar, cut to the span that is known."""
    while start < end:
        midnight = start.replace(hour=0) + DAY
        yield start, min(midnight, end)
        start = midnight


def _side(side: str) -> dict[str, str]:
    (account, name), (region, region_name) = SUB_ACCOUNTS[side], REGIONS[side]
    return {
        "SubAccountId": account,
        "SubAccountName": name,
        "SubAccountType": "Account",
        "RegionId": region,
        "RegionName": region_name,
    }


def machine(node: Node, price: Decimal, pricing: str) -> dict[str, str]:
    """The columns of a machine by the hour."""
    return {
        **COMPUTE,
        **_side(node.sub_account),
        "AvailabilityZone": node.region + "a",
        "ResourceId": node.resource,
        "ResourceName": node.name,
        "ResourceType": "Instance",
        "SkuId": f"EC2-{node.shape}-{node.region}",
        "SkuMeter": f"BoxUsage:{node.shape}",
        "SkuPriceId": f"EC2-{node.shape}-{node.region}.{pricing}",
        "SkuPriceDetails": f'{{"InstanceType": "{node.shape}", "OperatingSystem": "Linux"}}',
        "PricingCategory": pricing,
        "PricingQuantity": "1",
        "PricingUnit": "Hours",
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Hours",
        "ListUnitPrice": format(price, "f"),
        "ContractedUnitPrice": format(price, "f"),
    }


def _node(node: Node, hours: list[datetime], calendar: Calendar) -> Iterator[Row]:
    """A machine's hours: covered by the savings plan (billed 0), or at the price on demand."""
    rate = PLAN_RATES.get(node.shape)
    cluster = "eu-prod-1" if node.sub_account == "eu" else "us-prod-1"
    tags = {"cluster": cluster, "workload": node.workload}
    columns = machine(node, node.on_demand, "Standard" if rate is None else "Committed")
    if rate is not None:
        columns |= {**PLAN, "CommitmentDiscountStatus": "Used"}
        columns["CommitmentDiscountQuantity"] = format(rate, "f")
    text = f"${node.on_demand} per On Demand Linux {node.shape} Instance Hour"
    billed, effective = (node.on_demand,) * 2 if rate is None else (Decimal(0), rate)
    for hour in hours:
        if node.name == "node-eu-a" and _in_maintenance(hour, calendar):
            continue
        yield Row(
            hour, hour + HOUR, billed, effective, node.workload, "Usage", text, columns, tags, node.on_demand
        )  # fmt: skip


def _in_maintenance(hour: datetime, calendar: Calendar) -> bool:
    since, until = maintenance(calendar)
    return since <= milliseconds(hour) < until


def _unused(hours: list[datetime], calendar: Calendar) -> Iterator[Row]:
    """What of each hour's commitment no machine took."""
    columns = {
        **COMPUTE,
        **PLAN,
        "CommitmentDiscountStatus": "Unused",
        "ResourceId": SAVINGS_PLAN,
        "ResourceName": PLAN["CommitmentDiscountName"],
        "ResourceType": "Savings Plan",
        "PricingCategory": "Committed",
    }
    for hour in hours:
        used = sum(PLAN_RATES.values())
        if _in_maintenance(hour, calendar):
            used -= PLAN_RATES["p5.48xlarge"]
        unused = PLAN_COMMITMENT_AN_HOUR - used
        columns = {**columns, "CommitmentDiscountQuantity": format(unused, "f")}
        text = "Unused part of the Compute Savings Plan"
        yield Row(
            hour, hour + HOUR, Decimal(0), unused, "unused commitment", "Usage", text, columns, {}, Decimal(0)
        )  # fmt: skip


def purchase(since: datetime, until: datetime) -> Row:
    """The commitment's recurring fee of a span: billed here, effective in what it covers."""
    hours = (until - since) // HOUR
    fee = PLAN_COMMITMENT_AN_HOUR * hours
    columns = {
        **COMPUTE,
        **PLAN,
        "CommitmentDiscountQuantity": format(fee, "f"),
        "ResourceId": SAVINGS_PLAN,
        "ResourceName": PLAN["CommitmentDiscountName"],
        "ResourceType": "Savings Plan",
        "SkuId": "SP-COMPUTE-1YR",
        "SkuPriceId": "SP-COMPUTE-1YR.no-upfront",
        "PricingCategory": "Standard",
        "PricingQuantity": str(hours),
        "PricingUnit": "Hours",
        "ListUnitPrice": format(PLAN_COMMITMENT_AN_HOUR, "f"),
        "ContractedUnitPrice": format(PLAN_COMMITMENT_AN_HOUR, "f"),
    }
    text = "Recurring fee of the Compute Savings Plan, no upfront"
    return Row(
        since, until, fee, Decimal(0), "covering purchase", "Purchase", text, columns, {}, fee, "Recurring"
    )  # fmt: skip


def _training(hours: list[datetime], rng: Random) -> Iterator[Row]:
    """A spot machine on working days; the spot price moves every hour."""
    node, tags = TRAINING_NODE, {"cluster": "us-prod-1", "workload": TRAINING_NODE.workload}
    text = f"{node.shape} Linux/UNIX Spot Instance-hour"
    for hour in hours:
        if hour.weekday() >= 5 or not 7 <= hour.hour < 18:
            continue
        price = Decimal(rng.randint(7_900_000, 9_400_000)).scaleb(-6)
        columns = machine(node, price, "Dynamic")
        columns |= {
            "ListUnitPrice": format(node.on_demand, "f"),
            "ContractedCost": format(price, "f"),
        }
        yield Row(
            hour, hour + HOUR, price, price, node.workload, "Usage", text, columns, tags, node.on_demand
        )  # fmt: skip


def _shared(side: str, days: list[tuple[datetime, datetime]], rng: Random) -> Iterator[Row]:
    """Load balancer, control plane and traffic of one cluster, by the day."""
    for start, end in days:
        hours = (end - start) // HOUR
        balancer = Decimal("0.0252") * hours + Decimal(rng.randint(90_000, 340_000)).scaleb(-6)
        yield _by_day(
            side, start, end, "Networking", "Elastic Load Balancing", balancer, "shared:tokens"
        )
        plane = Decimal("0.10") * hours
        service = "Amazon Elastic Kubernetes Service"
        yield _by_day(side, start, end, "Compute", service, plane, "shared:platform")
        traffic = Decimal(rng.randint(400_000_000, 2_900_000_000)).scaleb(-10) * 9
        yield _by_day(side, start, end, "Networking", "AWS Data Transfer", traffic, "shared:tokens")


def _by_day(
    side: str,
    start: datetime,
    end: datetime,
    category: str,
    service: str,
    cost: Decimal,
    place: str,
) -> Row:
    sku = service.replace(" ", "-").lower()
    columns = {
        **_side(side),
        "ServiceCategory": category,
        "ServiceSubcategory": "Other (" + category + ")",
        "ServiceName": service,
        "ResourceId": f"arn:aws:{sku}:{REGIONS[side][0]}:{SUB_ACCOUNTS[side][0]}:shared",
        "ResourceName": f"{sku}-{side}",
        "SkuId": sku,
        "SkuPriceId": f"{sku}.standard",
        "PricingCategory": "Standard",
    }
    return Row(start, end, cost, cost, place, "Usage", f"{service}, {side}", columns)


def _unassigned(calendar: Calendar) -> Row:
    """A notebook that somebody started in the newest week and no rule knows."""
    start = calendar.instant(-1, days=2, hours=9)
    cost = Decimal("37.1142805")
    columns = {
        **_side("us"),
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "AI Platforms",
        "ServiceName": "Amazon SageMaker",
        "ResourceId": "arn:aws:sagemaker:us-east-1:098765432109:notebook-instance/try-out",
        "ResourceName": "try-out",
        "ResourceType": "Notebook Instance",
        "SkuId": "sagemaker-notebook",
        "SkuPriceId": "sagemaker-notebook.standard",
        "PricingCategory": "Standard",
    }
    text = "Notebook instance without tags"
    return Row(start, start + 31 * HOUR, cost, cost, "unassigned", "Usage", text, columns)
