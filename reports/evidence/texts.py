"""What a pack says of itself: the README for auditors and the IPE sheet."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from finops.core.money import plain
from reports.queries.standing import Standing

from .recipe import BY_HAND

TABLES = {
    "charges": "each charge that touches the week: document, line, whole amounts, place",
    "rules": "ordered rules that place charges and series; the first that matches decides",
    "shared_keys": "how shared charges are split",
    "workloads": "the workloads, and what people stated of them",
    "series": "each counter series, with its birth, last reading and usual interval",
    "token_hours": "tokens of each series in each UTC hour",
    "gaps": "silences in the readings, with the tokens the next reading showed",
    "restarts": "restarts, with the time in which nobody saw the counter",
    "late_births": "counters first read long after their birth, with an edge of the week between",
    "lost_before": "restarts with an edge of the week in the time in which nobody saw the counter",
    "readings": "readings of hours in which a counter began, ended or alternated, and at the edges of the week",
    "counters_before": "the counters as they stood before each of those hours",
    "usage_hours": "usage records, summed by hour (delivered tokens)",
    "nodes": "the cluster's nodes with GPUs, and the names an invoice may call them by",
    "node_hours": "how long each node was seen, and with how many GPUs",
    "gpu_holders": "the pods that held GPUs, by requests or by devices",
    "gpu_hours": "GPUs that each of them held in each hour; those of invoices follow from charges",
    "engines": "the engines whose KV cache is measured",
    "cache_hours": "the KV cache of each engine in each hour",
    "preemptions": "preempted requests",
    "engine_settings": "what start-up logs and labels tell of each engine: setting, workers, cache",
    "devices": "each GPU that an exporter tells of, and where it is",
    "device_hours": "each GPU by the hour, as each exporter shows it, and who held it",
    "engine_logs": "start-up logs, and whose a person said they are",
    "lengths": "lengths of requests and steps by engine, in buckets",
    "ladder_hours": "the hours of the settings between which a step of the week lies",
    "objectives": "service level objectives of workloads, dated",
    "changes": "changes of workloads that an engineer confirmed",
    "change_hours": "hours around each change: own cost, tokens, milliseconds at each level of use",
    "training_budget": "the budget of training of the week's quarter",
    "training_charges": "the quarter's charges that rules give to training, whole",
    "latency_buckets": "the engines' latency buckets: measure, engine, bound in seconds",
    "latency_hours": "what each bucket counted in each hour, and how often it was read",
    "reaches": "how far each source and each issuer tells",
    "invoice_lines": "invoice lines of the months concerned, whole months, by document",
    "invoice_amounts": "the amounts the issuers printed",
    "confirmations": "months a person confirmed",
    "period_statuses": "months that their issuer calls open or closed",
    "baselines": "the legacy stack's frozen cost",
    "documents_read": "what was counted when each document was read",
    "earlier_weeks": "the reports that the earlier weeks of the trend were taken from, by digest",
    "exchange_rates": "what one euro was worth on each day that amounts may be converted by",
}

NO_STEPS = """
The steps of this report by hand were not kept with its rows: the version that sealed it kept none, or could not write
them. Its own `verify.py` is in this pack: read `Week` and the sections that `python3 verify.py --contents` lists.
"""

STEPS = "| `recipe.md` | the steps above, as they were sealed |\n"

README = """# Evidence pack, report {number}

{organisation}, {start} to {end}.{sample}

**{headline}**

## Three minutes

1. Compare the digest of the seal with the one printed at the foot of every page of the report you were given:
   `{digest}`
2. `sha256sum -c SHA256SUMS` says whether the files of this pack are whole. `sha256sum seal.json` gives the digest above.
3. `python3 verify.py` computes every figure again and prints the number that are equal. It needs Python 3.11 or newer
   and nothing else. `python3 verify.py --all` prints each figure. It ends with 1 when anything differs; a file too many in
   this folder differs as well, so write what it prints to another place.

`verify.py` shares no code with the program that made the report. It is meant to be read: its parts follow the method's
sections, and part 1, under 200 lines, is the headline and the seal. `python3 verify.py --contents` lists its sections; a
line that differs names the section that computed it.

## The headline by hand

| what | where | value |
|---|---|---|
| cost of the workloads that count, in hours that have both cost and tokens | `effective_cost` in statement.json, `figures` | {cost} {currency} |
| prompt tokens | `prompt_tokens` | {prompt} |
| generation tokens | `generation_tokens` | {generation} |
| cost per million tokens = cost ÷ (prompt + generation) × 1,000,000 | `cost_per_million_tokens` | {price} |

A spreadsheet does it, and mostly a terminal (further below). For each workload that counts: add `tokens` of
`ledgers/token_hours.csv` over the series named below, in the hours of its span (the first hour is in it, the last instant is not); add `effective` of its rows of
`ledgers/charges.csv`; add its part of what is shared. The amounts are exact. By hand, three rules are needed:

- **A charge across an edge of the span** counts in part: `effective` × (time from its start to the end of the span ÷ its
  whole time), less the same up to the start of the span. Each of the two is rounded half to even, to four decimals more
  than `effective` is written with (method §3.7). Without that rounding a sum differs in its last digits.
- **Idle time**: of a shared charge with an `idle_share`, that part is idle and in no pot (method §4).
- **A pot that is shared** is multiplied by the workload's weight and divided by the sum of weights. Shares are cut to four
  decimals more than the pot has; the last digits then missing go to the largest remainders, one each. Weights are fixed
  shares (`shared_keys.csv`), or of the whole week: prompt and generation tokens, or GPU-hours: those of its pods
  (`gpu_holders.csv`, `gpu_hours.csv`) where they are told, else `gpu_count` × hours of its charges. The GPU-hours of each
  workload stand in `statement.json` (`workloads`, `figures`, `gpu_hours`).
{recipe}{currencies}
## From a figure to a document

A row of `charges.csv` names a document (SHA-256) and a line of it; where `kept sum` has a number, the row adds up so many
lines, the first of which it names, and no rule is tried on it. `documents.csv` lists the documents. {documents}
A row of `token_hours.csv` comes from readings; those of hours in which a counter began, ended or alternated, and at the edges of the week, stand in
`readings.csv`, each with the document it came in.

## Files

| file | what |
|---|---|
{paper}| `seal.json` | the sealed bytes: statement, people, acts, decisions, waivers, digests of the ledgers |
| `statement.json` | the statement alone, as bytes of canonical JSON |
| `seals.csv` | the chain of seals up to this one |
| `previous_statement.json` | the statement of the week before, when there was one |
| `documents.csv`, `parameters.csv` | documents by digest; parameters of the computation |
| `dictionary.csv` | each column of each ledger: its kind and unit, what it means, where it comes from |
{steps}| `IPE.md` | completeness and accuracy of the information, for the working papers |
| `verify.py`, `SHA256SUMS` | see above |
{tables}
All ledgers are CSV (UTF-8, comma, header); `ledgers/*.parquet` hold the same rows, whole numbers as BIGINT and all else,
amounts too, as exact text. Instants are UTC; names that end in `_ms` are milliseconds since 1970,
`_us` microseconds. An empty cell is unknown, which is not zero. Rows are as of {as_of}, when the report was closed;
what was recorded later is not in them.

## What this pack cannot show

That a document is what its issuer wrote: compare its SHA-256 with the issuer's own copy. That engines count right: see
the method, §2.10. That a counter's first reading is its birth is proven by other readings of its job, which are not in
the pack; all else of such an hour is booked again from `readings.csv` and `counters_before.csv`.
"""

CURRENCIES = """

Charges in another currency count in {currency}: their `report_billed` and `report_effective` are the whole amount ×
`per_eur` of {currency} ÷ `per_eur` of their own currency (`ledgers/exchange_rates.csv`, the euro's is 1), both of
`rate_day`: the last day on or before the charge's start on which both were published. Rounded once, half to even, to
ten digits more than the amount has (method §3.9)."""

IPE = """# Information produced by the entity, report {number}

| question | answer |
|---|---|
| What is it? | weekly report on the cost of tokens, revision {revision}, state {state} |
| By what? | Headroom {software}, method {method} |
| For what period? | {start} to {end} (zone {zone}) |
| Who prepared, approved, sealed? | {prepared}; {approved}; {sealed_by} at {sealed_at} |
| Digest of the seal | {digest} |
| Digest of the seal before | {previous} |
| Head of the trail at sealing | {trail} |
| Parameters | parameters.csv; rules in ledgers/rules.csv; keys in ledgers/shared_keys.csv |

## Completeness

| control total | report | counted in this pack |
|---|---:|---:|
| charges | {charges} | {charge_rows} rows of charges.csv |
| token hours | – | {hour_rows} rows of token_hours.csv |
| readings received | {readings} | Σ `readings` of token_hours.csv |
| readings expected | {expected} | the same, and one for each usual interval of gaps.csv |
| restarts of engines | {restarts} | restarts.csv holds them for each counter |
| documents | {documents} | {documents} rows of documents.csv |
| cost reaches / tokens reach | {cost_reach} | {token_reach} |

Billed {billed} and effective {effective} {currency} stand in the report; period tie-out difference {difference}. Rows of
documents that were refused: {rejected}. Months provisional: {provisional}. Waivers: {waivers}. Exceptions: {exceptions},
each with a decision in seal.json (`dispositions`).

## Accuracy

{computed} figures were computed a second time before sealing, by verify.py, from the rows in this pack: {unequal} were
not equal. Run it again to confirm. The number it then prints is larger: it adds a line for each file of the pack, for the
seal and for each seal of the chain, which were not there before sealing. The {computed} figures alone are the sum of the
sections that `verify.py --contents` lists.

## Walk-through

Take a workload. Sum its charges and token hours as the README says. Take one row of each, follow the document's digest
and line, and one reading. `sample WEEK --rows N --seed S` of the program picks rows by a recorded seed.
"""


def readme(stand: Standing, files: Mapping[str, bytes]) -> str:
    """The README of a pack."""
    s, figures = stand.statement, stand.statement["figures"]
    rows = [
        f"| `ledgers/{name}.csv` | {text} |"
        for name, text in TABLES.items()
        if f"ledgers/{name}.csv" in files
    ]
    return README.format(
        number=stand.number,
        organisation=s["organisation"],
        start=s["period"]["start"],
        end=s["period"]["end"],
        sample=" Sample data: this organisation is invented." if s["sample"] else "",
        headline=s["headline"],
        digest=stand.digest,
        cost=_shown(figures["effective_cost"]),
        currency=s["currency"],
        prompt=_shown(figures["prompt_tokens"]),
        generation=_shown(figures["generation_tokens"]),
        price=_shown(figures["cost_per_million_tokens"]),
        recipe=files[BY_HAND].decode() if BY_HAND in files else NO_STEPS,
        steps=STEPS if BY_HAND in files else "",
        currencies=CURRENCIES.format(currency=s["currency"]) if s.get("exchange") else "",
        documents="Their bytes are kept by the organisation, under that digest; ask for those you choose.",
        paper="| `report.pdf` | the report as printed |\n" if "report.pdf" in files else "",
        tables="\n".join(rows),
        as_of=(stand.seal or {})["prepared_at"],
    )


def ipe_sheet(stand: Standing, files: Mapping[str, bytes]) -> str:
    """The sheet on completeness and accuracy for the auditor's working papers."""
    s, record = stand.statement, stand.seal or {}
    totals, evidence = s["control_totals"], record.get("evidence") or {}
    trail = record.get("trail") or {}
    signed = [f"{w['kind']} {w['subject']} by {w['by']}" for w in record.get("waivers", [])]
    return IPE.format(
        number=stand.number,
        revision=stand.revision,
        state="final",
        software=s["software_version"],
        method=s["method_version"],
        start=s["period"]["start"],
        end=s["period"]["end"],
        zone=s["period"]["zone"],
        prepared=record["prepared_by"],
        approved=record["approved_by"],
        sealed_by=record["sealed_by"],
        sealed_at=record["sealed_at"],
        digest=stand.digest,
        previous=record["previous_digest"],
        trail=f"{trail.get('entries')} entries, {trail.get('head')}" if trail else "none",
        charges=totals["charges"],
        charge_rows=_rows(files, "charges"),
        hour_rows=_rows(files, "token_hours"),
        readings=totals["readings"],
        expected=totals.get("readings_expected", "not told"),
        restarts=totals.get("restarts", "not told"),
        documents=len(totals["documents"]),
        cost_reach=s["reaches"]["cost"],
        token_reach=s["reaches"]["tokens"],
        billed=totals["billed"],
        effective=totals["effective"],
        currency=s["currency"],
        difference=s["tieout"]["period"]["difference"],
        rejected=sum(one["rows_rejected"] for one in totals["documents"]),
        provisional=", ".join(s["provisional_months"]) or "none",
        waivers="; ".join(signed) or "none",
        exceptions=len(s["exceptions"]),
        computed=evidence.get("figures_computed_again"),
        unequal=evidence.get("figures_unequal_count"),
    )


def _rows(files: Mapping[str, bytes], name: str) -> int:
    return max(0, files.get(f"ledgers/{name}.csv", b"").count(b"\n") - 1)


def _shown(value: Any) -> str:
    if value is None:
        return "n/a"
    return f"{value:,}" if isinstance(value, int) else plain(Decimal(value))
