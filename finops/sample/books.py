"""What the sample's people enter: workloads, rules, keys, invoice amounts, notes and dispositions.

Everything goes through the operations behind the commands and pages that customers use; nothing is
written into the tables from here.
"""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from finops.core.period import parse_instant
from finops.core.training import quarter_of_week
from finops.ledger.operations import rules, workloads
from finops.ledger.operations.budgets import set_budget
from finops.ledger.operations.changes import decide, found
from finops.ledger.operations.invoices import set_invoice_amount
from finops.ledger.operations.objectives import set_objective
from finops.ledger.queries.rightsizing import last_window, rightsizing
from finops.sample import fleet
from finops.sample.calendar import Calendar
from finops.sample.fleet import ENGINEER, PREPARER
from finops.sample.generator import Made
from finops.sample.invoices import CLOUD, HOST
from finops.sample.latency import FIRST_WEEK
from reports.ladder_words import ladder_rows
from reports.operations.notes import annotate

PLATFORM_SHARES = {"chat-70b": 40, "code-32b": 30, "assist-8b": 20, "extract-7b": 10}
# The plan's purchases bring no effective cost; their billed cost goes where the plan is used.
PLAN_SHARES = {"chat-70b": 33_024, "code-32b": 8_394}

TICKETS = "https://tickets.fernhill.example/OPS-"

# (order, target, conditions): the first rule that holds decides.
CHARGE_RULES = (
    (10, "out-of-scope", "category=Tax"),
    (20, "chat-70b", "resource=i-0a41f6c2d97be8301,category=Usage"),
    (20, "code-32b", "tag:workload=code-32b"),
    (20, "assist-8b", "tag:workload=assist-8b,sub_account=098765432109"),
    (20, "extract-7b", "resource_name=node-us-b"),
    (20, fleet.TRAINING, "tag:workload=train-reranker,instance_type=~p4d.*"),
    (30, fleet.LEGACY, f'issuer="{HOST}"'),
    (40, "shared:savings-plan", f'category=Purchase,issuer="{CLOUD}"'),
    (50, "shared:platform", 'service="Amazon Elastic Kubernetes Service"'),
    (50, "shared:tokens", 'service=~"Elastic Load Balancing|AWS Data Transfer"'),
    (60, "shared:gpu-hours", "category=Credit"),
    (60, "shared:tokens", "category=Adjustment"),
)


def enter_workloads(made: Made, at: datetime) -> None:
    """The four vLLM workloads, the training workload, and the legacy stack."""
    for service in fleet.services(made.calendar):
        workloads.add_workload(
            service.slug,
            model=service.model,
            stack="vllm",
            purpose="inference",
            team=service.team,
            cluster=service.cluster,
            namespace=service.namespace,
            kv_bytes_per_token=service.kv_bytes_per_token,
            by=ENGINEER,
            at=at,
        )
    workloads.add_workload(
        fleet.TRAINING,
        model="fernhill/reranker-large",
        stack="torchrun",
        purpose="training",
        team="Search",
        cluster="us-prod-1",
        by=ENGINEER,
        at=at,
    )
    workloads.add_workload(
        fleet.LEGACY,
        model=f"lmsys/{fleet.LEGACY_MODEL}",
        stack="legacy",
        purpose="inference",
        team="Back office",
        cluster="meridian",
        by=ENGINEER,
        at=at,
    )


# Slug, seconds to the first token, seconds between tokens, share in time.
OBJECTIVES = (
    ("chat-70b", "1", "0.05", "0.98"),
    ("code-32b", "0.9", "0.05", "0.95"),
    ("assist-8b", "1", "0.05", "0.95"),
    ("extract-7b", "1", None, "0.95"),
)


def enter_objectives(calendar: Calendar, at: datetime) -> None:
    """What each service has to keep since the fleet's latency buckets are kept."""
    for slug, first, between, share in OBJECTIVES:
        set_objective(
            slug,
            first_token_seconds=first,
            inter_token_seconds=between,
            target=share,
            valid_from=calendar.instant(FIRST_WEEK),
            note="agreed with the product owners",
            by=ENGINEER,
            at=at,
        )


def enter_budgets(calendar: Calendar, at: datetime) -> None:
    """What training may cost in the quarters that the weeks touch."""
    quarters = sorted(
        {quarter_of_week(week, settings.ORGANISATION_ZONE) for week in calendar.weeks}
    )
    for quarter in quarters:
        set_budget(quarter, amount="6000", currency="USD", note="engineering plan, line 14",
                   by=PREPARER, at=at)  # fmt: skip


def enter_rules(made: Made, at: datetime) -> None:
    """Keys first, then rules for tokens and for money."""
    workloads.add_shared_key("platform", PLATFORM_SHARES, by=PREPARER, at=at)
    workloads.add_shared_key("savings-plan", PLAN_SHARES, by=PREPARER, at=at)
    for service in fleet.services(made.calendar):
        series = f"namespace={service.namespace},job={service.slug}"
        rules.add_rule(rules.draft(service.slug, series=series), by=ENGINEER, at=at)
    legacy = rules.draft(fleet.LEGACY, series=f"model_name={fleet.LEGACY_MODEL}")
    rules.add_rule(legacy, by=ENGINEER, at=at)
    for order, target, conditions in CHARGE_RULES:
        rules.add_rule(rules.draft(target, charge=conditions, order=order), by=PREPARER, at=at)


def enter_invoice_amounts(made: Made, at: datetime) -> None:
    """The amounts printed on the invoices that were issued."""
    for invoice in made.invoices:
        if invoice.number and invoice.amount is not None:
            set_invoice_amount(
                issuer=invoice.issuer,
                invoice=invoice.number,
                billing_period=invoice.month,
                amount=invoice.amount,
                currency="USD",
                by=PREPARER,
                at=at,
            )


def write_notes(calendar: Calendar, at: datetime) -> None:
    """What the engineers wrote down, at the instants when it happened."""
    ticket = TICKETS
    for instant, workload, kind, text, url in (
        (calendar.instant(1, 1, 11, 7), "assist-8b", "incident",
         "Killed for lack of host memory while working; back after nine minutes.", ticket + "412"),
        (calendar.instant(3, 2, 1), "chat-70b", "deploy",
         "Node maintenance: drained at 01:00, serving again at 04:09.", ""),
        (calendar.instant(4), "assist-8b", "deploy",
         "All traffic of the legacy FastChat stack now goes to assist-8b.", ticket + "433"),
        (calendar.instant(11, 1, 3, 31), "assist-8b", "incident",
         "Killed minutes after a restart while Prometheus was down; no graph shows it.", ""),
        (calendar.instant(11, 4, 10, 12), "chat-70b", "incident",
         "Engine crashed under load and was restarted by the operator.", ticket + "488"),
    ):  # fmt: skip
        annotate(
            instant=instant,
            workload=workload,
            kind=kind,
            text=text,
            url=url,
            author=ENGINEER,
            at=at,
        )


def write_steps(at: datetime) -> None:
    """Each step of an engine's memory as the page proposes its note: what was predicted when it was
    made, and a new version with what was observed."""
    window = last_window()
    for row in rightsizing(window) if window else ():
        for number, step in enumerate(ladder_rows(row, ())["climbed"]):
            predicted, _, observed = step["text"].partition(" Observed:")
            note = {
                "instant": parse_instant(step["step"]["at"]), "workload": row["workload"],
                "kind": "config", "url": f"{TICKETS}{470 + number}", "author": ENGINEER, "at": at,
            }  # fmt: skip
            first = annotate(text=predicted, **note)
            if observed:
                annotate(text=step["text"], replaces=first, **note)


def confirm_changes(at: datetime) -> None:
    """The engineer confirms the settings that were changed on purpose."""
    for one in found(at):
        if one.change.kind == "configuration":
            decide(one.change.key, "confirmed", note="One step of right-sizing", by=ENGINEER, at=at)


DISPOSITIONS = {
    "gaps": "Prometheus was down; the engines went on counting. Nothing is lost without a restart.",
    "restarts": "Known restarts, see the notes. What may be lost is inside the printed bounds.",
    "hidden-resets": "Confirmed by the start time of the process; the second life is booked whole.",
    "unassigned-charges": "A notebook without tags; its owner is being asked. Left unassigned.",
    "provisional-month": "The month is open; the report will be restated if the invoice differs.",
}
WAIVER = "The invoice comes after the month's end; the tie-out of earlier months was exact."
OTHERWISE = "Looked into; acceptable for this report."


def disposition_of(kind: str) -> str:
    """What the sample's preparer writes of an exception."""
    return DISPOSITIONS.get(kind, OTHERWISE)
