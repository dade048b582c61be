#!/usr/bin/env python3
"""Recomputes every figure of a sealed report from the ledger rows beside it.

    python3 verify.py              in the folder of an unpacked pack
    python3 verify.py PACK.zip     on the pack itself
    python3 verify.py --all ...    prints the equal figures too
    python3 verify.py --contents   lists the sections: to follow one figure, read one of them

One line for each figure: `equal` or `UNEQUAL` with both values. The exit code is 1 when anything
differs or a digest is wrong. Python 3.11 or newer and nothing else is needed. This file shares no
code with the program that made the report: it was written from the method's text ("§" below)
alone, so that an error in either shows as a difference.

Order of reading: arithmetic (§1, §3.7, §4), rules (§4), tokens (§2), currencies (§3.9), money
(§3, §4), the week, then the sections. Each section computes one part of the statement anew, in the statement's own
shape, from the `Week`; what it gives is compared with the statement, value by value. A new figure
of the report is a section here (or a key in one), and its rows a table of `ledgers/`.
Instants are milliseconds since 1970, a fraction where a charge is timed more finely.
"""

import csv
import hashlib
import io
import json
import re
import sys
import zipfile
from bisect import bisect_right
from collections import Counter, defaultdict, namedtuple
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal, setcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

HOUR, DAY, MILLION = 3_600_000, 86_400_000, 10**6
SIXTY = Context(prec=60, rounding=ROUND_HALF_EVEN)
setcontext(Context(prec=400, rounding=ROUND_HALF_EVEN))  # wide enough that sums are exact

# ------------------------------------------------------------------------------- arithmetic (§1)


def quotient(above, below):
    """A quotient to 60 significant digits, rounded half to even."""
    value = Fraction(above) / Fraction(below)
    return SIXTY.divide(Decimal(value.numerator), Decimal(value.denominator))


def short(value):
    """A fraction to at most 24 decimals, half to even."""
    digits, decimals = round(Fraction(value) * 10**24), 24
    while decimals and digits % 10 == 0:
        digits, decimals = digits // 10, decimals - 1
    return Decimal(digits).scaleb(-decimals)


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
        return Decimal(round(Fraction(cost) * 10**decimals * share)).scaleb(-decimals)

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


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@cache
def instant(text):
    if not text:
        return None
    since = datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    exact = Fraction(since // timedelta(microseconds=1), 1000)
    return exact.numerator if exact.denominator == 1 else exact


def written(at):
    """An instant as the report writes it."""
    if at is None:
        return None
    return (EPOCH + timedelta(milliseconds=at)).isoformat().replace("+00:00", "Z")


# ------------------------------------------------------------------------------------ rules (§4)


class Rules:
    """Ordered, dated rules; the first that matches decides. No match: unassigned."""

    def __init__(self, rows, subject):
        self.rules = []
        for row in rows:
            if row["subject"] == subject:
                matchers = [(n, op, v, re.compile(v, re.DOTALL) if "~" in op else None)
                            for n, op, v in json.loads(row["matchers"])]
                self.rules.append((int(row["order"]), int(row["number"]), row["place"],
                                   row["target"] or None, matchers, instant(row["valid_from"]),
                                   instant(row["valid_to"])))
        self.rules.sort(key=itemgetter(0, 1))
        self.known = {}
        self.names = sorted({m[0] for r in self.rules for m in r[4]}
                            | {"commitment_status", "kept sum"})
        self.dates = sorted({date for rule in self.rules for date in rule[5:] if date})

    def place(self, columns, at):
        key = (sum(d <= at for d in self.dates), *[columns.get(n, "") for n in self.names])
        if key not in self.known:
            self.known[key] = self._place(columns, at)
        return self.known[key]

    def _place(self, columns, at):
        unused = columns.get("commitment_status", "").lower() == "unused"
        rules = [] if columns.get("kept sum") else self.rules  # it holds lines no rule reached
        for _, _, place, target, matchers, since, until in rules:
            if unused and not any(m[0].startswith("commitment") for m in matchers):
                continue  # a commitment's unused part goes only where a rule names commitments
            if (since and at < since) or (until and at >= until):
                continue
            if all(_holds(columns.get(n, ""), op, v, p) for n, op, v, p in matchers):
                return place, target
        return ("unused commitment", None) if unused else ("unassigned", None)


def _holds(value, op, wanted, pattern):
    if pattern is None:
        return (value == wanted) == (op == "=")
    return bool(pattern.fullmatch(value[:4096])) == (op == "=~")


# ----------------------------------------------------------------------------------- tokens (§2)

COUNTS = ("restarts", "hidden_resets", "readings", "ends", "gaps", "alternations",
          "unplaced_openings", "opening_tokens", "unmarked_restarts")
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
        self.from_before = self.into_after = 0
        self.edge_in_gap = False

    def lower(self):
        return self.sum.tokens - self.from_before

    def upper(self, least):
        rate = max(self.rate, least)
        unseen = sum(max(0, -(-rate * ms // 1) - shown) for ms, shown in self.darks)
        return self.sum.tokens + int(unseen) + self.into_after

    def exact(self):
        odd = self.sum.restarts or self.ends or self.sum.openings or self.sum.alternations
        return not (odd or self.edge_in_gap or (self.sum.unmarked and self.gaps))


class TokenLedger:
    """Token hours with what bounds and coverage need."""

    def __init__(self, pack):
        self.rules = Rules(pack.table("rules"), "series")
        self.series = {row["series"]: row for row in pack.table("series", labels=json.loads)}
        self.hours, self.gaps = defaultdict(list), defaultdict(list)
        self.darks, self.made = defaultdict(list), {}
        for number, hour, *counts in pack.lines("token_hours", ("series", "hour", *Hour._fields)):
            self.hours[number].append((instant(hour), Hour._make(map(int, counts))))
        gap_columns = ("series", "from_ms", "to_ms", "usual_ms", "tokens")
        for number, *gap in pack.lines("gaps", gap_columns):
            self.gaps[number].append(tuple(map(int, gap)))
        for row in pack.table("restarts"):
            dark = int(row["dark_ms"]), int(row["shown_tokens"])
            self.darks[row["series"], instant(row["hour"])].append(dark)
        self.usage = pack.table("usage_hours", labels=json.loads, hour=instant)
        self.caps = {w["slug"]: Fraction(int(w["rate_cap_tokens_per_second"]), 1000)
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
        groups, gaps = {}, self.gaps.get(number, ())
        for hour, row in self.hours.get(number, ()):
            if start <= hour < end:
                rows, darks = groups.setdefault(group_of(series, hour), ([], []))
                rows.append(row)
                darks += self.darks.get((number, hour), ()) if row.restarts else ()
                latest = group_of(series, hour)
        parts = {key: Part(*rows) for key, rows in groups.items()}
        if not parts:
            if not any(a < start and b >= end for a, b, _, _ in gaps):
                return {}
            latest = group_of(series, start)
            parts[latest] = Part()
        first, last = next(iter(parts.values())), parts[latest]
        for a, b, usual, tokens in gaps:  # §2.5, §2.6: gaps and the edges of the span
            first.unobserved += max(0, min(b, end) - max(a + usual, start))
            first.gaps += start <= b < end
            if a < start <= b < end:
                first.from_before, first.edge_in_gap = first.from_before + tokens, True
            elif a < end <= b:
                last.into_after, last.edge_in_gap = last.into_after + tokens, True
        born, seen, source = (int(series[n]) for n in ("born_ms", "last_ms", "source_last_ms"))
        usual = int(series["usual_ms"] or 0)
        ended = usual > 0 and 2 * (source - seen) > 5 * usual
        first.living += max(0, (min(end, seen) if ended else end) - max(start, born))
        if ended and start <= seen < end:
            last.ends += 1
            last.darks.append((int(series["end_dark_ms"] or 0), 0))
        elif not ended and usual and 2 * (end - seen) > 5 * usual:
            last.unobserved += max(0, end - max(start, seen + usual))
            last.edge_in_gap = True
        if first.sum.alternations or last.sum.alternations:
            marks = json.loads(series["marks_last_ms"] or "[]")
            for at in marks[:-1]:  # a process not seen for so long has ended; the newest is above
                if start <= at < end and 2 * (source - at) > 5 * usual * len(marks) > 0:
                    last.ends += 1
                    last.darks.append((usual, 0))
        return parts

    def _usage(self, since, until, group_of):
        groups = defaultdict(list)
        for row in self.usage:
            if since <= row["hour"] < until:
                groups[group_of(row, row["hour"])].append(row)
        for place, rows in groups.items():
            prompt, answer = (sum(int(row[name]) for row in rows)
                              for name in ("prompt_tokens", "generation_tokens"))
            cached = total_of(int(r["cached_tokens"]) if r["cached_tokens"] else None for r in rows)
            yield place, nothing() | {
                "delivered_prompt": prompt, "delivered_generation": answer,
                "delivered_cached_prompt": cached, "delivered_lower": prompt + answer,
                "delivered_upper": prompt + answer, "exact": True}

    def moved(self):
        """The hours in which tokens moved, by place (§5, usage basis)."""
        found = defaultdict(set)
        for number, series in self.series.items():
            if series["role"] in ("prompt", "generation"):
                for hour, row in self.hours.get(number, ()):
                    if row.tokens:
                        found[self.place(series, hour)].add(hour)
        for row in self.usage:
            found[self.place(row, row["hour"])].add(row["hour"])
        return found

    def sources(self):
        """The sources that tell of each place."""
        found = defaultdict(set)
        for number, series in self.series.items():
            rows = self.hours.get(number, [])
            for hour, _ in (*rows[:1], *rows[-1:]):
                found[self.place(series, hour)].add(series["source"])
        for row in self.usage:
            found[self.place(row, row["hour"])].add(row["source"])
        return found


def nothing():
    return dict.fromkeys(("cached_prompt", *SUMS)) | dict.fromkeys(COUNTS, 0) | {
        "exact": False, "living": 0, "unobserved": 0, "twice": False}


def group(roles, cap):
    """The tokens of a group from its series (§2.5, §2.6, §2.10)."""
    found, parts = nothing(), {role: [one for _, one in rows] for role, rows in roles.items()}
    for role in ("prompt", "generation", "delivered_prompt", "delivered_generation"):
        if mine := parts.get(role):
            highest = max(cap, *(one.rate for one in mine))
            found[role] = sum(one.sum.tokens for one in mine)
            both = {"_lower": sum(one.lower() for one in mine),
                    "_upper": sum(one.upper(cap if one.rate else highest) for one in mine)}
            for side, tokens in both.items():
                name = role.partition("_")[0] + side  # both delivered classes in one
                found[name] = (found[name] or 0) + tokens
    found["cached_prompt"] = cached_prompt(roles)
    counted = parts.get("prompt", []) + parts.get("generation", [])
    engines = one_for_each_engine(roles)
    found["exact"] = bool(counted) and all(one.exact() for one in counted)
    for name in ("restarts", "hidden_resets", "readings", "alternations"):
        found[name] = sum(getattr(one.sum, name) for one in engines)
    for name in ("ends", "gaps"):
        found[name] = sum(getattr(one, name) for one in engines)
    found["unplaced_openings"] = sum(one.sum.openings for one in counted)
    found["opening_tokens"] = sum(one.sum.opening_tokens for one in counted)
    found["unmarked_restarts"] = sum(one.sum.restarts for one in engines if one.sum.unmarked)
    for name in ("living", "unobserved"):
        found[name] = sum(getattr(one, name) for one in parts.get("prompt") or engines)
    return found


def one_for_each_engine(roles):
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
    told = defaultdict(lambda: defaultdict(int))
    for rank, role in enumerate(("cached_prompt", "prefix_hits")):
        for series, one in roles.get(role, ()):
            order = rank, int(series["preference"])
            told[series["target"], series["engine"]][order] += one.sum.tokens
    engines = {(s["target"], s["engine"]) for s, _ in roles.get("prompt", ())}
    return total_of(told[e][min(told[e])] if e in told else None for e in engines)


def together(groups):
    """Disjoint groups as one."""
    found = nothing()
    for name in SUMS:
        found[name] = total_of(g[name] for g in groups if g[name] is not None)
    for name in (*COUNTS, "living", "unobserved"):
        found[name] = sum(g[name] for g in groups)
    found["cached_prompt"] = total_of(g["cached_prompt"] for g in groups if g["prompt"] is not None)
    found["exact"] = bool(groups) and all(g["exact"] for g in groups if g["readings"])
    found["twice"] = any(g["twice"] for g in groups)
    return found


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
    if not tokens or tokens["twice"]:
        return None
    names = {"prompt": "prompt", "generation": "generation", "cached": "cached_prompt",
             "lower": "lower", "upper": "upper"}
    found = {name: tokens["delivered_" + theirs] for name, theirs in names.items()}
    return None if None in (found["prompt"], found["generation"]) else found


# ----------------------------------------------------------------------------- currencies (§3.9)


class Exchange:
    """Converts into the report's currency by the published rates of the pack."""

    def __init__(self, pack, target):
        self.target, self.used, self.missing, self.originals = target, {}, {}, {}
        self.per_eur = {(row["currency"], row["day"]): (Decimal(row["per_eur"]), row["document"])
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

    def convert(self, text, rate):
        """Rounded once, half to even, to the amount's own decimals plus ten; "" stays unknown."""
        if not text:
            return text
        amount, (_, own, target) = Decimal(text), rate
        digits = decimals_of(amount) + 10
        units = round(Fraction(amount) * Fraction(target) / Fraction(own) * 10**digits)
        return format(Decimal(units).scaleb(-digits), "f")

    def charge(self, row, span):
        """A charge's currency in the report: whole, before it is cut; counts what it converts."""
        row["money"] = row["currency"]
        if not self.target:
            return
        parts, after = self.parts(row, span), []
        add(self.originals, row["currency"], parts, 1)
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
        return [part(Decimal(row[name] or 0), row["start"], row["end"], *span)
                for name in ("billed", "effective")]

    def documents(self, currency, day):
        legs = {self.per_eur.get((one, day), (None, None))[1] for one in (currency, self.target)}
        return sorted(legs - {None})

    def terms(self, terms):
        """A baseline by the rate of the day its period began, else of that it was frozen on."""
        day = instant(terms["period_start"]) or instant(terms["frozen_at"])
        other = self.target and terms["currency"] != self.target
        rate = self.rate(terms["currency"], day) if other else None
        if not rate:
            return terms
        classes = {n: self.convert(p, rate) for n, p in json.loads(terms["classes"]).items()}
        return terms | {"currency": self.target, "classes": json.dumps(classes)} | {
            name: self.convert(terms[name], rate) for name in ("cost", "declared_price")}


# -------------------------------------------------------------------------------- money (§3, §4)

SECONDS = {"hour": 3600, "hr": 3600, "h": 3600, "minute": 60, "second": 1, "s": 1, "day": 86400}
SECONDS |= {name + "s": value for name, value in SECONDS.items() if name not in "hs"}


def in_hours(quantity, unit):
    """A billed quantity in hours, and whether they are GPU-hours already; None for other units."""
    match = re.fullmatch(r"(?:(\d{1,9})\s+)?((gpu|instance)[- ])?([a-z]+)", unit.strip().lower())
    if not quantity or not match or match[4] not in SECONDS:
        return None
    hours = Fraction(quantity) * SECONDS[match[4]] * int(match[1] or 1) / 3600
    return hours, match[3] == "gpu"


REQUESTS, DEVICES = "GPU requests of pods (kube-state-metrics)", "devices held by pods (DCGM)"
SHAPES = "GPU count of the invoice's shape × billed hours"


class Nodes:
    """§4: what GPUs nodes had, who held them, and which charges pay for them, by the hour."""

    def __init__(self, pack, tokens, span):
        self.hours, self.of_key = defaultdict(dict), defaultdict(list)
        self.names, self.held, self.nobody = {}, defaultdict(lambda: defaultdict(list)), Fraction(0)
        for row in pack.table("nodes"):
            self.names[row["source"], row["cluster"], row["name"]] = row["node"]
            for key in json.loads(row["keys"]):
                self.of_key[key].append(row["node"])
        for row in pack.table("node_hours", hour=instant):
            capacity = Fraction(row["capacity_ms"]) if row["capacity_ms"] else None
            self.hours[row["node"]][row["hour"]] = [int(row["observed_ms"]), capacity, Fraction(0)]
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
        holders = {row["holder"]: row for row in pack.table("gpu_holders", labels=json.loads)}
        for row in pack.table("gpu_hours", hour=instant, gpu_ms=Fraction):
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
        nodes = [n for n in self.of_key.get(key, ()) if key and shares.keys() & self.hours[n].keys()]
        return nodes, shares, end - start

    def idle_share(self, nodes, shares, window):
        """The share of a charge's GPU time that nobody held; time that nobody saw is not idle."""
        seen = [(share, self.hours[n][hour]) for n in nodes if self.most[n]
                for hour, share in shares.items() if hour in self.hours[n]]
        idle = sum(share * max(0, (had or 0) - held) for share, (_, had, held) in seen)
        known = [self.most[n] for n in nodes if self.most[n]]
        whole = known[0] * window if len(known) == 1 else sum(s * (h[1] or 0) for s, h in seen)
        return min(Fraction(1), Fraction(idle) / whole) if whole else Fraction(0)


def first_of(labels, *names):
    return next((labels[name] for name in names if labels.get(name)), "")


class Costs:
    """The money of one span in its places: [billed, effective, charges] by place and currency."""

    def __init__(self, charges, rules, nodes, since, until):
        self.since, self.until, self.nodes = since, until, nodes
        self.on_nodes, self.charged_hours = {}, set()
        self.places, self.shared, self.split, self.whole = {}, {}, {}, {}
        self.commitments, self.issuers, self.gpu_hours = {}, defaultdict(set), {}
        self.gpu_models, self.documents, self.wrong_places = defaultdict(set), set(), 0
        for row in charges:
            start, end = row["start"], row["end"]
            if start < until and end > since or (start == end and since <= start < until):
                self._add(row, rules.place(row, start))

    def _add(self, row, place):
        self.wrong_places += place != (row["place"], row["target"] or None)
        self.documents.add(row["document"])
        currency = row["money"]
        amounts = [part(Decimal(row[name] or 0), row["start"], row["end"], self.since, self.until)
                   for name in ("billed", "effective")]
        add(self.whole, currency, amounts, 1)
        difference = amounts[1] - amounts[0]
        name = f"rate card {row['rate_card']}" if row["rate_card"] else row["commitment"]
        if name and difference:  # purchases and amortised use; what a rate card prices (§4)
            pair = self.commitments.setdefault((name, currency), [Decimal(0)] * 2)
            pair[row["category"] != "Purchase"] += difference
        idle = self._idle(row, currency, amounts)
        if idle and place[0] in ("shared", "unassigned"):
            halves = [split(a, [idle.numerator, idle.denominator - idle.numerator])
                      for a in amounts]
            add(self.places, (("idle", None), currency), [half[0] for half in halves], 1)
            amounts = [half[1] for half in halves]
            if idle == 1:
                return
        if place[0] == "shared" and place[1]:
            add(self.shared, (place[1], currency), amounts, 1)
            return
        add(self.places, (place, currency), amounts, 1)
        if place[0] == "workload":
            self.issuers[place[1]].add(row["issuer"])
            if row["category"] == "Usage" and Fraction(row["gpu_count"] or 0) > 0:
                self._gpu_hours(row, place[1])

    def _idle(self, row, currency, amounts):
        """The share of a GPU charge that nobody held; both sides of nodes and charges are added."""
        found = self.nodes.of_charge(row, self.since, self.until)
        if found is None:
            return Fraction(0)
        nodes, shares, _ = found
        add(self.on_nodes, (bool(nodes), currency), amounts, 1)
        self.charged_hours |= {(n, hour) for n in nodes for hour in shares.keys()
                               & self.nodes.hours[n].keys()}
        return self.nodes.idle_share(*found)

    def _gpu_hours(self, row, slug):
        """§4: GPU count of the machine × billed hours, the part inside the span."""
        start, end = row["start"], row["end"]
        known = (in_hours(row["consumed_quantity"], row["consumed_unit"])
                 or in_hours(row["pricing_quantity"], row["pricing_unit"]))
        if row["class"]:  # a correction: only hours with the sign of its money count
            cost = Decimal(row["effective"] or row["billed"] or 0)
            known = known if known and (known[0] < 0) == (cost < 0) else (Fraction(0), True)
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
            weights = {slug: w for slug, w in sorted(keys.get(name, {}).items()) if w > 0}
            if not weights:
                add(self.places, (("shared", name), currency), pot[:2], pot[2])
                continue
            both = [split(amount, list(weights.values())) for amount in pot[:2]]
            for slug, billed, effective in zip(weights, *both):
                add(self.split, (("workload", slug), currency), [billed, effective], 0)

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


def add(totals, key, amounts, charges):
    total = totals.setdefault(key, [Decimal(0), Decimal(0), 0])
    for index, more in enumerate((*amounts, charges)):
        total[index] += more


# ------------------------------------------------------------------------------- the week (§4, §5)


class Week:
    """The week put together from the tables: its money, tokens and workloads; then compared."""

    def __init__(self, pack, statement):
        self.pack, self.said, self.check = pack, statement, Checks()
        self.span = tuple(instant(statement["period"][name]) for name in ("start", "end"))
        self.charges = pack.table("charges", start=instant, end=instant)
        chosen = (statement.get("parameters") or {}).get("report_currency", "")
        self.exchange = Exchange(pack, chosen)
        self.by_document = {}
        for row in self.charges:
            amounts = self.exchange.parts(row, self.span)
            add(self.by_document.setdefault(row["document"], {}), row["currency"], amounts, 1)
            row["on_invoice"] = bool(row["billed"])
            self.exchange.charge(row, self.span)
        self.rules, self.tokens = Rules(pack.table("rules"), "charge"), TokenLedger(pack)
        self.workloads = {row["slug"]: row for row in pack.table("workloads")}
        self.weights = {name: Decimal(statement["weights"][name])
                        for name in ("prompt", "cached_prompt", "generation")}
        self.nodes = Nodes(pack, self.tokens, self.span)
        self.whole = Costs(self.charges, self.rules, self.nodes, *self.span)
        self.by_span = {self.span: self.whole}
        counts = {c: total[2] for c, total in self.whole.whole.items()}
        self.currency = chosen or min(counts, key=lambda c: (-counts[c], c), default="USD")
        self.total = self.whole.whole.get(self.currency, [Decimal(0)] * 2)
        self.keys = self._keys()
        self.whole.split_shared(self.keys)
        self.reaches = defaultdict(dict)
        for row in pack.table("reaches", first=instant, last=instant):
            self.reaches[row["kind"]][row["name"]] = row["first"], row["last"], row["ended"] == "1"
        self.moved, self.sources = self.tokens.moved(), self.tokens.sources()
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
                fixed[row["key"]][row["workload"]] = int(row["share"])
        return {key: kinds.get(method, fixed[key]) for key, method in methods.items()}

    def costs(self, span):
        if span not in self.by_span:
            self.by_span[span] = Costs(self.charges, self.rules, self.nodes, *span)
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
        for terms in self.pack.table("baselines"):
            if terms["workload"] == w["slug"]:
                terms = self.exchange.terms(terms)
                return against_baseline(terms, w, self.currency, self.span[1])
        return None


SECTIONS = []  # in the order they are read; each gives a part of the statement


def section(function):
    SECTIONS.append(function)
    return function


# ------------------------------------------------------------------------------- unit costs (§5)


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
    kept = ("model", "stack", "team", "purpose", "cluster", "namespace")
    told = {name: week.workloads[w["slug"]][name] for name in kept}
    return told | {"slug": w["slug"], "figures": figures, "class_costs": classes, "basis": w["basis"],
            "common": span, "share_of_cost": quotient(own + shared, total) if total else None,
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
    figures |= {"effective_cost": cost,
                "period_effective_cost": week.total[1]}
    savings = [one for one in map(week.baseline, week.rows.values()) if one]
    savings = [one for one in savings if one["saving"] is not None]
    figures |= {ours: total_of(one[theirs] for one in savings) for ours, theirs in SAVINGS.items()}
    then = ((week.said["previous"] or {}).get("figures") or {}).get("tokens_per_dollar")
    now, then = figures["tokens_per_dollar"], then and Decimal(then)
    # The difference is cut to 60 digits before it is divided.
    figures["tokens_per_dollar_change"] = (
        SIXTY.divide(SIXTY.subtract(now, then), then) if now and then else None)
    price, week.figures = figures["cost_per_million_tokens"], figures
    if price is not None:
        digits = 2 if abs(price) >= Decimal("0.1") else min(12, 1 - price.adjusted())
        shown = f"{price.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN):,f}"
        week.check("headline's price", True,
                   f"cost {shown} {week.currency}" in week.said["headline"])
    return {"currency": week.currency, "figures": figures}


# ------------------------------------------------------------------------------- baselines (§6)


def against_baseline(terms, w, currency, end):
    """§6: what this week's tokens would have cost at the baseline, and the saving."""
    classes = {n: Decimal(p) for n, p in json.loads(terms["classes"]).items()}
    old = sum(int(terms[name] or 0) for name in ("prompt_tokens", "generation_tokens"))
    declared, cost = (terms[name] and Decimal(terms[name]) for name in ("declared_price", "cost"))
    price = declared or (quotient(cost * MILLION, old) if cost and old else None)
    since = instant(terms["period_end"]) or instant(terms["frozen_at"])
    measured = terms["period_start"] and terms["period_end"]
    found = {"cost_per_million_tokens": price, "age_days": (end - since) // DAY,
             "ageing": end - since > 180 * DAY, "actual": w["cost"], "sensitivity": [],
             "workload": w["slug"], "document_digests": json.loads(terms["documents"]),
             "period": {"start": terms["period_start"], "end": terms["period_end"]}
             if measured else None}
    found |= {name: terms[name] for name in (
        "kind", "basis", "quality", "author", "approver", "currency", "model", "tokenizer",
        "legacy", "note", "frozen_at")}
    found |= dict.fromkeys(("counterfactual", "saving", "saving_share", "saving_lower", "saving_upper",
                            "break_even_cost_per_million_tokens"))
    tokens = w["delivered"] if terms["basis"] == "delivered" else (
        w["counted"] if w["basis"] == "processed" else None)
    total = tokens["prompt"] + tokens["generation"] if tokens else 0
    if terms["currency"] != currency or price is None or w["cost"] is None or not total:
        return found
    if {"prompt", "generation"} <= classes.keys():
        would = sum((quotient(classes.get(name, classes["prompt"]) * count, MILLION)
                     for name, count in by_class(tokens).items()), Decimal(0))
    elif declared:
        would = quotient(price * total, MILLION)
    else:
        would = quotient(cost * total, old)
    found |= {"counterfactual": would, "saving": would - w["cost"],
              "saving_share": quotient(would - w["cost"], would) if would else None,
              "break_even_cost_per_million_tokens": quotient(w["cost"] * MILLION, total)}
    if None not in (tokens["lower"], tokens["upper"]):
        for side in ("lower", "upper"):
            found["saving_" + side] = quotient(would * tokens[side], total) - w["cost"]
    for change in (-25, -10, 10, 25):
        saving = quotient(would * (100 + change), 100) - w["cost"]
        found["sensitivity"].append({"change": f"{change:+d} %", "saving": saving})
    return found


# ---------------------------------------------------------------------------------- bridge (§7)

EFFECTS = ("price", "efficiency", "mix", "entered", "left")


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
    before, said, found = week.pack.json("previous_statement.json"), week.said["previous"], None
    if before:
        week.check("figures of the week before", (said or {}).get("figures"), before["figures"])
    if before and said and before["currency"] == week.said["currency"]:
        sides = [one["bridge_groups"]["groups"] for one in (before, week.said)]
        sources = [{row["workload"]: row["gpu_hours_source"] for row in rows} for rows in sides]
        found = bridge(*(_one_source(one, *sources) for one in (before["bridge_groups"], side)))
    return {"bridge_groups": side, "bridge": found}


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
    week.check("baselines: those of the workloads", said["baselines"], compared)
    for w in said["workloads"]:
        engines = [row for row in said["memory"] if row["workload"] == w["slug"]]
        week.check(f"memory of workload {w['slug']}", w["memory"], engines or None)
    for side in ("from", "to") if said["bridge"] else ():
        of = said["previous"]["week"] if side == "from" else said["period"]["week"]
        week.check(f"bridge {side}", said["bridge"][side], of)
    rules = [{"number": int(row["number"]), "version": int(row["version"]),
              "order": int(row["order"]), "subject": row["subject"], "place": row["place"],
              "target": row["target"] or None, "valid_from": row["valid_from"] or None,
              "valid_to": row["valid_to"] or None,
              "matchers": ",".join(f"{name}{op}{quoted(value)}"
                                   for name, op, value in json.loads(row["matchers"]))}
             for row in week.pack.table("rules")]
    period = [written(at).replace("Z", "+00:00") for at in week.span]
    for one in said["exceptions"]:
        words = (one["kind"], one["subject"], one["currency"] or "", *period)
        week.check(f"exception {one['kind']} {one['subject']}: id", one["id"],
                   sha256("\x1f".join(words).encode())[:16])
    documents = {row["sha256"]: row for row in week.pack.table("documents_read")}
    for one in said["control_totals"]["documents"]:
        read = documents.get(one["sha256"], {})
        told = {name: str(value) for name, value in one.items() if name != "sums"}
        week.check(f"document {one['sha256'][:12]}", told, read)
    week.check("documents", len(documents), len(said["control_totals"]["documents"]))
    chosen = {"report_currency": week.exchange.target} if week.exchange.target else {}
    return {"rules": rules, "parameters": chosen | PARAMETERS, "saving_scope": {
        "workloads": sorted(one["workload"] for one in known), "of": len(week.counting),
        "share_of_cost": quotient(actual, cost) if known and cost > 0 else None}}


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@section
def trend(week):
    """Each week's unit cost from its own cost and tokens; the newest row is this report's."""
    rows = []
    for said in week.said["trend"]:
        cost, tokens = said["effective_cost"] and Decimal(said["effective_cost"]), said["tokens"]
        known = cost and cost > 0 and tokens
        rows.append({"cost_per_million_tokens": quotient(cost * MILLION, tokens) if known else None,
                     "tokens_per_dollar": quotient(tokens, cost) if known else None}
                    | {m: in_time and shares_of([in_time[n] for n in IN_TIME])
                       for m in MEASURES if m in said for in_time in [said[m]]})
    figures = week.figures
    tokens = total_of([figures["prompt_tokens"], figures["generation_tokens"]])
    rows[-1] |= {"week": week.said["period"]["week"], "effective_cost": figures["effective_cost"],
                 "tokens": tokens}
    level = service_levels(week)["service_level"]
    rows[-1] |= {m: level[m] for m in MEASURES if m in week.said["trend"][-1]}
    before = week.said["previous"]
    earlier = {row["week"]: row for row in week.pack.table("earlier_weeks")}
    if before:  # a week that no report was made of is in the week's own comparison alone
        earlier = {before["week"]: before["figures"]} | earlier
    for row, said in zip(rows, week.said["trend"]):
        if then := earlier.get(said["week"]):
            counts = [then[name] for name in ("prompt_tokens", "generation_tokens")]
            row |= {"effective_cost": then["effective_cost"] or None, "week": said["week"],
                    "tokens": None if {None, ""} & set(counts) else sum(map(int, counts))}
    if before and "digest" in earlier[before["week"]]:
        content = week.pack.files["previous_statement.json"]
        week.check("statement of the week before", earlier[before["week"]]["digest"], sha256(content))
    weeks = [said["week"] for said in week.said["trend"]]
    week.check("trend: weeks in their order", weeks, sorted(set(weeks) | set(earlier)))
    return {"trend": rows}


@section
def reaches(week):
    """§4: how far cost and tokens reach, and the hours that have both."""
    spans = [w["common"] for w in week.rows.values() if w["common"]
             and w["purpose"] == "inference" and w["basis"] == "processed"]
    newest = week.reaches["cost"].get("", (None, None))[1]
    lasts = [last for _, last, _ in week.reaches["source"].values()]
    late = [w for w in week.rows.values() if w["common"] and w["common"][1] < week.span[1]
            and w["purpose"] == "inference" and w["basis"] == "processed"
            and not all(week.reaches["source"][name][2]
                        for name in week.sources["workload", w["slug"]])]
    enough = newest is not None and -(-min(newest, week.span[1]) // HOUR) * HOUR >= week.span[1]
    return {"reaches": {
        "complete": bool(spans) and enough and not late,
        "cost": written(min(newest, week.span[1]) if newest is not None else None),
        "tokens": written(max(lasts, default=None)),
        "common_start": written(min((span[0] for span in spans), default=None)),
        "common_end": written(max((span[1] for span in spans), default=None))}}


# ------------------------------------------------------------------------------------ memory (§8)

WHOLE = ("blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms", "active_block_ms",
         "peak_blocks", "peak_ms", "peak_running", "peak_waiting", "stale_ms")


class Engines:
    """The KV cache of each engine in each hour, and the requests it set back."""

    def __init__(self, week):
        self.hours, self.preempted, of_series = {}, {}, defaultdict(list)
        named = {row["series"]: row for row in week.pack.table("engines", labels=json.loads)}
        whole = dict.fromkeys(WHOLE, lambda text: int(text) if text else None)
        for row in week.pack.table("cache_hours", hour=instant, levels_ms=json.loads, **whole):
            engine = named[row["series"]]
            if sum(row["levels_ms"].values()) != row["observed_ms"]:
                week.check(f"time at all levels, {engine['name']}, {written(row['hour'])}",
                           row["observed_ms"], sum(row["levels_ms"].values()))
            of_series[row["series"]].append(row | engine)
        for number, rows in of_series.items():  # an engine is where it stood last
            rows.sort(key=itemgetter("hour"))
            place = week.tokens.place(named[number], rows[-1]["hour"])
            if place[0] == "workload":
                self.hours[place[1], rows[-1]["name"], int(number)] = rows
        for row in week.pack.table("preemptions", hour=instant):
            if week.span[0] <= row["hour"] < week.span[1]:
                key = row["target"], row["engine"]
                self.preempted[key] = self.preempted.get(key, 0) + int(row["count"])

    def preemptions(self, row):
        return self.preempted.get((row["target"], row["engine"]))

    def of(self, slug, name=None):
        """The hours of a workload's engines, or of one of them."""
        return [row for key, rows in sorted(self.hours.items()) for row in rows
                if key[0] == slug and name in (None, key[1])]


@section
def memory(week):
    """§8.3, §8.4, §8.7: the KV cache of each engine of a workload."""
    return {"memory": [
        {"workload": slug, "engine": name, "preemptions": week.engines.preemptions(rows[0])}
        | _engine(rows, week.workloads[slug])
        for (slug, name, _), rows in sorted(week.engines.hours.items(), key=lambda one: one[0][:2])]}


def _engine(rows, workload):
    last = next((row for row in reversed(rows) if _pool(row) is not None), rows[-1])
    each = int(workload["kv_bytes_per_token"] or 0) or None
    longest = last["max_model_len"] or int(workload["max_model_len"] or 0) or None
    known = [row for row in rows if row["active_block_ms"] is not None and row["block_size"]]
    seen = sum(row["observed_ms"] for row in known)
    active = sum(_tokens_of(row, row["active_block_ms"]) for row in known)
    pools, pool, slots = [_pool(row) for row in known], _pool(last), None
    reserved = None if None in pools else sum(p * r["observed_ms"] for p, r in zip(pools, known))
    if pool is not None and longest:
        blocks = last["blocks"] and last["block_size"] and last["blocks"] * last["block_size"]
        slots = (pool - (last["block_size"] if pool == blocks else 0)) // longest
    peaks = [(_tokens_of(row, row["peak_blocks"]), -row["peak_ms"]) for row in rows
             if None not in (row["peak_blocks"], row["block_size"], row["peak_ms"])]
    peak, at = max(peaks, default=(None, None))
    free = (reserved - active) * each if each and reserved is not None else None
    running = [row["peak_running"] for row in rows if row["peak_running"] is not None]
    return {
        "reserved_tokens": pool,
        "reserved_bytes": pool * each if pool is not None and each else None,
        "active_tokens_mean": quotient(active, seen) if seen else None,
        "active_bytes_mean": quotient(active * each, seen) if seen and each else None,
        "unreferenced_bytes_mean": quotient(free, seen) if seen and free is not None else None,
        "peak_active_tokens": peak, "peak_at": written(None if at is None else -at),
        "peak_running": max(running, default=None),
        "contiguous_slots": slots, "max_model_len": longest,
        "observed_seconds": sum(row["observed_ms"] for row in rows) // 1000,
        "stale_seconds": sum(row["stale_ms"] for row in rows) // 1000}


@section
def memory_hours(week):
    """§8: each hour of the chart: reserved and active of a workload's engines together, in whole
    MiB where a token's bytes are known. (What devices show comes from their own exporter.)"""
    found = []
    for slug in sorted({key[0] for key in week.engines.hours}):
        mine = defaultdict(list)
        for row in week.engines.of(slug):
            mine[row["hour"]].append(row)
        each = int(week.workloads[slug]["kv_bytes_per_token"] or 0) or None
        scale = quotient(each, 2**20) if each else 1
        reserved, active = [], []
        for hour in range(*week.span, HOUR):
            rows = mine.get(hour, ())
            pools = [pool for row in rows if (pool := _pool(row)) is not None]
            used = [quotient(_tokens_of(row, row["active_block_ms"]), row["observed_ms"])
                    for row in rows if row["active_block_ms"] is not None and row["block_size"]
                    and row["observed_ms"]]
            reserved.append(round(sum(pools) * scale) if pools else None)
            active.append(round(sum(used) * scale) if used else None)
        steps = [[at, value] for at, value in enumerate(reserved)
                 if not at or reserved[at - 1] != value]
        found.append({"workload": slug, "unit": "MiB" if each else "tokens",
                      "engines": len({row["series"] for rows in mine.values() for row in rows}),
                      "start": written(week.span[0]), "hours": len(active),
                      "reserved_steps": steps, "active": active})
    return {"memory_hours": found}


def _tokens_of(row, blocks):
    """§8.3: blocks as tokens; a share of the pool where the block size is not the pool's own."""
    size, pool = row["block_size"], row["pool_tokens"]
    if pool is not None and row["blocks"] and pool != row["blocks"] * size:
        return round(Fraction(blocks * pool, row["blocks"]))
    return blocks * size


def _pool(row):
    if row["pool_tokens"] is None and None not in (row["blocks"], row["block_size"]):
        return row["blocks"] * row["block_size"]
    return row["pool_tokens"]


# ---------------------------------------------------------------------------- service levels (§5)

MEASURES = ("first_token", "inter_token")


class ServiceLevels:
    """What came in time, from the engines' buckets and the objective in force in each hour."""

    def __init__(self, week):
        self.objectives, self.hours = defaultdict(list), defaultdict(dict)
        for row in week.pack.table("objectives", valid_from=instant):
            self.objectives[row["workload"]].append(row)
        series, best = {}, {}
        for row in week.pack.table("latency_buckets", labels=json.loads, bound_seconds=Decimal):
            key = row["measure"], row["target"], row["engine"]
            series[row["series"]] = row | {"key": key}
            best[key] = min(int(row["preference"]), best.get(key, 99))
        for row in week.pack.table("latency_hours", hour=instant):
            one = series[row["series"]]
            place = week.tokens.place(one, row["hour"])
            if int(one["preference"]) > best[one["key"]] or place[0] != "workload":
                continue  # the engine tells it under a preferred name as well
            engine = row["hour"], *one["key"][1:]
            bounds = self.hours[place[1], one["measure"]].setdefault(engine, {})
            count, readings = bounds.get(one["bound_seconds"], (0, 0))
            bounds[one["bound_seconds"]] = count + int(row["count"]), readings + int(row["readings"])

    def in_force(self, slug, at):
        held = [o for o in self.objectives.get(slug, ()) if o["valid_from"] <= at]
        return held[-1] if held else None

    def wanted(self, slug, measure, span):
        """Whether an objective in force in the span has a threshold of the measure."""
        held = [o for o in self.objectives.get(slug, ()) if span[0] < o["valid_from"] < span[1]]
        return any(o and o[measure + "_seconds"] for o in (*held, self.in_force(slug, span[0])))

    def counts(self, slug, measure, span):
        """How many were counted, and how many at least and at most came in time."""
        total = (0, 0, 0)
        for (at, *_), bounds in self.hours.get((slug, measure), {}).items():
            holds = self.in_force(slug, at) if span[0] <= at < span[1] else None
            if holds and holds[measure + "_seconds"]:
                found = within(bounds, Decimal(holds[measure + "_seconds"]))
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
        between = any(span[0] < o["valid_from"] < span[1] for o in self.objectives.get(slug, ()))
        changed = last is not None and between and self.in_force(slug, span[0]) is not None
        found = {"workload": slug, "objective": None, "objective_changed": changed, "start": written(span[0]),
                 "end": written(span[1]), **dict.fromkeys((*MEASURES, "verdict", "goodput"))}
        if last is None:
            return found
        found["objective"] = {
            "target": Decimal(last["target"]), "valid_from": written(last["valid_from"]),
            "by": last["by"], "note": last["note"],
            **{f"{m}_seconds": Decimal(last[f"{m}_seconds"]) if last[f"{m}_seconds"] else None
               for m in MEASURES}}
        for measure in MEASURES:
            counts = self.wanted(slug, measure, span) and self.counts(slug, measure, span)
            if counts:
                low, high = (Fraction(count, counts[0]) for count in counts[1:])
                target = Fraction(last["target"])
                verdict = "met" if low >= target else "missed" if high < target else "undecided"
                found[measure] = shares_of(counts) | {"verdict": verdict}
        shares = self.shares(w, span)
        if not shares:
            return found
        verdicts = [found[m]["verdict"] for m in MEASURES if found[m]]
        found["verdict"] = next(v for v in ("missed", "undecided", "met") if v in verdicts)
        low, high = shares
        tokens, cost = w["counted"], w["cost"]
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


IN_TIME = ("counted", "in_time_lower", "in_time_upper")


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
    return {"service_levels": list(rows.values()), "service_level": whole}


# ------------------------------------------------------------------------------ right-sizing (§9)

LOWER, UPPER = Fraction(60, 100), Fraction(85, 100)


@section
def rightsizing(week):
    """§9: percentiles, verdict and proposal of each engine, from the hours at each half per cent of
    use and from what the report says its proposal follows from."""
    if "rightsizing" not in week.said:
        return {}
    long = week.span[1] - week.span[0]
    found = []
    for said in week.said["rightsizing"]:
        rows = sorted(week.engines.of(said["workload"], said["engine"]), key=itemgetter("hour"))
        pushed = rows and week.engines.preemptions(rows[-1])
        found.append(_sizing(rows, pushed, long, said) if rows else {"engine": None})
    return {"rightsizing": found}


def _sizing(rows, pushed, long, said):
    last = rows[-1]
    rows = [r for r in rows if (r["blocks"], r["setting"]) == (last["blocks"], last["setting"])]
    levels = defaultdict(int)
    for row in rows:
        for level, held in row["levels_ms"].items():
            levels[int(level)] += held
    seen = sum(row["observed_ms"] + row["stale_ms"] for row in rows)
    value = {name: max((r[name] for r in rows if r[name] is not None), default=None)
             for name in ("peak_running", "peak_waiting")}
    value |= {"kv_blocks": last["blocks"], "preemptions": pushed}
    peak = max((r["peak_blocks"] for r in rows if r["peak_blocks"] is not None), default=None)
    share = Fraction(peak, last["blocks"] - 1) if peak is not None and last["blocks"] > 1 else None
    p50, p95, p99 = (_at_most(levels, Fraction(per_cent, 100)) for per_cent in (50, 95, 99))
    value |= {"p50": _places(p50), "p95": _places(p95), "p99": _places(p99),
              "peak": _places(share), "coverage": _places(min(Fraction(1), Fraction(seen, long))),
              "verdict": _verdict(Fraction(seen, long), long, p99, value)}
    value["setting"] = Decimal(last["setting"]) if last["setting"] else None
    if said["proposal"]:
        value["proposal"] = _proposed(last, said["inputs"], said["proposal"]["utilization"], p99)
        most, inputs = max(0, value["proposal"]["kv_blocks"] - 1), said["inputs"]
        size, longest = inputs["block_size"], inputs["max_model_len"]
        value["proposal"] |= {
            "concurrency": most * value["peak_running"] // peak
            if value["peak_running"] and peak else None,
            "longest_requests": most * size // longest if size and longest else None}
    return value


def _at_most(levels, share):
    """The use not exceeded for a share of the time: the upper edge of its half per cent."""
    reached, total = 0, sum(levels.values())
    for level in sorted(levels):
        reached += levels[level]
        if total and reached >= share * total:
            return min(Fraction(1), Fraction(level + 1, 200))
    return None


def _verdict(coverage, long, p99, value):
    if long < 7 * DAY or coverage < Fraction(95, 100) or p99 is None:
        return "not enough data"
    if value["preemptions"] or (value["peak_waiting"] and p99 > UPPER):
        return "at risk"
    return "tight" if p99 > UPPER else "over-reserved" if p99 < LOWER else "fits"


def _proposed(last, inputs, utilization, p99):
    """The change of the share × the card's memory goes to the pool whole, in whole blocks."""
    a_block = Fraction(inputs["block_bytes"])
    change = (Fraction(utilization) - Fraction(last["setting"])) * inputs["total_bytes"] // 1
    blocks = max(0, (last["blocks"] * a_block + change) // a_block)
    return {"kv_blocks": blocks, "change_bytes": change,
            "p99": _places(p99 * (last["blocks"] - 1) / (blocks - 1))}


def _places(value):
    """A share as text with four decimals, half to even."""
    return None if value is None else format(Decimal(round(value * 10**4)).scaleb(-4), "f")


# ---------------------------------------------------------------------------------- changes (§10)

DRAWS, TWO_WEEKS, WEEK_OF_HOURS = 500, 14 * DAY, 168 * HOUR


@section
def changes(week):
    """§10: matched hours before and after each confirmed change, and 500 draws by its seed."""
    hours = defaultdict(list)
    for row in week.pack.table("change_hours", cost=Decimal, tokens=int, hour_ms=int):
        hours[row["change"]].append(row | {"levels": json.loads(row["levels_ms"])})
    found = []
    for row in week.pack.table("changes"):
        words = (row["workload"], row["kind"], row["at"].replace("Z", "+00:00"), row["before"],
                 row["after"])
        key = sha256("\n".join(words).encode())[:12]
        pairs = matched(hours[row["key"]], instant(row["at"]) // HOUR * HOUR)
        value = {**row, "key": key, "seed": key, "pairs": len(pairs), "cost_per_million": None,
                 "p99_kv_use": None}
        if len(pairs) >= 24:
            drawn = draws(key, len(pairs))
            prices = [price_change([pairs[i] for i in draw]) for draw in drawn]
            value["cost_per_million"] = apart(price_change(pairs), prices)
            if all(hour["levels"] for pair in pairs for hour in pair):
                uses = [p99_change([pairs[i] for i in draw]) for draw in drawn]
                value["p99_kv_use"] = apart(p99_change(pairs), uses)
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


def price_change(pairs):
    """Cost per million tokens before and after."""
    return tuple(Fraction(sum(pair[side]["cost"] for pair in pairs)) * MILLION
                 / sum(pair[side]["tokens"] for pair in pairs) for side in (0, 1))


def p99_change(pairs):
    """The use not exceeded for 99 % of the time, before and after."""
    found = []
    for side in (0, 1):
        levels = defaultdict(int)
        for pair in pairs:
            for level, held in pair[side]["levels"].items():
                levels[min(int(level), 200)] += held
        found.append(_at_most(levels, Fraction(99, 100)))
    return tuple(found)


def apart(whole, drawn):
    """Before, after, their difference, and the draws between which 95 % lie."""
    in_order = sorted(after - before for before, after in drawn)
    named = {"before": whole[0], "after": whole[1], "difference": whole[1] - whole[0],
             "lower": in_order[12], "upper": in_order[487]}
    return {name: short(value) for name, value in named.items()}


# --------------------------------------------------------------------------------- training (§5)


@section
def training(week):
    """§5: training beside inference: the week's cost, what came late, the quarter's budget."""
    rows = {slug: row for slug, row in week.workloads.items() if row["purpose"] == "training"}
    if not rows:
        return {"training": None}
    costs = {slug: sum(week.whole.effective(slug, week.currency)) for slug in week.rows}
    mine = sum((costs[slug] for slug in rows), Decimal(0))
    inference = sum((cost for slug, cost in costs.items() if slug not in rows), Decimal(0))
    levels, late = ServiceLevels(week), []
    for slug, w in week.rows.items():
        if slug not in rows:
            shares = levels.shares(w, w["common"] or week.span)
            if shares and w["cost"] is not None and w["cost"] > 0:
                low, high = (w["cost"] - portion(w["cost"], share) for share in shares[::-1])
                late.append({"workload": slug, "lower": low, "upper": high})
    found = {
        "workloads": [
            {"workload": slug, "model": row["model"], "team": row["team"], "cost": costs[slug],
             "gpu_hours": week.gpu_hours(slug, week.span)} for slug, row in sorted(rows.items())],
        "cost": mine, "inference_cost": inference, "late": late,
        "share_of_inference": quotient(mine, inference) if inference > 0 else None}
    for side in ("lower", "upper"):
        found[f"late_cost_{side}"] = sum(one[side] for one in late) if late else None
    found["budget"] = budget = _budget(week)
    shown = [mine, inference, found["late_cost_lower"], found["late_cost_upper"]]
    shown += [budget["forecast"]] if budget else []
    shown = {f"{round(amount, 2):,.2f}" for amount in shown if amount is not None}
    sentence = (week.said["training"] or {}).get("message") or ""
    told = set(re.findall(r"-?[0-9][0-9,]*\.[0-9]+", sentence))
    week.check("training: amounts in its sentence", sorted(told - shown), [])
    return {"training": found}


def portion(cost, share):
    """A cost × a share, to 24 decimals."""
    exact = Fraction(cost) * Fraction(quotient(share, 1))
    return Decimal(round(exact * 10**24)).scaleb(-24)


def _budget(week):
    budgets = week.pack.table("training_budget", start=instant, end=instant)
    if not budgets:
        return None
    row = budgets[-1]
    newest = week.reaches["cost"].get("", (None, None, None))[1]
    reached = row["start"] if newest is None else -(-newest // HOUR) * HOUR
    until = max(row["start"], min(week.span[1], reached))
    charges = week.pack.table("training_charges", start=instant, end=instant)
    names = ("target", "start", "end")
    whole = {(r["document"], r["line"]): [r[n] for n in names] for r in week.charges}
    odd = []
    for one in charges:
        mine = [one["workload"], one["start"], one["end"]]
        known = whole.get((one["document"], one["line"]), mine)
        if known != mine or week.workloads[one["workload"]]["purpose"] != "training":
            odd.append(one)
    week.check("training charges that are another's", 0, len(odd))
    same = [one for one in charges if one["currency"] == week.currency]
    spent = sum((part(Decimal(one["effective"] or 0), one["start"], one["end"], row["start"], until)
                 for one in same), Decimal(0))
    amount, elapsed, whole = Decimal(row["amount"]), until - row["start"], row["end"] - row["start"]
    found = {"quarter": row["quarter"], "start": written(row["start"]), "end": written(row["end"]),
             "until": written(until), "amount": amount, "currency": row["currency"],
             "document": row["document"] or None, "note": row["note"], "by": row["by"],
             "at": row["at"], "charges": len(same), "spent": spent,
             "other_currencies": sorted({one["currency"] for one in charges} - {week.currency}),
             **dict.fromkeys(("share_spent", "share_elapsed", "forecast", "forecast_over_budget"))}
    if row["currency"] == week.currency:
        found["share_spent"] = quotient(spent, amount)
        if elapsed > 0:
            found["share_elapsed"] = quotient(elapsed, whole)
            found["forecast"] = quotient(spent * whole, elapsed)
            found["forecast_over_budget"] = found["forecast"] - amount
    return found


# ---------------------------------------------------------------------------------- tie-outs (§4)

SUBUNITS = dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
                         .split(), 0) | dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3)
SUBUNITS |= dict.fromkeys(("CLF", "UYW"), 4)
PLACES = ("workload", "shared", "idle", "unused commitment", "out of scope", "unassigned")


@section
def tieouts(week):
    """§4: the invoice table and the period tables, each currency by itself."""
    rows = invoices(week.pack)
    others = sorted(set(week.whole.whole) - {week.currency})
    table = period_table(week.whole, week.currency)
    if others:
        table["other_currencies"] = [period_table(week.whole, one) for one in others]
    return {"tieout": {"invoice": rows, "period": table},
            "provisional_months": sorted({r["billing_period"] for r in rows if r["provisional"]})}


def invoices(pack):
    """§4, §3.8: each invoice's lines against the amount its issuer printed."""
    lines, accounts = {}, defaultdict(set)
    for row in pack.table("invoice_lines"):
        key = row["month"], row["issuer"], row["invoice"], row["currency"]
        total = lines.setdefault(key, [Decimal(0), 0])
        total[0], total[1] = total[0] + Decimal(row["billed"] or 0), total[1] + int(row["lines"])
        accounts[key].add(row["account"])
    issued = {(row["billing_period"], row["issuer"], row["invoice"], row["currency"]):
              Decimal(row["amount"]) for row in pack.table("invoice_amounts")}
    confirmed = {(row["issuer"], row["billing_account"], row["billing_period"])
                 for row in pack.table("confirmations")}
    said = {(row["issuer"], row["billing_period"]): row["status"]  # the newest word holds
            for row in pack.table("period_statuses")}
    found = []
    for key in sorted(lines | issued):
        month, issuer, invoice, currency = key
        billed, count = lines.get(key, [Decimal(0), 0])
        unit, amount = Decimal(1).scaleb(-SUBUNITS.get(currency.upper(), 2)), issued.get(key)
        root = SIXTY.multiply(SIXTY.sqrt(Decimal(count)), unit / 2)
        difference = None if amount is None else amount - billed
        closed = said.get((issuer, month)) == "Closed"
        final = bool(invoice) or amount is not None or closed or all(
            (issuer, account, month) in confirmed for account in accounts[key])
        found.append({"issuer": issuer, "invoice": invoice or None, "billing_period": month,
                      "currency": currency, "lines": count, "billed": billed, "issued": amount,
                      "difference": difference, "tolerance": max(100 * unit, root),
                      "within": None if difference is None else abs(difference) <= 100 * unit
                      or (2 * difference / unit) ** 2 <= count, "provisional": not final})
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
def exchange(week):
    """§3.9: amounts as the documents say them, the rates that were used, and what had none."""
    found, target = week.exchange, week.exchange.target
    used, missing = sorted(found.used.items()), sorted(found.missing.items())
    week.check("exchange of currencies", "exchange" in week.said, bool(used or missing))
    for row in week.charges if used or missing else ():
        known = row["money"] == target
        ours = [row["billed"], row["effective"]] if known else ["", ""]
        said = [row["report_billed"], row["report_effective"]]
        if said != ours:
            week.check(f"line {row['line']} of {row['document'][:12]} in {target}", said, ours)
    if not (used or missing):
        return {}
    return {"exchange": {
        "currency": target,
        "originals": [{"currency": one, "charges": total[2], "billed": total[0],
                       "effective": total[1]} for one, total in sorted(found.originals.items())],
        "rates": [{"from": one, "to": target, "day": day, "from_per_eur": own,
                   "to_per_eur": other, "rate": quotient(other, own),
                   "document_digests": found.documents(one, day)} | tally
                  for (one, day, own, other), tally in used],
        "missing": [{"currency": one} | tally for (one,), tally in missing]}}


@section
def allocation(week):
    """§4: each place's money, and what of it stands in the exceptions."""
    places = {" ".join(filter(None, (*place, currency))):
              {"billed": total[0], "effective": total[1], "charges": total[2]}
              for (place, currency), total in week.whole.all_places().items()}
    given = {}
    for row in week.said["allocation"]:
        target = row["workload"] or row["label"].partition(": ")[2]
        given[" ".join(filter(None, (row["place"], target, row["currency"])))] = row
    week.check("places of money", sorted(given), sorted(places))
    week.check.all_of("allocation", given, places)
    for row in week.said["exceptions"]:
        if row["kind"] == "unassigned-charges":
            total = places.get(f"unassigned {row['currency']}", {"effective": Decimal(0)})
            week.check("exception: unassigned charges", row["amount"], total["effective"])
    return {}


@section
def nodes(week):
    """§4: nodes and the invoice side by side: what met, what did not, what stood idle."""
    known, costs = week.nodes, week.whole
    for row in week.charges if known.hours else ():
        found = known.of_charge(row, *week.span)
        share = found and known.idle_share(*found)
        week.check(f"idle share of line {row['line']} of {row['document'][:12]}",
                   row["idle_share"], f"{share.numerator}/{share.denominator}" if share else "")
    if not known.hours:
        return {"nodes": None}
    hours = {(node, at): one for node, every in known.hours.items() for at, one in every.items()}
    charged = {key: one[0] * (key in costs.charged_hours) for key, one in hours.items()}
    met = {node for node, _ in costs.charged_hours}
    on, off = (costs.on_nodes.get((side, week.currency), [Decimal(0)] * 2 + [0])
               for side in (True, False))
    sums = {"node_hours": sum(one[0] for one in hours.values()),
            "matched_node_hours": sum(charged.values()),
            "capacity_gpu_hours": sum(one[1] or 0 for one in hours.values()),
            "held_gpu_hours": sum(one[2] for one in hours.values()),
            "idle_gpu_hours": sum(max(0, (one[1] or 0) - one[2]) for one in hours.values()),
            "unassigned_gpu_hours": known.nobody}
    found = {name: short(Fraction(value) / HOUR) for name, value in sums.items()}
    return {"nodes": found | {
        "unmatched_node_hours": found["node_hours"] - found["matched_node_hours"],
        "unmatched_nodes": [name[2] for name, node in known.names.items() if node not in met],
        "matched_cost": on[1], "unmatched_cost": off[1], "unmatched_charges": off[2],
        "currency": week.currency}}


@section
def control_totals(week):
    """What was read, counted and summed again."""
    whole = week.exchange.originals or week.whole.whole
    hours = [r for rows in week.tokens.hours.values() for _, r in rows]
    everything = week.tokens.by_place(*week.span, lambda row, at: ("everything", None))
    used = week.whole.documents | {row["document"] for row in week.tokens.usage}
    used |= {row["document"] for row in week.pack.table("readings")}
    used |= {sha for one, day, *_ in week.exchange.used for sha in week.exchange.documents(one, day)}
    named = {row["sha256"] for row in week.said["control_totals"]["documents"]}
    for row in week.said["control_totals"]["documents"]:
        if "sums" in row:  # not in statements of earlier versions
            mine = {currency: {"billed": billed, "effective": effective, "charges": charges}
                    for currency, (billed, effective, charges)
                    in week.by_document.get(row["sha256"], {}).items()}
            week.check(f"document {row['sha256'][:12]} currencies", sorted(row["sums"]), sorted(mine))
            week.check.all_of(f"document {row['sha256'][:12]}", row["sums"], mine)
    week.check("documents behind rows that the report does not name", 0, len(used - named))
    week.check("charges whose place does not follow from the rules", 0, week.whole.wrong_places)
    names = ("issuer", "account", "invoice", "billing_period", "currency", "document")
    lines = {(r["issuer"], r["account"], r["invoice"], r["month"], r["currency"], r["document"])
             for r in week.pack.table("invoice_lines")}
    months = {written(at)[:7] for at in (week.span[0], week.span[1] - 1)}
    odd = [r for r in week.charges if r["on_invoice"] and r.get("billing_period") in months
           and tuple(r.get(n) for n in names) not in lines]  # a correction may be of a later month
    week.check("charges that no line of an invoice sums", 0, len(odd))
    return {"control_totals": {
        "charges": sum(total[2] for total in whole.values()),
        "by_currency": {currency: {"billed": billed, "effective": effective, "charges": charges}
                        for currency, (billed, effective, charges) in whole.items()},
        "billed": week.total[0] if whole else None, "effective": week.total[1] if whole else None,
        "series": len(week.tokens.hours),
        "readings": sum(row.readings for row in hours),
        "readings_expected": sum(row.readings for row in hours) + missing_readings(week),
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


@section
def allocation_statement(week):
    """§4: what each team's workloads cost; with what stands in no workload, all of the money."""
    teams, total = {}, week.total[1]
    for slug, row in sorted(week.workloads.items()):
        own, shared = week.whole.effective(slug, week.currency)
        if own + shared:
            teams.setdefault(row["team"], []).append((slug, own, shared))
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


# ---------------------------------------------------------------------------------- readings (§2)


@section
def readings(week):
    """§2.1, §2.2, §2.4: the tokens of every hour in which a counter began, ended or alternated,
    again from its readings and the counters as they stood before it."""
    of_hour = defaultdict(list)
    for row in week.pack.table("readings", hour=instant, value=int, at_ms=int):
        if row["why"] == "counter":
            of_hour[row["series"], row["hour"]].append(row)
    whole = {"hour": instant, **dict.fromkeys(("counters", "replicas", "proven_ms"), json.loads)}
    befores = {(row["series"], row["hour"]): row
               for row in week.pack.table("counters_before", **whole)}
    week.check("hours with readings and with their counters", set(of_hour) == set(befores), True)
    edges = {(row["series"], row["why"], row["hour"], row["at_ms"])
             for row in week.pack.table("readings", hour=instant, at_ms=int) if row["why"] != "counter"}
    ends = {(number, why, rows[at][0], rows[at][1][moment])
            for number, rows in week.tokens.hours.items() if rows
            for why, at, moment in (("week's first", 0, -2), ("week's last", -1, -1))}
    week.check("readings at the edges of the week", edges == ends, True)
    for number, gaps in week.tokens.gaps.items():  # a gap books with the reading that ends it
        booked = dict(week.tokens.hours.get(number, ()))
        for _, ended, _, tokens in gaps:
            if (hour := ended // HOUR * HOUR) in booked and booked[hour].tokens < tokens:
                week.check(f"tokens of a gap of series {number}", tokens, booked[hour].tokens)
    for number, rows in week.tokens.hours.items():
        odd = {hour: said for hour, said in rows
               if said.restarts or said.openings or said.alternations}
        week.check(f"series {number}: odd hours without readings", 0,
                   sum((number, hour) not in befores for hour in odd))
    touched = {number for number, _ in befores}
    said_of = {number: dict(rows) for number, rows in week.tokens.hours.items()
               if number in touched}
    for (number, hour), before in befores.items():
        if not of_hour[number, hour]:
            continue  # said above
        said, booked = said_of[number][hour], Booking(before).of(of_hour[number, hour])
        for what, value in vars(booked).items():
            if what in Hour._fields:
                name = f"readings of series {number} in {written(hour)}: {what}"
                week.check(name, getattr(said, what), value)
    return {}


class Booking:
    """One hour of one series, booked reading by reading."""

    def __init__(self, before):
        self.counters = {one["number"]: one for one in before["counters"]}
        self.replicas, self.proven = before["replicas"], before["proven_ms"]
        self.current = int(before["current"]) if before["current"] else None
        self.last, self.fall = (int(before[n] or 0) for n in ("last_ms", "fall_ms"))
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
            late = mark is not None and at - mark[1] // 1000 > DAY
            return self._begin(at, value, mark, late or at not in self.proven)
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
            if born > self.last or (value < now["high"] and born > self.last - 5000):
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
        since = mark[1] // 1000 if mark else self.last
        late = at - since > DAY  # without a mark an `up` reading in between may prove it as well
        return self._begin(at, value, mark, late and (mark is not None or at not in self.proven))

    def _begin(self, at, value, mark, unplaced):
        self.current = max(self.counters, default=0) + 1
        marks = {mark[0]: mark[1]} if mark else {}
        self.counters[self.current] = {"marks_us": marks, "high": 0, "first_ms": at}
        if len(self.counters) > 16:  # so many earlier processes behind an address are remembered
            del self.counters[min(self.counters)]
        self.openings += unplaced
        self.opening_tokens += value * unplaced
        return 0 if unplaced else value


# ------------------------------------------------------------------------------------- comparing


class Checks:
    """Each figure as the report says it against the same figure computed here."""

    def __init__(self):
        self.lines, self.section = [], None

    def __call__(self, name, said, computed):
        if isinstance(computed, Decimal):
            same = isinstance(said, str) and bool(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", said))
            same = same and Decimal(said) == computed
        else:
            same = type(said) is type(computed) and said == computed
        self.lines.append((name, said, computed, same, self.section))

    def all_of(self, name, said, computed):
        """Every value of an object, and of the objects inside it."""
        for key, value in computed.items():
            given, label = (said or {}).get(key, "absent"), f"{name} {key}".strip()
            if isinstance(value, dict):
                self.all_of(label, given if isinstance(given, dict) else {}, value)
            elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
                given = given if isinstance(given, list) else []
                self(f"{label}: rows", len(given), len(value))
                for number, (one, other) in enumerate(zip(given, value), start=1):
                    self.all_of(f"{label} {other.get('slug') or number}", one, other)
            else:
                self(label, given, value)

    @property
    def wrong(self):
        return [line for line in self.lines if not line[3]]


def recompute(pack, statement):
    """All figures of a statement from the pack's tables; a Checks that says which are equal."""
    week = Week(pack, statement)
    for one in SECTIONS:
        week.check.section = one
        week.check.all_of("", statement, one(week))
    return week.check


# --------------------------------------------------------------------------------- pack and seal


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
            return cls({name: archive.read(name) for name in archive.namelist()})

    def _text(self, path):
        return io.StringIO(self.files.get(path, b"").decode("utf-8"), newline="")

    def table(self, name, folder="ledgers/", **converted):
        """The rows of a table; some of their columns converted from text."""
        rows = list(csv.DictReader(self._text(f"{folder}{name}.csv")))
        for row in rows:
            for column, convert in converted.items():
                row[column] = convert(row[column])
        return rows

    def lines(self, name, columns):
        """The cells of some columns, row by row: for tables too long to be held as objects."""
        rows = csv.reader(self._text(f"ledgers/{name}.csv"))
        header = next(rows, list(columns))
        return map(itemgetter(*map(header.index, columns)), rows)

    def json(self, name):
        return json.loads(self.files[name]) if name in self.files else None


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def digests(pack, check):
    """SHA256SUMS, the seal's digest, its statement, its rules, and its place in the chain."""
    listed = pack.files.get("SHA256SUMS", b"").decode().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in listed)}
    check("files of the pack", sorted(sums), sorted(set(pack.files) - {"SHA256SUMS"}))
    seal, statement = pack.json("seal.json"), pack.json("statement.json")
    for name in sorted(set(pack.files) & set(sums)):
        check(f"SHA-256 of {name}", sums[name], sha256(pack.files[name]))
    for name, digest in sorted((seal.get("evidence") or {}).get("files", {}).items()):
        check(f"sealed digest of {name}", digest, sha256(pack.files.get(name, b"")))
    check("seal.json is in canonical form", True, canonical(seal) == pack.files["seal.json"])
    check("statement.json is the statement of the seal", True,
          canonical(seal["statement"]) == pack.files["statement.json"])
    check("digest of the statement", seal["statement_digest"], sha256(pack.files["statement.json"]))
    previous, own = "0" * 64, sha256(pack.files["seal.json"])
    chain = pack.table("seals", "")
    for number, row in enumerate(chain, start=1):
        check(f"seal {number} follows the seal before it", row["previous_digest"], previous)
        check(f"seal {number} has its number", row["number"], str(number))
        previous = row["digest"]
    check("this seal's digest stands in the chain", True,
          any(row["digest"] == own and row["week"] == seal["week"] for row in chain))
    check("preparer and approver are two people", True, seal["prepared_by"] != seal["approved_by"])
    left = {e["id"] for e in statement["exceptions"]} - set(seal["dispositions"])
    check("exceptions without a disposition", 0, len(left))
    signed = {w["subject"] for w in seal.get("waivers", []) if w["by"] != seal["prepared_by"]}
    if "waivers" in seal:
        waived = set(statement["provisional_months"]) - signed
        check("provisional months without a waiver", 0, len(waived))
    return own


def contents(check):
    """The sections, where each begins, what it is of, and how many values it computed."""
    counts = Counter(line[4] for line in check.lines)
    for one in SECTIONS:
        said = " ".join(one.__doc__.split())
        print(f"line {one.__code__.co_firstlineno:>4}  {one.__name__:21} {counts[one]:>5}  {said}")


def main(arguments):
    paths = [Path(a) for a in arguments if not a.startswith("--")] or [Path(__file__).parent]
    try:
        pack, check = Pack.open(paths[0]), Checks()
        statement = pack.json("statement.json")
        own = digests(pack, check)
        check.lines += recompute(pack, statement).lines
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile, ArithmeticError) as error:
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
