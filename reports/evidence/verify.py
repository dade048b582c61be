#!/usr/bin/env python3
"""Recomputes every figure of a sealed report from the ledger rows beside it.

    python3 verify.py              in the folder of an unpacked pack
    python3 verify.py PACK.zip     on the pack itself
    python3 verify.py --all ...    prints the equal figures too
    python3 verify.py --contents   lists the sections: to follow one figure, read one of them

What it does. It reads the tables of the pack (`ledgers/NAME.csv`), groups their rows, adds, and
compares with statement.json value by value, by name: one line for each figure, `equal` or
`UNEQUAL` with both values. A value of the statement that was not compared is a difference too. The
exit code is 1 when anything differs or a digest is wrong. It needs Python 3.11 or newer and nothing
else, and shares no code with the program that made the report: it was written from the method's
text ("§" below) alone, so that an error in either shows as a difference.

What it takes as given. The rows: seal.json holds their digests, and README.md says how they lead to
documents; those hours in which a counter began or ended are booked again from readings (part 17).
Words: of a sentence the numbers are computed and their order is demanded, the wording is not. GIVEN
(part 20) names all that is not computed, each with its reason.

How to read it. Part 1 is enough for the headline: what is paid, what is counted, one division,
and the seal. Each later part computes what part 1 takes from it, or other figures of the report; a
figure is followed by reading one of them:

    part  1  the headline and the seal        §1 §3.7 §4 §5 §11  charges, rules, SHA256SUMS
    part  2  tokens by series, with bounds    §2.3 to §2.6       series, token_hours, gaps, restarts
    part  3  tokens of groups of series       §2.5 §2.6 §2.10    usage_hours
    part  4  currencies, nodes                §3.9 §4            exchange_rates, nodes, gpu_hours
    part  5  the money of a span, the week    §4                 charges, workloads, shared_keys
    part  6  unit costs, reaches              §4 §5              reaches
    part  7  the legacy stack, the bridge     §6 §7              baselines
    part  8  GPU memory                       §8.3 to §8.7       engines, cache_hours
    part  9  GPUs and logs of engines         §2.7 §8.1 §8.2 §8.5  devices, engine_logs
    part 10  memory tables, hours of memory   §8.1 §8.5 §8.8     engine_settings
    part 11  right-sizing                     §9                 cache_hours, ladder_hours
    part 12  what is said of right-sizing     §9                 engine_settings, lengths
    part 13  service levels                   §5                 objectives, latency_*
    part 14  changes, training                §10 §5             change_hours, training_*
    part 15  tie-outs, places, teams          §3.8 §4            invoice_lines, invoice_amounts
    part 16  exceptions                       §11                charges, invoice_lines
    part 17  odd hours booked anew            §2.1 §2.2 §2.4     readings, counters_before
    part 18  lists, totals, earlier weeks     §11                documents_read, earlier_weeks
    part 19  reading and comparing            -                  any
    part 20  what is left, and printing       §11                -

A *section* is a function that gives a part of the statement in the statement's own shape. Instants
are milliseconds since 1970, a fraction where a charge is timed more finely; an empty cell is None,
which is not zero.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zipfile
from bisect import bisect_right
from collections import Counter, defaultdict, namedtuple
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path

HOUR, DAY, MILLION = 3_600_000, 86_400_000, 10**6
SIXTY = Context(prec=60, rounding=ROUND_HALF_EVEN)
EXACT = Context(prec=400, rounding=ROUND_HALF_EVEN)  # wide enough that sums are exact

# ==== part 1: the headline (§1, §3.7, §4, §5) and the seal (§11) ==================================


def quotient(above, below):
    """§1: a quotient to 60 significant digits, rounded half to even."""
    value = Fraction(above) / Fraction(below)
    return SIXTY.divide(Decimal(value.numerator), Decimal(value.denominator))


def rounded(value, decimals):
    """§1: a number with so many decimals, rounded half to even."""
    return Decimal(round(Fraction(value) * 10**decimals)).scaleb(-decimals)


def short(value):
    """A fraction to at most 24 decimals."""
    value = rounded(value, 24)
    return value.normalize(EXACT) if value.as_tuple().exponent < 0 else value


def total_of(values):
    """A sum; None when nothing is there, or when one part of it is unknown."""
    values = list(values)
    return None if not values or None in values else sum(values)


def decimals_of(amount):
    """How many decimals an amount is written with: sums keep those of their longest part."""
    return max(0, -amount.as_tuple().exponent)


def part(cost, start, end, since, until):
    """§3.7: what of a charge over [start, end) falls into [since, until); parts telescope."""
    if since <= start < until and end <= until:
        return cost
    decimals = decimals_of(cost) + 4

    def up_to(moment):
        share = Fraction(min(max(moment, start), end) - start) / (end - start)
        return rounded(Fraction(cost) * share, decimals)

    return (cost if until >= end else up_to(until)) - up_to(since)


def split(amount, weights):
    """§4: shares by largest remainder on the last digit; they sum to the amount."""
    decimals, total = decimals_of(amount) + 4, sum(Fraction(weight) for weight in weights)
    units = Fraction(amount) * 10**decimals
    ideal = [units * Fraction(weight) / total for weight in weights]
    cut = [int(value) for value in ideal]  # towards zero
    missing = int(units) - sum(cut)
    order = sorted(range(len(cut)), key=lambda i: (-abs(ideal[i] - cut[i]), i))
    for index in order[: abs(missing)]:
        cut[index] += 1 if missing > 0 else -1
    return [Decimal(value).scaleb(-decimals) for value in cut]


def share_out(pot, weights):
    """§4: each workload's part of a pot of shared charges; nothing where nobody has a weight."""
    weights = {slug: weight for slug, weight in sorted(weights.items()) if weight > 0}
    return dict(zip(weights, split(pot, list(weights.values())))) if weights else {}


class Rules:
    """§4: ordered, dated rules; the first that matches decides. No match: unassigned."""

    def __init__(self, rows, subject):
        mine = [row for row in rows if row["subject"] == subject]
        self.rules = sorted(mine, key=itemgetter("order", "number"))
        self.names = sorted({name for rule in mine for name, _, _ in rule["matchers"]}
                            | {"commitment_status", "kept sum"})
        dates = {rule[name] for rule in mine for name in ("valid_from", "valid_to")}
        self.dates, self.known = sorted(dates - {None}), {}

    def place(self, columns, at):
        """Where a charge, or a series by its labels, belongs: a kind of place, and which one."""
        key = (sum(d <= at for d in self.dates), *[columns.get(n, "") for n in self.names])
        if key not in self.known:
            self.known[key] = self._place(columns, at)
        return self.known[key]

    def _place(self, columns, at):
        unused = columns.get("commitment_status", "").lower() == "unused"
        rules = [] if columns.get("kept sum") else self.rules  # it holds lines no rule reached
        for rule in rules:
            since, until, matchers = rule["valid_from"], rule["valid_to"], rule["matchers"]
            if unused and not any(name.startswith("commitment") for name, _, _ in matchers):
                continue  # a commitment's unused part goes only where a rule names commitments
            if (since and at < since) or (until and at >= until):
                continue
            if all(holds(columns.get(name, ""), op, wanted) for name, op, wanted in matchers):
                return rule["place"], rule["target"] or None
        return ("unused commitment", None) if unused else ("unassigned", None)


def holds(value, op, wanted):
    """One condition of a rule: equal (=), not equal (!=), fits a pattern (=~) or not (!~)."""
    same = pattern(wanted).fullmatch(value[:4096]) if "~" in op else value == wanted
    return bool(same) == op.startswith("=")


@cache
def pattern(text):
    return re.compile(text, re.DOTALL)


def pieces(charges, since, until, idle):
    """Each charge's part of a span: its row, [billed, effective], and the same by place. Of a
    shared or unassigned charge, the time that nobody held its GPU goes to the place `idle`."""
    for row in charges:
        start, end = row["start"], row["end"]
        if (start < until and end > since) or since <= start == end < until:
            amounts = [part(row[name] or Decimal(0), start, end, since, until)
                       for name in ("billed", "effective")]
            nobody = row["placed"][0] in ("shared", "unassigned") and idle(row, since, until)
            by_place = {row["placed"]: amounts}
            if nobody:
                unheld, held = zip(*(split(amount, [nobody, 1 - nobody]) for amount in amounts))
                by_place = {("idle", None): unheld} | ({row["placed"]: held} if nobody < 1 else {})
            yield row, amounts, by_place


SECTIONS = []  # in the order they are read; each gives a part of the statement


def section(function):
    SECTIONS.append(function)
    return function


@section
def headline(week):
    """§5: the cost per million tokens, straight from charges and token hours. It takes: series and
    hours from part 2; charges in the report's currency and the idle share from part 4; which
    workloads count, in which hours, and the weights of what is shared from part 5."""
    cost, tokens = Decimal(0), 0
    for span in sorted({w["common"] for w in week.counting}):
        slugs = {w["slug"] for w in week.counting if w["common"] == span}
        for number, series in week.tokens.series.items():
            kind = series["role"], series["layer"], series["other_half"]
            if kind in (("prompt", "engine", "0"), ("generation", "engine", "0")):
                for hour, row in week.tokens.hours.get(number, ()):
                    if span[0] <= hour < span[1]:
                        kind, slug = week.tokens.place(series, hour)
                        tokens += row.tokens if kind == "workload" and slug in slugs else 0
        pots = defaultdict(Decimal)
        for row, _, by_place in pieces(week.charges, *span, week.nodes.idle):
            for (kind, name), (_, effective) in by_place.items():
                if row["money"] == week.currency and kind == "workload" and name in slugs:
                    cost += effective
                elif row["money"] == week.currency and kind == "shared":
                    pots[name] += effective
        for name, pot in pots.items():
            shares = share_out(pot, week.keys.get(name, {}))
            cost += sum(share for slug, share in shares.items() if slug in slugs)
    price = quotient(cost * MILLION, tokens) if cost > 0 and tokens else None
    return {"figures": {"effective_cost": cost if week.counting else None,
                        "cost_per_million_tokens": price}}


def canonical(value):
    """§11: an object as the bytes that were sealed."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def digests(pack, check):
    """§11: SHA256SUMS, the seal's digest, its statement, and what part 18 says of its people."""
    listed = pack.files.get("SHA256SUMS", b"").decode().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in listed)}
    there = set(pack.files) - {"SHA256SUMS"}
    check("files of the pack", sorted(sums), sorted(there))
    for name in sorted(there ^ set(sums)):  # a long list does not show which one it is
        check(f"{name}, listed and found", name in sums, name in there)
    seal, statement = pack.json("seal.json"), pack.json("statement.json")
    for name in sorted(set(pack.files) & set(sums)):
        check(f"SHA-256 of {name}", sums[name], sha256(pack.files[name]))
    for name, digest in sorted((seal.get("evidence") or {}).get("files", {}).items()):
        check(f"sealed digest of {name}", digest, sha256(pack.files.get(name, b"")))
    check("seal.json is in canonical form", True, canonical(seal) == pack.files["seal.json"])
    check("statement.json is the statement of the seal", True,
          canonical(seal["statement"]) == pack.files["statement.json"])
    check("digest of the statement", seal["statement_digest"], sha256(pack.files["statement.json"]))
    own = sha256(pack.files["seal.json"])
    chain_and_people(pack, seal, statement, own, check)
    return own

# ==== part 2: tokens by series (§2.3 to §2.6) =====================================================

COUNTS = ("restarts", "hidden_resets", "readings", "ends", "gaps", "alternations",
          "unplaced_openings", "opening_tokens", "unmarked_restarts", "unread_edges")
SUMS = ("prompt", "generation", "delivered_prompt", "delivered_generation",
        "delivered_cached_prompt", "delivered_lower", "delivered_upper", "prompt_lower",
        "prompt_upper", "generation_lower", "generation_upper")
Hour = namedtuple("Hour", "tokens readings restarts hidden_resets openings opening_tokens "
                          "alternations unmarked rate_tokens rate_ms first_ms last_ms")


class Part:
    """One counter series in one span: the sums of its hours, and what bounds and coverage need."""

    def __init__(self, rows=(), darks=()):
        self.sum = Hour._make(map(sum, zip(*rows)) if rows else [0] * 12)
        rates = {(row.rate_tokens, row.rate_ms) for row in rows}
        self.rate = max((Fraction(*one) for one in rates), default=Fraction(0))  # a millisecond
        self.darks = list(darks)  # (milliseconds, tokens that the next reading already shows)
        self.ends = self.gaps = self.living = self.unobserved = 0
        self.from_before = self.into_after = self.unread_edges = 0
        self.edge_in_gap = False

    def lower(self):
        return self.sum.tokens - self.from_before

    def upper(self, least):
        rate = max(self.rate, least)
        unseen = sum(max(0, -(-rate * ms // 1) - shown) for ms, shown in self.darks)
        return self.sum.tokens + int(unseen) + self.into_after

    def over_start(self, tokens):
        self.from_before, self.edge_in_gap = self.from_before + tokens, True
        self.unread_edges += 1

    def over_end(self, tokens):
        self.into_after, self.edge_in_gap = self.into_after + tokens, True
        self.unread_edges += 1

    def lose(self, row, start, end):
        """What was counted before the end of the span, and lost in a gap over it."""
        if row and (dark := min(end, row["from_ms"] + row["dark_ms"]) - max(start, row["from_ms"])) > 0:
            self.darks.append((dark, 0))
            if not self.sum.readings:
                self.rate = max(self.rate, Fraction(row["rate_tokens"], row["rate_ms"]))

    def exact(self):
        odd = self.sum.restarts or self.ends or self.sum.openings or self.sum.alternations
        return not (odd or self.edge_in_gap or (self.sum.unmarked and self.gaps))


class TokenLedger:
    """Token hours with what bounds and coverage need."""

    def __init__(self, pack):
        self.rules, self.made = Rules(pack.table("rules"), "series"), {}
        self.series = {row["series"]: row for row in pack.table("series")}
        self.hours, self.gaps, self.darks = {}, defaultdict(list), defaultdict(list)
        self.births = {row["series"]: row for row in pack.table("late_births")}
        self.lost = {(row["series"], row["from_ms"]): row for row in pack.table("lost_before")}
        columns, self.misplaced = ("series", "hour", "workload", *Hour._fields), 0
        for number, hour, workload, *counts in pack.lines("token_hours", columns):
            at, row = instant(hour), Hour._make(map(int, counts))
            self.hours.setdefault(number, []).append((at, row))
            kind, name = self.place(self.series[number], at)
            self.misplaced += workload != (name if kind == "workload" else "")
        gap = itemgetter("from_ms", "to_ms", "usual_ms", "tokens")
        for row in pack.table("gaps"):
            self.gaps[row["series"]].append(gap(row))
        for row in pack.table("restarts"):
            self.darks[row["series"], row["hour"]].append((row["dark_ms"], row["shown_tokens"]))
        self.usage = pack.table("usage_hours")
        self.caps = {w["slug"]: Fraction(w["rate_cap_tokens_per_second"], 1000)
                     for w in pack.table("workloads") if w["rate_cap_tokens_per_second"]}

    def place(self, row, at):
        """The place of a series or record: the same between two dates of the rules."""
        era, known = bisect_right(self.rules.dates, at), row.setdefault("places", {})
        if era not in known:
            known[era] = self.rules.place(row["labels"], at)
        return known[era]

    def by_place(self, start, end, group_of=None):
        """Tokens of a span of whole hours by place, or by another grouping of series and hour."""
        key, group_of = (start, end, group_of), group_of or self.place
        if key not in self.made:
            layers = {"engine": {}, "gateway": {}}
            for number, series in self.series.items():
                if series["other_half"] == "1":
                    continue  # prompts are counted by the prefill half, generated tokens by decode
                for place, one in self._parts(number, series, start, end, group_of).items():
                    roles = layers[series["layer"]].setdefault(place, defaultdict(list))
                    roles[series["role"]].append((series, one))
            found = {place: group(roles, self.caps.get(place[1], 0))
                     for place, roles in layers["engine"].items()}
            others = [(place, group(roles, 0)) for place, roles in layers["gateway"].items()]
            for place, other in [*others, *self._usage(start, end, group_of)]:
                found[place] = beside(found[place], other) if place in found else other
            self.made[key] = found
        return self.made[key]

    def _parts(self, number, series, start, end, group_of):
        """One series by place: its hours, then its gaps, its life, and whether it ended."""
        groups, gaps = {}, self.gaps.get(number, ())
        for hour, row in self.hours.get(number, ()):
            if start <= hour < end:
                latest = group_of(series, hour)
                rows, darks = groups.setdefault(latest, ([], []))
                rows.append(row)
                darks += self.darks.get((number, hour), ()) if row.restarts else ()
        parts = {key: Part(*rows) for key, rows in groups.items()}
        birth = self.births.get(number)
        over_end, over_start = born_over(birth, end), born_over(birth, start)
        if not parts:
            if any(a < start and b >= end for a, b, _, _ in gaps):
                since = start
            elif over_end:
                since = max(start, birth["from_ms"] // HOUR * HOUR)
            else:
                return {}
            latest = group_of(series, since)
            parts[latest] = Part()
        first, last = next(iter(parts.values())), parts[latest]
        for a, b, usual, tokens in gaps:  # §2.5, §2.6: gaps and the edges of the span
            first.unobserved += max(0, min(b, end) - max(a + usual, start))
            first.gaps += start <= b < end
            if a < start <= b < end:
                first.over_start(tokens)
            elif a < end <= b:
                last.over_end(tokens)
                last.lose(self.lost.get((number, a)), start, end)
        if over_end:
            last.over_end(birth["tokens"])
        elif over_start:
            first.over_start(birth["tokens"])
        if over_start:
            read = max(birth["from_ms"] + (birth["usual_ms"] or 0), series["born_ms"], start)
            first.unobserved += max(0, min(birth["at_ms"], end) - read)
        seen, source, usual = series["last_ms"], series["source_last_ms"], series["usual_ms"] or 0
        ended = usual > 0 and 2 * (source - seen) > 5 * usual
        first.living += max(0, (min(end, seen) if ended else end) - max(start, series["born_ms"]))
        if ended and start <= seen < end:
            last.ends += 1
            last.darks.append((series["end_dark_ms"] or 0, 0))
        elif not ended and usual and 2 * (end - seen) > 5 * usual:
            last.unobserved += max(0, end - max(start, seen + usual))
            last.edge_in_gap = True
        if first.sum.alternations or last.sum.alternations:
            marks = series["marks_last_ms"] or []
            for at in marks[:-1]:  # a process not seen for so long has ended; the newest is above
                if start <= at < end and 2 * (source - at) > 5 * usual * len(marks) > 0:
                    last.ends += 1
                    last.darks.append((usual, 0))
        if not first.sum.readings:
            first.unobserved = first.living
        return parts

    def _usage(self, since, until, group_of):
        """Usage records: delivered tokens, exact."""
        groups = defaultdict(list)
        for row in self.usage:
            if since <= row["hour"] < until:
                groups[group_of(row, row["hour"])].append(row)
        for place, rows in groups.items():
            prompt, answer, cached = (total_of(row[name] for row in rows) for name in (
                "prompt_tokens", "generation_tokens", "cached_tokens"))
            yield place, nothing() | {
                "delivered_prompt": prompt, "delivered_generation": answer,
                "delivered_cached_prompt": cached, "delivered_lower": prompt + answer,
                "delivered_upper": prompt + answer, "exact": True}

    def moved(self):
        """The hours in which tokens moved (§5, usage basis), and the sources, of each place."""
        hours, sources = defaultdict(set), defaultdict(set)
        for number, series in self.series.items():
            rows = self.hours.get(number, [])
            for hour, row in rows if series["role"] in ("prompt", "generation") else ():
                if row.tokens:
                    hours[self.place(series, hour)].add(hour)
            for hour, _ in (*rows[:1], *rows[-1:]):
                sources[self.place(series, hour)].add(series["source"])
        for row in self.usage:
            hours[self.place(row, row["hour"])].add(row["hour"])
            sources[self.place(row, row["hour"])].add(row["source"])
        return hours, sources


def born_over(birth, edge):
    """§2.6: whether a counter was born before an edge and first read after it, later than a gap:
    what it showed first may lie on either side."""
    if birth is None or not birth["from_ms"] < edge <= birth["at_ms"]:
        return False
    return not birth["usual_ms"] or 2 * (birth["at_ms"] - birth["from_ms"]) > 5 * birth["usual_ms"]

# ==== part 3: tokens of groups of series (§2.5, §2.6, §2.10) ======================================


def nothing():
    return dict.fromkeys(("cached_prompt", *SUMS)) | dict.fromkeys(COUNTS, 0) | {
        "exact": False, "living": 0, "unobserved": 0, "twice": False}


def group(roles, cap):
    """The tokens of a group from its series (§2.5, §2.6, §2.10)."""
    found, parts = nothing(), {role: [one for _, one in rows] for role, rows in roles.items()}
    for role in ("prompt", "generation", "delivered_prompt", "delivered_generation"):
        if mine := parts.get(role):
            highest = max(cap, *(one.rate for one in mine))
            found[role] = booked(mine)
            both = {"_lower": sum(one.lower() for one in mine),
                    "_upper": sum(one.upper(cap if one.rate else highest) for one in mine)}
            for side, tokens in both.items():
                name = role.partition("_")[0] + side  # both delivered classes in one
                found[name] = (found[name] or 0) + tokens
    counted, engines = parts.get("prompt", []) + parts.get("generation", []), one_an_engine(roles)
    for name in ("restarts", "hidden_resets", "readings", "alternations"):
        found[name] = sum(getattr(one.sum, name) for one in engines)
    for name in ("ends", "gaps"):
        found[name] = sum(getattr(one, name) for one in engines)
    for name in ("living", "unobserved"):
        found[name] = sum(getattr(one, name) for one in parts.get("prompt") or engines)
    return found | {
        "cached_prompt": cached_prompt(roles),
        "exact": bool(counted) and all(one.exact() for one in counted),
        "unplaced_openings": sum(one.sum.openings for one in counted),
        "opening_tokens": sum(one.sum.opening_tokens for one in counted),
        "unmarked_restarts": sum(one.sum.restarts for one in engines if one.sum.unmarked),
        "unread_edges": sum(one.unread_edges for one in engines)}


def booked(parts):
    """What readings booked; of parts that have bounds alone nobody knows (§1)."""
    return sum(one.sum.tokens for one in parts) if any(one.sum.readings for one in parts) else None


def one_an_engine(roles):
    """One counter for each engine: that of prompts, and of several the one read most often."""
    best = {}
    for role in ("prompt", "generation", "delivered_prompt"):
        mine = {}
        for series, one in roles.get(role, ()):
            engine = series["target"], series["engine"]
            if engine not in mine or one.sum.readings > mine[engine].sum.readings:
                mine[engine] = one
        best = mine | best
    return list(best.values())


def cached_prompt(roles):
    """Cached prompt tokens where every engine that counts prompts tells them, else None."""
    told = defaultdict(lambda: defaultdict(list))
    for rank, role in enumerate(("cached_prompt", "prefix_hits")):
        for series, one in roles.get(role, ()):
            told[series["target"], series["engine"]][rank, series["preference"]].append(one)
    engines = {(s["target"], s["engine"]) for s, _ in roles.get("prompt", ())}
    if engines - told.keys():
        return None
    return booked([one for e in engines for one in told[e][min(told[e])]])


def together(groups):
    """Disjoint groups as one."""
    found = nothing()
    for name in SUMS:
        found[name] = total_of(g[name] for g in groups if g[name] is not None)
    for name in (*COUNTS, "living", "unobserved"):
        found[name] = sum(g[name] for g in groups)
    found["cached_prompt"] = total_of(g["cached_prompt"] for g in groups if g["prompt"] is not None)
    found["exact"] = bool(groups) and all(
        g["exact"] for g in groups if g["readings"] or g["unread_edges"])
    return found | {"twice": any(g["twice"] for g in groups)}


def beside(engines, others):
    """Engines, and gateways or usage records of the same group: perhaps the same requests."""
    return together([engines, others]) | {
        "twice": engines["twice"] or others["twice"] or engines["delivered_prompt"] is not None}


def coverage(tokens):
    """§2.5: four decimals, never 1 while anything is unobserved."""
    living, unobserved = tokens["living"], tokens["unobserved"]
    shown = round(Fraction(max(0, living - unobserved), living) * 10**4) if living > 0 else 0
    shown -= shown == 10**4 and unobserved > 0
    return f"{shown // 10**4}.{shown % 10**4:04d}"


def counted(tokens):
    """The basis of unit costs and its tokens; delivered where only usage records tell (§2.10)."""
    if tokens is None or (tokens["prompt"] is None) != (tokens["generation"] is None):
        return "processed", None
    if tokens["prompt"] is None:
        found = delivered(tokens)
        return ("delivered" if found else "processed"), found
    found = {"prompt": tokens["prompt"], "generation": tokens["generation"],
             "cached": tokens["cached_prompt"]}
    for side in ("lower", "upper"):
        found[side] = total_of(tokens[f"{name}_{side}"] for name in ("prompt", "generation"))
    return "processed", found


def delivered(tokens):
    """Tokens of requests that finished; None while two sources perhaps tell of the same."""
    names = {"prompt": "prompt", "generation": "generation", "cached": "cached_prompt",
             "lower": "lower", "upper": "upper"}
    if not tokens or tokens["twice"]:
        return None
    found = {name: tokens["delivered_" + theirs] for name, theirs in names.items()}
    return None if None in (found["prompt"], found["generation"]) else found

# ==== part 4: currencies (§3.9) and nodes (§4) ====================================================


class Exchange:
    """Converts into the report's currency by the published rates of the pack."""

    def __init__(self, pack, target):
        self.target, self.used, self.missing, self.originals = target, {}, {}, {}
        self.per_eur = {(row["currency"], row["day"]): (row["per_eur"], row["document"])
                        for row in pack.table("exchange_rates")}

    def rate(self, currency, at):
        """The last day up to that of an instant, at most nine days back, on which both currencies
        were published; and what one euro was worth in each."""
        for back in range(10):
            day = written(at // DAY * DAY - back * DAY)[:10]
            both = [Decimal(1) if one == "EUR" else self.per_eur.get((one, day), (None,))[0]
                    for one in (currency, self.target)]
            if None not in both:
                return day, *both
        return None

    def convert(self, amount, rate):
        """Rounded once, half to even, to the amount's own decimals plus ten; None stays unknown."""
        if amount is None:
            return None
        exact = Fraction(amount) * Fraction(rate[2]) / Fraction(rate[1])
        return rounded(exact, decimals_of(amount) + 10)

    def charge(self, row, span):
        """A charge's currency in the report: whole, before it is cut; counts what it converts."""
        row["money"] = row["currency"]
        if not self.target:
            return
        parts, after = self.parts(row, span), []
        add(self.originals, row["currency"], parts)
        if row["currency"] == self.target:
            return
        rate = self.rate(row["currency"], row["start"])
        if rate:
            row |= {name: self.convert(row[name], rate) for name in ("billed", "effective")}
            row["money"], after = self.target, self.parts(row, span)
        tallies, day = self.used if rate else self.missing, written(row["start"])[:10]
        one = tallies.setdefault((row["currency"], *(rate or ())), {
            "charges": 0, "first_day": day, "last_day": day})
        one |= {"charges": one["charges"] + 1, "first_day": min(one["first_day"], day),
                "last_day": max(one["last_day"], day)}
        names = ("billed", "effective", "converted_billed", "converted_effective")
        for name, amount in zip(names, [*parts, *after]):
            one[name] = one.get(name, Decimal(0)) + amount

    def parts(self, row, span):
        return [part(row[name] or Decimal(0), row["start"], row["end"], *span)
                for name in ("billed", "effective")]

    def documents(self, currency, day):
        legs = {self.per_eur.get((one, day), (None, None))[1] for one in (currency, self.target)}
        return sorted(legs - {None})

    def terms(self, terms):
        """A baseline by the rate of the day its period began, else of that it was frozen on."""
        terms = terms | {"classes": {n: Decimal(p) for n, p in terms["classes"].items()}}
        day = instant(terms["period_start"]) or instant(terms["frozen_at"])
        other = self.target and terms["currency"] != self.target
        rate = self.rate(terms["currency"], day) if other else None
        if not rate:
            return terms
        classes = {name: self.convert(price, rate) for name, price in terms["classes"].items()}
        (day, own, other), currency = rate, terms["currency"]
        quoted = {"currency": currency, "cost_per_million_tokens": frozen_price(terms), "day": day,
                  "from_per_eur": own, "to_per_eur": other, "rate": quotient(other, own),
                  "document_digests": self.documents(currency, day)}
        return terms | {"currency": self.target, "classes": classes, "quoted": quoted} | {
            name: self.convert(terms[name], rate) for name in ("cost", "declared_price")}


def add(totals, key, amounts, charges=1):
    """One pattern for all money: [billed, effective, charges] by a key."""
    total = totals.setdefault(key, [Decimal(0), Decimal(0), 0])
    for index, more in enumerate((*amounts, charges)):
        total[index] += more


@section
def exchange(week):
    """§3.9: amounts as the documents say them, the rates that were used, and what had none."""
    found, target = week.exchange, week.exchange.target
    used, missing = sorted(found.used.items()), sorted(found.missing.items())
    week.check("exchange of currencies", "exchange" in week.said, bool(used or missing))
    if not (used or missing):
        return {}
    for row in week.charges:
        known = row["money"] == target
        ours = [row["billed"], row["effective"]] if known else [None, None]
        said = [row["report_billed"], row["report_effective"]]
        if said != ours:
            week.check(f"line {row['line']} of {row['document'][:12]} in {target}", said, ours)
    return {"exchange": {
        "currency": target,
        "originals": [{"currency": one, "charges": total[2], "billed": total[0],
                       "effective": total[1]} for one, total in sorted(found.originals.items())],
        "rates": [{"from": one, "to": target, "day": day, "from_per_eur": own,
                   "to_per_eur": other, "rate": quotient(other, own),
                   "document_digests": found.documents(one, day)} | tally
                  for (one, day, own, other), tally in used],
        "missing": [{"currency": one} | tally for (one,), tally in missing]}}


REQUESTS, DEVICES = "GPU requests of pods (kube-state-metrics)", "devices held by pods (DCGM)"
SHAPES = "GPU count of the invoice's shape × billed hours"


def first_of(labels, *names):
    return next((labels[name] for name in names if labels.get(name)), "")


class Nodes:
    """§4: what GPUs nodes had, who held them, and which charges pay for them, by the hour."""

    def __init__(self, pack, tokens, span):
        self.hours, self.of_key = defaultdict(dict), defaultdict(list)
        self.names, self.held, self.nobody = {}, defaultdict(lambda: defaultdict(list)), Fraction(0)
        for row in pack.table("nodes"):
            self.names[row["source"], row["cluster"], row["name"]] = row["node"]
            for key in row["keys"]:
                self.of_key[key].append(row["node"])
        for row in pack.table("node_hours"):
            self.hours[row["node"]][row["hour"]] = [row["observed_ms"], row["capacity_ms"], 0]
        self.most = {node: max((had / seen for seen, had, _ in hours.values() if had and seen),
                               default=0) for node, hours in self.hours.items()}  # GPUs
        self._holders(pack, tokens, span)

    def _holders(self, pack, tokens, span):
        """Who held what: an engine's pod where its counters go, another where its labels say."""
        engines, told = defaultdict(list), {REQUESTS: set(), DEVICES: set()}
        for series in tokens.series.values():
            pod = first_of(series["labels"], "pod", "kubernetes_pod_name", "pod_name")
            if pod and series["role"] in ("prompt", "generation", "delivered_prompt"):
                space = first_of(series["labels"], "namespace", "kubernetes_namespace")
                engines[space, pod].append(series)
        holders = {row["holder"]: row for row in pack.table("gpu_holders")}
        for row in pack.table("gpu_hours"):
            one, at, labels = holders[row["holder"]], row["hour"], holders[row["holder"]]["labels"]
            places = [tokens.place(s, at) for s in engines.get((one["namespace"], one["pod"]), ())]
            place = next((p for p in places if p[0] == "workload"), None) or tokens.place(one, at)
            told[one["source"]].add(at)
            if place[0] == "workload":
                self.held[place[1]][one["source"]].append((at, row["gpu_ms"] / HOUR))
            if one["source"] == REQUESTS:
                self.nobody += row["gpu_ms"] * (place[0] not in ("workload", "out of scope"))
                name = labels["source"], labels.get("cluster", ""), labels.get("node", "")
                if name in self.names:
                    self.hours[self.names[name]][at][2] += row["gpu_ms"]
        # A source that tells of under 95 % of the hours up to its last would make a week's few.
        self.whole = [source for source, hours in told.items() if hours
                      and 20 * len(hours) >= 19 * ((max(hours) - span[0]) // HOUR + 1)]

    def source(self, slug):
        """By what a workload's GPU-hours are known: requests, else devices, else None."""
        return next((one for one in self.whole if one in self.held.get(slug, ())), None)

    def gpu_hours(self, slug, span):
        hours = self.held[slug][self.source(slug)]
        return sum(held for hour, held in hours if span[0] <= hour < span[1])

    def of_charge(self, row, since, until):
        """The nodes a GPU charge names and that were seen in its time, and its share of each hour;
        None for a charge of no GPU."""
        if not (self.hours and row["gpu_count"] and row["category"] == "Usage"
                and row["commitment_status"] != "Unused"):
            return None
        start, end = int(max(row["start"], since)), int(min(row["end"], until))
        first, piece = start // HOUR * HOUR, row["resource"].casefold().rstrip("/")
        key = piece.rsplit("/", 1)[-1]
        key = key.rsplit(":", 1)[-1] if piece.startswith("arn:") else key
        shares = {hour: Fraction(min(end, hour + HOUR) - max(start, hour), HOUR)
                  for hour in range(first, max(end, first + 1), HOUR)}
        named = self.of_key.get(key, ()) if key else ()
        nodes = [node for node in named if shares.keys() & self.hours[node].keys()]
        return nodes, shares, end - start

    def idle(self, row, since, until):
        """The share of a charge's GPU time that nobody held; time that nobody saw is not idle."""
        found = self.of_charge(row, since, until)
        if found is None:
            return Fraction(0)
        nodes, shares, window = found
        seen = [(share, self.hours[n][hour]) for n in nodes if self.most[n]
                for hour, share in shares.items() if hour in self.hours[n]]
        idle = sum(share * max(0, (had or 0) - held) for share, (_, had, held) in seen)
        known = [self.most[n] for n in nodes if self.most[n]]
        whole = known[0] * window if len(known) == 1 else sum(s * (h[1] or 0) for s, h in seen)
        return min(Fraction(1), Fraction(idle) / whole) if whole else Fraction(0)

# ==== part 5: the money of a span, and the week (§4) ==============================================

SECONDS = {"hour": 3600, "hr": 3600, "h": 3600, "minute": 60, "second": 1, "s": 1, "day": 86400}
SECONDS |= {name + "s": value for name, value in SECONDS.items() if name not in "hs"}


@cache
def in_hours(quantity, unit):
    """A billed quantity in hours, and whether they are GPU-hours already; None for other units."""
    match = re.fullmatch(r"(?:(\d{1,9})\s+)?((gpu|instance)[- ])?([a-z]+)", unit.strip().lower())
    if quantity is None or not match or match[4] not in SECONDS:
        return None
    hours = Fraction(quantity) * SECONDS[match[4]] * int(match[1] or 1) / 3600
    return hours, match[3] == "gpu"


class Costs:
    """The money of one span in its places: [billed, effective, charges] by place and currency."""

    def __init__(self, week, since, until):
        self.since, self.until = since, until
        self.whole, self.places, self.shared, self.split = {}, {}, {}, {}
        self.commitments, self.gpu_hours = {}, {}
        self.issuers, self.gpu_models = defaultdict(set), defaultdict(set)
        for row, amounts, by_place in pieces(week.charges, since, until, week.nodes.idle):
            currency, (kind, slug) = row["money"], row["placed"]
            add(self.whole, currency, amounts)
            for place, some in by_place.items():
                if place[0] == "shared" and place[1]:
                    add(self.shared, (place[1], currency), some)
                else:
                    add(self.places, (place, currency), some)
            name = f"rate card {row['rate_card']}" if row["rate_card"] else row["commitment"]
            if name and amounts[0] != amounts[1]:  # purchases, amortised use, rate cards (§4)
                pair = self.commitments.setdefault((name, currency), [Decimal(0)] * 2)
                pair[row["category"] != "Purchase"] += amounts[1] - amounts[0]
            if kind == "workload":
                self.issuers[slug].add(row["issuer"])
                if row["category"] == "Usage" and Fraction(row["gpu_count"] or 0) > 0:
                    self._gpu_hours(row, slug)

    def _gpu_hours(self, row, slug):
        """§4: GPU count of the machine × billed hours, the part inside the span."""
        start, end = row["start"], row["end"]
        known = (in_hours(row["consumed_quantity"], row["consumed_unit"])
                 or in_hours(row["pricing_quantity"], row["pricing_unit"]))
        if row["class"]:  # a correction: only hours with the sign of its money count
            cost = row["billed"] if row["effective"] is None else row["effective"]
            known = known if known and (known[0] < 0) == ((cost or 0) < 0) else (Fraction(0), True)
        hours, of_gpu = known or (Fraction(end - start) / HOUR, False)
        share = 1
        if start != end:
            share = Fraction(max(0, min(end, self.until) - max(start, self.since))) / (end - start)
        more = hours * share * (1 if of_gpu else Fraction(row["gpu_count"]))
        self.gpu_hours[slug] = self.gpu_hours.get(slug, 0) + more
        if row["gpu_model"] not in ("", "unrecognised"):
            self.gpu_models[slug].add(row["gpu_model"])

    def split_shared(self, keys):
        """§4: each key's pot by its weights; without weights it stays shared, not yet split."""
        for (name, currency), pot in self.shared.items():
            billed, effective = (share_out(amount, keys.get(name, {})) for amount in pot[:2])
            for slug in billed:
                add(self.split, (("workload", slug), currency), [billed[slug], effective[slug]], 0)
            if not billed:
                add(self.places, (("shared", name), currency), pot[:2], pot[2])

    def effective(self, slug, currency):
        """A workload's own cost, and its part of shared charges."""
        key = ("workload", slug), currency
        return [table.get(key, [0, Decimal(0)])[1] for table in (self.places, self.split)]

    def all_places(self):
        """Every place, the split shares with their workloads."""
        found = {key: list(total) for key, total in self.places.items()}
        for key, total in self.split.items():
            add(found, key, total[:2], 0)
        return found


class Week:
    """The week put together from the tables: its money, tokens and workloads."""

    def __init__(self, pack, statement):
        self.pack, self.said, self.check = pack, statement, Checks()
        self.span = tuple(instant(statement["period"][name]) for name in ("start", "end"))
        self.tokens, rules = TokenLedger(pack), Rules(pack.table("rules"), "charge")
        self.nodes = Nodes(pack, self.tokens, self.span)
        chosen = (statement.get("parameters") or {}).get("report_currency", "")
        self.exchange = Exchange(pack, chosen)
        self.charges, self.by_document, self.by_span = pack.table("charges"), {}, {}
        for row in self.charges:
            amounts = self.exchange.parts(row, self.span)
            add(self.by_document.setdefault(row["document"], {}), row["currency"], amounts)
            row["written"] = row["billed"], row["effective"]
            row["placed"] = rules.place(row, row["start"])
            self.exchange.charge(row, self.span)
        self.workloads = {row["slug"]: row for row in pack.table("workloads")}
        self.weights = {name: Decimal(WEIGHTS[name]) for name in CLASSES}
        self.whole = self.by_span[self.span] = Costs(self, *self.span)
        counts = {c: total[2] for c, total in self.whole.whole.items()}
        self.currency = chosen or min(counts, key=lambda c: (-counts[c], c), default="USD")
        self.total = self.whole.whole.get(self.currency, [Decimal(0)] * 2)
        self.keys = self._keys()
        self.whole.split_shared(self.keys)
        self.reaches = defaultdict(dict)
        for row in pack.table("reaches"):
            self.reaches[row["kind"]][row["name"]] = row["first"], row["last"], row["ended"] == "1"
        self.moved, self.sources = self.tokens.moved()
        self.baselines = {row["workload"]: row for row in pack.table("baselines")}
        self.engines = Engines(self)
        self.rows = {slug: self._workload(slug) for slug in sorted(self.workloads)}
        self.counting = [w for w in self.rows.values() if w["purpose"] == "inference"
                         and w["basis"] == "processed" and w["counted"] and w["cost"] is not None]

    def _keys(self):
        """Weights of each key: processed tokens, GPU-hours of the whole week, or fixed shares."""
        kinds, methods, fixed = {"tokens": {}, "gpu-hours": {}}, {}, defaultdict(dict)
        for slug, row in self.workloads.items():
            mine = self.tokens.by_place(*self.span).get(("workload", slug))
            if mine and row["purpose"] == "inference":
                kinds["tokens"][slug] = (mine["prompt"] or 0) + (mine["generation"] or 0)
            kinds["gpu-hours"][slug] = self.gpu_hours(slug, self.span) or 0
        for row in self.pack.table("shared_keys"):
            methods[row["key"]] = row["method"]
            if row["workload"]:
                fixed[row["key"]][row["workload"]] = row["share"]
        return {key: kinds.get(method, fixed[key]) for key, method in methods.items()}

    def costs(self, span):
        if span not in self.by_span:
            self.by_span[span] = Costs(self, *span)
            self.by_span[span].split_shared(self.keys)
        return self.by_span[span]

    def gpu_hours(self, slug, span, billed=False):
        """GPU-hours to 24 decimals, those of the invoice's shapes if `billed`; None if unknown."""
        if self.nodes.source(slug) and not billed:
            return short(self.nodes.gpu_hours(slug, span))
        found = self.costs(span).gpu_hours.get(slug)
        return None if found is None else short(found)

    def gpu_hours_source(self, slug, span):
        known = self.gpu_hours(slug, span) is not None
        return self.nodes.source(slug) or (SHAPES if known else None)

    def common(self, slug):
        """§4: the hours of the week that have both cost and readings."""
        spans = [self.reaches["source"][n] for n in self.sources.get(("workload", slug), ())]
        cost_first, newest, _ = self.reaches["cost"].get("", (None, None, None))
        if cost_first is None or newest is None or not spans:
            return None
        issuers = [i for i in self.whole.issuers.get(slug, ()) if i in self.reaches["issuer"]]
        lasts = [self.reaches["issuer"][issuer][1] for issuer in issuers]
        live = [last for last in lasts if last >= newest - 5 * DAY]  # further behind: it has ended
        until = min(live or lasts, default=min(newest, self.span[1]))
        told = min(span[1] for span in ([s for s in spans if not s[2]] or spans))
        first = min(span[0] for span in spans)
        start = max(self.span[0], cost_first // HOUR * HOUR, first // HOUR * HOUR)
        end = min(self.span[1], -(-until // HOUR) * HOUR, told // HOUR * HOUR + HOUR)
        return (start, end) if end > start else None

    def _workload(self, slug):
        place, span = ("workload", slug), self.common(slug)
        tokens = self.tokens.by_place(*span).get(place) if span else None
        basis, counting = counted(tokens)
        cost = active = hours = None
        if span:
            cost = sum(self.costs(span).effective(slug, self.currency))
            cost = cost if cost or self.whole.issuers.get(slug) else None
            others = [self.costs(span).effective(slug, one) for one in self.whole.whole
                      if one != self.currency]
            if any(map(sum, others)):
                cost = None  # §3.9: a part of it was not converted
            hours = (span[1] - span[0]) // HOUR
            active = sum(span[0] <= hour < span[1] for hour in self.moved[place])
        return {"slug": slug, "purpose": self.workloads[slug]["purpose"], "common": span,
                "tokens": tokens, "basis": basis, "counted": counting, "cost": cost,
                "hours": hours, "active": active, "delivered": delivered(tokens),
                "week_tokens": self.tokens.by_place(*self.span).get(place)}

    def baseline(self, w):
        if w["slug"] in self.baselines and "compared" not in w:
            terms = self.exchange.terms(self.baselines[w["slug"]])
            w["compared"] = against_baseline(terms, w, self.currency, self.span[1])
        return w.get("compared")

# ==== part 6: unit costs and reaches (§4, §5) =====================================================


CLASSES = ("prompt", "cached_prompt", "generation")
WEIGHTS = {"prompt": "1", "cached_prompt": "0.1", "generation": "4", "kind": "declared ratio"}


def by_class(tokens):
    if tokens["cached"] is None:
        return {"prompt": tokens["prompt"], "generation": tokens["generation"]}
    return {"prompt": max(0, tokens["prompt"] - tokens["cached"]),
            "cached_prompt": tokens["cached"], "generation": tokens["generation"]}


def unit_costs(cost, tokens, weights, active, hours):
    """§5: the unit costs of a group, and the cost of each class."""
    found = dict.fromkeys(
        ("cost_per_million_tokens", "cost_per_million_prompt_tokens",
         "cost_per_million_cached_prompt_tokens", "cost_per_million_generation_tokens",
         "cost_per_million_lower", "cost_per_million_upper", "usage_cost_per_million_tokens",
         "tokens_per_dollar"))
    total = tokens["prompt"] + tokens["generation"] if tokens else 0
    if cost is None or cost <= 0 or total == 0:
        return found, {}
    found["cost_per_million_tokens"] = quotient(cost * MILLION, total)
    found["tokens_per_dollar"] = quotient(total, cost)
    weighted = {name: weights[name] * tokens for name, tokens in by_class(tokens).items()}
    for name, count in by_class(tokens).items():
        if count and sum(weighted.values()):
            price = quotient(cost * weights[name] * MILLION, sum(weighted.values()))
            found[f"cost_per_million_{name}_tokens"] = price
    lower, upper = tokens["lower"], tokens["upper"]
    if None not in (lower, upper) and (upper - lower) * 1000 > total:
        found["cost_per_million_lower"] = quotient(cost * MILLION, upper)
        if lower > 0:
            found["cost_per_million_upper"] = quotient(cost * MILLION, lower)
    if active and hours:
        found["usage_cost_per_million_tokens"] = quotient(cost * MILLION * active, total * hours)
    shares = split(cost, list(weighted.values())) if sum(weighted.values()) else []
    return found, dict(zip(weighted, shares))


def token_figures(counting, tokens):
    names = {"prompt": "prompt_tokens", "cached": "cached_prompt_tokens",
             "generation": "generation_tokens", "lower": "tokens_lower", "upper": "tokens_upper"}
    found = {ours: counting and counting[name] for name, ours in names.items()}
    for name in ("delivered_prompt", "delivered_generation"):
        found[name + "_tokens"] = tokens and tokens[name]
    for name in ("restarts", "hidden_resets", "exact"):
        found[name] = tokens and tokens[name]
    return found | {"coverage": tokens and coverage(tokens)}


SAVINGS = {"saving_vs_baseline": "saving", "saving_lower": "saving_lower",
           "saving_upper": "saving_upper"}


@section
def workloads(week):
    """§5: each workload's figures, tokens, classes and baseline."""
    return {"workloads": [_workload(week, w) for w in week.rows.values()]}


def _workload(week, w):
    figures, classes = unit_costs(w["cost"], w["counted"], week.weights, w["active"], w["hours"])
    if w["purpose"] != "inference":
        figures, classes = dict.fromkeys(figures), {}
    own, shared = week.whole.effective(w["slug"], week.currency)
    compared, tokens, total = week.baseline(w), w["week_tokens"], week.total[1]
    figures |= token_figures(w["counted"], w["tokens"]) | {
        "effective_cost": w["cost"], "period_effective_cost": own + shared, "cost_own": own,
        "cost_shared": shared, "gpu_hours": week.gpu_hours(w["slug"], week.span),
        "gpu_hours_source": week.gpu_hours_source(w["slug"], week.span)}
    figures |= {ours: compared and compared[theirs] for ours, theirs in SAVINGS.items()}
    if tokens:
        shown = ("cached_prompt", *SUMS, "exact", *COUNTS)
        tokens = {name: tokens[name] for name in shown} | {"coverage": coverage(tokens)}
    span = w["common"] and {name: written(at) for name, at in zip(("start", "end"), w["common"])}
    kept = ("slug", "model", "stack", "team", "purpose", "cluster", "namespace")
    return {name: week.workloads[w["slug"]][name] for name in kept} | {
        "figures": figures, "class_costs": classes, "basis": w["basis"], "common": span,
        "share_of_cost": quotient(own + shared, total) if total else None,
        "tokens": tokens, "baseline": compared}


@section
def organisation(week):
    """§5: the organisation's figures, over the workloads that count."""
    parts, counting = week.counting, None
    cost = total_of(w["cost"] for w in parts)
    if parts:
        counting = {name: total_of(w["counted"][name] for w in parts)
                    for name in ("prompt", "generation", "cached", "lower", "upper")}
    figures, _ = unit_costs(cost, counting, week.weights, None, None)
    if figures["cost_per_million_tokens"] is not None and all(
            w["hours"] and w["active"] is not None for w in parts):
        usage = sum(quotient(w["cost"] * w["active"], w["hours"]) for w in parts)
        total = counting["prompt"] + counting["generation"]
        if usage:
            figures["usage_cost_per_million_tokens"] = quotient(usage * MILLION, total)
    tokens = [w["tokens"] for w in parts if w["tokens"]]
    figures |= token_figures(counting, together(tokens) if tokens else None)
    figures |= {"effective_cost": cost, "period_effective_cost": week.total[1]}
    savings = [one for one in map(week.baseline, week.rows.values()) if one]
    savings = [one for one in savings if one["saving"] is not None]
    figures |= {ours: total_of(one[theirs] for one in savings) for ours, theirs in SAVINGS.items()}
    then = ((week.said["previous"] or {}).get("figures") or {}).get("tokens_per_dollar")
    now, then = figures["tokens_per_dollar"], then and Decimal(then)
    # The difference is cut to 60 digits before it is divided.
    figures["tokens_per_dollar_change"] = (
        SIXTY.divide(SIXTY.subtract(now, then), then) if now and then else None)
    week.figures = figures
    _headline(week, savings)
    return {"currency": week.currency, "figures": figures,
            "weights": WEIGHTS | {name: week.weights[name] for name in CLASSES}}


def _headline(week, savings):
    """The report's first sentence: the price, its change, and what the baselines make of it."""
    price, said = week.figures["cost_per_million_tokens"], week.said
    if price is None:
        return
    digits = 2 if abs(price) >= Decimal("0.1") else min(12, 1 - price.adjusted())
    week.check("headline's price", True,
               f"cost {rounded(price, digits):,f} {week.currency}" in said["headline"])
    then = ((said["previous"] or {}).get("figures") or {}).get("cost_per_million_tokens")
    sums = [total_of(one[name] for one in savings) for name in ("actual", "counterfactual")]
    sentence(week, "headline", said["headline"], [
        (price, digits), per_cent(price, then and Decimal(then)), len(savings), per_cent(*sums)],
        week.currency, said["period"]["week"], *week.workloads)


def per_cent(now, before):
    """A change as a sentence tells it: in whole per cent, under one with a decimal."""
    share = abs(quotient(100 * (now - before), before)) if before else None
    return share, 0 if before and share >= 1 else 1


def sentence(week, name, text, known, *names):
    """Each number of a sentence is one of those computed here, and they come in this order; not
    each need be told. Numbers inside names are none."""
    left = iter(as_told(known))
    odd = [number for number in numbers(text, names) if number not in left]
    week.check(f"numbers of the sentence: {name}", odd, [])


def as_told(known):
    """Values as sentences tell them, without a sign: those beside a number with so many decimals."""
    pairs = [one if isinstance(one, tuple) else (one, None) for one in known]
    return [abs(Decimal(value) if decimals is None else rounded(value, decimals))
            for value, decimals in pairs if value is not None]


def numbers(text, names=()):
    """The numbers of a text without names, in order, thousands set apart or not."""
    text = re.sub("(?<=[0-9])[,\u202f](?=[0-9]{3})", "", text or "")
    for one in sorted(filter(None, names), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(one)}(?![.,]?\w)", " ", text)
    return [Decimal(one) for one in re.findall(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?!\w)", text)]


def in_order(text, told):
    """Whether numbers stand in a text in their order; others may stand between, as in names."""
    there = iter(numbers(text))
    return all(number in there for number in as_told(told))


@section
def reaches(week):
    """§4: how far cost and tokens reach, and the hours that have both."""
    told = [w for w in week.rows.values() if w["common"]
            and w["purpose"] == "inference" and w["basis"] == "processed"]
    spans = [w["common"] for w in told]
    newest = week.reaches["cost"].get("", (None, None))[1]
    lasts = [last for _, last, _ in week.reaches["source"].values()]
    late = [w for w in told if w["common"][1] < week.span[1]
            and not all(week.reaches["source"][name][2]
                        for name in week.sources["workload", w["slug"]])]
    enough = newest is not None and -(-min(newest, week.span[1]) // HOUR) * HOUR >= week.span[1]
    return {"reaches": {
        "complete": bool(spans) and enough and not late,
        "cost": written(min(newest, week.span[1]) if newest is not None else None),
        "tokens": written(max(lasts, default=None)),
        "common_start": written(min((span[0] for span in spans), default=None)),
        "common_end": written(max((span[1] for span in spans), default=None))}}

# ==== part 7: the legacy stack (§6) and the bridge (§7) ===========================================

TERMS = ("kind", "basis", "quality", "author", "approver", "currency", "model", "tokenizer",
         "legacy", "note", "frozen_at")


def frozen_tokens(terms):
    return (terms["prompt_tokens"] or 0) + (terms["generation_tokens"] or 0)


def frozen_price(terms):
    """A baseline's price: declared, else measured; None where it has neither."""
    cost, tokens = terms["cost"], frozen_tokens(terms)
    measured = quotient(cost * MILLION, tokens) if cost is not None and tokens else None
    return measured if terms["declared_price"] is None else terms["declared_price"]


def against_baseline(terms, w, currency, end):
    """§6: what this week's tokens would have cost at the baseline, and the saving."""
    classes, declared, cost = terms["classes"], terms["declared_price"], terms["cost"]
    old, price = frozen_tokens(terms), frozen_price(terms)
    since = instant(terms["period_end"]) or instant(terms["frozen_at"])
    period = {"start": terms["period_start"], "end": terms["period_end"]}
    found = {name: terms[name] for name in (*TERMS, "quoted") if name in terms} | {
        "workload": w["slug"], "cost_per_million_tokens": price, "age_days": (end - since) // DAY,
        "ageing": end - since > 180 * DAY, "actual": w["cost"], "sensitivity": [],
        "by_class": False,
        "document_digests": terms["documents"], "period": period if all(period.values()) else None,
        **dict.fromkeys(("counterfactual", "saving", "saving_share", "saving_lower",
                         "saving_upper", "break_even_cost_per_million_tokens"))}
    tokens = w["delivered"] if terms["basis"] == "delivered" else (
        w["counted"] if w["basis"] == "processed" else None)
    total = tokens["prompt"] + tokens["generation"] if tokens else 0
    if terms["currency"] != currency or price is None or w["cost"] is None or not total:
        return found
    found["by_class"] = {"prompt", "generation"} <= classes.keys()
    if found["by_class"]:
        would = sum((quotient(classes.get(name, classes["prompt"]) * count, MILLION)
                     for name, count in by_class(tokens).items()), Decimal(0))
    else:
        would = (quotient(cost * total, old) if declared is None
                 else quotient(price * total, MILLION))
    found |= {"counterfactual": would, "saving": would - w["cost"],
              "saving_share": quotient(would - w["cost"], would) if would else None,
              "break_even_cost_per_million_tokens": quotient(w["cost"] * MILLION, total)}
    if None not in (tokens["lower"], tokens["upper"]):
        for side in ("lower", "upper"):
            found["saving_" + side] = quotient(would * tokens[side], total) - w["cost"]
    return found | {"sensitivity": [
        {"change": f"{change:+d} %", "saving": quotient(would * (100 + change), 100) - w["cost"]}
        for change in (-25, -10, 10, 25)]}


@section
def bridges(week):
    """§7: both sides, and the change of the cost per million tokens in rows that sum to it."""
    groups = []
    for w in week.counting:
        slug, counting = w["slug"], w["counted"]
        models = sorted(week.whole.gpu_models.get(slug, ()))
        groups.append({"workload": slug, "gpu_model": " + ".join(models) or None,
                       "cost": w["cost"], "tokens": counting["prompt"] + counting["generation"],
                       "gpu_hours": week.gpu_hours(slug, w["common"]) or Decimal(0),
                       "billed_gpu_hours": week.gpu_hours(slug, w["common"], True) or Decimal(0),
                       "gpu_hours_source": week.gpu_hours_source(slug, week.span),
                       "active_hours": w["active"], "hours": w["hours"]})
    side = {"cost": sum((g["cost"] for g in groups), Decimal(0)),
            "tokens": sum(g["tokens"] for g in groups), "groups": groups}
    before, found, names = week.pack.json("previous_statement.json"), None, None
    if before:
        names = {"from": before["period"]["week"], "to": week.said["period"]["week"]}
    if before and week.said["previous"] and before["currency"] == week.said["currency"]:
        sides = [one["bridge_groups"]["groups"] for one in (before, week.said)]
        sources = [{row["workload"]: row["gpu_hours_source"] for row in rows} for rows in sides]
        found = bridge(*(_one_source(one, *sources) for one in (before["bridge_groups"], side)))
    return {"bridge_groups": side, "bridge": found and found | names, "previous": before and {
        "week": names["from"], "figures": before["figures"]}}


def _one_source(side, old, new):
    """Where two weeks know a workload's GPU-hours from different sources, the billed ones."""
    differ = {slug for slug in old.keys() & new.keys() if old[slug] != new[slug]}
    return side | {"groups": [row | ({"gpu_hours": row["billed_gpu_hours"]}
                                     if row["workload"] in differ else {})
                              for row in side["groups"]]}


def _groups(side):
    """Cost, GPU-hours, tokens and active share of the groups that have tokens and GPU-hours."""
    found = {}
    for row in side["groups"]:
        if row["tokens"] > 0 and Fraction(row["gpu_hours"]) > 0:
            share = Fraction(row["active_hours"], row["hours"]) if row["active_hours"] else None
            name = f"{row['workload']} on {row['gpu_model'] or 'unknown GPU'}"
            found[name] = Fraction(row["cost"]), Fraction(row["gpu_hours"]), row["tokens"], share
    return found


EFFECTS = ("price", "efficiency", "mix", "entered", "left")


def bridge(before, after):
    """§7; None without groups on both sides."""
    old, new = _groups(before), _groups(after)
    if not old or not new:
        return None
    t0, t1 = (sum(g[2] for g in side.values()) for side in (old, new))
    c0, c1 = sum(g[0] for g in old.values()) / t0, sum(g[0] for g in new.values()) / t1
    rows, active = {}, Fraction(0)
    for key in sorted(old | new):
        row = rows[key] = dict.fromkeys(EFFECTS, Fraction(0))
        k0, h0, n0, a0 = old.get(key, (0, 1, 0, 0))
        k1, h1, n1, a1 = new.get(key, (0, 1, 0, 0))
        s0, s1 = Fraction(n0, t0), Fraction(n1, t1)
        if key not in old:
            row["entered"] = s1 * (k1 / n1 - c0)
        elif key not in new:
            row["left"] = -s0 * (k0 / n0 - c0)
        else:
            r0, r1, p0, p1 = k0 / h0, k1 / h1, n0 / h0, n1 / h1
            row["price"] = s1 * (r1 - r0) / p0
            row["efficiency"] = s1 * r1 * (1 / p1 - 1 / p0)
            row["mix"] = (s1 - s0) * (r0 / p0 - c0)
            known = active is not None and a0 and a1
            active = active + s1 * r1 * (1 / a1 - 1 / a0) / (p0 / a0) if known else None
    sums = {name: sum(row[name] for row in rows.values()) for name in EFFECTS}
    w0, w1 = (Fraction(side["cost"]) / side["tokens"] for side in (before, after))
    sums["cost_without_tokens"] = (w1 - c1) - (w0 - c0)
    if sum(sums.values()) != w1 - w0:
        raise ArithmeticError("the bridge does not sum to the change")
    found = rounded_to_sum(sums)
    total, shown = sum(found.values()), None if active is None else short(active * MILLION)
    rest = None if shown is None else found["efficiency"] - shown
    return found | {"total": total, "active_share": shown, "throughput": rest,
                    "rows": [{"group": key} | rounded_to_sum(row) for key, row in rows.items()]}


def rounded_to_sum(parts):
    """Per million tokens, to 24 decimals; what rounding leaves over goes to the largest part."""
    exact = {name: value * MILLION for name, value in parts.items()}
    cut = {name: short(value) for name, value in exact.items()}
    largest = max(exact, key=lambda name: (abs(exact[name]), name))
    cut[largest] += short(sum(exact.values())) - sum(cut.values())
    return cut

# ==== part 8: GPU memory (§8.3 to §8.7) ===========================================================


class Engines:
    """The KV cache of each engine in each hour, the requests it set back, and its GPUs."""

    def __init__(self, week):
        self.hours, self.preempted, self.seen, of_series = {}, {}, set(), defaultdict(list)
        self.placed = {}  # as hours, but each hour where a rule gave it that hour
        self.told = {row["series"]: row for row in week.pack.table("engine_settings")}
        named = {row["series"]: row for row in week.pack.table("engines")}
        for row in week.pack.table("cache_hours"):
            engine = named[row["series"]]
            if sum(row["levels_ms"].values()) != row["observed_ms"]:
                week.check(f"time at all levels, {engine['name']}, {written(row['hour'])}",
                           row["observed_ms"], sum(row["levels_ms"].values()))
            of_series[row["series"]].append(row | engine)
            self.seen.add((self.told[row["series"]]["kind"], *same_hour(row)))
        for number, rows in of_series.items():  # an engine is where it stood last
            rows.sort(key=itemgetter("hour"))
            hours = {row["hour"] for row in rows}
            for row in rows:
                row["there"] = there(row, hours)
            self._place(week, named[number], rows)
            place = week.tokens.place(named[number], rows[-1]["hour"])
            self.told[number] |= {"each": None, "out": place[0] == "out of scope", "slug": None}
            if place[0] == "workload":
                self.hours[place[1], rows[-1]["name"], int(number)] = rows
                self.told[number]["slug"] = place[1]
                self.told[number]["each"] = bytes_of_token(week, self.told[number], place[1])
        check_logs(week, of_series, self.told)
        self.cards = MemoryTables(week.pack, of_series, self.told)
        for row in week.pack.table("preemptions"):
            if week.span[0] <= row["hour"] < week.span[1]:
                key = row["target"], row["engine"]
                self.preempted[key] = self.preempted.get(key, 0) + row["count"]

    def _place(self, week, engine, rows):
        """The hours that each workload has of an engine; to itself they are all there is of it."""
        mine = defaultdict(list)
        for row in rows:
            mine[week.tokens.place(engine, row["hour"])].append(row)
        for (kind, slug), some in mine.items():
            if kind == "workload":
                hours = {row["hour"] for row in some}
                self.placed[slug, engine["name"], int(engine["series"])] = [
                    row | {"there": there(row, hours)} for row in some]

    def stale_ms(self, slug):
        return sum(row["stale_ms"] for (of, _, number), rows in self.placed.items()
                   if of == slug and self.twice(str(number))["counts"] for row in rows)

    def preemptions(self, row):
        return self.preempted.get((row["target"], row["engine"]))

    def once(self, slug):
        """The numbers and hours of a workload's engines, what may be one engine once."""
        mine = {str(key[2]): rows for key, rows in self.hours.items() if key[0] == slug}
        return {number: mine[number] for number in self.cards.once(mine)}

    def twice(self, number):
        """§2.7: who tells of an engine that another may tell of, and whether it counts in its
        workload."""
        kept = self.cards.twin.get(number)
        return {"told_by": self.cards.told_by.get(number),
                "counts": kept is None or self.told[kept]["slug"] != self.told[number]["slug"]}


def there(row, hours):
    """§8.5: when an engine was there in an hour, in ms: the first hour of a stretch ends with it,
    the last begins with it, one that stands alone begins at its first reading."""
    start, end = row["hour"], row["hour"] + HOUR
    held = min(row["observed_ms"] + row["stale_ms"], HOUR)
    before, after = row["hour"] - HOUR in hours, row["hour"] + HOUR in hours
    if after:
        return (start if before else end - held), end
    if not before and row["first_ms"] is not None:
        start = max(start, min(row["first_ms"], end - held))
    return start, start + held


def united(spans):
    """The spans as stretches that do not touch, in order."""
    found = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1][1] = max(end, found[-1][1])
        else:
            found.append([start, end])
    return found


def at_once(engines):
    """The most engines at one time; a last reading holds on, so ends count up to 5 minutes less."""
    changes = []
    for rows in engines:
        for start, end in united(row["there"] for row in rows):
            changes += [(start, 0), (end - min(300_000, (end - start) // 2), 1)]
    now = most = 0
    for _, is_end in sorted(changes):
        now += -1 if is_end else 1
        most = max(most, now)
    return most


def same_hour(row):
    """An engine's hour as the ladder has it: what was seen in one of two pools is of neither (§9)."""
    levels = {} if row.get("reserved_block_ms") is not None else row["levels_ms"]
    return row["hour"], row["blocks"], row["setting"], tuple(sorted(levels.items()))


def tokens_of(row, blocks):
    """§8.3: blocks as tokens; a share of the pool where the block size is not the pool's own."""
    size, pool = row["block_size"] or 0, row["pool_tokens"]
    if pool is not None and row["blocks"] and pool != row["blocks"] * size:
        return round(Fraction(blocks * pool, row["blocks"]))
    return blocks * size


def pool_of(row):
    """§8.3: the tokens the KV cache has room for."""
    if row["pool_tokens"] is None and None not in (row["blocks"], row["block_size"]):
        return row["blocks"] * row["block_size"]
    return row["pool_tokens"]


def reserved_of(row):
    """§8.4: tokens × ms reserved while the hour was observed; where the pool changed in it, by each."""
    pool, blocks = pool_of(row), row["reserved_block_ms"]
    if pool is None or blocks is None:
        return None if pool is None else pool * row["observed_ms"]
    return tokens_of(row, blocks)


def highest(rows, name):
    return max((row[name] for row in rows if row[name] is not None), default=None)


@section
def memory(week):
    """§8.3, §8.4, §8.7: the KV cache of each engine of a workload."""
    found = [
        {"workload": slug, "engine": name, "preemptions": week.engines.preemptions(rows[0])}
        | week.engines.twice(str(number))
        | _engine(rows, week.workloads[slug], bytes_of_token(week, week.engines.told[str(number)], slug))
        for (slug, name, number), rows in sorted(week.engines.placed.items(), key=by_name)]
    for row, said in zip(found, week.said["memory"]):
        sentence(week, f"memory of {row['engine']}", said["sentence"], reservation(row))
    return {"memory": found}


def reservation(row):
    """What the sentence on a reservation tells (§8.7)."""
    active, reserved = row["active_tokens_mean"], row["reserved_tokens_mean"]
    share = quotient(active * 100, reserved) if active is not None and reserved else None
    return [row["reserved_tokens"], (share, 1), row["peak_running"], row["max_model_len"],
            row["contiguous_slots"]]


def by_name(one):
    return one[0][:2]


def _engine(rows, workload, each):
    last = next((row for row in reversed(rows) if pool_of(row) is not None), rows[-1])
    longest = last["max_model_len"] or workload["max_model_len"] or None
    known = list(filter(has_use, rows))
    seen = sum(row["observed_ms"] for row in known)
    active = sum(tokens_of(row, row["active_block_ms"]) for row in known)
    pools, pool, slots = [reserved_of(row) for row in known], pool_of(last), None
    reserved = None if None in pools else sum(pools)
    if pool is not None and longest:
        blocks = last["blocks"] and last["block_size"] and last["blocks"] * last["block_size"]
        slots = (pool - (last["block_size"] if pool == blocks else 0)) // longest
    peaks = [(tokens_of(row, row["peak_blocks"]), -row["peak_ms"]) for row in rows
             if None not in (row["peak_blocks"], row["block_size"], row["peak_ms"])]
    peak, at = max(peaks, default=(None, None))
    free = (reserved - active) * each if each and reserved is not None else None
    held = reserved * each if each and reserved is not None else None
    return {
        "device_total": None,  # of a GPU, in the memory tables
        "first_seen": written(min(row["there"][0] for row in rows)),
        "last_seen": written(max(row["there"][1] for row in rows)),
        "reserved_tokens": pool,
        "reserved_bytes": pool * each if pool is not None and each else None,
        "reserved_tokens_mean": quotient(reserved, seen) if seen and reserved else None,
        "reserved_bytes_mean": quotient(held, seen) if seen and held is not None else None,
        "active_tokens_mean": quotient(active, seen) if seen else None,
        "active_bytes_mean": quotient(active * each, seen) if seen and each else None,
        "unreferenced_bytes_mean": quotient(free, seen) if seen and free is not None else None,
        "peak_active_tokens": peak, "peak_at": written(None if at is None else -at),
        "peak_running": highest(rows, "peak_running"),
        "contiguous_slots": slots, "max_model_len": longest,
        "observed_seconds": sum(row["observed_ms"] for row in rows) // 1000,
        "stale_seconds": sum(row["stale_ms"] for row in rows) // 1000}

# ==== part 9: GPUs, logs, and the engines they are of (§2.7, §8.1, §8.2, §8.5) ====================


class Cards:
    """The GPUs as exporters tell them, and the engines on each. Adds to what is told of an engine
    its GPUs, how many, the memory of one, and the most engines at once on one of them."""

    def __init__(self, pack, engines, told):
        self.engines, self.told, self.rows, self.named, self.made = engines, told, {}, {}, {}
        self.on, self.pods, self.aside, self.twin, self.told_by = defaultdict(list), {}, {}, {}, {}
        for row in sorted(pack.table("devices"), key=lambda row: int(row["target"])):
            self.named.setdefault(row["device"], row)  # of two exporters of a GPU the first counts
        for row in pack.table("device_hours"):
            if row["target"] == self.named[row["device"]]["target"]:
                row |= {"stale_ms": 0, "first_ms": None}
                self.rows.setdefault(row["device"], {})[row["hour"]] = row
        slices = defaultdict(list)
        for name, rows in self.rows.items():
            if "/" in name:
                slices[name.partition("/")[0]] += [row["total_bytes"] for row in rows.values()]
        for card, sizes in slices.items():
            if None not in sizes:  # all its MIG instances are measured: the card is those
                self.rows.pop(card, None)
        for rows in self.rows.values():
            for row in rows.values():
                row["there"] = there(row, rows)
        self._join()
        self._once()
        for one in self.told.values():
            mine, first = one["devices"], one["workers"][0]
            sizes = [row for name in mine for row in self.rows[name].values()]
            one["gpus"] = len(mine) or one["log_gpus"]
            one["total_bytes"] = first.get("total_bytes") or highest(sizes, "total_bytes")
            one["log_kv_bytes"] = first.get("kv_bytes") or one["given_kv_bytes"]
            one["engines_on_card"] = max((at_once([engines[n] for n in self.once(self.on_card(name))])
                                          for name in mine), default=None)

    def on_card(self, name):
        return [number for number, _ in self.on[name]]

    def once(self, numbers):
        """§2.7: engines as they are added up, without those in whose place another of them counts."""
        return [number for number in numbers if self.twin.get(number) not in numbers]

    def _join(self):
        """By namespace and pod; else by host, where one GPU, or one engine with all, leaves no
        doubt. Data-parallel engines of a pod have its GPUs in order."""
        by_pod, by_host, run, numbers = (defaultdict(list) for _ in range(4))
        for name in sorted(self.rows, key=lambda name: (self.named[name]["number"], name)):
            pods = {tuple(one) for row in self.rows[name].values() for one in row["tenants"]}
            for pod in pods:
                by_pod[pod].append(name)
            place = self.named[name]["source"], host_of(self.named[name]["instance"])
            if place[1] and not pods:
                by_host[place].append(name)
        for number, (*_, last) in self.engines.items():
            labels = last["labels"]
            self.pods[number] = (first_of(labels, "exported_namespace", "namespace"),
                                 first_of(labels, "exported_pod", "pod"))
            numbers[self.pods[number]].append(last["engine"])
            run[labels["source"], host_of(last["instance"])].append(number)
        hosts, runs = (Counter(host for _, host in one) for one in (by_host, run))
        alone = {host: mine for (_, host), mine in by_host.items()
                 if hosts[host] == runs[host] == 1 and not OWN_NAMES.fullmatch(host)}
        at = {number: place for place, mine in run.items() for number in mine}
        for number, pod in self.pods.items():
            mine = by_pod.get(pod, []) if pod[1] else []
            order = sorted(set(numbers[pod]), key=lambda one: (len(one), one))
            each, place = self.told[number].get("gpus_told"), order.index(self.engines[number][0]["engine"])
            if not each or each * len(order) > len(mine):
                each = None if len(mine) % len(order) else len(mine) // len(order)
            mine = mine[place * each:(place + 1) * each] if each else mine
            there = alone.get(at[number][1]) or by_host.get(at[number], [])
            if not mine and (len(there) == 1 or (
                    len(run[at[number]]) == 1 and self.told[number]["log_gpus"] == len(there))):
                mine = there
            self.told[number]["devices"] = list(mine)
            for rank, name in enumerate(mine):
                self.on[name].append((number, rank))

    def _once(self):
        """§2.7: of engines of one address, number, model and pod that several jobs or sources tell
        of at one time, those that a rule put out of scope leave their place to one that counts; of
        those that no rule decided on, the one read longest counts."""
        alike, told = defaultdict(list), self.told
        for number in told:
            row = self.engines[number][-1]
            names = [row["labels"].get(name) for name in ("model_name", "WorkerId", "ReplicaId")]
            alike[row["instance"], row["engine"], self.pods[number], *names].append(number)

        def may_be_one(*pair):
            rows = [self.engines[number] for number in pair]
            cards = [set(told[number]["devices"]) for number in pair]
            apart = all(cards) and not cards[0] & cards[1]
            return rows[0][0]["target"] != rows[1][0]["target"] and at_once(rows) > 1 and not apart

        for group in alike.values():
            counted = [number for number in group if not told[number]["out"]]
            for number in group if len(group) > 1 else ():
                if kept := told[number]["out"] and [n for n in counted if may_be_one(n, number)]:
                    self.aside[number] = kept[0]
            for number in sorted(counted, key=self._rank):
                same = [n for n in counted if n != number and may_be_one(n, number)]
                before = [n for n in sorted(same, key=self._rank)
                          if n not in self.twin and self._rank(n) < self._rank(number)]
                if before:
                    self.twin[number] = before[0]
                if same:
                    labels = self.engines[number][-1]["labels"]
                    self.told_by[number] = f"job {labels.get('job', '')} of {labels['source']}"
        for name in self.rows:
            placed = {}
            for number, rank in self.on[name]:
                kept = self.aside.get(number, number)
                for one in filter(None, (kept, self.twin.get(number))):
                    placed.setdefault(one, rank)
                    if name not in told[one]["devices"]:
                        told[one]["devices"].append(name)
            self.on[name] = list(placed.items())

    def _rank(self, number):
        rows, labels = self.engines[number], self.engines[number][-1]["labels"]
        read = sum(row["observed_ms"] + row["stale_ms"] for row in rows)
        return self.told[number]["slug"] is None, -read, labels["source"], labels.get("job", "")


def check_logs(week, of_series, settings):
    """§8.2: the start-up log that tells of each engine: a person's link decides, else the
    model's name; of those whose pool is its own the nearest before its first reading."""
    logs = week.pack.table("engine_logs")
    for number, (*_, last) in of_series.items():
        told, best, pool, engine = settings[number], ((), ""), last["pool_tokens"], last["engine"]
        for one in logs:
            rank = link_of(one, last["labels"], told["slug"], week.workloads.get(told["slug"]))
            until = last["hour"] + HOUR if rank == 3 else told["begun"]
            same = None in (pool, one["kv_tokens"]) or pool == one["kv_tokens"]
            same = same and (one["rank"] is None or engine in ("", str(one["rank"])))
            at = one["started_at"]
            key = rank, at is not None, at or one["posted_at"]
            if rank and same and one["failed"] == "0" and (at or until) <= until and key > best[0]:
                best = key, one["document"]
        week.check(f"start-up log of {last['name']}", told["log"], best[1])


def link_of(log, labels, slug, workload):
    """Whose a log is: 3 this pod's, 2 the workload's by a link, 1 the model's by its name, 0 not."""
    if log["workload"]:
        pod = labels.get("exported_pod") or labels.get("pod", "")
        return (3 * (log["pod"] == pod) if log["pod"] else 2) if log["workload"] == slug else 0
    names = {log["model"], *(log["served_names"] or ())} - {""}
    return int(bool(names & {labels.get("model_name"), workload and workload["model"]}))


def bytes_of_token(week, told, slug):
    """§8.3: bytes of a token of an engine: its own in the workload it stood in last, else as stated
    of the workload; older packs tell them of the workload alone."""
    stated = week.workloads[slug]["kv_bytes_per_token"]
    return (told.get("kv_bytes_per_token", stated) if told["slug"] == slug else stated) or None


def only(values):
    """The one value that all have, else None: engines whose tokens differ compare in tokens alone."""
    known = set(values)
    return known.pop() if len(known) == 1 else None


def one_at_a_time(values):
    """§8.5: engines of an hour together, each for its share of the time any of them was there."""
    if not values:
        return None
    whole = sum(end - start for start, end in united(span for _, span in values))
    return sum(Fraction(value) * (Fraction(span[1] - span[0], whole) if whole else 1)
               for value, span in values)


def is_like(name, starts):
    program = name.strip().lower()
    return program.startswith(starts) or program.rsplit("/", 1)[-1].startswith(starts)


def host_of(address):
    name, _, port = address.rpartition(":")
    return name if port.isdigit() else address


def has_use(row):
    return row["active_block_ms"] is not None and row["block_size"]

# ==== part 10: memory tables, hours of memory (§8.1, §8.5, §8.8) ==================================

PARTS = ("driver", "free", "other", "weights", "kv_active", "kv_unreferenced", "graphs", "non_torch")
MEMORY = ("total", *PARTS, "used", "kv_reserved", "activation_peak")
OWN_NAMES = re.compile(r"localhost|127\..*|0\.0\.0\.0|\[?::1?\]?", re.IGNORECASE)  # any machine's
ENGINE_NAMES = ("vllm", "sglang", "text-generation", "trtllm", "tensorrt", "tritonserver",
                "lmdeploy", "llama-")
MAYBE_NAMES = ("python", "ray::", "ray ")


def lasted(spans):
    return sum(end - start for start, end in united(spans))


def mean(sums):
    """Of sums over a time, each with its time; None where nothing was measured."""
    known = [one for one in sums if one[0] is not None and one[1] > 0]
    return quotient(*map(sum, zip(*known))) if known else None


def at_their_time(pieces, whole):
    """Pieces together, each for its share of the time; a part that one does not tell is None."""
    pieces = [(parts, held) for parts, held in pieces if held > 0 or not whole]
    return {name: total_of(
        None if parts.get(name) is None else parts[name] if held == whole or not whole
        else quotient(parts[name] * held, whole) for parts, held in pieces) for name in MEMORY}


class MemoryTables(Cards):
    """What the engines on GPUs take of their memory, and what others do."""

    def table(self, numbers, names, whole):
        """§8.5: engines with the GPUs they are on, each for the share of the time it was there,
        a GPU once; with `whole` GPUs count for all the time they were measured."""
        numbers = set(self.once(numbers))
        pieces = [self._card(name, numbers, whole) for name in names]
        pieces += [(self._engine(number, rank), self._spans(number)) for number in numbers
                   if not self.told[number]["devices"] for rank in range(self.told[number]["gpus"])]
        every = lasted(span for _, spans in pieces for span in spans)
        parts = at_their_time([(one, lasted(spans)) for one, spans in pieces], every)
        row = {name: None if parts[name] is None else round(parts[name]) for name in MEMORY}
        if None not in (row["kv_reserved"], row["kv_active"]):
            row["kv_unreferenced"] = row["kv_reserved"] - row["kv_active"]
        return row

    def _card(self, name, numbers, whole):
        """One GPU with these engines on it, and when; unless `whole`, while one of them was."""
        mine, rows = [one for one in self.on[name] if one[0] in numbers], self.rows[name].values()
        spans = [span for number, _ in mine for span in self._spans(number)]
        if whole:
            spans += [row["there"] for row in rows]
        else:
            seen = {row["hour"] for number, _ in mine for row in self.engines[number]}
            rows = [row for row in rows if row["hour"] in seen]
        pieces = [(self._engine(*one), lasted(self._spans(one[0]))) for one in mine]
        total = [(row["total_bytes"] * row["observed_ms"], row["observed_ms"]) for row in rows
                 if row["total_bytes"] is not None]
        measured = {ours: mean((row[f"{theirs}_byte_ms"], row["observed_ms"]) for row in rows)
                    for ours, theirs in (("used", "used"), ("free", "free"), ("driver", "reserved"))}
        measured |= {"total": mean(total), "other": mean(
            (self._others(name, row), row["observed_ms"]) for row in rows)}
        return at_their_time(pieces, lasted(spans)) | measured, spans

    def _spans(self, number):
        return [row["there"] for row in self.engines[number]]

    def _engine(self, number, rank):
        """What an engine takes of one GPU while it is there: the cache by its gauges, the rest by
        its log, else by its own gauges."""
        if (number, rank) in self.made:
            return self.made[number, rank]
        told, sums = self.told[number], defaultdict(list)
        worker = told["workers"][min(rank, len(told["workers"]) - 1)]
        for row in self.engines[number]:
            size, seen = told["gauge_kv_bytes"], row["observed_ms"]
            if size is None and told["each"] and row["pool_tokens"] is not None:
                size = row["pool_tokens"] * told["each"]
            elif size is None:
                size = worker.get("kv_bytes", told["given_kv_bytes"])
            if size is None:
                continue
            is_used, held = row["blocks"] and row["active_block_ms"] is not None, size
            if is_used and row["reserved_block_ms"] is not None and seen:
                held = quotient(row["reserved_block_ms"] * size, row["blocks"] * seen)
            sums["kv_reserved"].append((held * (seen + row["stale_ms"]), seen + row["stale_ms"]))
            if is_used:
                active = quotient(row["active_block_ms"] * size, row["blocks"])
                sums["kv_active"].append((active, seen))
                sums["kv_unreferenced"].append((held * seen - active, seen))
        for name in ("weights", "graphs", "non_torch", "activation_peak"):
            sums[name].append((worker.get(f"{name}_bytes"), 1))
        found = self.made[number, rank] = {name: mean(pairs) for name, pairs in sums.items()}
        return found

    def _others(self, name, row):
        """Bytes × ms that programs other than the engines here held, by pod or by process: then
        told apart by name, where no more programs than engines have a name engines may have."""
        mine, holders = self.once(self.on_card(name)), row["holders"] or {}
        if "pods" in holders:
            own = {"/".join(self.pods[number]) for number in mine}
            return sum(held for pod, held in holders["pods"].items() if pod not in own)
        if "processes" in holders:
            sure, maybe = ({name for name in holders["processes"] if is_like(name, names)}
                           for names in (ENGINE_NAMES, MAYBE_NAMES))
            counts = [sum(holders["processes"][name][0] for name in names)
                      for names in (sure, maybe - sure)]
            engines = at_once([[one for one in self.engines[number] if one["hour"] == row["hour"]]
                               for number in mine]) or len(mine)
            own = sure if engines and counts[0] >= engines else (
                sure | maybe if sum(counts) <= engines else None)
            if own is not None:
                return sum(one[1] for name, one in holders["processes"].items() if name not in own)
        return row["used_byte_ms"] if row["tenants"] and not mine else None


@section
def memory_tables(week):
    """§8.5, §8.8: the memory table of each workload and of the fleet: its parts, the remainder that
    closes it, and what the reserved and unreferenced share costs."""
    cards, groups, found = week.engines.cards, defaultdict(list), []
    for slug, _, number in sorted(week.engines.hours):
        groups[slug].append(str(number))
    if cards.engines or cards.rows:
        groups[None] = [number for number in cards.engines if number not in cards.aside]
    for slug, numbers in groups.items():
        names = {name for number in numbers for name in cards.told[number]["devices"]}
        row = cards.table(set(numbers), names if slug else cards.rows, not slug)
        total, rest, cost = row["total"], row["kv_unreferenced"], None
        if slug and total and rest is not None:
            money = sum(week.whole.effective(slug, week.currency))
            cost = rounded(quotient(money * rest, total), 4) if money else None
        known = [row[name] for name in PARTS if row[name] is not None]
        found.append({"workload": slug, "headroom_cost": cost,
                      "unattributed_bytes": None if total is None else total - sum(known),
                      **{f"{name}_bytes": value for name, value in row.items()}})
    return {"memory_tables": found}


@section
def memory_hours(week):
    """§8: each hour of the chart: reserved and active of a workload's engines together, in whole
    MiB where a token's bytes are known, and what the first GPU of each engine showed as used."""
    found = []
    for slug in sorted({key[0] for key in week.engines.hours}):
        mine = defaultdict(list)
        engines = week.engines.once(slug)
        for row in chain.from_iterable(engines.values()):
            mine[row["hour"]].append(row)
        each = only(week.engines.told[number]["each"] for number in engines)
        scale = quotient(each, 2**20) if each else 1
        reserved, active = [], []
        for hour in range(*week.span, HOUR):
            rows = mine.get(hour, ())
            pools = one_at_a_time([
                (pool if row["reserved_block_ms"] is None or not row["observed_ms"]
                 else quotient(reserved_of(row), row["observed_ms"]), row["there"])
                for row in rows if (pool := pool_of(row)) is not None])
            used = one_at_a_time([
                (quotient(tokens_of(row, row["active_block_ms"]), row["observed_ms"]), row["there"])
                for row in rows if has_use(row) and row["observed_ms"]])
            reserved.append(None if pools is None else round(pools * Fraction(scale)))
            active.append(None if used is None else round(used * Fraction(scale)))
        steps = [[at, value] for at, value in enumerate(reserved)
                 if not at or reserved[at - 1] != value]
        found.append({"workload": slug, "unit": "MiB" if each else "tokens",
                      "engines": len(engines), "engines_at_once": at_once(engines.values()),
                      "start": written(week.span[0]), "hours": len(active),
                      "reserved_steps": steps, "active": active} | _devices(week, engines))
    return {"memory_hours": found}


def _devices(week, engines):
    """§8.1: MiB of one GPU of each engine, where the GPUs of all of them are known."""
    names = [week.engines.told[number]["devices"] for number in engines]
    if not all(names):
        return {"device_used": None, "device_total": None}
    mine = [week.engines.cards.rows[name[0]] for name in names]
    sizes = [rows[max(rows)]["total_bytes"] for rows in mine]
    spans = [{row["hour"]: row["there"] for row in rows} for rows in engines.values()]
    read, used, totals = sorted({hour for one in spans for hour in one}), [], []
    for hour in range(*week.span, HOUR):
        # Where no engine was read, as in the nearest hour before that one was, else after.
        near = read[max(0, bisect_right(read, hour) - 1)] if read else hour
        seen = [(rows.get(hour), size, span[near])
                for rows, size, span in zip(mine, sizes, spans) if near in span]
        held = [(int(row["used_byte_ms"] // row["observed_ms"]), span) for row, _, span in seen
                if row and row["used_byte_ms"] is not None and row["observed_ms"]]
        held = one_at_a_time(held)
        size = one_at_a_time([(size, span) for _, size, span in seen if size])
        used.append(None if held is None else round(held / 2**20))
        totals += [] if size is None else [size]
    total = round(max(totals) / 2**20) if all(sizes) and totals else None
    return {"device_used": used, "device_total": total}

# ==== part 11: right-sizing (§9) ==================================================================

LOWER, UPPER, STEP = Fraction(60, 100), Fraction(85, 100), Fraction(5, 100)


@section
def rightsizing(week):
    """§9: percentiles, verdict, proposal and steps of each engine, from the time at each half per
    cent of use and from what its labels, its start-up log and its card tell."""
    if "rightsizing" not in week.said:
        return {}
    climbed, found = defaultdict(list), []
    for row in week.pack.table("ladder_hours"):
        climbed[row["kind"]].append(row)
        if row["hour"] >= week.span[0] and (row["kind"], *same_hour(row)) not in week.engines.seen:
            week.check(f"right-sizing: {row['kind']}, {written(row['hour'])}", "an engine's", "none")
    lengths = defaultdict(list)
    for row in week.pack.table("lengths"):
        lengths[row["target"], row["engine"], row["measure"]].append((row["edge"], row["count"]))
    gpus = Counter()
    for slug in {key[0] for key in week.engines.hours}:
        gpus[slug] = sum(week.engines.told[one]["gpus"] for one in week.engines.once(slug))
    for (slug, name, number), rows in sorted(week.engines.hours.items(), key=by_name):
        told = week.engines.told[str(number)]
        engine = Sizing(rows, told, week.workloads[slug])
        value = engine.advice(week.engines.preemptions(rows[-1]), week.span)
        steps = engine.steps(climbed[told["kind"]], week.span)
        found.append({"workload": slug, "engine": name, "steps": steps}
                     | week.engines.twice(str(number)) | value)
        said = dict(enumerate(week.said["rightsizing"], 1)).get(len(found), defaultdict(str))
        cost = quotient(sum(week.whole.effective(slug, week.currency)) * told["gpus"], gpus[slug])
        engine.lengths = {what: lengths.get((rows[-1]["target"], rows[-1]["engine"], what), [])
                          for what in ("prompts", "answers", "steps")}
        for text, known in sentences(engine, value, cost).items():
            sentence(week, f"right-sizing of {name}, {text}", said[text], known, week.currency)
        knobs = advice(engine, value)
        for one in said["guidance"] or ():
            if not one["says"].startswith("Not enough evidence"):  # such tell what to hand over
                sentence(week, f"guidance on {one['knob']} of {name}", one["says"],
                         knobs[one["knob"]])
    return {"rightsizing": found}


class Sizing:
    """One engine at its present setting. Bytes are of one GPU."""

    def __init__(self, rows, told, workload):
        self.last, self.told = rows[-1], told
        self.blocks, setting = self.last["blocks"], self.last["setting"]
        self.rows = [r for r in rows if (r["blocks"], r["setting"]) == (self.blocks, setting)]
        shares = [one for one in (setting, told["log_setting"])
                  if re.fullmatch(r"[0-9]*\.?[0-9]+", one)]
        self.setting = Decimal(shares[0]) if shares else None
        pool, each = self.last["pool_tokens"], told["each"]
        size = told["gauge_kv_bytes"] or (pool and each and pool * each) or told["log_kv_bytes"]
        known = size and self.blocks
        self.a_block = Fraction(size, self.blocks) if known else None
        self.block_bytes = quotient(size, self.blocks) if known else None
        self.block_size = self.last["block_size"]
        if pool is not None and self.blocks:  # several kinds of layers share it (§8.3)
            self.block_size = round(Fraction(pool, self.blocks)) or self.block_size
        self.longest = (self.last["max_model_len"] or workload["max_model_len"]
                        or told["log_max_model_len"])

    def advice(self, pushed, span):
        """The figures of the report on it, and what is proposed."""
        self.long = long = span[1] - span[0]
        levels, blocks = levels_of(self.rows), self.blocks
        seen = Fraction(sum(row["observed_ms"] + row["stale_ms"] for row in self.rows), long)
        p50, p95, p99 = (at_most(levels, Fraction(per_cent, 100)) for per_cent in (50, 95, 99))
        value = {name: highest(self.rows, name)
                 for name in ("peak_running", "peak_waiting", "peak_blocks")}
        peak = value.pop("peak_blocks")
        share = Fraction(peak, blocks - 1) if peak is not None and blocks and blocks > 1 else None
        said, self.seen = verdict(seen, long, p99, pushed, value["peak_waiting"]), min(1, seen)
        full = [row for row in self.rows if None not in (row["peak_blocks"], row["peak_ms"])]
        busiest = max(full, key=itemgetter("peak_blocks"), default={"peak_ms": None})
        return value | {
            "kv_blocks": blocks, "preemptions": pushed, "setting": self.setting,
            "coverage": places(min(Fraction(1), seen)), "verdict": said, "peak": places(share),
            "p50": places(p50), "p95": places(p95), "p99": places(p99),
            "busiest_at": written(busiest["peak_ms"]),
            "proposal": self.proposal(said, p99, peak, value["peak_running"]),
            "inputs": {"total_bytes": self.told["total_bytes"], "block_size": self.block_size,
                       "max_model_len": self.longest,
                       "block_bytes": self.block_bytes,
                       "sized_by_hand": self.told["sized_by_hand"] == "1"}}

    def predicted(self, setting, now, blocks, p99, peak, running):
        """What a setting gives: the change of the share × the card's memory goes to the pool
        whole, in whole blocks; use goes with blocks less the null block. None where not known."""
        total, a_block = self.told["total_bytes"], self.a_block
        if None in (now, total, a_block) or not blocks or self.told["sized_by_hand"] == "1":
            return None
        change = (Fraction(setting) - Fraction(now)) * total // 1
        then = max(0, int((blocks * a_block + change) // a_block))
        size, longest, most = self.block_size, self.longest, max(0, then - 1)
        least = -(-longest // size) + 1 if longest and size else 0
        return {"utilization": Decimal(setting), "kv_blocks": then, "change_bytes": change,
                "p99": places(p99 * (blocks - 1) / most) if p99 is not None and most else None,
                "concurrency": most * running // peak if running and peak else None,
                "longest_requests": most * size // longest if longest and size else None,
                "fits": then >= max(least, -(-(peak or 0) * 6 // 5) + 1)}

    def proposal(self, said, p99, peak, running):
        """In steps of 0.05 the lowest setting that holds a longest request and the peak × 1.2,
        with p99 in the band: below the present one where it is over-reserved, else above."""
        if said in ("fits", "not enough data") or self.setting is None:
            return None
        now, down = Fraction(self.setting), said == "over-reserved"
        lowest = -int((now - STEP) / STEP)
        for step in range(lowest, 0) if down else range(1, 20):
            setting = now + STEP * step
            one = self.predicted(short(setting), self.setting, self.blocks, p99, peak, running)
            good = one and one["fits"] and one["p99"] and Fraction(one["p99"]) <= UPPER
            if good and setting <= max(now, Fraction(95, 100)):
                del one["fits"]
                return one
        return None

    def steps(self, hours, span):
        """What was predicted of each step of the week, and what came of it."""
        stretches = []
        for row in sorted(hours, key=itemgetter("hour")):
            same = stretches and itemgetter("setting", "blocks")
            if same and same(stretches[-1][0]) == same(row):
                stretches[-1].append(row)
            else:
                stretches.append([row])
        return [self._step(*pair) for pair in pairwise(stretches)
                if span[0] <= pair[1][0]["hour"] < span[1]]

    def _step(self, before, after):
        (old, was), (new, came) = map(rung, (before, after))
        guess = self.predicted(new["setting"], old["setting"], old["kv_blocks"], was,
                               old["peak_blocks"], None)
        result = "wait"
        if guess and guess["p99"] and came is not None:
            apart = came - min(Fraction(1), Fraction(guess["p99"]))
            if new["preemptions"] and not old["preemptions"]:
                result = "more than predicted"
            elif new["enough"]:
                result = ("came true" if abs(apart) <= Fraction(5, 100) else
                          "more than predicted" if apart > 0 else "less than predicted")
        return {"at": new["from"], "from": old, "to": new, "predicted": guess, "result": result}

def rung(hours):
    """A stretch of hours with one setting and one pool, and its exact p99."""
    start, end, p99 = hours[0]["hour"], hours[-1]["hour"] + HOUR, None
    seen = min(Fraction(1), Fraction(sum(row["seen_ms"] for row in hours), end - start))
    p99 = at_most(levels_of(hours), Fraction(99, 100))
    return {"setting": Decimal(hours[0]["setting"]), "kv_blocks": hours[0]["blocks"],
            "from": written(start), "to": written(end), "coverage": places(seen),
            "enough": end - start >= 7 * DAY and seen >= Fraction(95, 100), "p99": places(p99),
            "peak_blocks": highest(hours, "peak_blocks"),
            "peak_waiting": highest(hours, "peak_waiting"),
            "preemptions": sum(row["preempted"] for row in hours)}, p99


def levels_of(rows):
    """The milliseconds at each half per cent of use, over several hours."""
    levels = defaultdict(int)
    for row in rows:
        for level, held in row["levels_ms"].items():
            levels[int(level)] += held
    return levels


def at_most(levels, share):
    """The use not exceeded for a share of the time: the upper edge of its half per cent."""
    reached, total = 0, sum(levels.values())
    for level in sorted(levels):
        reached += levels[level]
        if total and reached >= share * total:
            return min(Fraction(1), Fraction(level + 1, 200))
    return None


def verdict(seen, long, p99, preempted, waiting):
    if long < 7 * DAY or seen < Fraction(95, 100) or p99 is None:
        return "not enough data"
    if preempted or (waiting and p99 > UPPER):
        return "at risk"
    return "tight" if p99 > UPPER else "over-reserved" if p99 < LOWER else "fits"


def places(value):
    """A share as text with four decimals, half to even."""
    return None if value is None else format(rounded(value, 4), "f")

# ==== part 12: what is said of right-sizing (§9) ==================================================


def sentences(engine, value, cost):
    """What each sentence on it tells, in its order: the verdict's, the next step's, and that on
    money, with its cards, and what a lower setting frees of them."""
    told, proposal, money = engine.told, value["proposal"], []
    p99 = value["p99"] and Decimal(value["p99"]) * 100
    why = [value["preemptions"], value["peak_waiting"], 99, (p99, 1), (engine.seen * 100, 1),
           (Fraction(engine.long, DAY), 1), 7, 95]
    to = proposal and proposal["utilization"]
    step = to and short(Fraction(engine.setting) + (-STEP if to < engine.setting else STEP))
    if proposal and proposal["change_bytes"] < 0:
        freed, total = -proposal["change_bytes"], told["total_bytes"]
        money = [told["gpus"], told["engines_on_card"], (Fraction(freed, 2**30), 1),
                 (Fraction(freed * 100, total), 1), (cost, 2), (quotient(cost * freed, total), 2)]
    return {"why": why, "next_step": [step, 7, to, 8], "no_proposal": [8], "money": money,
            "load": load(engine, value["peak_running"])}


def load(engine, running):
    """What is told of the load seen, and then what speaks against it."""
    read, busy = (len({row["hour"] // HOUR % 168 for row in engine.rows if any(
        row[name] for name in names)}) for names in (("observed_ms", "stale_ms"), ("peak_running",)))
    earlier, days = engine.told["earlier_peak_running"], engine.told["earlier_days"]
    prompts, least = engine.lengths["prompts"], earlier is not None and running is not None
    before, count = [running, earlier, days] if least else [running], how_many(prompts)
    told = [read, 168, busy, *before]
    told += [95, count, at_most_of(prompts, 95)] if count else []
    told += [read, 168] if read * 100 < 168 * 95 else []
    told += before if least and running * 5 < earlier * 4 else []
    return told + [count] * (0 < count < 1000)


def advice(engine, value):
    """What the advice on each other setting tells, of logs, peaks, lengths and look-ups."""
    told, worker, blocks, lengths = engine.told, engine.told["workers"][0], engine.blocks, engine.lengths
    most, tokens = told["log_max_num_seqs"], told["log_max_num_batched_tokens"]
    peak, total, free, budget = (worker.get(f"{name}_bytes") for name in (
        "activation_peak", "total", "free_at_start", "budget"))
    running, busiest = value["peak_running"], highest(engine.rows, "peak_blocks")
    fit = (blocks - 1) * running // busiest if running and busiest and blocks else None
    other = worker.get("non_torch_bytes")
    if other is None and None not in (worker.get("weights_and_non_torch_bytes"),
                                      worker.get("weights_bytes")):
        other = worker["weights_and_non_torch_bytes"] - worker["weights_bytes"]
    alone, p99 = told["alone_non_torch_bytes"], value["p99"] and Decimal(value["p99"]) * 100
    step = bucket_of(lengths["steps"], 100)[1]
    cut = int(peak * (1 - Fraction(step, tokens))) if peak and tokens and step else None
    longest = [bucket_of(lengths[what], 100) for what in ("prompts", "answers")]
    hits, queries = told["prefix_hits"], told["prefix_queries"]
    requests = [running, most, running and -(-running * 6 // 40) * 8, size(peak)]
    if most and value["preemptions"] and fit and fit < most:
        requests = [value["preemptions"], most, fit, fit]
    elif None not in (running, most) and running >= most:
        requests = [most, value["peak_waiting"]]
    return {
        "--max-num-seqs": requests,
        "--max-num-batched-tokens": [
            99, how_many(lengths["steps"]), at_most_of(lengths["steps"], 99),
            *edges(bucket_of(lengths["steps"], 100)), tokens, step, size(peak), size(cut),
            *over(lengths["steps"], (tokens or 0) // 2)],
        "tensor-parallel buffers": [told["log_tensor_parallel"], size(other), size(alone),
                                    size(None if None in (other, alone) else max(0, other - alone))],
        "memory taken before sizing": [
            size(less(total, free)), size(total),
            None if None in (total, free) else Decimal(free * 100 // total) / 100,
            size(less(free, budget))],
        "--kv-cache-dtype": [16, (p99, 1), 99, 8, 2 * (engine.last["pool_tokens"] or 0),
                             p99 and (rounded(p99 / 200, 4) * 100, 1)],
        "--enable-prefix-caching": [queries, hits, (Fraction(hits * 100, queries), 1)
                                    if hits is not None and queries else None],
        "--max-model-len": [how_many(lengths["prompts"]), *chain(*map(edges, longest)), 99,
                            at_most_of(lengths["prompts"], 99), engine.longest,
                            total_of(edge for _, edge in longest)]}


def how_many(buckets):
    return sum(number for _, number in buckets)


def bucket_of(buckets, per_cent):
    """Of lengths by bucket: the edges of the bucket that holds so many per cent of them; the last
    bucket has no upper one."""
    reached, low = 0, 0
    for edge, number in buckets:
        reached += number
        if number and reached * 100 >= how_many(buckets) * per_cent:
            return low, edge
        low = edge
    return None, None


def edges(bucket):
    """A bucket in a sentence: from one above its lower edge to its upper, or over its lower."""
    low, edge = bucket
    return [low] if edge is None else [low + 1, edge]


def at_most_of(buckets, per_cent):
    """What so many per cent had at most, or were over."""
    return edges(bucket_of(buckets, per_cent))[-1]


def over(buckets, limit):
    """How many are longer than a limit, at least and at most."""
    lows = [0] + [edge for edge, _ in buckets]
    return [sum(n for low, (_, n) in zip(lows, buckets) if low >= limit),
            sum(n for edge, n in buckets if edge is None or edge > limit)]


def less(one, other):
    """Their difference; None where either is not known, which is not zero."""
    return None if None in (one, other) else one - other


def size(bytes_):
    """Bytes as a sentence tells them: in GiB, or MiB where that would say little."""
    small = 0 < abs(bytes_ or 0) < 2**30 // 10
    return bytes_ and Fraction(bytes_, 2**20 if small else 2**30), 1 if small else 2

# ==== part 13: service levels (§5) ================================================================

MEASURES = ("first_token", "inter_token")
IN_TIME = ("counted", "in_time_lower", "in_time_upper")


class ServiceLevels:
    """What came in time, from the engines' buckets and the objective in force in each hour."""

    def __init__(self, week):
        self.objectives, self.hours = defaultdict(list), defaultdict(dict)
        for row in week.pack.table("objectives"):
            self.objectives[row["workload"]].append(row)
        series, best = {}, {}
        for row in week.pack.table("latency_buckets"):
            key = row["measure"], row["target"], row["engine"]
            series[row["series"]] = row | {"key": key}
            best[key] = min(row["preference"], best.get(key, 99))
        for row in week.pack.table("latency_hours"):
            one = series[row["series"]]
            place = week.tokens.place(one, row["hour"])
            if one["preference"] > best[one["key"]] or place[0] != "workload":
                continue  # the engine tells it under a preferred name as well
            engine, bound = (row["hour"], *one["key"][1:]), one["bound_seconds"]
            bounds = self.hours[place[1], one["measure"]].setdefault(engine, {})
            count, readings = bounds.get(bound, (0, 0))
            bounds[bound] = count + row["count"], readings + row["readings"]

    def in_force(self, slug, at):
        held = [o for o in self.objectives.get(slug, ()) if o["valid_from"] <= at]
        return held[-1] if held else None

    def between(self, slug, span):
        return [o for o in self.objectives.get(slug, ()) if span[0] < o["valid_from"] < span[1]]

    def wanted(self, slug, measure, span):
        """Whether an objective in force in the span has a threshold of the measure."""
        held = (*self.between(slug, span), self.in_force(slug, span[0]))
        return any(one and one[measure + "_seconds"] is not None for one in held)

    def counts(self, slug, measure, span):
        """How many were counted, and how many at least and at most came in time."""
        total = (0, 0, 0)
        for (at, *_), bounds in self.hours.get((slug, measure), {}).items():
            holds = self.in_force(slug, at) if span[0] <= at < span[1] else None
            if holds and holds[measure + "_seconds"] is not None:
                found = within(bounds, holds[measure + "_seconds"])
                if found is None:
                    return None
                total = tuple(a + b for a, b in zip(total, found))
        return total if total[0] else None

    def shares(self, w, span):
        """The lowest and highest share of good tokens; None where a wanted measure is unknown."""
        if self.in_force(w["slug"], span[1] - 1) is None:
            return None
        wanted = [m for m in MEASURES if self.wanted(w["slug"], m, span)]
        counts = [self.counts(w["slug"], measure, span) for measure in wanted]
        if not counts or None in counts:
            return None
        missed = sum(1 - Fraction(lower, count) for count, lower, _ in counts)
        return max(Fraction(0), 1 - missed), min(Fraction(up, count) for count, _, up in counts)

    def row(self, w, span):
        """One workload's row of the statement."""
        slug, last = w["slug"], self.in_force(w["slug"], span[1] - 1)
        changed = last is not None and bool(self.between(slug, span)) and (
            self.in_force(slug, span[0]) is not None)
        found = {"workload": slug, "objective": None, "objective_changed": changed,
                 "start": written(span[0]), "end": written(span[1]),
                 **dict.fromkeys((*MEASURES, "verdict", "goodput"))}
        if last is None:
            return found
        target = Fraction(last["target"])
        found["objective"] = {
            "target": Decimal(last["target"]), "valid_from": written(last["valid_from"]),
            "by": last["by"], "note": last["note"], **{name: last[name] for name in (
                "first_token_seconds", "inter_token_seconds")}}
        for measure in MEASURES:
            counts = self.wanted(slug, measure, span) and self.counts(slug, measure, span)
            if counts:
                low, high = (Fraction(count, counts[0]) for count in counts[1:])
                verdict = "met" if low >= target else "missed" if high < target else "undecided"
                found[measure] = shares_of(counts) | {"verdict": verdict}
        shares = self.shares(w, span)
        if not shares:
            return found
        verdicts = [found[m]["verdict"] for m in MEASURES if found[m]]
        found["verdict"] = next(v for v in ("missed", "undecided", "met") if v in verdicts)
        (low, high), tokens, cost = shares, w["counted"], w["cost"]
        total = tokens["prompt"] + tokens["generation"] if tokens else 0
        if cost is not None and cost > 0 and total:
            least, most = (total if tokens[n] is None else tokens[n] for n in ("lower", "upper"))
            found["goodput"] = {"share_lower": quotient(low, 1), "share_upper": quotient(high, 1)}
            found["goodput"] |= good(cost, int(least * low), -int(-most * high // 1))
        return found


def within(bounds, threshold):
    """One engine's hour: all, certainly in time, possibly in time."""
    count, readings = bounds.get(Decimal("Infinity"), (0, None))
    if readings is None:
        return None
    told = sorted((bound, n) for bound, (n, read) in bounds.items() if read >= readings)
    if any(one[1] > after[1] for one, after in pairwise(told)):
        return count, 0, count
    lower = max((n for bound, n in told if bound <= threshold), default=0)
    return count, lower, min(n for bound, n in told if bound >= threshold)


def shares_of(counts):
    found = dict(zip(IN_TIME, counts)) | dict.fromkeys(("share_lower", "share_upper"))
    if counts[0]:
        found |= {f"share_{side}": quotient(n, counts[0])
                  for side, n in zip(("lower", "upper"), counts[1:])}
    return found


def good(cost, lower, upper):
    return {"tokens_lower": lower, "tokens_upper": upper,
            "cost_per_million_lower": quotient(cost * MILLION, upper) if upper else None,
            "cost_per_million_upper": quotient(cost * MILLION, lower) if lower else None}


@section
def service_levels(week):
    """§5: what came in time, by workload and of the workloads of the organisation's figure."""
    levels = ServiceLevels(week)
    rows = {slug: levels.row(w, w["common"] or week.span)
            for slug, w in week.rows.items() if w["purpose"] == "inference"}
    mine = [rows[w["slug"]] for w in week.counting]
    whole = {"workloads": len(mine), "goodput": None,
             "with_objective": sum(row["objective"] is not None for row in mine)}
    for verdict in ("met", "missed", "undecided"):
        whole[verdict] = sum(row["verdict"] == verdict for row in mine)
    for measure in MEASURES:
        known = [row[measure] for row in mine if row[measure]]
        whole[measure] = known and shares_of([sum(r[n] for r in known) for n in IN_TIME]) or None
    cost, found = sum(w["cost"] for w in week.counting), [row["goodput"] for row in mine]
    if found and None not in found and cost > 0:
        sums = [sum(g[f"tokens_{side}"] for g in found) for side in ("lower", "upper")]
        whole["goodput"] = good(cost, *sums)
    week.levels, week.level = levels, whole
    return {"service_levels": list(rows.values()), "service_level": whole}

# ==== part 14: changes (§10) and training (§5) ====================================================

DRAWS, TWO_WEEKS, WEEK_OF_HOURS = 500, 14 * DAY, 168 * HOUR


@section
def changes(week):
    """§10: matched hours before and after each confirmed change, and 500 draws by its seed."""
    hours = defaultdict(list)
    for row in week.pack.table("change_hours"):
        hours[row["change"]].append(row)
    found = []
    for row in week.pack.table("changes"):
        words = (row["workload"], row["kind"], row["at"].replace("Z", "+00:00"), row["before"],
                 row["after"])
        key = sha256("\n".join(words).encode())[:12]
        pairs = matched(hours[row["key"]], instant(row["at"]) // HOUR * HOUR)
        value = {**row, "key": key, "seed": key, "pairs": len(pairs), "cost_per_million": None,
                 "p99_kv_use": None}
        if len(pairs) >= 24:
            drawn = [[pairs[i] for i in draw] for draw in draws(key, len(pairs))]
            value["cost_per_million"] = apart(price_of, pairs, drawn)
            if all(hour["levels_ms"] for pair in pairs for hour in pair):
                value["p99_kv_use"] = apart(p99_of, pairs, drawn)
        found.append(value)
    return {"changes": found}


def matched(hours, at):
    """The same hour of the week, loads a fifth apart at most; the nearest, then the latest."""
    hours = sorted((h for h in hours if h["tokens"] > 0 and h["cost"] > 0),
                   key=itemgetter("hour_ms"))
    befores = [h for h in hours if at - TWO_WEEKS <= h["hour_ms"] < at]
    pairs = []
    for after in (h for h in hours if at < h["hour_ms"] <= at + TWO_WEEKS):
        def gap(one, after=after):
            return abs(one["tokens"] - after["tokens"])

        fitting = [one for one in befores
                   if (after["hour_ms"] - one["hour_ms"]) % WEEK_OF_HOURS == 0
                   and 5 * gap(one) <= max(one["tokens"], after["tokens"])]
        if fitting:
            best = min(fitting, key=lambda one: (gap(one), -one["hour_ms"]))
            befores.remove(best)
            pairs.append((best, after))
    return pairs


def draws(seed, size):
    """500 times as many picks as pairs: four bytes of SHA-256 of seed and count, modulo."""
    picks = []
    for count in range(-(-DRAWS * size // 8)):
        block = hashlib.sha256(f"{seed}:{count}".encode()).digest()
        picks += [int.from_bytes(block[i:i + 4], "big") % size for i in range(0, 32, 4)]
    return [picks[i * size:(i + 1) * size] for i in range(DRAWS)]


def price_of(hours):
    """Cost per million tokens of some hours."""
    return Fraction(sum(h["cost"] for h in hours)) * MILLION / sum(h["tokens"] for h in hours)


def p99_of(hours):
    """The use not exceeded for 99 % of the time of some hours."""
    return at_most(levels_of(hours), Fraction(99, 100))


def apart(measure, pairs, drawn):
    """Before, after, their difference, and the draws between which 95 % lie."""
    before, after = map(measure, zip(*pairs))
    moved = sorted(new - old for old, new in (map(measure, zip(*draw)) for draw in drawn))
    named = {"before": before, "after": after, "difference": after - before,
             "lower": moved[12], "upper": moved[487]}
    return {name: short(value) for name, value in named.items()}


@section
def training(week):
    """§5: training beside inference: the week's cost, what came late, the quarter's budget."""
    rows = {slug: row for slug, row in week.workloads.items() if row["purpose"] == "training"}
    if not rows:
        return {"training": None}
    costs = {slug: sum(week.whole.effective(slug, week.currency)) for slug in week.rows}
    mine = sum((costs[slug] for slug in rows), Decimal(0))
    inference = sum((cost for slug, cost in costs.items() if slug not in rows), Decimal(0))
    late = []
    for slug, w in week.rows.items():
        shares = slug not in rows and week.levels.shares(w, w["common"] or week.span)
        if shares and w["cost"] is not None and w["cost"] > 0:
            low, high = (w["cost"] - portion(w["cost"], share) for share in shares[::-1])
            late.append({"workload": slug, "lower": low, "upper": high})
    found = {
        "workloads": [
            {"workload": slug, "model": row["model"], "team": row["team"], "cost": costs[slug],
             "gpu_hours": week.gpu_hours(slug, week.span)} for slug, row in sorted(rows.items())],
        "cost": mine, "inference_cost": inference, "late": late, "budget": _budget(week),
        "share_of_inference": quotient(mine, inference) if inference > 0 else None}
    for side in ("lower", "upper"):
        found[f"late_cost_{side}"] = sum(one[side] for one in late) if late else None
    sentence(week, "training", (week.said["training"] or {}).get("message"), spending(found),
             week.currency, (found["budget"] or {}).get("quarter"))
    return {"training": found}


def spending(found):
    """What the sentence on training tells: amounts, and of the budget what is spent and when."""
    budget = found["budget"] or defaultdict(lambda: None)
    amounts = ("cost", "inference_cost", "late_cost_lower", "late_cost_upper")
    shares = (budget[name] and budget[name] * 100 for name in ("share_spent", "share_elapsed"))
    return [*((found[name], 2) for name in amounts), *((one, 0) for one in shares),
            (budget["forecast"], 2)]


def portion(cost, share):
    """A cost × a share, to 24 decimals."""
    return rounded(Fraction(cost) * Fraction(quotient(share, 1)), 24)


def _budget(week):
    budgets = week.pack.table("training_budget")
    if not budgets:
        return None
    row = budgets[-1]
    newest = week.reaches["cost"].get("", (None, None, None))[1]
    reached = row["start"] if newest is None else -(-newest // HOUR) * HOUR
    until = max(row["start"], min(week.span[1], reached))
    charges, of = week.pack.table("training_charges"), itemgetter("document", "line")
    whole = {of(one): (one["target"], one["start"], one["end"]) for one in week.charges}
    mine = [(of(one), (one["workload"], one["start"], one["end"])) for one in charges]
    odd = [key for key, one in mine if whole.get(key, one) != one
           or week.workloads[one[0]]["purpose"] != "training"]
    week.check("training charges that are another's", 0, len(odd))
    same = [one for one in charges if one["currency"] == week.currency]
    spent = sum((part(one["effective"] or Decimal(0), one["start"], one["end"], row["start"], until)
                 for one in same), Decimal(0))
    amount, elapsed, whole = row["amount"], until - row["start"], row["end"] - row["start"]
    found = {name: row[name] for name in ("quarter", "amount", "currency", "note", "by", "at")} | {
        "start": written(row["start"]), "end": written(row["end"]), "until": written(until),
        "document": row["document"] or None, "charges": len(same), "spent": spent,
        "other_currencies": sorted({one["currency"] for one in charges} - {week.currency}),
        **dict.fromkeys(("share_spent", "share_elapsed", "forecast", "forecast_over_budget"))}
    if row["currency"] == week.currency:
        found["share_spent"] = quotient(spent, amount)
        if elapsed > 0:
            found["share_elapsed"] = quotient(elapsed, whole)
            found["forecast"] = quotient(spent * whole, elapsed)
            found["forecast_over_budget"] = found["forecast"] - amount
    return found

# ==== part 15: tie-outs, places and teams (§3.8, §4) ==============================================

SUBUNITS = dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
                         .split(), 0) | dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3)
SUBUNITS |= dict.fromkeys(("CLF", "UYW"), 4)
LABELS = {"workload": "", "shared": "Shared, not yet split", "idle": "Idle",
          "unused commitment": "Unused commitment", "out of scope": "Out of scope",
          "unassigned": "Unassigned"}
PLACES = list(LABELS)


@section
def tieouts(week):
    """§4: the invoice table and the period tables, each currency by itself."""
    rows = invoices(week.pack)
    others = sorted(set(week.whole.whole) - {week.currency})
    table = period_table(week.whole, week.currency)
    table["other_currencies"] = [period_table(week.whole, one) for one in others]
    return {"tieout": {"invoice": rows, "period": table},
            "provisional_months": sorted({r["billing_period"] for r in rows if r["provisional"]})}


def invoices(pack):
    """§4, §3.8: each invoice's lines against the amount its issuer printed."""
    lines, accounts, taxes = {}, defaultdict(set), defaultdict(int)
    for row in pack.table("invoice_lines"):
        key = row["month"], row["issuer"], row["invoice"], row["currency"]
        add(lines, key, [row["billed"] or 0, 0], row["lines"])
        taxes[key] += int(row.get("tax_lines") or 0)
        accounts[key].add(row["account"])
    issued = {(row["billing_period"], row["issuer"], row["invoice"], row["currency"]): row["amount"]
              for row in pack.table("invoice_amounts")}
    confirmed = {(row["issuer"], row["billing_account"], row["billing_period"])
                 for row in pack.table("confirmations")}
    said = {(row["issuer"], row["billing_period"]): row["status"]  # the newest word holds
            for row in pack.table("period_statuses")}
    found = []
    for key in sorted(lines | issued):
        month, issuer, invoice, currency = key
        billed, _, count = lines.get(key, [Decimal(0), 0, 0])
        rounded = count - taxes[key]  # the tolerance is not for lines of tax
        unit, amount = Decimal(1).scaleb(-SUBUNITS.get(currency.upper(), 2)), issued.get(key)
        unit = Decimal(0) if count and not rounded else unit
        root = SIXTY.multiply(SIXTY.sqrt(Decimal(rounded)), unit / 2)
        difference = None if amount is None else amount - billed
        closed = said.get((issuer, month)) == "Closed"
        final = bool(invoice) or amount is not None or closed or all(
            (issuer, account, month) in confirmed for account in accounts[key])
        found.append({"issuer": issuer, "invoice": invoice or None, "billing_period": month,
                      "currency": currency, "lines": count, "billed": billed, "issued": amount,
                      "difference": difference, "tolerance": max(100 * unit, root),
                      "within": None if difference is None else abs(difference) <= 100 * unit
                      or (unit and (2 * difference / unit) ** 2 <= rounded) or False, "provisional": not final})
    return found


def period_table(costs, currency):
    """§4: billed − purchases + amortised use = effective = the sum of the places."""
    billed, effective, _ = costs.whole.get(currency, [Decimal(0), Decimal(0), 0])
    rows, explained, placed = {"billed": billed}, billed, Decimal(0)
    for (name, of), pair in sorted(costs.commitments.items()):
        if of == currency:
            explained += sum(pair)
            rows |= {f"{noun} {name}": one for noun, one in zip(("purchases", "use"), pair) if one}
    if effective != explained:
        rows["not explained"] = effective - explained
    rows["effective"] = effective
    for kind in PLACES:
        sums = [t[1] for (p, c), t in costs.all_places().items() if p[0] == kind and c == currency]
        if sums:
            rows[f"place {kind}"] = sum(sums)
            placed += sum(sums)
    if effective != placed:
        rows["not placed"] = effective - placed
    return {"rows": [{"key": key, "amount": amount} for key, amount in rows.items()],
            "currency": currency,
            "billed_side": explained, "effective": effective, "allocated": placed,
            "difference": effective - explained or effective - placed}


@section
def allocation(week):
    """§4: each place's money, with its name on the report."""
    def order(one):
        (kind, name), currency = one[0]
        return currency, PLACES.index(kind), name or ""

    return {"allocation": [
        {"place": kind, "workload": name if kind == "workload" else None, "currency": currency,
         "billed": total[0], "effective": total[1], "charges": total[2],
         "label": name if kind == "workload" else ": ".join(filter(None, (LABELS[kind], name)))}
        for ((kind, name), currency), total in sorted(week.whole.all_places().items(), key=order)]}


@section
def allocation_statement(week):
    """§4: what each team's workloads cost; with what stands in no workload, all of the money."""
    teams, total = defaultdict(list), week.total[1]
    for slug, row in sorted(week.workloads.items()):
        own, shared = week.whole.effective(slug, week.currency)
        if own + shared:
            teams[row["team"]].append((slug, own, shared))
    rows = []
    for team in sorted(teams, key=lambda team: (not team, team)):
        own, shared = (sum(row[column] for row in teams[team]) for column in (1, 2))
        rows.append({"team": team or None, "workloads": [row[0] for row in teams[team]],
                     "own": own, "shared": shared, "effective": own + shared,
                     "share": quotient(own + shared, total) if total else None})
    elsewhere = sum((amounts[1] for (place, currency), amounts in week.whole.all_places().items()
                     if place[0] != "workload" and currency == week.currency), Decimal(0))
    placed = sum((row["effective"] for row in rows), elsewhere)
    week.check("teams and what stands elsewhere are all the money", True, placed == total)
    return {"allocation_statement": {"teams": rows, "elsewhere": elsewhere, "effective": total}}


@section
def nodes(week):
    """§4: nodes and the invoice side by side: what met, what did not, what stood idle."""
    known, sides, charged = week.nodes, {}, set()
    if not known.hours:
        week.met = None
        return {"nodes": None}
    for row in week.charges:
        share, found = known.idle(row, *week.span), known.of_charge(row, *week.span)
        week.check(f"idle share of line {row['line']} of {row['document'][:12]}",
                   row["idle_share"], f"{share.numerator}/{share.denominator}" if share else "")
        if found is not None:
            add(sides, (bool(found[0]), row["money"]), week.exchange.parts(row, week.span))
            charged |= {(node, hour) for node in found[0] for hour in found[1]}
    hours = {(node, at): one for node, every in known.hours.items() for at, one in every.items()}
    met = {node for node, hour in charged if (node, hour) in hours}
    on, off = (sides.get((side, week.currency), [Decimal(0)] * 2 + [0]) for side in (True, False))
    sums = {"node_hours": sum(one[0] for one in hours.values()),
            "matched_node_hours": sum(one[0] for key, one in hours.items() if key in charged),
            "capacity_gpu_hours": sum(one[1] or 0 for one in hours.values()),
            "held_gpu_hours": sum(one[2] for one in hours.values()),
            "idle_gpu_hours": sum(max(0, (one[1] or 0) - one[2]) for one in hours.values()),
            "unassigned_gpu_hours": known.nobody}
    found = {name: short(Fraction(value) / HOUR) for name, value in sums.items()}
    week.met = found | {
        "unmatched_node_hours": found["node_hours"] - found["matched_node_hours"],
        "unmatched_nodes": [name[2] for name, node in known.names.items() if node not in met],
        "matched_cost": on[1], "unmatched_cost": off[1], "unmatched_charges": off[2],
        "currency": week.currency}
    return {"nodes": week.met}


def of_amounts(week):
    """Invoices of which a person's newest amount and the issuer's newest one differ."""
    newest = defaultdict(dict)
    for row in week.pack.table("invoice_amounts"):
        key = row["issuer"], row["invoice"], row["billing_period"], row["currency"]
        is_told = row["from_details"] == "1"
        newest[key].pop(is_told, None)  # so that what came last stands last
        newest[key][is_told] = row["amount"]
    for key, one in newest.items():
        if len(one) == 2 and one[False] != one[True]:
            last = [*one.values()][-1]
            yield "issued-amounts-differ", " ".join(key), None, None, one[False], one[True], last

# ==== part 16: the exceptions (§11) ===============================================================

COUNTED = {"gaps": "gaps", "restarts": "restarts", "hidden-resets": "hidden_resets",
           "weak-restart-evidence": "unmarked_restarts", "alternations": "alternations",
           "unplaced-openings": "unplaced_openings", "edges-unread": "unread_edges"}
TOLD = set(COUNTED) | set("""unassigned-charges shared-not-yet-split exchange-rate-missing
    currencies-mixed gpu-charges-without-node nodes-without-charges gpu-hours-differ ageing-baseline
    baseline-not-approved stale-gauges cost-lags readings-late readings-ended provisional-month
    invoice-differs effective-differs-from-billed usage-without-price unrecognised-gpu
    priced-by-rate-card contracted-zero price-times-quantity far-from-list-price duplicated-lines
    overlapping-files purchase-with-effective-cost missing-amounts currency-unknown
    issued-amounts-differ""".split())
NOT_IN_THE_PACK = {"waiting-snapshot", "shorter-snapshot"}  # deliveries that do not count


@section
def exceptions(week):
    """§11: what the register must name, each kind that the pack's rows tell: the lines there are,
    their amounts, and that the numbers computed stand in their sentences in this order."""
    known, rows, period = {}, [], [written(at).replace("Z", "+00:00") for at in week.span]
    for source in (of_money, of_workloads, of_reaches, of_charges, of_invoices, of_amounts):
        for kind, subject, amount, currency, *told in source(week):
            known[kind, subject, currency] = amount, told
    said = [(one["kind"], one["subject"], one["currency"]) for one in week.said["exceptions"]]
    mine = [key for key in said  # that of the report itself is of no workload
            if key[0] in TOLD and key[:2] != ("currencies-mixed", "report")]
    week.check("exceptions that the rows tell of", sorted(mine, key=str),
               sorted((key for key in known if key[0] in TOLD), key=str))
    for key, one in zip(said, week.said["exceptions"]):
        amount, told = known.get(key, (None, ()))
        row = {"id": sha256("\x1f".join((*key[:2], key[2] or "", *period)).encode())[:16]}
        if key[0] == "unit-price-implausible":  # its bounds are of a list of public prices
            row["amount"] = one["amount"] and next(
                (sum_ for sum_ in told if sum_ == Decimal(one["amount"])), None)
        elif key[0] not in NOT_IN_THE_PACK:
            row["amount"] = amount
        rows.append(row)
        if key[0] in TOLD:
            week.check(f"numbers of the exception {key[0]} {key[1]}",
                       in_order(one["text"], told), True)
    return {"exceptions": rows}


def of_money(week):
    """What of the week's money stands in no workload, or in another currency."""
    for (place, currency), total in week.whole.all_places().items():
        if place[0] == "unassigned":
            yield "unassigned-charges", currency, total[1], currency, total[2]
        elif place[0] == "shared":
            yield "shared-not-yet-split", f"{place[1]} {currency}", total[1], currency
    for (currency,), one in week.exchange.missing.items():
        yield "exchange-rate-missing", currency, one["effective"], currency, one["charges"]
    met = week.met
    if met and met["unmatched_charges"]:
        charges, of = met["unmatched_charges"], week.currency
        yield "gpu-charges-without-node", of, met["unmatched_cost"], of, charges
    if met and met["unmatched_node_hours"]:
        names = ", ".join(met["unmatched_nodes"][:5]) or "hours"
        yield ("nodes-without-charges", names, None, None, (met["unmatched_node_hours"], 1),
               (met["node_hours"], 1))


def of_workloads(week):
    """What readings, baselines and gauges of each workload leave to be known."""
    for slug, w in week.rows.items():
        tokens, terms = w["week_tokens"], week.baseline(w)
        more = tokens and {"gaps": (tokens["unobserved"] // 1000, coverage(tokens)),
                           "unplaced-openings": (tokens["opening_tokens"],)}
        for kind, name in COUNTED.items() if tokens else ():
            if tokens[name]:
                yield kind, slug, None, None, tokens[name], *more.get(kind, ())
        for other in sorted({*week.whole.whole} - {week.currency}):
            amount = sum(week.whole.effective(slug, other))
            if amount and w["purpose"] == "inference":
                yield "currencies-mixed", f"{slug} {other}", amount, other
        if terms and terms["ageing"]:
            yield "ageing-baseline", slug, None, None, terms["age_days"], 180
        if terms and not terms["approver"]:
            yield "baseline-not-approved", slug, None, None
        if stale := week.engines.stale_ms(slug) // 1000:
            yield "stale-gauges", slug, None, None, stale
        held, billed = (week.gpu_hours(slug, week.span, shapes) for shapes in (False, True))
        if week.met and None not in (held, billed) and abs(held - billed) * 20 > max(held, billed):
            yield "gpu-hours-differ", slug, None, None, (held, 1), (billed, 1)


def of_reaches(week):
    """Issuers whose charges, and sources whose readings, end well before the others' do."""
    newest, sources = week.reaches["cost"].get("", (None, None))[1], week.reaches["source"]
    for issuer, (_, last, _) in week.reaches["issuer"].items():
        if newest and last < week.span[1] and 2 * DAY < newest - last < 35 * DAY:
            yield "cost-lags", issuer, None, None
    ends = {name: last // HOUR * HOUR + HOUR for name, (_, last, _) in sources.items()}
    until = min(week.span[1], max(ends.values(), default=0))
    for name, (_, last, ended) in sources.items():
        if ends[name] < until and last >= week.span[0]:
            yield f"readings-{'ended' if ended else 'late'}", name, None, None


ALIKE = ("issuer", "currency", "account", "start", "end", "category", "class", "service", "sku",
         "resource", "description", "consumed_quantity", "invoice", "sub_account", "tags_digest")


def odd(row, billed, effective, used):
    """The kinds of exception that a charge as written belongs to: each with its subject, what is
    at stake, and the sums that its sentence tells."""
    issuer, usage, quantity = row["issuer"], row["category"] == "Usage", row["pricing_quantity"]
    contracted, price, is_bare = row["contracted"], row["contracted_unit_price"], bare(row)
    if usage and not row["commitment"] and None not in (billed, effective) and billed != effective:
        yield "effective-differs-from-billed", issuer, effective - billed, "lines effective billed"
    if usage and billed is None and effective is None:
        yield "usage-without-price", issuer, None, "lines"
    if row["currency"] == "XXX" and (billed, effective) != (None, None):
        yield "currency-unknown", issuer, effective, "lines"
    if row["gpu_model"] == "unrecognised":
        yield "unrecognised-gpu", issuer, effective, "lines"
    if row["rate_card"]:
        yield "priced-by-rate-card", row["rate_card"], effective, "lines effective"
    if is_bare and contracted == 0 and billed:
        yield "contracted-zero", issuer, billed, "lines zero billed"
    known = is_bare and None not in (contracted, price, quantity)
    if known and abs(price * quantity - contracted) > Decimal("0.01"):
        yield "price-times-quantity", issuer, price * quantity - contracted, "lines amount"
    full = listed(row) if is_bare and not row["rate_card"] and (effective or 0) > 0 else 0
    if full and not full / 50 <= effective <= full * 3:
        yield "far-from-list-price", issuer, effective, "rows effective listed"
    bought = row["category"] == "Purchase" and not row["commitment_status"] and effective
    if bought and row["commitment"] in used:
        yield "purchase-with-effective-cost", row["commitment"], effective, "zero effective"
    for name, amount in (("effective", effective), ("billed", billed)):
        if amount is None:
            yield "missing-amounts", f"{name} {row['currency']}", None, "rows"


def bare(row):
    """Usage that no commitment covers and no correction changes."""
    return row["category"] == "Usage" and not row["commitment"] and not row["class"]


def listed(row):
    """What it would cost by its own list price."""
    price, quantity = row["list_unit_price"] or 0, row["pricing_quantity"] or 0
    return price * quantity if price > 0 and quantity > 0 else Decimal(0)


def of_charges(week):
    """What is odd about the charges as their documents write them, and lines that are alike."""
    sums, alike, across, prices = {}, Counter(), defaultdict(set), defaultdict(Counter)
    alike_in, alike_at = itemgetter(*ALIKE), itemgetter("resource", "start", "written")
    same_time = Counter(map(alike_at, week.charges))
    used = {row["commitment"] for row in week.charges
            if row["commitment_status"] == "Used" and row["written"][1] != 0}
    for row in week.charges:
        billed, effective = row["written"]
        for kind, subject, amount, names in odd(row, billed, effective, used):
            currency = None if kind in ("usage-without-price", "missing-amounts") else row["currency"]
            _, one = sums.setdefault((kind, subject, currency), (names, Counter()))
            one.update({"lines": int(row["kept sum"] or 1), "rows": 1, "amount": amount or 0,
                        "known": amount is not None, "billed": billed or 0,
                        "effective": effective or 0, "listed": listed(row)})
        if (bare(row) and not row["rate_card"] and row["gpu_model"] and row["gpu_count"]
                and (effective or 0) > 0 and (row["consumed_quantity"] or 0) > 0):
            shape = f"{row['issuer']} {row['gpu_model']} × {row['gpu_count'].normalize():f}"
            prices[shape, row["currency"]][row["consumed_unit"]] += effective
        if billed and row["resource"] and same_time[alike_at(row)] > 1:
            key = alike_in(row) + row["written"]
            alike[key, row["billing_period"], row["document"]] += 1
            across[key].add(row["document"])
    for (kind, subject, currency), (names, one) in sums.items():
        told = [(one[name], 4) if name == "listed" else one[name] for name in names.split()]
        yield kind, subject, one["amount"] if one["known"] else None, currency, *told
    for (shape, currency), by_unit in prices.items():
        yield "unit-price-implausible", shape, None, currency, *by_unit.values()
    found = defaultdict(list)
    for (key, *_), count in alike.items():
        found["duplicated-lines", *key[:2]] += [key[-2] * (count - 1)] * (count > 1)
    for key, files in across.items():
        found["overlapping-files", *key[:2]] += [key[-2] * (len(files) - 1)] * (len(files) > 1)
    for (kind, issuer, currency), more in found.items():
        if more:
            told = [len(more)] + [sum(more)] * (kind == "overlapping-files")
            yield kind, issuer, sum(more), currency, *told


def of_invoices(week):
    """Months that may still change, and invoices outside their tolerance."""
    for row in invoices(week.pack):
        issuer, month, of = row["issuer"], row["billing_period"], row["currency"]
        if row["provisional"]:
            yield "provisional-month", f"{issuer} {month}", row["billed"], of, row["lines"]
        if row["within"] is False:
            yield ("invoice-differs", f"{issuer} {row['invoice']}", row["difference"], of,
                   row["issued"], row["lines"], row["billed"])

# ==== part 17: odd hours booked anew (§2.1, §2.2, §2.4) ===========================================


@section
def readings(week):
    """§2.1, §2.2, §2.4: the tokens of every hour in which a counter began, ended or alternated,
    again from its readings and the counters as they stood before it."""
    of_hour, edges, hours = defaultdict(list), set(), week.tokens.hours
    for row in week.pack.table("readings"):
        if row["why"] == "counter":
            of_hour[row["series"], row["hour"]].append(row)
        else:
            edges.add((row["series"], row["why"], row["hour"], row["at_ms"]))
    befores = {(row["series"], row["hour"]): row for row in week.pack.table("counters_before")}
    week.check("hours with readings and with their counters", set(of_hour) == set(befores), True)
    ends = {(number, why, rows[at][0], getattr(rows[at][1], moment))
            for number, rows in hours.items() if rows for why, at, moment in (
                ("week's first", 0, "first_ms"), ("week's last", -1, "last_ms"))}
    week.check("readings at the edges of the week", edges == ends, True)
    for number, gaps in week.tokens.gaps.items():  # a gap books with the reading that ends it
        booked = dict(hours.get(number, ()))
        for _, ended, _, tokens in gaps:
            if (hour := ended // HOUR * HOUR) in booked and booked[hour].tokens < tokens:
                week.check(f"tokens of a gap of series {number}", tokens, booked[hour].tokens)
    for number, rows in hours.items():
        odd = [at for at, row in rows if row.restarts or row.openings or row.alternations]
        week.check(f"series {number}: odd hours without readings", 0,
                   sum((number, hour) not in befores for hour in odd))
    for number, birth in week.tokens.births.items():  # the first reading of all books it
        if birth["at_ms"] < week.span[1]:
            first = hours[number][0]
            shown = [row["value"] for row in of_hour[number, first[0]]
                     if row["at_ms"] == birth["at_ms"]]
            week.check(f"birth of series {number}", (first[1].first_ms, max(shown, default=None)),
                       (birth["at_ms"], birth["tokens"]))
    touched = {number: dict(hours[number]) for number, _ in befores}
    for (number, hour), before in befores.items():
        if of_hour[number, hour]:  # none: said above
            booked = Booking(before).of(of_hour[number, hour])
            for what in Hour._fields:
                if hasattr(booked, what):
                    week.check(f"readings of series {number} in {written(hour)}: {what}",
                               getattr(touched[number][hour], what), getattr(booked, what))
    return {}


class Booking:
    """One hour of one series, booked reading by reading."""

    def __init__(self, before):
        self.counters = {one["number"]: one for one in before["counters"]}
        self.replicas, self.proven = before["replicas"], before["proven_ms"]
        self.current = int(before["current"]) if before["current"] else None
        self.last, self.fall = before["last_ms"] or 0, before["fall_ms"] or 0
        self.tokens = self.readings = self.restarts = self.hidden_resets = 0
        self.openings = self.opening_tokens = self.alternations = 0

    def of(self, rows):
        now = self.counters.get(self.current)
        if not (now and now["marks_us"]) and not any(row["mark_us"] for row in rows):
            count = Counter(row["replica"] for row in rows)  # §2.2: the replica with more readings
            taken = min(count, key=lambda name: (-count[name], name))
            rows = [row for row in rows if row["replica"] == taken]
        self.first_ms, self.last_ms = rows[0]["at_ms"], rows[-1]["at_ms"]
        for row in rows:
            mark = (row["mark_kind"], int(row["mark_us"])) if row["mark_us"] else None
            at, value, name = row["at_ms"], row["value"], row["replica"]
            self.tokens += self._delta(at, value, name, mark)
            now = self.counters[self.current]
            now["high"] = max(now["high"], value)
            self.readings, self.last = self.readings + 1, max(self.last, at)
            self.replicas[name] = at, value
        return self

    def _delta(self, at, value, name, mark):
        """What one reading books: the rise over the highest value of its counter, or a birth."""
        now = self.counters.get(self.current)
        if now is None:  # what proves a series' birth are other readings of its job
            odd = mark is not None and not -5000 <= at - mark[1] // 1000 <= DAY
            return self._begin(at, value, mark, odd or at not in self.proven)
        rise = max(0, value - now["high"])
        if mark is None:
            before = self.replicas.get(name)
            if not before or value >= before[1] or max(now["first_ms"], self.fall) > before[0]:
                return rise
            self.fall = at
            return self._restart(at, value, mark, now)
        born, kind = mark[1] // 1000, mark[0]
        if now["marks_us"].get(kind) == mark[1]:
            return rise
        if kind not in now["marks_us"]:  # marks of different kinds are never compared
            after = self.last < born <= at + 5000  # a mark after its reading tells nothing
            if after or (value < now["high"] and born > self.last - 5000):
                return self._restart(at, value, mark, now)
            now["marks_us"][kind] = mark[1]
            return rise
        for number, other in self.counters.items():
            if other["marks_us"].get(kind) == mark[1]:
                self.current, self.alternations = number, self.alternations + 1
                return max(0, value - other["high"])
        if born > self.last - 5000:  # five seconds of clock skew
            return self._restart(at, value, mark, now)
        self.alternations += 1
        return self._begin(at, value, mark, True)

    def _restart(self, at, value, mark, ended):
        self.restarts += 1
        self.hidden_resets += mark is not None and value >= ended["high"]
        if mark and mark[1] // 1000 <= at + 5000:
            return self._begin(at, value, mark, at - mark[1] // 1000 > DAY)
        late = at - self.last > DAY  # an `up` reading in between may prove it as well
        risen = mark is not None and value >= ended["high"]  # of a clock ahead, only a fall tells
        return self._begin(at, value, mark, risen or (late and at not in self.proven))

    def _begin(self, at, value, mark, unplaced):
        self.current = max(self.counters, default=0) + 1
        marks = {mark[0]: mark[1]} if mark else {}
        self.counters[self.current] = {"marks_us": marks, "high": 0, "first_ms": at}
        if len(self.counters) > 16:  # so many earlier processes behind an address are remembered
            del self.counters[min(self.counters)]
        self.openings += unplaced
        self.opening_tokens += value * unplaced
        return 0 if unplaced else value

# ==== part 18: lists, control totals, earlier weeks, people (§11) =================================


def by_currency(totals):
    names = ("billed", "effective", "charges")
    return {currency: dict(zip(names, total)) for currency, total in totals.items()}


@section
def control_totals(week):
    """§11: what was read, counted and summed again."""
    converted, documents = week.exchange, week.said["control_totals"]["documents"]
    whole = converted.originals or week.whole.whole
    hours = [row for rows in week.tokens.hours.values() for _, row in rows]
    everything = week.tokens.by_place(*week.span, lambda row, at: ("everything", None))
    used = {row["document"] for row in (
        *week.charges, *week.tokens.usage, *week.pack.table("readings"))}
    used |= {sha for one, day, *_ in converted.used for sha in converted.documents(one, day)}
    week.check("documents behind rows that the report does not name", 0,
               len(used - {row["sha256"] for row in documents}))
    week.check("charges whose place does not follow from the rules", 0,
               sum(row["placed"] != (row["place"], row["target"] or None) for row in week.charges))
    week.check("token hours whose workload does not follow from the rules", 0,
               week.tokens.misplaced)
    names = ("issuer", "account", "invoice", "currency", "document")
    lines = {(r["month"], *(r[n] for n in names)) for r in week.pack.table("invoice_lines")}
    months = {written(at)[:7] for at in (week.span[0], week.span[1] - 1)}
    odd = [r for r in week.charges
           if r["written"][0] is not None and r.get("billing_period") in months
           and (r["billing_period"], *(r.get(n) for n in names)) not in lines]
    week.check("charges that no line of an invoice sums", 0, len(odd))  # later months are not told
    count = sum(row.readings for row in hours)
    return {"control_totals": {
        "documents": [{"sums": by_currency(week.by_document.get(row["sha256"], {}))}
                      for row in documents if "sums" in row],  # not in earlier versions
        "charges": sum(total[2] for total in whole.values()),
        "by_currency": by_currency(whole),
        "billed": week.total[0] if whole else None, "effective": week.total[1] if whole else None,
        "series": len(week.tokens.hours), "readings": count,
        "readings_expected": count + missing_readings(week),
        "restarts": together(list(everything.values()))["restarts"],
        "first_reading": written(min((row.first_ms for row in hours), default=None)),
        "last_reading": written(max((row.last_ms for row in hours), default=None))}}


def missing_readings(week):
    """§2.5: one for each usual interval of a gap inside the week."""
    (start, end), count = week.span, 0
    for a, b, usual, _ in (gap for gaps in week.tokens.gaps.values() for gap in gaps):
        inside = min(b, end) - max(a, start)
        count += max(0, inside // usual - (b < end)) if usual else 0
    return count


PARAMETERS = {"gap_over_usual_interval": "2.5", "bounds_shown_from_width": "0.001",
              "baseline_ageing_days": 180, "cost_basis": "effective", "token_basis": "processed"}


@section
def copied(week):
    """What the statement says a second time, and what it takes over from the ledger unchanged."""
    said = week.said
    compared = [one["baseline"] for one in said["workloads"] if one["baseline"]]
    known = [one for one in compared if one["saving"] is not None]
    actual = sum((Decimal(one["actual"]) for one in known), Decimal(0))
    cost = sum((w["cost"] for w in week.counting), Decimal(0))
    names = ("number", "version", "order", "subject", "place")
    rules = [{name: row[name] for name in names} | {
        "target": row["target"] or None, "valid_from": written(row["valid_from"]),
        "valid_to": written(row["valid_to"]), "matchers": ",".join(
            f"{name}{op}{quoted(value)}" for name, op, value in row["matchers"])}
        for row in week.pack.table("rules")]
    documents = {row["sha256"]: row for row in week.pack.table("documents_read")}
    read = [documents.get(one["sha256"], {}) for one in said["control_totals"]["documents"]]
    for one in said["control_totals"]["documents"]:
        bytes_of(week, one, f"document {one['sha256'][:12]}")
    week.check("documents", len(documents), len(said["control_totals"]["documents"]))
    chosen = {"report_currency": week.exchange.target} if week.exchange.target else {}
    day = EPOCH + timedelta(milliseconds=week.span[0] + 3 * DAY)  # the zone's Thursday
    year, number, _ = day.isocalendar()
    return {"rules": rules, "parameters": chosen | PARAMETERS, "baselines": compared,
            "control_totals": {"documents": read}, "period": {"week": f"{year}-W{number:02}"},
            "workloads": [{"slug": w["slug"], "memory": [
                row for row in said["memory"] if row["workload"] == w["slug"]] or None}
                for w in said["workloads"]],
            "saving_scope": {
        "workloads": sorted(one["workload"] for one in known), "of": len(week.counting),
        "share_of_cost": quotient(actual, cost) if known and cost > 0 else None}}


TABLES = ("focus", "aws-cur", "aws-cur-2", "azure-cost", "gcp-billing", "coreweave-focus")


def bytes_of(week, document, name):
    """A document in a pack that holds documents: its digest, its size, and its rows counted."""
    content = week.pack.files.get(f"documents/{document['sha256']}")
    if content is None:
        return
    week.check(f"{name}: SHA-256 of its bytes", document["sha256"], sha256(content))
    week.check(f"{name}: size_bytes", document["size_bytes"], len(content))
    count = rows_in(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content, document)
    if count is not None:
        week.check(f"{name}: rows_read", document["rows_read"], count)


def rows_in(content, document):
    """The lines of an invoice as CSV, the samples of a store's answers; None for other formats, and
    for answers of which samples were refused."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None  # Parquet, or another alphabet
    if document["format"] == "prometheus-json" and not document["rows_rejected"]:
        return sum(len(one.get("values", ())) for answer in answers(text)
                   for one in answer["data"]["result"])
    if document["format"] in TABLES and text[:1] not in ("{", "["):  # FOCUS also comes as JSON
        return sum(map(bool, csv.reader(io.StringIO(text, newline="")))) - 1
    return None


def answers(text):
    """Objects of JSON, one after the other."""
    at, decoder = 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        answer, at = decoder.raw_decode(text, re.compile(r"\s*").match(text, at).end())
        yield answer


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@section
def trend(week):
    """Each week's unit cost from its own cost and tokens; the newest row is this report's."""
    rows, told = [], week.said["trend"]
    for said in told:
        cost, tokens = said["effective_cost"] and Decimal(said["effective_cost"]), said["tokens"]
        known = cost and cost > 0 and tokens
        rows.append({"cost_per_million_tokens": quotient(cost * MILLION, tokens) if known else None,
                     "tokens_per_dollar": quotient(tokens, cost) if known else None}
                    | {m: in_time and shares_of([in_time[n] for n in IN_TIME])
                       for m in MEASURES if m in said for in_time in [said[m]]})
    tokens = total_of([week.figures["prompt_tokens"], week.figures["generation_tokens"]])
    rows[-1] |= {"week": week.said["period"]["week"], "tokens": tokens,
                 "effective_cost": week.figures["effective_cost"]}
    rows[-1] |= {m: week.level[m] for m in MEASURES if m in told[-1]}
    before = week.said["previous"]
    earlier = {row["week"]: row for row in week.pack.table("earlier_weeks")}
    if before and before["week"] not in earlier:
        earlier[before["week"]] = before["figures"]  # no report was made of it
    elif before:
        week.check("statement of the week before", earlier[before["week"]]["digest"],
                   sha256(week.pack.files["previous_statement.json"]))
    for at, (row, said) in enumerate(zip(rows[:-1], told)):
        then = earlier.get(said["week"])
        if then is None:  # no report was made of it: as the ledger gave it at the closing
            names = ("week", "effective_cost", "tokens")
            week.check.places |= {("trend", at, name) for name in names}
        else:
            cost = then["effective_cost"]
            row |= {"effective_cost": None if cost is None else Decimal(cost), "week": said["week"],
                    "tokens": total_of((then["prompt_tokens"], then["generation_tokens"]))}
    weeks = [said["week"] for said in told]
    week.check("trend: weeks in their order", weeks, sorted(set(weeks) | set(earlier)))
    return {"trend": rows}


def chain_and_people(pack, seal, statement, own, check):
    """The seal's place in the chain of seals, its two people, and what they had to decide."""
    previous, chain = "0" * 64, pack.table("seals", "")
    for number, row in enumerate(chain, start=1):
        check(f"seal {number} follows the seal before it", row["previous_digest"], previous)
        check(f"seal {number} has its number", row["number"], number)
        previous = row["digest"]
    check("this seal's digest stands in the chain", True,
          any(row["digest"] == own and row["week"] == seal["week"] for row in chain))
    check("preparer and approver are two people", True, seal["prepared_by"] != seal["approved_by"])
    left = {e["id"] for e in statement["exceptions"]} - set(seal["dispositions"])
    check("exceptions without a disposition", 0, len(left))
    if "waivers" in seal:
        signed = {w["subject"] for w in seal["waivers"] if w["by"] != seal["prepared_by"]}
        waived = set(statement["provisional_months"]) - signed
        check("provisional months without a waiver", 0, len(waived))

# ==== part 19: reading and comparing ==============================================================

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@cache
def instant(text):
    """RFC 3339 as milliseconds since 1970."""
    if not text:
        return None
    since = datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    exact = Fraction(since // timedelta(microseconds=1), 1000)
    return exact.numerator if exact.denominator == 1 else exact


def written(at):
    """An instant as the report writes it."""
    if at is None:
        return None
    at = timedelta(microseconds=int(at * 1000))  # a charge may be timed finer than a millisecond
    return (EPOCH + at).isoformat().replace("+00:00", "Z")


KINDS = {column: kind for kind, columns in {
    instant: "start end hour first last valid_from valid_to started_at posted_at begun",
    json.loads: """labels matchers keys levels_ms counters replicas proven_ms marks_last_ms classes
        documents workers tenants holders served_names""",
    int: """number version order preference born_ms last_ms usual_ms source_last_ms end_dark_ms
        from_ms to_ms tokens dark_ms shown_tokens prompt_tokens cached_tokens generation_tokens
        share rate_cap_tokens_per_second kv_bytes_per_token max_model_len observed_ms stale_ms
        first_ms peak_ms blocks block_size pool_tokens active_block_ms reserved_block_ms peak_blocks peak_running peak_waiting
        count readings lines hour_ms at_ms fall_ms value size_bytes rows_read charges
        rows_rejected log_gpus log_max_model_len total_bytes gauge_kv_bytes given_kv_bytes
        seen_ms preempted edge log_max_num_seqs log_max_num_batched_tokens log_tensor_parallel
        alone_non_torch_bytes prefix_queries prefix_hits earlier_peak_running earlier_days rank kv_tokens
        gpus_told""",
    Fraction: "capacity_ms gpu_ms",
    Decimal: """contracted contracted_unit_price list_unit_price billed effective report_billed report_effective gpu_count consumed_quantity amount
        cost pricing_quantity declared_price per_eur bound_seconds first_token_seconds
        inter_token_seconds effective_cost used_byte_ms free_byte_ms reserved_byte_ms""",
}.items() for column in columns.split()}
"""What the text of a column is; columns that are not named here stay text."""


class Pack:
    """The files of a pack, from a zip, a folder or memory."""

    def __init__(self, files):
        self.files = files

    @classmethod
    def open(cls, path):
        if path.is_dir():
            every = [one for one in sorted(path.rglob("*")) if one.is_file()]
            return cls({one.relative_to(path).as_posix(): one.read_bytes() for one in every})
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(set(names)) < len(names):  # programs differ in which of them they unpack
                raise ValueError("a file of the zip is there twice")
            return cls({name: archive.read(name) for name in names})

    def _text(self, path):
        return io.StringIO(self.files.get(path, b"").decode("utf-8"), newline="")

    def table(self, name, folder="ledgers/"):
        """The rows of a table, each column as its kind says; an empty cell of a kind is None."""
        rows = csv.DictReader(self._text(f"{folder}{name}.csv"))
        kinds = [(column, KINDS[column]) for column in rows.fieldnames or () if column in KINDS]
        rows = list(rows)
        for number, row in enumerate(rows, 1):
            if None in row or None in row.values():
                raise ValueError(f"{folder}{name}.csv, row {number}: more or fewer cells than columns")
            for column, kind in kinds:
                row[column] = kind(row[column]) if row[column] else None
        return rows

    def lines(self, name, columns):
        """The cells of some columns, row by row: for tables too long to be held as objects."""
        rows = csv.reader(self._text(f"ledgers/{name}.csv"))
        header = next(rows, list(columns))
        return map(itemgetter(*map(header.index, columns)), rows)

    def json(self, name):
        return json.loads(self.files[name]) if name in self.files else None


class Checks:
    """Each figure as the report says it against the same figure computed here."""

    def __init__(self):
        self.lines, self.section, self.places = [], None, set()

    def __call__(self, name, said, computed):
        if isinstance(computed, Decimal):
            same = isinstance(said, str) and bool(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", said))
            same = same and Decimal(said) == computed
        else:
            same = type(said) is type(computed) and said == computed
        self.lines.append((name, said, computed, same, self.section))

    def all_of(self, name, said, computed, place=()):
        """Every value of an object, and of the objects inside it; keeps where in the statement."""
        for key, value in computed.items():
            given, label = (said or {}).get(key, "absent"), f"{name} {key}".strip()
            if isinstance(value, dict) and value:
                self.all_of(label, given if isinstance(given, dict) else {}, value, (*place, key))
            elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
                given = given if isinstance(given, list) else []
                self(f"{label}: rows", len(given), len(value))
                for at, (one, other) in enumerate(zip(given, value)):
                    row = other.get("slug") or str(one.get("sha256", at + 1))[:12]
                    self.all_of(f"{label} {row}", one, other, (*place, key, at))
            else:
                self(label, given, value)
                self.places.add((*place, key))

    def left(self, said, place=()):
        """The places of the values of a statement that were not compared, as texts."""
        inner = said.items() if isinstance(said, dict) else enumerate(said)
        for key, value in inner:
            if (here := (*place, key)) in self.places:
                continue
            if isinstance(value, (dict, list)) and value:
                yield from self.left(value, here)
            else:
                yield ".".join("*" if isinstance(name, int) else name for name in here)

    @property
    def wrong(self):
        return [line for line in self.lines if not line[3]]

# ==== part 20: what is left, and printing (§11) ===================================================

SENTENCES = (r"headline|training\.message|memory\.\*\.sentence|exceptions\.\*\.text"
             r"|rightsizing\.\*\.(why|load|next_step|no_proposal|money|guidance\.\*\.says)")
GIVEN = {
    r"period\.(start|end|zone)|organisation|sample|schema|(method|software)_version":
        "whose report it is, and of which week",
    SENTENCES: "sentences: their numbers are computed, of exceptions those of the kinds in TOLD",
    r"exceptions\.\*\.(kind|subject|currency)": "names; the exception's id, computed, is of them",
    r"(.*\.)?reasons?(\..*)?|tieout\..*\.label|workloads\.\*\.baseline\.(notes\.\*|notes|cost_basis)":
        "words: why a figure is not given, what a row is called, what a reader must know of it",
    r"annotations\..*|annotations": "what people wrote on the week",
    r"exceptions\.\*\.amount": "of deliveries that do not count: their charges are not in the pack",
    r"rightsizing\.\*\.guidance(\.\*\.(knob|verdict|sources.*))?": "names and words of advice",
}
"""The values of a statement that are not computed here, and why; all others are."""


@section
def census(week):
    """§11: whether any value is left that no section above computed and GIVEN does not name."""
    left = sorted({one for one in week.check.left(week.said) if not is_given(one)})
    week.check("values that nothing here computes", [], left)
    return {}


def recompute(pack, statement):
    """All figures of a statement from the pack's tables; a Checks that says which are equal."""
    with localcontext(EXACT):
        week = Week(pack, statement)
        for one in SECTIONS:
            week.check.section = one
            week.check.all_of("", statement, one(week))
        return week.check


def is_given(place):
    return any(re.fullmatch(pattern, place) for pattern in GIVEN)


def contents(check):
    """The sections, where each begins, what it is of, and how many values it computed; then what
    none computes."""
    counts = Counter(line[4] for line in check.lines)
    for one in SECTIONS:
        said = " ".join(one.__doc__.split())
        print(f"line {one.__code__.co_firstlineno:>4}  {one.__name__:21} {counts[one]:>5}  {said}")
    for pattern, reason in GIVEN.items():
        print(f"not computed: {pattern}  {reason}")


def main(arguments):
    paths = [Path(a) for a in arguments if not a.startswith("--")] or [Path(__file__).parent]
    try:
        pack, check = Pack.open(paths[0]), Checks()
        statement = pack.json("statement.json")
        own = digests(pack, check)
        check.lines += recompute(pack, statement).lines
    except (OSError, LookupError, ValueError, TypeError, AttributeError, zipfile.BadZipFile,
            ArithmeticError) as error:
        print(f"This is not a whole pack: {type(error).__name__}: {error}")
        return 1
    if "--contents" in arguments:
        contents(check)
    for name, said, computed, same, by in check.lines:
        if "--all" in arguments or not same:
            print(f"{'equal  ' if same else 'UNEQUAL'} {name}: {_shown(said)}"
                  + ("" if same else f" in the report, {_shown(computed)} computed")
                  + (f" ({by.__name__}, line {by.__code__.co_firstlineno})" if by else ""))
    print(f"{len(check.lines) - len(check.wrong)} of {len(check.lines)} equal.")
    print(f"Report {statement['period']['week']}: {statement['headline']}")
    print(f"SHA-256 of the seal, printed on every page of the report: {own}")
    return 1 if check.wrong else 0


def _shown(value):
    text = format(value, "f") if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) < 100 else text[:97] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
