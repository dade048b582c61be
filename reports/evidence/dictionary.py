"""The data dictionary of a pack: what each column of its tables means, its unit and its source.

A new table of `finops.ledger.queries.export` (and its parts), or a new column, is told here; a test compares.
Kinds: `text`; `whole` (a whole number, BIGINT in Parquet); `exact` (a decimal number or a fraction
as exact text, in Parquet too, since no binary or 38-digit type holds every amount); `instant`
(RFC 3339, UTC); `json` (canonical JSON text).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finops.ledger.queries.export_table import Table, table


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its table, its name, its kind, what it means, and where its values come from."""

    table: str
    name: str
    kind: str
    meaning: str
    source: str


INVOICE = "invoice export, the line named"
DECISION = "a person's decision, in the trail"
READINGS = "readings of engines, derived by method §2"
METRICS = "readings of engines' gauges, derived by method §8"

# One line a column: table or "" for the same table, column, kind, meaning. `[…]` heads a table
# with its source.
TOLD = f"""
[charges] {INVOICE}
document|text|SHA-256 of the export the line stands in
line|whole|line of that document
start|instant|start of the charge's own period
end|instant|end of the charge's own period, not in it
billed|exact|amount invoiced for the line, in `currency`
effective|exact|amortised cost of the line, in `currency`: commitments spread over their use
gpu_count|exact|GPUs of the machine, by its shape
consumed_quantity|exact|quantity used, in `consumed_unit`
consumed_unit|text|unit of the quantity used
pricing_quantity|exact|quantity priced, in `pricing_unit`
pricing_unit|text|unit of the quantity priced
place|text|where the rules put the charge: workload, shared, unused commitment, out of scope or unassigned
target|text|the workload, or the key a shared charge is split by
kept sum|whole|how many lines of the document the row adds up, from `line` on; empty where it is one line
contracted|exact|cost at contracted prices as the line writes it, in `currency`
contracted_unit_price|exact|contracted price of one `pricing_unit`
list_unit_price|exact|list price of one `pricing_unit`
tags_digest|text|first 16 digits of the SHA-256 of the line's tags, to tell lines that are alike
idle_share|exact|share of the node's GPU time that nobody held, as a fraction (from nodes)
account|text|billing account
account_name|text|its name
sub_account|text|account the usage belongs to
sub_account_name|text|its name
provider|text|cloud provider
issuer|text|who issues the invoice
service|text|service as the issuer names it
service_category|text|category of the service
sku|text|stock-keeping unit
sku_price|text|price id of the SKU
resource|text|resource id
resource_name|text|name of the resource
resource_type|text|type of the resource
region|text|region
instance_type|text|shape of the machine
gpu_model|text|GPU of the shape, by the catalogue
category|text|usage, purchase, tax, credit or adjustment
class|text|`Correction` where the line corrects an earlier one
pricing_category|text|on demand, committed, spot or other
commitment|text|id of the commitment that covers the line
commitment_name|text|its name
commitment_status|text|used or unused part of the commitment
invoice|text|invoice id, empty while none is issued
description|text|the line's own description
frequency|text|one-time, recurring or usage-based
currency|text|currency of both amounts, ISO 4217
billing_period|text|month of the invoice, YYYY-MM
rate_card|text|rate card that priced the line, where no invoice did
kept sum|text|set where the row is a kept sum of many like lines: what it sums
report_billed|exact|`billed` in the report's currency (§3.9)
report_effective|exact|`effective` in the report's currency (§3.9)
rate_day|text|day of the rate that converted it, YYYY-MM-DD
tag:*|text|value of a tag that a rule asks for
[rules] {DECISION}
number|whole|the rule's number
version|whole|its version
order|whole|rules are asked in this order; the first that matches decides
subject|text|charge or series
place|text|where what matches goes
target|text|workload or key
matchers|json|name, operator and value of each condition; all must hold
valid_from|instant|from when it holds; empty: always
valid_to|instant|until when it holds, not included; empty: always
[shared_keys] {DECISION}
key|text|name of the key
method|text|tokens, gpu-hours or fixed shares
workload|text|workload of a fixed share
share|whole|its share, against the sum of shares
[workloads] {DECISION}
slug|text|name of the workload
model|text|model it serves
stack|text|serving software
team|text|team or owner
purpose|text|inference or training
cluster|text|cluster
namespace|text|namespace
rate_cap_tokens_per_second|whole|declared highest rate, for bounds (§2.6)
kv_bytes_per_token|whole|bytes of KV cache a token takes
max_model_len|whole|longest request, in tokens
[series] {READINGS}
series|whole|number of the series in this ledger
source|text|where it was read
metric|text|name of the counter
role|text|what it counts
layer|text|engine or gateway
preference|whole|of several names for the same count the lowest counts
target|whole|number of the address it was read from
engine|text|`engine` label
other_half|whole|1 where the other half of a disaggregated service counts it
born_ms|whole|birth of the counter, else its first reading, ms since 1970
last_ms|whole|its last reading, ms since 1970
usual_ms|whole|usual interval between readings, ms
source_last_ms|whole|last reading of its whole source, ms since 1970
end_dark_ms|whole|time after its last reading in which it may have counted unseen, ms
marks_last_ms|json|where processes alternate behind the address: the last reading of each, ms since 1970
labels|json|all labels
[token_hours] {READINGS}
series|whole|see series
hour|instant|UTC hour
workload|text|workload that the rules give the series to in that hour
tokens|whole|tokens booked in the hour
readings|whole|readings in the hour
restarts|whole|restarts that readings of the hour show
hidden_resets|whole|of them those that no fall of the value shows
openings|whole|first readings whose birth is not proven; they book nothing
opening_tokens|whole|what they showed, tokens
alternations|whole|changes between processes behind one address
unmarked|whole|1 where no mark of a process stands beside the readings
rate_tokens|whole|highest rise between two readings, tokens
rate_ms|whole|over this time, ms
first_ms|whole|first reading, ms since 1970
last_ms|whole|last reading, ms since 1970
[gaps] {READINGS}
series|whole|see series
from_ms|whole|last reading before the silence, ms since 1970
to_ms|whole|first reading after it, ms since 1970
usual_ms|whole|usual interval, ms
tokens|whole|tokens that the first reading after it booked
[restarts] {READINGS}
series|whole|see series
hour|instant|UTC hour of the reading that shows it
at_ms|whole|that reading, ms since 1970
dark_ms|whole|time in which tokens may have been lost unseen, ms
shown_tokens|whole|of them what the next reading shows already
[late_births] {READINGS}; births further before the first reading than a gap, with an edge between
series|whole|see series
from_ms|whole|since when it may have counted unread, ms since 1970
at_ms|whole|its first reading, ms since 1970
usual_ms|whole|usual interval between readings then, ms
tokens|whole|tokens that its first reading booked
[lost_before] {READINGS}; restarts with an edge between the readings before and after
series|whole|see series
from_ms|whole|last reading before it, ms since 1970; see gaps
dark_ms|whole|time in which tokens may have been lost unseen, ms
rate_tokens|whole|highest rise between two readings in the hour that shows it, tokens; counts where nothing was read before
rate_ms|whole|over this time, ms
[readings] samples of the document named
series|whole|see series
hour|instant|UTC hour
why|text|`counter` (all readings of an hour in which a counter began, ended or alternated), or an edge of the week
at_ms|whole|instant of the reading, ms since 1970
value|whole|value of the counter, tokens
mark_us|whole|mark of the process beside it, µs since 1970
mark_kind|text|what the mark is: `created` or `process_start`; marks of different kinds are never compared
replica|text|replica of the store it came from
document|text|SHA-256 of the document it came in
[counters_before] {READINGS}
series|whole|see series
hour|instant|UTC hour; this is how its counters stood before it
current|whole|number of the counter that was read last
last_ms|whole|last reading before the hour, ms since 1970
fall_ms|whole|last reading without a mark that fell, ms since 1970
counters|json|of each counter: number, marks (µs since 1970), highest value booked, first reading
replicas|json|of each replica: its last reading (ms since 1970) and value
proven_ms|json|readings of the hour whose counter's birth is proven (§2.4), by readings of its job or `up`, ms since 1970
[usage_hours] usage records, the document named
document|text|SHA-256
source|text|where the records came from
hour|instant|UTC hour
labels|json|model and other labels
prompt_tokens|whole|prompt tokens of requests that finished
cached_tokens|whole|of them read from the cache; empty: not told
generation_tokens|whole|generation tokens
requests|whole|requests
quality|text|measured, re-tokenised or estimated
[nodes] readings of clusters, by method §4
node|whole|number of the node in this ledger
source|text|where it was read
cluster|text|`cluster` label
name|text|name of the node
keys|json|names by which an invoice may call it, of its provider id
[node_hours] readings of clusters, by method §4
node|whole|see nodes
hour|instant|UTC hour
observed_ms|whole|time in which the node was seen, ms
capacity_ms|exact|its GPUs × ms seen
[gpu_holders] readings of clusters or devices, by method §4
holder|whole|number of the holder in this ledger
source|text|by what it is known: requests of pods, or devices
namespace|text|namespace of the pod
pod|text|name of the pod
labels|json|all labels
[gpu_hours] readings of clusters or devices, by method §4
holder|whole|see gpu_holders
hour|instant|UTC hour
gpu_ms|exact|GPUs that it held × ms, parts of a GPU as such
[objectives] {DECISION}
workload|text|workload
first_token_seconds|exact|longest time to the first token that is in time, s
inter_token_seconds|exact|longest time between tokens that is in time, s
target|exact|share of requests that are to be in time
valid_from|instant|from when it holds
at|instant|when it was recorded
by|text|by whom
note|text|what its author says
[documents_read] counted when each document was read
sha256|text|SHA-256 of the document
name|text|name it was handed over by
format|text|what it was read as
format_version|text|version of that format, or of the saved mapping it was read by; empty where there is none
size_bytes|whole|its size
rows_read|whole|rows or samples read
charges|whole|charges taken
readings|whole|readings taken
rows_rejected|whole|rows refused
received_at|instant|when it was received
[earlier_weeks] reports of earlier weeks, as they stood at the closing
week|text|week, YYYY-Www
revision|whole|revision of its report
digest|text|SHA-256 of its statement (`statement_digest` in its own seal)
effective_cost|exact|cost of the workloads that count, as that report says
prompt_tokens|whole|prompt tokens, as that report says
generation_tokens|whole|generation tokens, as that report says
[latency_buckets] {READINGS}
series|whole|number of the series
measure|text|what the histogram measures
preference|whole|of several names for the same measure the lowest counts
target|whole|number of the address
engine|text|`engine` label
bound_seconds|exact|upper bound of the bucket, s; `+Inf`-like text for the last
labels|json|all labels
[latency_hours] {READINGS}
series|whole|see latency_buckets
hour|instant|UTC hour
count|whole|observations up to the bound, in the hour
readings|whole|readings in the hour
[changes] {DECISION}
key|text|key of the change: SHA-256 of its words, the first twelve digits
workload|text|workload
kind|text|configuration, engine version or replicas
at|instant|hour in which it first showed
before|text|what was so before
after|text|what has been so since
confirmed_by|text|who confirmed it
note|text|what that person says
[change_hours] {METRICS}
change|text|key of the change
hour_ms|whole|UTC hour
cost|exact|the workload's own effective cost in the hour, in the report's currency
tokens|whole|prompt and generation tokens booked in the hour
levels_ms|json|milliseconds at each half per cent of the KV cache's use
[training_budget] {DECISION}
quarter|text|calendar quarter
amount|exact|what training may cost in it
currency|text|currency of the amount
document|text|SHA-256 of the document that says so
note|text|what its author says
by|text|by whom
at|instant|when it was recorded
start|instant|start of the quarter
end|instant|its end, not included
[training_charges] {INVOICE}
document|text|SHA-256 of the document
line|whole|line in it
start|instant|start of the charge
end|instant|its end, not included
workload|text|training workload that a rule gives it to
currency|text|currency of the amount: the report's where it was converted
effective|exact|whole effective cost
[engines] {METRICS}
series|whole|number of the series of its KV usage
target|whole|number of the address
engine|text|`engine` label
name|text|pod or address
instance|text|address it was read at
labels|json|all labels
[cache_hours] {METRICS}
series|whole|see engines
hour|instant|UTC hour
blocks|whole|KV blocks of the pool
block_size|whole|tokens a block holds
pool_tokens|whole|tokens the pool holds, where the engine says so
max_model_len|whole|longest request, tokens
observed_ms|whole|time observed, ms
active_block_ms|whole|blocks in use × ms
reserved_block_ms|whole|blocks of the pool × ms observed, of an hour in which it changed; else empty
peak_blocks|whole|most blocks in use
peak_ms|whole|when, ms since 1970
peak_running|whole|most requests running together
peak_waiting|whole|most requests waiting for room
stale_ms|whole|time left out because the gauge stood still, ms
levels_ms|json|time spent at each half percent of use, ms
setting|text|gpu_memory_utilization of the engine
first_ms|whole|first reading of an hour with none read beside it, ms since 1970
[preemptions] {READINGS}
series|whole|number of the series
target|whole|number of the address
engine|text|`engine` label
hour|instant|UTC hour
count|whole|requests set back for want of room
[engine_settings] start-up logs and labels of the engine (method §8, §9)
series|whole|see engines
kind|text|job, engine number and model: what stays the same when a pod is replaced
workers|json|bytes on the GPU of each worker by rank, as its log prints them (non-torch also as what it prints of both together less the weights), else as the engine's gauges tell them
log_gpus|whole|how many GPUs it has by its log; 1 without one
log|text|SHA-256 of its start-up log
log_setting|text|gpu_memory_utilization by the log, where no label tells it
log_max_model_len|whole|longest request by the log, tokens
gauge_kv_bytes|whole|bytes of the KV cache on one GPU by the engine's own gauge
given_kv_bytes|whole|the same as given at start, used where neither a token's bytes nor the log tell it
sized_by_hand|whole|1 where a person fixed blocks or bytes, so that the setting has no effect
log_max_num_seqs|whole|requests allowed at once, by the log
log_max_num_batched_tokens|whole|tokens allowed in a step, by the log
log_tensor_parallel|whole|GPUs that share a layer, by the log; empty without a log
alone_non_torch_bytes|whole|memory outside torch of a start of this version on one GPU, by its log
prefix_queries|whole|prompt tokens looked up in the prefix cache in the week
prefix_hits|whole|those of them that were found
earlier_peak_running|whole|most requests at once in the 28 days before the week
earlier_days|whole|how many of those days were read
begun|instant|when the process that the week ends with had been started at the latest
kv_bytes_per_token|whole|bytes of KV cache a token takes on one GPU of this engine, by the model's configuration with the number of GPUs and the number type of the engine's own log, else by that log, else as stated of the workload
gpus_told|whole|GPUs that the engine is spread over, where its log says so
[engine_logs] start-up logs as handed over, and whose a person said they are (method §8.2)
document|text|SHA-256 of the log
number|whole|which start in it
started_at|instant|when the engine started, by its log
posted_at|instant|when the log was handed over
failed|whole|1 where the engine did not come up
model|text|model by the log
served_names|json|names it is served under
rank|whole|data-parallel rank, where the log tells one
kv_tokens|whole|tokens the cache holds, by the log
workload|text|workload that a person said it is of
pod|text|pod that a person said it is of
[lengths] histograms of the engine, booked as tokens are (method §2, §9)
target|whole|number of the engine's address
engine|text|engine number behind it
measure|text|prompts and answers of finished requests, or steps
edge|whole|longest of the bucket, tokens; empty: no limit
count|whole|how many of the week lie in this bucket alone
[devices] the exporter of GPU metrics (method §8.1)
target|whole|number of the exporter's address
device|text|GPU, or MIG instance behind a slash
source|text|the source that its metrics come from
instance|text|address of the exporter
number|whole|number of the GPU in its machine
[device_hours] the exporter of GPU metrics (method §8.1, §8.5)
target|whole|see devices
device|text|see devices
hour|instant|UTC hour
observed_ms|whole|time observed, ms
used_byte_ms|exact|bytes in use × ms
free_byte_ms|exact|bytes held by nothing × ms
reserved_byte_ms|exact|bytes reserved by the driver × ms
total_bytes|whole|memory of the GPU
tenants|json|namespaces and pods that held it
holders|json|bytes × ms by pod, and how many processes of a name and their bytes × ms, where an exporter tells it
[ladder_hours] {METRICS}
kind|text|see engine_settings
hour|instant|UTC hour
setting|text|gpu_memory_utilization
blocks|whole|KV blocks of the pool
seen_ms|whole|time observed or left out because the gauge stood still, ms
levels_ms|json|time spent at each half percent of use, ms
peak_blocks|whole|most blocks in use
peak_waiting|whole|most requests waiting for room
preempted|whole|requests set back for want of room
[reaches] all exports and readings of the ledger as of the closing
kind|text|cost, issuer or source
name|text|its name
first|instant|where it begins
last|instant|how far it reaches
ended|whole|1 where it ended long before the others
[invoice_lines] invoice exports of the months concerned, whole months
issuer|text|issuer
account|text|billing account
invoice|text|invoice id
month|text|month, YYYY-MM
currency|text|currency
document|text|SHA-256 of the export
billed|exact|sum of billed amounts, in `currency`
lines|whole|lines summed
tax_lines|whole|lines of tax among them
[invoice_amounts] a person's reading of the printed invoice, or its file
issuer|text|issuer
invoice|text|invoice id
billing_period|text|month, YYYY-MM
currency|text|currency
amount|exact|amount printed on the invoice, in `currency`
from_details|whole|1 where the issuer's file of invoice details tells it, 0 where a person typed it
document_id|text|SHA-256 of the invoice, where it is kept
at|instant|when it was recorded
by|text|by whom
[confirmations] {DECISION}
issuer|text|issuer
billing_account|text|account
billing_period|text|month, YYYY-MM
at|instant|when
by|text|by whom
[training_budget] {DECISION}, with the document named
quarter|text|quarter, YYYY-QN
amount|exact|budget of training, in `currency`
currency|text|currency
document|text|SHA-256 of its document
note|text|what its author says
by|text|by whom
at|instant|when it was recorded
start|instant|start of the quarter
end|instant|end of the quarter, not in it
[training_charges] {INVOICE}
document|text|SHA-256 of the export
line|whole|line of that document
start|instant|start of the charge's own period
end|instant|end of the charge's own period, not in it
workload|text|workload of purpose training
currency|text|currency of the amount
effective|exact|amortised cost of the whole line, in `currency`
[exchange_rates] the published rates, the document named
currency|text|currency, ISO 4217
day|text|day the rate was published for, YYYY-MM-DD
per_eur|exact|units of it for one euro
document|text|SHA-256 of the file of rates
[period_statuses] the issuer's file of billing periods, the document named
issuer|text|issuer
billing_period|text|month, YYYY-MM
status|text|Open or Closed; the newest word holds
updated_at|instant|when the issuer said so
document_id|text|SHA-256 of the file
at|instant|when it was taken in
[baselines] {DECISION}, with the documents named
workload|text|workload compared
kind|text|measured or declared
basis|text|processed or delivered tokens
quality|text|measured, re-tokenised or estimated
currency|text|currency of cost and prices
frozen_at|instant|when it was frozen
author|text|by whom
approver|text|approved by whom
cost|exact|effective cost of its period, in `currency`
prompt_tokens|whole|prompt tokens of its period
cached_tokens|whole|of them read from the cache
generation_tokens|whole|generation tokens of its period
declared_price|exact|price per million tokens, where declared
classes|json|prices per million tokens by class, where known
model|text|model of the legacy stack
tokenizer|text|its tokenizer
legacy|text|workload of the legacy stack
period_start|instant|start of its period
period_end|instant|end of its period, not in it
documents|json|SHA-256 of its documents
note|text|what its author says
"""


def columns() -> Iterator[Column]:
    """Every column of every table, in the order of the tables."""
    of, source = "", ""
    for line in TOLD.strip().splitlines():
        if line.startswith("["):
            of, _, source = line[1:].partition("] ")
            continue
        name, kind, meaning = line.split("|", 2)
        yield Column(of, name, kind, meaning, source)


def kinds(of: str) -> dict[str, str]:
    """The kinds of a table's columns by name."""
    return {one.name: one.kind for one in columns() if one.table == of}


def kind_of(known: dict[str, str], name: str) -> str:
    """A column's kind; tags are text, like every column that is not told."""
    return known.get(name, "text")


def as_table() -> Table:
    """The dictionary as a table of its own."""
    names = ("table", "column", "kind", "meaning", "source")
    return table(
        "dictionary", names, ((c.table, c.name, c.kind, c.meaning, c.source) for c in columns())
    )
