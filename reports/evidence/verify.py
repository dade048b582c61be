#!/usr/bin/env python3
"""Recomputes every figure of a sealed report from the ledger rows beside it.

    python3 verify.py              in the folder of an unpacked pack
    python3 verify.py PACK.zip     on the pack itself
    python3 verify.py --all ...    prints the equal figures too

One line for each figure: `equal` or `UNEQUAL` with both values. The exit code is 1 when anything
differs or a digest is wrong. Python 3.11 or newer and nothing else is needed. This file shares no
code with the program that made the report: it was written from the method's text ("§" below) alone,
so that an error in either shows as a difference.

Order of reading: arithmetic (§1, §3.7, §4), rules (§4), tokens (§2), money (§3, §4), workloads and
organisation (§5), baselines (§6), bridge (§7), memory (§8), tie-outs (§4), readings (§2.1), digests.
"""

import csv
import hashlib
import io
import json
import re
import sys
import zipfile
from collections import defaultdict, namedtuple
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal, setcontext
from fractions import Fraction
from operator import itemgetter
from pathlib import Path

HOUR_MS = 3_600_000
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
MILLION = 10**6
FIVE_DAYS = timedelta(days=5)  # what lies further behind the others has ended
SIXTY = Context(prec=60, rounding=ROUND_HALF_EVEN)

# ------------------------------------------------------------------------------- arithmetic (§1)


setcontext(Context(prec=400, rounding=ROUND_HALF_EVEN))  # wide enough that sums are exact


def quotient(above, below):
    """A quotient to 60 significant digits, rounded half to even."""
    value = Fraction(above) / Fraction(below)
    return SIXTY.divide(Decimal(value.numerator), Decimal(value.denominator))


def decimals_of(amount):
    """How many decimals an amount is written with: sums keep those of their longest part."""
    return max(0, -amount.as_tuple().exponent)


def part(cost, start, end, since, until):
    """§3.7: what of a charge over [start, end) falls into [since, until); parts telescope."""
    if since <= start < until and end <= until:
        return cost
    decimals = decimals_of(cost) + 4
    whole = (end - start) // timedelta(microseconds=1)

    def up_to(moment):
        passed = (min(max(moment, start), end) - start) // timedelta(microseconds=1)
        if passed == whole:
            return cost
        return Decimal(round(Fraction(cost) * 10**decimals * passed / whole)).scaleb(-decimals)

    return up_to(until) - up_to(since)


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


def instant(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def ms_of(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


def hour_before(moment):
    return moment.replace(minute=0, second=0, microsecond=0)


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
        self.rules.sort(key=lambda rule: rule[:2])
        self.known = {}
        self.names = sorted({m[0] for r in self.rules for m in r[4]} | {"commitment_status"})
        self.dates = sorted({d for r in self.rules for d in r[5:] if d})

    def place(self, columns, moment):
        key = (sum(d <= moment for d in self.dates), *(columns.get(n, "") for n in self.names))
        if key not in self.known:
            self.known[key] = self._place(columns, moment)
        return self.known[key]

    def _place(self, columns, moment):
        unused = columns.get("commitment_status", "").lower() == "unused"
        for _, _, place, target, matchers, since, until in self.rules:
            if unused and not any(m[0].startswith("commitment") for m in matchers):
                continue  # a commitment's unused part goes only where a rule names commitments
            if (since and moment < since) or (until and moment >= until):
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
    """One counter series in one span."""

    def __init__(self):
        self.booked = self.readings = self.restarts = self.hidden = self.openings = 0
        self.opening_tokens = self.alternations = self.ends = self.gaps = 0
        self.unmarked = self.edge_in_gap = False
        self.from_before = self.into_after = self.living = self.unobserved = 0
        self.rate = Fraction(0)  # tokens per millisecond, the highest seen
        self.darks = []  # (milliseconds, tokens that the next reading already shows)

    def lower(self):
        return self.booked - self.from_before

    def upper(self, least):
        rate = max(self.rate, least)
        unseen = sum(max(0, -(-rate * ms // 1) - shown) for ms, shown in self.darks)
        return self.booked + int(unseen) + self.into_after

    def exact(self):
        clean = not (self.restarts or self.ends or self.openings or self.alternations)
        return clean and not self.edge_in_gap and not (self.unmarked and self.gaps)


class TokenLedger:
    """Token hours with what bounds and coverage need."""

    def __init__(self, pack, week):
        self.rules = Rules(pack.table("rules"), "series")
        self.series, self.hours = {}, defaultdict(list)
        self.gaps, self.restarts = defaultdict(list), defaultdict(list)
        for row in pack.table("series"):
            row["labels"] = json.loads(row["labels"])
            self.series[row["series"]] = row
        when = {}
        for number, hour, *counts in pack.lines("token_hours", ("series", "hour", *Hour._fields)):
            if hour not in when:
                when[hour] = ms_of(instant(hour))
            self.hours[number].append((when[hour], Hour._make(map(int, counts))))
        for row in pack.table("gaps"):
            gap = tuple(int(row[n]) for n in ("from_ms", "to_ms", "usual_ms", "tokens"))
            self.gaps[row["series"]].append(gap)
        for row in pack.table("restarts"):
            key = row["series"], ms_of(instant(row["hour"]))
            self.restarts[key].append((int(row["dark_ms"]), int(row["shown_tokens"])))
        self.usage = pack.table("usage_hours")
        for row in self.usage:
            row["labels"] = json.loads(row["labels"])
        self.caps = {w["slug"]: Fraction(int(w["rate_cap_tokens_per_second"]), 1000)
                     for w in pack.table("workloads") if w["rate_cap_tokens_per_second"]}
        self.week, self.made, self.placed = week, {}, {}

    def place(self, series, at_ms):
        """The place of a series at an hour: the same between two dates of the rules."""
        key = series["series"], sum(ms_of(date) <= at_ms for date in self.rules.dates)
        if key not in self.placed:
            moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=at_ms)
            self.placed[key] = self.rules.place(series["labels"], moment)
        return self.placed[key]

    def by_place(self, since, until):
        """Tokens of a span of whole hours by place."""
        if (since, until) not in self.made:
            self.made[since, until] = self._by_place(ms_of(since), ms_of(until), since, until)
        return self.made[since, until]

    def _by_place(self, start, end, since, until):
        layers = {"engine": {}, "gateway": {}}
        for number, series in self.series.items():
            if series["other_half"] == "1":
                continue  # prompts are counted by the prefill half, generated tokens by decode
            for place, one in self._parts(number, series, start, end).items():
                roles = layers[series["layer"]].setdefault(place, defaultdict(list))
                roles[series["role"]].append((series, one))
        found = {}
        for place, roles in layers["engine"].items():
            found[place] = group(roles, self.caps.get(place[1], Fraction(0)))
        for place, roles in layers["gateway"].items():
            other = group(roles, Fraction(0))
            found[place] = beside(found[place], other) if place in found else other
        for place, other in self._usage(since, until).items():
            found[place] = beside(found[place], other) if place in found else other
        return found

    def _parts(self, number, series, start, end):
        groups, keys = {}, []
        for hour, row in self.hours.get(number, ()):
            if start <= hour < end:
                keys.append(self.place(series, hour))
                groups.setdefault(keys[-1], []).append((hour, row))
        parts = {key: Part() for key in groups}
        for key, rows in groups.items():
            self._add(parts[key], number, rows)
        gaps = self.gaps.get(number, ())
        if not keys:
            if not any(a < start and b >= end for a, b, _, _ in gaps):
                return {}
            keys = [self.place(series, start)]
            parts[keys[0]] = Part()
        first, last = parts[keys[0]], parts[keys[-1]]
        for a, b, usual, tokens in gaps:  # §2.5, §2.6: gaps and the edges of the span
            first.unobserved += max(0, min(b, end) - max(a + usual, start))
            first.gaps += start <= b < end
            if a < start <= b < end:
                first.from_before += tokens
                first.edge_in_gap = True
            elif a < end <= b:
                last.into_after += tokens
                last.edge_in_gap = True
        self._life(series, start, end, first, last)
        return parts

    def _add(self, one, number, rows):
        total = Hour._make(sum(column) for column in zip(*(row for _, row in rows)))
        one.booked, one.readings, one.restarts = total.tokens, total.readings, total.restarts
        one.hidden, one.openings = total.hidden_resets, total.openings
        one.opening_tokens, one.alternations = total.opening_tokens, total.alternations
        one.unmarked = total.unmarked > 0
        rates = {(row.rate_tokens, row.rate_ms) for _, row in rows}
        one.rate = max(Fraction(tokens, ms) for tokens, ms in rates)
        if total.restarts:
            one.darks = [dark for hour, _ in rows for dark in self.restarts.get((number, hour), ())]

    def _life(self, series, start, end, first, last):
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

    def _usage(self, since, until):
        groups = defaultdict(list)
        for row in self.usage:
            if since <= instant(row["hour"]) < until:
                groups[self.rules.place(row["labels"], instant(row["hour"]))].append(row)
        found = {}
        for place, rows in groups.items():
            prompt = sum(int(r["prompt_tokens"]) for r in rows)
            answer = sum(int(r["generation_tokens"]) for r in rows)
            known = all(r["cached_tokens"] for r in rows)
            found[place] = nothing() | {
                "delivered_prompt": prompt, "delivered_generation": answer,
                "delivered_cached_prompt":
                    sum(int(r["cached_tokens"]) for r in rows) if known else None,
                "delivered_lower": prompt + answer, "delivered_upper": prompt + answer,
                "exact": True}
        return found

    def moved(self):
        """The hours in which tokens moved, by workload (§5, usage basis)."""
        found = defaultdict(set)
        for number, series in self.series.items():
            if series["role"] in ("prompt", "generation"):
                for hour, row in self.hours.get(number, ()):
                    if row.tokens:
                        found[self.place(series, hour)].add(hour)
        for row in self.usage:
            moment = instant(row["hour"])
            found[self.rules.place(row["labels"], moment)].add(ms_of(moment))
        return found

    def sources(self):
        """The sources that tell of each place."""
        found = defaultdict(set)
        for number, series in self.series.items():
            rows = self.hours.get(number, [])
            for hour, _ in (*rows[:1], *rows[-1:]):
                found[self.place(series, hour)].add(series["source"])
        for row in self.usage:
            found[self.rules.place(row["labels"], instant(row["hour"]))].add(row["source"])
        return found


def nothing():
    return dict.fromkeys(SUMS) | dict.fromkeys(COUNTS, 0) | {
        "cached_prompt": None, "exact": False, "living": 0, "unobserved": 0, "twice": False}


def group(roles, cap):
    """The tokens of a group from its series (§2.5, §2.6, §2.10)."""
    found = nothing()
    for role in ("prompt", "generation", "delivered_prompt", "delivered_generation"):
        parts = [one for _, one in roles.get(role, ())]
        if parts:
            highest = max(one.rate for one in parts)
            found[role] = sum(one.booked for one in parts)
            low = sum(one.lower() for one in parts)
            high = sum(one.upper(cap if one.rate else max(highest, cap)) for one in parts)
            if role.startswith("delivered"):
                found["delivered_lower"] = (found["delivered_lower"] or 0) + low
                found["delivered_upper"] = (found["delivered_upper"] or 0) + high
            else:
                found[role + "_lower"], found[role + "_upper"] = low, high
    cached = cached_parts(roles)
    if cached is not None:
        found["cached_prompt"] = sum(one.booked for one in cached)
    counted = [one for r in ("prompt", "generation") for _, one in roles.get(r, ())]
    engines = one_for_each_engine(roles)
    found["exact"] = bool(counted) and all(one.exact() for one in counted)
    for name in ("restarts", "readings", "ends", "gaps", "alternations"):
        found[name] = sum(getattr(one, name) for one in engines)
    found["hidden_resets"] = sum(one.hidden for one in engines)
    found["unplaced_openings"] = sum(one.openings for one in counted)
    found["opening_tokens"] = sum(one.opening_tokens for one in counted)
    found["unmarked_restarts"] = sum(one.restarts for one in engines if one.unmarked)
    lived = [one for _, one in roles.get("prompt", ())] or engines
    found["living"] = sum(one.living for one in lived)
    found["unobserved"] = sum(one.unobserved for one in lived)
    return found


def one_for_each_engine(roles):
    best = {}
    for role in ("prompt", "generation", "delivered_prompt"):
        mine = {}
        for series, one in roles.get(role, ()):
            engine = series["target"], series["engine"]
            if engine not in mine or one.readings > mine[engine].readings:
                mine[engine] = one
        best = mine | best
    return list(best.values())


def cached_parts(roles):
    """Cached prompt tokens where every engine that counts prompts tells them, else None."""
    best = {}
    for rank, role in enumerate(("cached_prompt", "prefix_hits")):
        for series, one in roles.get(role, ()):
            engine, order = (series["target"], series["engine"]), 10 * rank
            order += int(series["preference"])
            if engine not in best or order < best[engine][0]:
                best[engine] = order, [one]
            elif order == best[engine][0]:
                best[engine][1].append(one)
    engines = {(s["target"], s["engine"]) for s, _ in roles.get("prompt", ())}
    if not engines or engines - best.keys():
        return None
    return [one for engine, (_, parts) in best.items() if engine in engines for one in parts]


def together(groups):
    """Disjoint groups as one."""
    found = nothing()
    for name in SUMS:
        known = [g[name] for g in groups if g[name] is not None]
        found[name] = sum(known) if known else None
    for name in (*COUNTS, "living", "unobserved"):
        found[name] = sum(g[name] for g in groups)
    cached = [g["cached_prompt"] for g in groups if g["prompt"] is not None]
    found["cached_prompt"] = sum(cached) if cached and None not in cached else None
    found["exact"] = bool(groups) and all(g["exact"] for g in groups if g["readings"])
    found["twice"] = any(g["twice"] for g in groups)
    return found


def beside(engines, others):
    """Engines, and gateways or usage records of the same group: perhaps the same requests."""
    found = together([engines, others])
    found["twice"] |= engines["delivered_prompt"] is not None
    return found


def coverage(tokens):
    """§2.5: four decimals, never 1 while anything is unobserved."""
    living, unobserved = tokens["living"], tokens["unobserved"]
    if living <= 0:
        return "0.0000"
    shown = round(Fraction(max(0, living - unobserved), living) * 10**4)
    if shown == 10**4 and unobserved > 0:
        shown = 9999
    return f"{shown // 10**4}.{shown % 10**4:04d}"


def tokens_json(tokens):
    kept = {name: tokens[name] for name in ("cached_prompt", *SUMS, "exact", *COUNTS)}
    return kept | {"coverage": coverage(tokens)}


# -------------------------------------------------------------------------------- money (§3, §4)

UNITS = {"hour": 3600, "hours": 3600, "hr": 3600, "hrs": 3600, "h": 3600, "minute": 60,
         "minutes": 60, "second": 1, "seconds": 1, "s": 1, "day": 86400, "days": 86400}


def in_hours(quantity, unit):
    """A billed quantity in hours, and whether they are GPU-hours already."""
    match = re.fullmatch(r"(?:(\d{1,9})\s+)?([a-z]+(?:[- ][a-z]+)?)", unit.strip().lower())
    if not quantity or not match:
        return None
    name = match[2]
    seconds = UNITS.get(re.sub(r"^(gpu|instance)[- ]", "", name))
    if seconds is None:
        return None
    of_gpu = re.match(r"gpu[- ]", name) is not None
    return Fraction(quantity) * seconds * int(match[1] or 1) / 3600, of_gpu


class Costs:
    """The money of one span in its places, shared charges not yet split."""

    def __init__(self, charges, rules, since, until):
        self.since, self.until = since, until
        self.places, self.shared, self.whole = {}, {}, {}
        self.unknown, self.commitments = defaultdict(lambda: [0, 0]), {}
        self.issuers, self.gpu_hours, self.gpu_models = defaultdict(set), {}, defaultdict(set)
        self.documents, self.wrong_places, self.split = set(), [], {}
        for row in charges:
            start, end = row["start"], row["end"]
            if start < until and end > since or (start == end and since <= start < until):
                self._add(row, rules.place(row, start))

    def _add(self, row, place):
        if place != (row["place"], row["target"] or None):
            self.wrong_places.append(f"{row['document'][:12]} line {row['line']}")
        amounts, currency = [], row["currency"]
        for index, name in enumerate(("billed", "effective")):
            if row[name] == "":
                self.unknown[currency][index] += 1
            cost = Decimal(row[name] or "0")
            amounts.append(part(cost, row["start"], row["end"], self.since, self.until))
        add(self.whole, currency, amounts, 1)
        self.documents.add(row["document"])
        difference = amounts[1] - amounts[0]
        card = row.get("rate_card")
        name = f"rate card {card}" if card else row["commitment"]
        if name and difference:  # purchases and amortised use; what a rate card prices (§4)
            pair = self.commitments.setdefault((name, currency), [Decimal(0)] * 2)
            pair[row["category"] != "Purchase"] += difference
        if row["idle_share"] and place[0] in ("shared", "unassigned"):
            idle = Fraction(row["idle_share"])
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
            self._gpu_hours(row, place[1])

    def _gpu_hours(self, row, slug):
        """§4: GPU count of the machine × billed hours, the part inside the span."""
        count = Fraction(row["gpu_count"] or 0)
        if row["category"] != "Usage" or count <= 0:
            return
        known = (in_hours(row["consumed_quantity"], row["consumed_unit"])
                 or in_hours(row["pricing_quantity"], row["pricing_unit"]))
        start, end = row["start"], row["end"]
        if row["class"]:  # a correction: only hours with the sign of its money count
            cost = Decimal(row["effective"] or row["billed"] or 0)
            if known is None or (known[0] < 0) != (cost < 0):
                known = (Fraction(0), True)
        second = timedelta(microseconds=1)
        hours, of_gpu = known or (Fraction((end - start) // second, 3600 * MILLION), False)
        if start == end:
            share = Fraction(int(self.since <= start < self.until))
        else:
            inside = max(timedelta(0), min(end, self.until) - max(start, self.since))
            share = Fraction(inside // second, (end - start) // second)
        more = (hours if of_gpu else hours * count) * share
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
                add(self.split, (slug, currency), [billed, effective], 0)

    def own(self, slug, currency):
        return self.places.get((("workload", slug), currency), [Decimal(0), Decimal(0), 0])

    def shared_part(self, slug, currency):
        return self.split.get((slug, currency), [Decimal(0), Decimal(0), 0])[1]

    def cost(self, slug, currency):
        return self.own(slug, currency)[1] + self.shared_part(slug, currency)

    def all_places(self):
        """Every place, the split shares with their workloads."""
        found = {key: list(total) for key, total in self.places.items()}
        for (slug, currency), total in self.split.items():
            add(found, (("workload", slug), currency), total[:2], 0)
        return found


def add(totals, key, amounts, charges):
    total = totals.setdefault(key, [Decimal(0), Decimal(0), 0])
    total[0] += amounts[0]
    total[1] += amounts[1]
    total[2] += charges


# ------------------------------------------------------------------- one week put together (§4, §5)

CLASSES = ("prompt", "cached_prompt", "generation")


class Week:
    """Everything of the week computed from the tables."""

    def __init__(self, pack, statement):
        self.pack, self.said = pack, statement
        self.start, self.end = (instant(statement["period"][n]) for n in ("start", "end"))
        self.charges = pack.table("charges")
        for row in self.charges:
            row["start"], row["end"] = instant(row["start"]), instant(row["end"])
        self.rules = Rules(pack.table("rules"), "charge")
        self.tokens = TokenLedger(pack, (self.start, self.end))
        self.workloads = {row["slug"]: row for row in pack.table("workloads")}
        self.gpu_told = {}
        for row in pack.table("gpu_hours"):
            hours = Fraction(int(row["numerator"]), int(row["denominator"]))
            self.gpu_told.setdefault(row["workload"], []).append((instant(row["hour"]), hours))
        self.by_span = {}
        self.whole = Costs(self.charges, self.rules, self.start, self.end)
        counts = {c: total[2] for c, total in self.whole.whole.items()}
        self.currency = min(counts, key=lambda c: (-counts[c], c), default="USD")
        self.keys = self._keys()
        self.whole.split_shared(self.keys)
        self.weights = {name: Decimal(statement["weights"][name]) for name in CLASSES}
        self._reaches()
        self.moved, self.sources = self.tokens.moved(), self.tokens.sources()
        self.rows = {slug: self._workload(slug) for slug in sorted(self.workloads)}

    def _keys(self):
        """Weights of each key: processed tokens, GPU-hours of the whole week, or fixed shares."""
        week = self.tokens.by_place(self.start, self.end)
        tokens, hours = {}, {}
        for slug, row in self.workloads.items():
            mine = week.get(("workload", slug))
            if mine and row["purpose"] == "inference":
                tokens[slug] = (mine["prompt"] or 0) + (mine["generation"] or 0)
            hours[slug] = self.gpu_hours(slug) or 0
        methods, fixed = {}, defaultdict(dict)
        for row in self.pack.table("shared_keys"):
            methods[row["key"]] = row["method"]
            if row["workload"]:
                fixed[row["key"]][row["workload"]] = int(row["share"])
        kinds = {"tokens": tokens, "gpu-hours": hours}
        return {key: kinds.get(method, fixed[key]) for key, method in methods.items()}

    def gpu_hours(self, slug, span=None):
        """GPU-hours to 24 decimals; None where no count is known."""
        since, until = span or (self.start, self.end)
        if slug in self.gpu_told:
            found = sum(hours for hour, hours in self.gpu_told[slug] if since <= hour < until)
        else:
            found = (self.costs(span) if span else self.whole).gpu_hours.get(slug)
        return None if found is None else short(found)

    def billed_gpu_hours(self, slug, span):
        """GPU-hours by the invoice's shapes alone."""
        found = self.costs(span).gpu_hours.get(slug)
        return None if found is None else short(found)

    def costs(self, span):
        if span == (self.start, self.end):
            return self.whole
        if span not in self.by_span:
            found = Costs(self.charges, self.rules, *span)
            self.by_span[span] = found
            found.split_shared(self.keys)
        return self.by_span[span]

    def _reaches(self):
        self.source_spans, self.issuer_last = {}, {}
        self.cost_first = self.cost_newest = None
        for row in self.pack.table("reaches"):
            if row["kind"] == "cost":
                self.cost_first, self.cost_newest = instant(row["first"]), instant(row["last"])
            elif row["kind"] == "issuer":
                self.issuer_last[row["name"]] = instant(row["last"])
            else:
                self.source_spans[row["name"]] = (
                    instant(row["first"]), instant(row["last"]), row["ended"] == "1")

    def common(self, slug):
        """§4: the hours of the week that have both cost and readings."""
        spans = [self.source_spans[n] for n in self.sources.get(("workload", slug), ())]
        newest = self.cost_newest
        if self.cost_first is None or newest is None or not spans:
            return None
        known = [self.issuer_last[i] for i in self.whole.issuers.get(slug, ())]
        live = [last for last in known if last >= newest - FIVE_DAYS]
        until = min(live or known, default=min(newest, self.end))
        first = min(span[0] for span in spans)
        start = max(self.start, hour_before(self.cost_first), hour_before(first))
        told = min(span[1] for span in ([s for s in spans if not s[2]] or spans))
        closing = hour_before(until)
        closing += timedelta(hours=closing < until)
        end = min(self.end, closing, hour_before(told) + timedelta(hours=1))
        return (start, end) if end > start else None

    def _workload(self, slug):
        place, row = ("workload", slug), self.workloads[slug]
        common = self.common(slug)
        tokens = self.tokens.by_place(*common).get(place) if common else None
        basis, counted = self._counted(tokens)
        cost = None
        if common:
            costs = self.costs(common)
            if self.whole.issuers.get(slug) or costs.cost(slug, self.currency):
                cost = costs.cost(slug, self.currency)
        hours = (ms_of(common[1]) - ms_of(common[0])) // HOUR_MS if common else None
        active = None
        if common:
            active = sum(ms_of(common[0]) <= h < ms_of(common[1]) for h in self.moved[place])
        return {"slug": slug, "purpose": row["purpose"], "common": common, "tokens": tokens,
                "basis": basis, "counted": counted, "cost": cost, "hours": hours,
                "active": active, "delivered": delivered(tokens),
                "week_tokens": self.tokens.by_place(self.start, self.end).get(place),
                "gpu_hours": self.gpu_hours(slug),
                "common_gpu_hours": self.gpu_hours(slug, common) if common else None,
                "billed_gpu_hours": self.billed_gpu_hours(slug, common) if common else None,
                "own": self.whole.own(slug, self.currency)[1],
                "shared": self.whole.shared_part(slug, self.currency)}

    def _counted(self, tokens):
        """The basis of unit costs: processed, or delivered where only usage records tell (§2.10)."""
        if tokens is None:
            return "processed", None
        prompt, generation = tokens["prompt"], tokens["generation"]
        if prompt is None and generation is None:
            found = delivered(tokens)
            return ("delivered" if found else "processed"), found
        if prompt is None or generation is None:
            return "processed", None
        lower = [tokens["prompt_lower"], tokens["generation_lower"]]
        upper = [tokens["prompt_upper"], tokens["generation_upper"]]
        return "processed", {
            "prompt": prompt, "generation": generation, "cached": tokens["cached_prompt"],
            "lower": None if None in lower else sum(lower),
            "upper": None if None in upper else sum(upper)}

    def counting(self):
        """The workloads of the organisation's figure (§5)."""
        return [w for w in self.rows.values() if w["purpose"] == "inference"
                and w["basis"] == "processed" and w["counted"] and w["cost"] is not None]


def delivered(tokens):
    if tokens is None or tokens["twice"]:
        return None
    if tokens["delivered_prompt"] is None or tokens["delivered_generation"] is None:
        return None
    return {"prompt": tokens["delivered_prompt"], "generation": tokens["delivered_generation"],
            "cached": tokens["delivered_cached_prompt"], "lower": tokens["delivered_lower"],
            "upper": tokens["delivered_upper"]}


def short(value):
    """A fraction to at most 24 decimals, half to even."""
    digits, decimals = round(Fraction(value) * 10**24), 24
    while decimals and digits % 10 == 0:
        digits, decimals = digits // 10, decimals - 1
    return Decimal(digits).scaleb(-decimals)


def by_class(counted):
    if counted["cached"] is None:
        return {"prompt": counted["prompt"], "generation": counted["generation"]}
    return {"prompt": max(0, counted["prompt"] - counted["cached"]),
            "cached_prompt": counted["cached"], "generation": counted["generation"]}


def unit_costs(cost, counted, weights, active, hours):
    """§5: the unit costs of a group, and the cost of each class."""
    names = ("cost_per_million_tokens", "cost_per_million_prompt_tokens",
             "cost_per_million_cached_prompt_tokens", "cost_per_million_generation_tokens",
             "cost_per_million_lower", "cost_per_million_upper", "usage_cost_per_million_tokens",
             "tokens_per_dollar")
    found = dict.fromkeys(names)
    total = counted["prompt"] + counted["generation"] if counted else 0
    if cost is None or cost <= 0 or total == 0:
        return found, {}
    found["cost_per_million_tokens"] = quotient(cost * MILLION, total)
    found["tokens_per_dollar"] = quotient(total, cost)
    classes = by_class(counted)
    weighted = sum(weights[name] * tokens for name, tokens in classes.items())
    for name, tokens in classes.items():
        if tokens and weighted:
            price = quotient(cost * weights[name] * MILLION, weighted)
            found[f"cost_per_million_{name}_tokens"] = price
    lower, upper = counted["lower"], counted["upper"]
    if None not in (lower, upper) and (upper - lower) * 1000 > total:
        found["cost_per_million_lower"] = quotient(cost * MILLION, upper)
        if lower > 0:
            found["cost_per_million_upper"] = quotient(cost * MILLION, lower)
    if active and hours:
        found["usage_cost_per_million_tokens"] = quotient(cost * MILLION * active, total * hours)
    shares = split(cost, [weights[n] * t for n, t in classes.items()]) if weighted else []
    return found, dict(zip(classes, shares))


# ------------------------------------------------------------------ baselines (§6), bridge (§7)


def compare_with_baseline(terms, w, currency, end):
    """§6: what this week's tokens would have cost at the baseline, and the saving."""
    classes = {n: Decimal(p) for n, p in json.loads(terms["classes"]).items()}
    old = [int(terms[n] or 0) for n in ("prompt_tokens", "generation_tokens")]
    declared = Decimal(terms["declared_price"]) if terms["declared_price"] else None
    cost = Decimal(terms["cost"]) if terms["cost"] else None
    price = declared
    if price is None and cost is not None and sum(old):
        price = quotient(cost * MILLION, sum(old))
    age = (end - (instant(terms["period_end"]) or instant(terms["frozen_at"]))).days
    found = {"cost_per_million_tokens": price, "age_days": age}
    names = ("counterfactual", "saving", "saving_lower", "saving_upper",
             "break_even_cost_per_million_tokens")
    found |= dict.fromkeys(names) | {"actual": w["cost"], "sensitivity": []}
    counted = w["delivered"] if terms["basis"] == "delivered" else (
        w["counted"] if w["basis"] == "processed" else None)
    total = counted["prompt"] + counted["generation"] if counted else 0
    if terms["currency"] != currency or price is None or w["cost"] is None or not total:
        return found
    if {"prompt", "generation"} <= classes.keys():
        would = sum((quotient(classes.get(name, classes["prompt"]) * tokens, MILLION)
                     for name, tokens in by_class(counted).items()), Decimal(0))
    elif declared is None:
        would = quotient(cost * total, sum(old))
    else:
        would = quotient(price * total, MILLION)
    found |= {"counterfactual": would, "saving": would - w["cost"]}
    if None not in (counted["lower"], counted["upper"]):
        for name in ("lower", "upper"):
            found["saving_" + name] = quotient(would * counted[name], total) - w["cost"]
    found["break_even_cost_per_million_tokens"] = quotient(w["cost"] * MILLION, total)
    for change in (-25, -10, 10, 25):
        saving = quotient(would * (100 + change), 100) - w["cost"]
        found["sensitivity"].append({"change": f"{change:+d} %", "saving": saving})
    return found


def bridge(before, after):
    """§7: the change of the cost per million tokens in rows that sum to it; None without both."""
    old, new = _groups(before), _groups(after)
    if not old or not new:
        return None
    t0, t1 = sum(g[2] for g in old.values()), sum(g[2] for g in new.values())
    c0, c1 = sum(g[0] for g in old.values()) / t0, sum(g[0] for g in new.values()) / t1
    rows = {}
    for key in sorted({*old, *new}):
        row = rows[key] = dict.fromkeys(("price", "efficiency", "mix", "entered", "left"), Fraction(0))
        if key not in old:
            cost, _, tokens, _ = new[key]
            row["entered"] = Fraction(tokens, t1) * (cost / tokens - c0)
        elif key not in new:
            cost, _, tokens, _ = old[key]
            row["left"] = -Fraction(tokens, t0) * (cost / tokens - c0)
        else:
            (k0, h0, n0, _), (k1, h1, n1, _) = old[key], new[key]
            s0, s1, r0, r1 = Fraction(n0, t0), Fraction(n1, t1), k0 / h0, k1 / h1
            p0, p1 = n0 / h0, n1 / h1
            row["price"] = s1 * (r1 - r0) / p0
            row["efficiency"] = s1 * r1 * (1 / p1 - 1 / p0)
            row["mix"] = (s1 - s0) * (r0 / p0 - c0)
    sums = {name: sum(row[name] for row in rows.values()) for name in
            ("price", "efficiency", "mix", "entered", "left")}
    w0 = Fraction(before["cost"]) / before["tokens"]
    w1 = Fraction(after["cost"]) / after["tokens"]
    sums["cost_without_tokens"] = (w1 - c1) - (w0 - c0)
    if sum(sums.values()) != w1 - w0:
        raise SystemExit("the bridge does not sum to the change")
    active = Fraction(0)
    for key in old.keys() & new.keys():
        (_, h0, n0, a0), (k1, h1, _, a1) = old[key], new[key]
        if not a0 or not a1:
            active = None
            break
        active += Fraction(new[key][2], t1) * (k1 / h1) * (1 / a1 - 1 / a0) / (n0 / h0 / a0)
    found = rounded_to_sum(sums)
    found["total"] = sum(found.values())
    shown = None if active is None else short(active * MILLION)
    found["active_share"] = shown
    found["throughput"] = None if shown is None else found["efficiency"] - shown
    found["rows"] = [{"group": key, **rounded_to_sum(row)} for key, row in rows.items()]
    return found


def _groups(side):
    found = {}
    for row in side["groups"]:
        if row["tokens"] > 0 and Fraction(row["gpu_hours"]) > 0:
            share = Fraction(row["active_hours"], row["hours"]) if row["active_hours"] else None
            name = f"{row['workload']} on {row['gpu_model'] or 'unknown GPU'}"
            found[name] = (Fraction(row["cost"]), Fraction(row["gpu_hours"]), row["tokens"], share)
    return found


def rounded_to_sum(parts):
    """Per million tokens, to 24 decimals; what rounding leaves over goes to the largest part."""
    exact = {name: value * MILLION for name, value in parts.items()}
    cut = {name: short(value) for name, value in exact.items()}
    largest = max(exact, key=lambda name: (abs(exact[name]), name))
    cut[largest] += short(sum(exact.values())) - sum(cut.values())
    return cut


# ------------------------------------------------------------------------------------ memory (§8)


def memory(pack, tokens, workloads):
    """§8.3, §8.4, §8.7: the KV cache of each engine of a workload, in the order of the report."""
    engines, preempted = {}, {}
    for row in pack.table("preemptions"):
        key = row["target"], row["engine"]
        preempted[key] = preempted.get(key, 0) + int(row["count"])
    named = {row["series"]: (row, json.loads(row["labels"])) for row in pack.table("engines")}
    for row in pack.table("cache_hours"):
        engine, labels = named[row["series"]]
        place = tokens.rules.place(labels, instant(row["hour"]))
        if place[0] == "workload":
            key = place[1], engine["name"], int(row["series"])
            engines.setdefault(key, []).append(row | engine)
    found = []
    for (slug, name, _), rows in sorted(engines.items(), key=lambda item: item[0][:2]):
        value = {"workload": slug, "engine": name}
        value["preemptions"] = preempted.get((rows[0]["target"], rows[0]["engine"]))
        found.append(value | _memory_of(rows, workloads[slug]))
    return found


def _memory_of(rows, workload):
    rows = sorted(rows, key=lambda row: row["hour"])
    for row in rows:
        for name in ("blocks", "block_size", "pool_tokens", "max_model_len", "observed_ms",
                     "peak_blocks", "peak_ms", "peak_running", "stale_ms"):
            row[name] = int(row[name]) if row[name] else None
    last = next((row for row in reversed(rows) if _pool(row) is not None), rows[-1])
    each = int(workload["kv_bytes_per_token"] or 0) or None
    longest = last["max_model_len"] or int(workload["max_model_len"] or 0) or None
    counted = [row for row in rows if row["active_block_ms"] and row["block_size"]]
    seen = sum(row["observed_ms"] for row in counted)
    active = sum(_tokens_of(row, Fraction(row["active_block_ms"])) for row in counted)
    pools = [_pool(row) for row in counted]
    reserved = None if None in pools else sum(p * r["observed_ms"] for p, r in zip(pools, counted))
    pool = _pool(last)
    slots = None
    if pool is not None and longest:
        blocks = last["blocks"] and last["block_size"] and last["blocks"] * last["block_size"]
        slots = (pool - (last["block_size"] if pool == blocks else 0)) // longest
    peak = None
    for row in rows:
        if None not in (row["peak_blocks"], row["block_size"], row["peak_ms"]):
            size = _tokens_of(row, row["peak_blocks"])
            if peak is None or size > peak[0]:
                peak = size, row["peak_ms"]
    running = [row["peak_running"] for row in rows if row["peak_running"] is not None]
    return {
        "reserved_tokens": pool,
        "reserved_bytes": pool * each if pool is not None and each else None,
        "active_tokens_mean": quotient(active, seen) if seen else None,
        "active_bytes_mean": quotient(active * each, seen) if seen and each else None,
        "unreferenced_bytes_mean": quotient((reserved - active) * each, seen)
        if seen and each and reserved is not None else None,
        "peak_active_tokens": peak[0] if peak else None,
        "peak_at": written(peak[1]) if peak else None,
        "peak_running": max(running, default=None),
        "contiguous_slots": slots,
        "max_model_len": longest,
        "observed_seconds": sum(row["observed_ms"] for row in rows) // 1000,
        "stale_seconds": sum(row["stale_ms"] for row in rows) // 1000,
    }


def _tokens_of(row, blocks):
    """§8.3: blocks as tokens; a share of the pool where the block size is not the pool's own."""
    size, pool = row["block_size"], row["pool_tokens"]
    if pool is not None and row["blocks"] and pool != row["blocks"] * size:
        return round(Fraction(blocks) * pool / row["blocks"])
    return round(Fraction(blocks) * size)


def _pool(row):
    if row["pool_tokens"] is not None:
        return row["pool_tokens"]
    if row["blocks"] is None or row["block_size"] is None:
        return None
    return row["blocks"] * row["block_size"]


def written(at):
    """Milliseconds or an instant as the report writes them."""
    if isinstance(at, int):
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=at)
    return None if at is None else at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


# ---------------------------------------------------------------------------------- tie-outs (§4)

SUBUNITS = dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
                         .split(), 0) | dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3)
SUBUNITS |= dict.fromkeys(("CLF", "UYW"), 4)
ORDER = ("workload", "shared", "idle", "unused commitment", "out of scope", "unassigned")


def invoices(pack):
    """§4, §3.8: each invoice's lines against the amount its issuer printed."""
    lines, issued, accounts = {}, {}, defaultdict(set)
    for row in pack.table("invoice_lines"):
        key = row["month"], row["issuer"], row["invoice"], row["currency"]
        total = lines.setdefault(key, [Decimal(0), 0])
        total[0] += Decimal(row["billed"] or 0)
        total[1] += int(row["lines"])
        accounts[key].add(row["account"])
    for row in pack.table("invoice_amounts"):
        key = row["billing_period"], row["issuer"], row["invoice"], row["currency"]
        issued[key] = Decimal(row["amount"])
    confirmed = {(r["issuer"], r["billing_account"], r["billing_period"])
                 for r in pack.table("confirmations")}
    found = []
    for key in sorted({*lines, *issued}):
        month, issuer, invoice, currency = key
        billed, count = lines.get(key, [Decimal(0), 0])
        unit = Decimal(1).scaleb(-SUBUNITS.get(currency.upper(), 2))
        root = SIXTY.multiply(SIXTY.sqrt(Decimal(count)), unit / 2)
        amount = issued.get(key)
        difference = None if amount is None else amount - billed
        final = bool(invoice) or amount is not None or all(
            (issuer, account, month) in confirmed for account in accounts[key])
        within = None
        if difference is not None:
            within = abs(difference) <= 100 * unit or (2 * difference / unit) ** 2 <= count
        found.append({"issuer": issuer, "invoice": invoice or None, "billing_period": month,
                      "currency": currency, "lines": count, "billed": billed, "issued": amount,
                      "difference": difference, "tolerance": max(100 * unit, root),
                      "within": within, "provisional": not final})
    return found


def period_table(costs, currency):
    """§4: billed − purchases + amortised use = effective = the sum of the places."""
    billed, effective, _ = costs.whole.get(currency, [Decimal(0), Decimal(0), 0])
    rows, explained = {"billed": billed}, billed
    for (name, of), (purchases, use) in sorted(costs.commitments.items()):
        if of == currency:
            explained += purchases + use
            rows |= {f"purchases {name}": purchases} if purchases else {}
            rows |= {f"use {name}": use} if use else {}
    if effective != explained:
        rows["not explained"] = effective - explained
    rows["effective"] = effective
    placed = Decimal(0)
    for kind in ORDER:
        sums = [t[1] for (p, c), t in costs.all_places().items() if p[0] == kind and c == currency]
        if sums:
            rows[f"place {kind}"] = sum(sums)
            placed += sum(sums)
    if effective != placed:
        rows["not placed"] = effective - placed
    sides = {"billed_side": explained, "effective": effective, "allocated": placed,
             "difference": effective - explained or effective - placed}
    return rows, sides


# ---------------------------------------------------------------------------------- readings (§2)


def readings(pack, tokens, check):
    """§2.1, §2.2: the tokens of hours with a restart or a birth, again from their readings.

    Left to the reader: hours with an alternation, an unplaced opening, or several replicas
    without marks, whose rule needs more than the hour itself.
    """
    groups = defaultdict(list)
    for row in pack.table("readings"):
        if row["why"] == "restart":
            groups[row["series"], row["hour"]].append(row)
    for key, rows in groups.items():
        said = next(row for at, row in tokens.hours[key[0]] if at == ms_of(instant(key[1])))
        replicas = {row["replica"] for row in rows}
        unmarked = any(not row["mark_us"] for row in rows)
        if said.openings or said.alternations:
            continue
        if unmarked and len(replicas) > 1:
            continue
        high = int(rows[0]["high_before"] or 0)
        mark = rows[0]["mark_before_us"] or None
        first, booked, restarts = rows[0]["high_before"] == "", 0, 0
        fall = high
        for row in rows:
            value, born = int(row["value"]), row["mark_us"] or None
            new = born != mark if born and mark else (not born and value < fall)
            if new and not first:
                high, restarts = 0, restarts + 1
            if new or mark is None:
                mark = born
            first = False
            booked, high, fall = booked + max(0, value - high), max(high, value), value
        name = f"readings of series {key[0]} in {key[1]}"
        check(name + ": tokens", said.tokens, booked)
        check(name + ": restarts", said.restarts, restarts)


# ------------------------------------------------------------------------------------- comparing


class Checks:
    """Each figure as the report says it against the same figure computed here."""

    def __init__(self):
        self.lines = []

    def __call__(self, name, said, computed):
        self.lines.append((name, said, computed, _same(said, computed)))

    def all_of(self, name, said, computed):
        """Every value of an object, and of the objects inside it."""
        for key, value in computed.items():
            if isinstance(value, dict):
                self.all_of(f"{name}.{key}", (said or {}).get(key) or {}, value)
            elif isinstance(value, list):
                given = (said or {}).get(key) or []
                self(f"{name}.{key}: rows", len(given), len(value))
                for index, (one, other) in enumerate(zip(given, value)):
                    self.all_of(f"{name}.{key}[{index}]", one, other)
            else:
                self(f"{name}.{key}", (said or {}).get(key, "absent"), value)

    @property
    def wrong(self):
        return [line for line in self.lines if not line[3]]


def _same(said, computed):
    if isinstance(computed, Decimal):
        return isinstance(said, str) and bool(NUMBER.fullmatch(said)) and Decimal(said) == computed
    return type(said) is type(computed) and said == computed


def recompute(pack, statement):
    """All figures of a statement from the pack's tables; a Checks that says which are equal."""
    check, week = Checks(), Week(pack, statement)
    check("currency", statement["currency"], week.currency)
    check("charges whose place does not follow from the rules", 0, len(week.whole.wrong_places))
    savings = []
    for w, said in zip(week.rows.values(), statement["workloads"]):
        one = _workload(check, week, w, said)
        if one:
            savings.append(one)
    check("workloads", [w["slug"] for w in statement["workloads"]], list(week.rows))
    figures = _organisation(check, week, statement, savings)
    _tieouts(check, week, statement)
    _control_totals(check, week, statement)
    check.all_of("memory", {"rows": statement["memory"]},
                 {"rows": memory(pack, week.tokens, week.workloads)})
    _bridge(check, week, statement, figures)
    readings(pack, week.tokens, check)
    return check


def token_figures(counted, tokens):
    found = {"prompt_tokens": counted and counted["prompt"],
             "cached_prompt_tokens": counted and counted["cached"],
             "generation_tokens": counted and counted["generation"],
             "tokens_lower": counted and counted["lower"],
             "tokens_upper": counted and counted["upper"]}
    for name in ("delivered_prompt", "delivered_generation"):
        found[name + "_tokens"] = tokens and tokens[name]
    for name in ("restarts", "hidden_resets", "exact"):
        found[name] = tokens and tokens[name]
    return found | {"coverage": tokens and coverage(tokens)}


def _workload(check, week, w, said):
    name = f"workload {w['slug']}"
    figures, classes = unit_costs(w["cost"], w["counted"], week.weights, w["active"], w["hours"])
    if w["purpose"] != "inference":
        figures, classes = dict.fromkeys(figures), {}
    figures |= token_figures(w["counted"], w["tokens"])
    figures |= {"effective_cost": w["cost"], "period_effective_cost": w["own"] + w["shared"],
                "cost_own": w["own"], "cost_shared": w["shared"], "gpu_hours": w["gpu_hours"]}
    terms = next((t for t in week.pack.table("baselines") if t["workload"] == w["slug"]), None)
    compared = compare_with_baseline(terms, w, week.currency, week.end) if terms else None
    for ours, theirs in (("saving_vs_baseline", "saving"), ("saving_lower", "saving_lower"),
                         ("saving_upper", "saving_upper")):
        figures[ours] = compared and compared[theirs]
    check.all_of(name, said["figures"], figures)
    check.all_of(f"{name} class cost", said["class_costs"], classes)
    check(f"{name} basis", said["basis"], w["basis"])
    span = w["common"] and {"start": written(w["common"][0]), "end": written(w["common"][1])}
    check(f"{name} common hours", said["common"], span or None)
    total = week.whole.whole.get(week.currency, [0, Decimal(0), 0])[1]
    share = quotient(w["own"] + w["shared"], total) if total else None
    check(f"{name} share of cost", said["share_of_cost"], share)
    if w["week_tokens"] is None:
        check(f"{name} tokens", said["tokens"], None)
    else:
        check.all_of(f"{name} tokens", said["tokens"], tokens_json(w["week_tokens"]))
    if compared:
        check.all_of(f"{name} baseline", said["baseline"], compared)
        return compared if compared["saving"] is not None else None
    return None


def _organisation(check, week, statement, savings):
    parts = week.counting()
    cost = sum((w["cost"] for w in parts), Decimal(0)) if parts else None
    counted = None
    if parts:
        counted = {n: sum(w["counted"][n] for w in parts) for n in ("prompt", "generation")}
        for name in ("cached", "lower", "upper"):
            values = [w["counted"][name] for w in parts]
            counted[name] = None if None in values else sum(values)
    figures, _ = unit_costs(cost, counted, week.weights, None, None)
    if figures["cost_per_million_tokens"] is not None and all(
            w["hours"] and w["active"] is not None for w in parts):
        usage = sum(quotient(w["cost"] * w["active"], w["hours"]) for w in parts)
        if usage:
            total = counted["prompt"] + counted["generation"]
            figures["usage_cost_per_million_tokens"] = quotient(usage * MILLION, total)
    tokens = [w["tokens"] for w in parts if w["tokens"]]
    figures |= token_figures(counted, together(tokens) if tokens else None)
    figures |= {"effective_cost": cost,
                "period_effective_cost":
                    week.whole.whole.get(week.currency, [0, Decimal(0), 0])[1]}
    for ours, theirs in (("saving_vs_baseline", "saving"), ("saving_lower", "saving_lower"),
                         ("saving_upper", "saving_upper")):
        values = [one[theirs] for one in savings]
        figures[ours] = None if not values or None in values else sum(values)
    before = (statement["previous"] or {}).get("figures") or {}
    now, then = figures["tokens_per_dollar"], before.get("tokens_per_dollar")
    change = quotient(now - Decimal(then), Decimal(then)) if now and then and Decimal(then) else None
    # The change is a quotient of a difference cut to 60 digits before it is divided.
    if change is not None:
        change = SIXTY.divide(SIXTY.subtract(now, Decimal(then)), Decimal(then))
    figures["tokens_per_dollar_change"] = change
    check.all_of("report", statement["figures"], figures)
    price = figures["cost_per_million_tokens"]
    if price is not None:
        digits = 2 if abs(price) >= Decimal("0.1") else min(12, 1 - price.adjusted())
        shown = f"{price.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN):,f}"
        check("headline's price", True, f"cost {shown} {week.currency}" in statement["headline"])
    return figures


def _tieouts(check, week, statement):
    rows = invoices(week.pack)
    check.all_of("invoice tie-out", {"rows": statement["tieout"]["invoice"]}, {"rows": rows})
    months = sorted({row["billing_period"] for row in rows if row["provisional"]})
    check("provisional months", statement["provisional_months"], months)
    said = statement["tieout"]["period"]
    tables = [(week.currency, said)]
    tables += list(zip(sorted(c for c in week.whole.whole if c != week.currency),
                       said.get("other_currencies", [])))
    for currency, table in tables:
        computed, sides = period_table(week.whole, currency)
        given = {row["key"]: row["amount"] for row in table["rows"]}
        check(f"period tie-out {currency}: rows", list(given), list(computed))
        check.all_of(f"period tie-out {currency}", given, computed)
        check.all_of(f"period tie-out {currency}: sides", table, sides)
    places = {}
    for (place, currency), total in week.whole.all_places().items():
        places[place[0], place[1] or "", currency] = total
    given = {}
    for row in statement["allocation"]:
        target = row["workload"] or row["label"].partition(": ")[2]
        given[row["place"], target, row["currency"]] = row
    check("places of money", sorted(given), sorted(places))
    for key, (billed, effective, charges) in sorted(places.items()):
        name = f"allocation {' '.join(part for part in key if part)}"
        check.all_of(name, given.get(key), {"billed": billed, "effective": effective,
                                            "charges": charges})
    for row in statement["exceptions"]:
        if row["kind"] == "unassigned-charges":
            amount = places.get(("unassigned", "", row["currency"]), [0, Decimal(0)])[1]
            check("exception: unassigned charges", row["amount"], amount)


def _control_totals(check, week, statement):
    said, whole = statement["control_totals"], week.whole.whole
    check("control total: charges", said["charges"], sum(t[2] for t in whole.values()))
    for currency, (billed, effective, charges) in whole.items():
        check.all_of(f"control total {currency}", said["by_currency"].get(currency),
                     {"billed": billed, "effective": effective, "charges": charges})
    hours = [row for rows in week.tokens.hours.values() for _, row in rows]
    check("control total: series", said["series"], len(week.tokens.hours))
    firsts, lasts = [row.first_ms for row in hours], [row.last_ms for row in hours]
    check("control total: first reading", said["first_reading"],
          written(min(firsts)) if firsts else None)
    check("control total: last reading", said["last_reading"],
          written(max(lasts)) if lasts else None)
    named = {row["sha256"] for row in said["documents"]}
    used = week.whole.documents | {row["document"] for row in week.tokens.usage}
    used |= {row["document"] for row in week.pack.table("readings")}
    check("documents behind rows that the report does not name", 0, len(used - named))


def _one_source(side, sources):
    """Where two weeks know a workload's GPU-hours from different sources, the billed ones."""
    old, new = sources
    groups = []
    for row in side["groups"]:
        slug = row["workload"]
        differ = slug in old and slug in new and old[slug] != new[slug]
        groups.append(dict(row, gpu_hours=row["billed_gpu_hours"]) if differ else row)
    return dict(side, groups=groups)


def _bridge(check, week, statement, figures):
    groups = []
    for w in week.counting():
        models = week.whole.gpu_models.get(w["slug"])
        total = w["counted"]["prompt"] + w["counted"]["generation"]
        groups.append({"workload": w["slug"], "gpu_model": " + ".join(sorted(models or ())) or None,
                       "cost": w["cost"], "gpu_hours": w["common_gpu_hours"] or Decimal(0),
                       "billed_gpu_hours": w["billed_gpu_hours"] or Decimal(0),
                       "tokens": total, "active_hours": w["active"], "hours": w["hours"]})
    side = {"cost": sum((w["cost"] for w in week.counting()), Decimal(0)),
            "tokens": sum(g["tokens"] for g in groups), "groups": groups}
    check.all_of("bridge groups", statement["bridge_groups"], side)
    before = week.pack.json("previous_statement.json")
    if before is None:
        check("bridge, without a week before", statement["bridge"], None)
        return
    check("figures of the week before", (statement["previous"] or {}).get("figures"),
          before["figures"])
    found = None
    if statement["previous"] and before["currency"] == statement["currency"]:
        said = statement["bridge_groups"]["groups"]
        sources = [{row["workload"]: row["gpu_hours_source"] for row in rows}
                   for rows in (before["bridge_groups"]["groups"], said)]
        found = bridge(_one_source(before["bridge_groups"], sources), _one_source(side, sources))
    if found is None:
        check("bridge", statement["bridge"], None)
    else:
        check.all_of("bridge", statement["bridge"], found)
    price = figures["cost_per_million_tokens"]
    check("newest row of the trend", statement["trend"][-1]["cost_per_million_tokens"], price)


# --------------------------------------------------------------------------------- pack and seal


class Pack:
    """The files of a pack, from a zip, a folder or memory."""

    def __init__(self, files):
        self.files, self.tables = files, {}

    @classmethod
    def open(cls, path):
        if path.is_dir():
            every = [one for one in sorted(path.rglob("*")) if one.is_file()]
            return cls({one.relative_to(path).as_posix(): one.read_bytes() for one in every})
        with zipfile.ZipFile(path) as archive:
            return cls({name: archive.read(name) for name in archive.namelist()})

    def table(self, name, folder="ledgers/"):
        if name not in self.tables:
            text = self.files.get(f"{folder}{name}.csv", b"").decode("utf-8")
            self.tables[name] = list(csv.DictReader(io.StringIO(text, newline="")))
        return self.tables[name]

    def lines(self, name, columns):
        """The cells of some columns, row by row: for tables too long to be held as objects."""
        text = self.files.get(f"ledgers/{name}.csv", b"").decode("utf-8")
        rows = csv.reader(io.StringIO(text, newline=""))
        header = next(rows, list(columns))
        chosen = itemgetter(*(header.index(column) for column in columns))
        return (chosen(row) for row in rows)

    def json(self, name):
        return json.loads(self.files[name]) if name in self.files else None


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def digests(pack, check):
    """SHA256SUMS, the seal's digest, its statement, its rules, and its place in the chain."""
    sums = {}
    for line in pack.files.get("SHA256SUMS", b"").decode().splitlines():
        digest, _, name = line.partition("  ")
        sums[name] = digest
    listed = set(pack.files) - {"SHA256SUMS"}
    check("files of the pack", sorted(sums), sorted(listed))
    for name in sorted(listed & set(sums)):
        check(f"SHA-256 of {name}", sums[name], hashlib.sha256(pack.files[name]).hexdigest())
    seal, statement = pack.json("seal.json"), pack.json("statement.json")
    check("seal.json is in canonical form", True, canonical(seal) == pack.files["seal.json"])
    check("statement.json is the statement of the seal", True,
          canonical(seal["statement"]) == pack.files["statement.json"])
    check("digest of the statement", seal["statement_digest"],
          hashlib.sha256(pack.files["statement.json"]).hexdigest())
    for name, digest in sorted((seal.get("evidence") or {}).get("files", {}).items()):
        content = pack.files.get(name, b"")
        check(f"sealed digest of {name}", digest, hashlib.sha256(content).hexdigest())
    previous = "0" * 64
    own = hashlib.sha256(pack.files["seal.json"]).hexdigest()
    chain = pack.table("seals", "")
    for number, row in enumerate(chain, start=1):
        check(f"seal {number} follows the seal before it", row["previous_digest"], previous)
        check(f"seal {number} has its number", row["number"], str(number))
        previous = row["digest"]
    check("this seal's digest stands in the chain", True,
          any(row["digest"] == own and row["week"] == seal["week"] for row in chain))
    check("preparer and approver are two people", True,
          seal["prepared_by"] != seal["approved_by"])
    decided = set(seal["dispositions"])
    left = [e["id"] for e in statement["exceptions"] if e["id"] not in decided]
    check("exceptions without a disposition", 0, len(left))
    signed = {w["subject"] for w in seal.get("waivers", []) if w["by"] != seal["prepared_by"]}
    if "waivers" in seal:
        waived = [m for m in statement["provisional_months"] if m not in signed]
        check("provisional months without a waiver", 0, len(waived))
    return own


def main(arguments):
    show_all = "--all" in arguments
    paths = [Path(a) for a in arguments if not a.startswith("--")] or [Path(__file__).parent]
    try:
        pack = Pack.open(paths[0])
        statement = pack.json("statement.json")
        check = Checks()
        own = digests(pack, check)
        check.lines += recompute(pack, statement).lines
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile, ArithmeticError) as error:
        print(f"This is not a whole pack: {type(error).__name__}: {error}")
        return 1
    for name, said, computed, same in check.lines:
        if show_all or not same:
            print(f"{'equal  ' if same else 'UNEQUAL'} {name}: {_shown(said)}"
                  + ("" if same else f" in the report, {_shown(computed)} computed"))
    print(f"{len(check.lines) - len(check.wrong)} of {len(check.lines)} equal.")
    print(f"Report {statement['period']['week']}: {statement['headline']}")
    print(f"SHA-256 of the seal, printed on every page of the report: {own}")
    return 1 if check.wrong else 0


def _shown(value):
    text = format(value, "f") if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) < 100 else text[:97] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
