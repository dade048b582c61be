"""The worked examples of docs/method.md on money: by plain fractions, and by the product (§3–§7)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from math import ceil, floor, isqrt
from zoneinfo import ZoneInfo

from finops.core import baseline, bridge, slo
from finops.core.changes import Drawing, LoadHour, pairs_of
from finops.core.exchange import Quote, Rates
from finops.core.money import add, part, split
from finops.core.period import milliseconds
from finops.core.tolerance import subunit, tolerance
from finops.core.training import divided, forecast, quarter_of
from finops.core.training_facts import Burn
from finops.core.unit_cost import Counted, Weights, class_costs, unit_costs

from .examples import Example, examples

# -- §3, §4 --------------------------------------------------------------------------------------


def test_part_of_a_charge() -> None:
    e = examples()["part"]
    edges = [
        datetime.fromisoformat(text) for text in [e.text("start"), *e.all("cut"), e.text("end")]
    ]
    charge, whole = e.decimal("charge"), edges[-1] - edges[0]
    places = len(e.text("charge").partition(".")[2]) + 4
    parts, before = [], Fraction(0)
    for edge in edges[1:]:
        share = Fraction((edge - edges[0]) // (whole / whole.days), whole.days)
        now = round(Fraction(charge) * share, places)
        parts.append(now - before)
        before = now
    assert parts == [Fraction(text) for text in e.all("part")]
    assert sum(parts) == Fraction(charge) == e.fraction("sum")
    found = [part(charge, edges[0], edges[-1], since, until) for since, until in pairwise(edges)]
    assert [str(one) for one in found[:2]] == e.all("part")[:2]
    assert add(found) == charge


def test_split_by_largest_remainder() -> None:
    e = examples()["split"]
    weights = [int(text) for text in e.all("weight")]
    amount, unit = e.fraction("amount"), Fraction(1, 10**6)
    ideal = [amount * weight / sum(weights) for weight in weights]
    units = [share // unit for share in ideal]
    order = sorted(range(len(ideal)), key=lambda i: (-(ideal[i] - units[i] * unit), i))
    for index in order[: int(amount / unit) - sum(units)]:
        units[index] += 1
    assert [n * unit for n in units] == [Fraction(text) for text in e.all("part")]
    found = split(e.decimal("amount"), weights)
    assert [str(one) for one in found] == e.all("part")
    assert str(add(found)) == e.text("sum")


def test_tolerance_of_the_invoice_tie_out() -> None:
    e = examples()["tolerance"]
    for rows, wanted in (("rows", "tolerance"), ("few_rows", "few_rows_tolerance")):
        root = isqrt(e.whole(rows))
        assert root**2 == e.whole(rows)
        by_hand = max(100 * e.fraction("subunit"), Fraction(root, 2) * e.fraction("subunit"))
        assert by_hand == e.fraction(wanted)
        assert tolerance(e.whole(rows), e.text("currency")) == e.decimal(wanted)
    assert subunit(e.text("currency")) == e.decimal("subunit")


def test_conversion_by_the_day_the_charge_begins() -> None:
    e = examples()["exchange"]
    start, end = (datetime.fromisoformat(e.text(n)) for n in ("charge_starts", "charge_ends"))
    published = {}
    for text in e.all("published"):
        day, *pairs = text.split()
        published[date.fromisoformat(day)] = dict(zip(pairs[::2], pairs[1::2], strict=True))
    day = max(one for one in published if one <= start.date())
    assert day == date.fromisoformat(e.text("rate_of"))
    per_euro = {name: Fraction(text) for name, text in published[day].items()}
    exact = (
        e.fraction("amount") * per_euro[e.text("report_currency")] / per_euro[e.text("currency")]
    )
    places = len(e.text("amount").partition(".")[2]) + 10
    assert round(exact, places) == e.fraction("converted")
    assert e.fraction("converted") / 3 == e.fraction("second_day")
    quotes = [Quote(name, day, Decimal(text), "doc")
              for day, pairs in published.items() for name, text in pairs.items()]  # fmt: skip
    rate = Rates(e.text("report_currency"), quotes).on(e.text("currency"), start.date())
    assert rate is not None and rate.day == day
    whole = rate.convert(e.decimal("amount"))
    assert str(whole) == e.text("converted")
    since, until = start + timedelta(days=1), start + timedelta(days=2)
    assert str(part(whole, start, end, since, until)) == e.text("second_day")


# -- §5 ------------------------------------------------------------------------------------------


def test_good_tokens_and_what_a_million_of_them_cost() -> None:
    e = examples()["goodput"]
    rows = dict(row.split() for row in e.all("bucket"))
    counts = {Decimal(bound.replace("+Inf", "Infinity")): int(n) for bound, n in rows.items()}
    threshold = e.decimal("threshold_seconds")
    lower = max(n for bound, n in counts.items() if bound <= threshold)
    upper = min(n for bound, n in counts.items() if bound >= threshold)
    assert (lower, upper) == (e.whole("in_time_lower"), e.whole("in_time_upper"))
    whole, between = max(counts.values()), e.fraction("between_share")
    low = Fraction(lower, whole) + between - 1
    high = min(Fraction(upper, whole), between)
    good = floor(e.whole("tokens") * low), ceil(e.whole("tokens") * high)
    assert good == (e.whole("good_tokens_lower"), e.whole("good_tokens_upper"))
    for tokens, name in zip(reversed(good), ("lower", "upper"), strict=True):
        price = round(e.fraction("cost") * 10**6 / tokens, 4)
        assert price == e.fraction(f"cost_per_million_{name}_rounded")

    found = slo.in_time({b: slo.BucketHour(n, 4) for b, n in counts.items()}, threshold)
    assert found == slo.InTime(whole, lower, upper)
    shares = found.shares()
    assert shares is not None
    share = slo.joint([shares, (between, between)])
    assert slo.good_tokens(e.whole("tokens"), e.whole("tokens"), share) == good


def test_budget_of_training_and_its_straight_line() -> None:
    e = examples()["training"]
    period = quarter_of(e.text("quarter"), ZoneInfo("UTC"))
    until = datetime.fromisoformat(e.text("until"))
    days = (until - period.start).days, (period.end - period.start).days
    assert days == (e.whole("elapsed_days"), e.whole("quarter_days"))
    ahead = e.fraction("spent") * days[1] / days[0]
    assert ahead == e.fraction("forecast")
    assert ahead - e.fraction("budget") == e.fraction("forecast_over_budget")
    assert forecast(Burn(period, until, None, e.decimal("spent"))) == e.decimal("forecast")
    for side, other in (("lower", "upper"), ("upper", "lower")):
        late = e.fraction("cost") * (1 - e.fraction(f"share_{other}"))
        assert late == e.fraction(f"late_cost_{side}")
        good = divided(e.decimal("cost"), e.fraction(f"share_{other}"))
        assert e.decimal("cost") - good == e.decimal(f"late_cost_{side}")


def test_difference_of_matched_hours_and_the_draws_of_a_key() -> None:
    e = examples()["impact"]
    rows = [row.split() for row in e.all("pair")]
    at = datetime(2026, 11, 2, tzinfo=UTC)
    hours, prices = [], []
    for side, weeks in ((0, -7), (2, 0)):
        cost = sum(Fraction(row[side]) for row in rows)
        prices.append(cost * 10**6 / sum(int(row[side + 1]) for row in rows))
        for number, row in enumerate(rows):
            start = at + timedelta(days=weeks, hours=5 + number)
            hours.append(LoadHour(milliseconds(start), Decimal(row[side]), int(row[side + 1]), {}))
    for name, value in zip(("before", "after"), prices, strict=True):
        assert round(value, 2) == e.fraction(f"cost_per_million_{name}_rounded")
    assert round(prices[1] - prices[0], 2) == e.fraction("difference_rounded")
    found = pairs_of(hours, at)
    assert [(b.tokens, a.tokens) for b, a in found] == [(int(r[1]), int(r[3])) for r in rows]

    block = sha256(f"{e.text('key')}:0".encode()).digest()
    wanted = [int(text) for text in e.text("first_draws_below_100").split()]
    assert [int.from_bytes(block[i : i + 4], "big") % 100 for i in range(0, 32, 4)] == wanted
    drawing = Drawing(e.text("key"))
    assert [drawing.below(100) for _ in wanted] == wanted


# -- §5, §6 --------------------------------------------------------------------------------------


def counted_of(e: Example, cached: int | None) -> Counted:
    return Counted(
        e.whole("prompt_tokens"),
        e.whole("generation_tokens"),
        cached,
        e.whole("tokens_lower"),
        e.whole("tokens_upper"),
    )


def test_unit_cost_by_hand() -> None:
    e = examples()["unit-cost"]
    cost, million = e.fraction("cost"), 10**6
    prompt, cached, generation = (
        e.whole(f"{name}_tokens") for name in ("prompt", "cached_prompt", "generation")
    )
    weights = [Fraction(text) for text in e.text("weights").split(" : ")]
    classes = dict(zip(("prompt", "cached_prompt", "generation"), weights, strict=True))
    tokens = {"prompt": prompt - cached, "cached_prompt": cached, "generation": generation}
    weighted = sum(classes[name] * tokens[name] for name in classes)
    assert weighted == e.fraction("weighted_tokens")
    for name, weight in classes.items():
        assert cost * weight / weighted * million == e.fraction(f"cost_per_million_{name}_tokens")
        assert cost * weight * tokens[name] / weighted == e.fraction(f"class_cost_{name}")
    total = prompt + generation
    assert cost / total * million == e.fraction("cost_per_million_tokens")
    assert round(total / cost, 2) == e.fraction("tokens_per_dollar_rounded")
    share = e.fraction("hours_with_tokens") / e.fraction("hours")
    assert cost / total * million * share == e.fraction("usage_cost_per_million_tokens")
    for end, other in (("lower", "upper"), ("upper", "lower")):
        price = cost / e.whole(f"tokens_{other}") * million
        assert round(price, 4) == e.fraction(f"cost_per_million_{end}_rounded")


def test_unit_cost_by_the_product() -> None:
    e = examples()["unit-cost"]
    counted, cost = counted_of(e, e.whole("cached_prompt_tokens")), e.decimal("cost")
    found = unit_costs(
        cost, counted, active_hours=e.whole("hours_with_tokens"), hours=e.whole("hours")
    )
    for name in ("", "prompt_", "cached_prompt_", "generation_"):
        figure = f"cost_per_million_{name}tokens"
        assert getattr(found, figure) == e.decimal(figure)
    assert found.usage_cost_per_million_tokens == e.decimal("usage_cost_per_million_tokens")
    rounded = {
        "tokens_per_dollar": ("tokens_per_dollar_rounded", "0.01"),
        "cost_per_million_lower": ("cost_per_million_lower_rounded", "0.0001"),
        "cost_per_million_upper": ("cost_per_million_upper_rounded", "0.0001"),
    }
    for figure, (key, unit) in rounded.items():
        assert getattr(found, figure).quantize(Decimal(unit)) == e.decimal(key)
    for name, amount in class_costs(cost, counted, Weights()).items():
        assert amount == e.decimal(f"class_cost_{name}")


def test_saving_against_a_baseline() -> None:
    e = examples()["saving"]
    legacy = e.whole("baseline_prompt_tokens") + e.whole("baseline_generation_tokens")
    price = e.fraction("baseline_cost") / legacy * 10**6
    assert price == e.fraction("baseline_cost_per_million_tokens")
    total, actual = e.whole("prompt_tokens") + e.whole("generation_tokens"), e.fraction("actual")
    would = price * total / 10**6
    assert would == e.fraction("counterfactual")
    assert would - actual == e.fraction("saving")
    for end in ("lower", "upper"):
        assert price * e.whole(f"tokens_{end}") / 10**6 - actual == e.fraction(f"saving_{end}")
    for change in (-25, -10, 10, 25):
        expected = would * (100 + change) / 100 - actual
        assert expected == e.fraction(f"saving_at_{change:+d}_%")
    assert actual / total * 10**6 == e.fraction("break_even_cost_per_million_tokens")


def test_saving_by_the_product() -> None:
    e = examples()["saving"]
    terms = baseline.Terms(
        workload="chat", kind="measured", basis="processed", quality="measured", currency="USD",
        frozen_at=datetime(2026, 11, 1, tzinfo=UTC), author="Ada",
        cost=e.decimal("baseline_cost"), prompt_tokens=e.whole("baseline_prompt_tokens"),
        generation_tokens=e.whole("baseline_generation_tokens"),
    )  # fmt: skip
    found = baseline.compare(terms, counted_of(e, None), e.decimal("actual"), "USD")
    assert found.cost_per_million_tokens == e.decimal("baseline_cost_per_million_tokens")
    for figure in ("counterfactual", "saving", "saving_lower", "saving_upper"):
        assert getattr(found, figure) == e.decimal(figure)
    assert found.break_even == e.decimal("break_even_cost_per_million_tokens")
    assert dict(found.sensitivity) == {
        change: e.decimal(f"saving_at_{int(change):+d}_%") for change in ("-25", "-10", "10", "25")
    }


# -- §7 ------------------------------------------------------------------------------------------

GROUP = re.compile(
    r"(?P<name>\w+) cost (?P<cost>\S+) gpu_hours (?P<hours>\S+) tokens (?P<tokens>\d+) "
    r"active (?P<active>\S+)"
)
ROWS = ("price", "efficiency", "mix", "entered", "left", "cost_without_tokens", "total")


def side_of(e: Example, name: str) -> bridge.Side:
    found = [GROUP.fullmatch(text) for text in e.all(name)]
    groups = {
        g["name"]: bridge.Group(
            Decimal(g["cost"]), Decimal(g["hours"]), int(g["tokens"]), Fraction(g["active"])
        )
        for g in found
        if g
    }
    return bridge.Side(
        groups, e.decimal(f"{name}_cost"), sum(one.tokens for one in groups.values())
    )


def test_bridge_by_hand() -> None:
    """The page's formulas, written out for its one staying, one leaving and one new group."""
    e = examples()["bridge"]
    g = {
        (side, m["name"]): (
            Fraction(m["cost"]),
            Fraction(m["hours"]),
            Fraction(m["tokens"]) / 10**6,
        )
        for side in ("before", "after")
        for text in e.all(side)
        if (m := GROUP.fullmatch(text))
    }
    t0, t1 = (sum(v[2] for k, v in g.items() if k[0] == side) for side in ("before", "after"))
    c0, c1 = (
        sum(v[0] for k, v in g.items() if k[0] == side) / tokens
        for side, tokens in (("before", t0), ("after", t1))
    )
    (cost0, hours0, tokens0), (cost1, hours1, tokens1) = g["before", "A"], g["after", "A"]
    s0, s1, r0, r1 = tokens0 / t0, tokens1 / t1, cost0 / hours0, cost1 / hours1
    p0, p1 = tokens0 / hours0, tokens1 / hours1
    gone, new = g["before", "B"], g["after", "C"]
    a0, a1 = Fraction(1, 2), Fraction(3, 5)
    whole0, whole1 = e.fraction("before_cost") / t0, e.fraction("after_cost") / t1
    expected = {
        "price": s1 * (r1 - r0) / p0,
        "efficiency": s1 * r1 * (1 / p1 - 1 / p0),
        "mix": (s1 - s0) * (r0 / p0 - c0),
        "entered": new[2] / t1 * (new[0] / new[2] - c0),
        "left": -gone[2] / t0 * (gone[0] / gone[2] - c0),
        "cost_without_tokens": (whole1 - c1) - (whole0 - c0),
        "total": whole1 - whole0,
        "active_share": s1 * r1 * (1 / a1 - 1 / a0) / (p0 / a0),
    }
    expected["throughput"] = expected["efficiency"] - expected["active_share"]
    for name, value in expected.items():
        assert value == e.fraction(name), name
    assert sum(expected[name] for name in ROWS[:-1]) == expected["total"]
    assert (whole0, whole1) == (
        e.fraction("cost_per_million_before"),
        e.fraction("cost_per_million_after"),
    )


def test_bridge_by_the_product() -> None:
    e = examples()["bridge"]
    found = bridge.bridge(side_of(e, "before"), side_of(e, "after"))
    assert found is not None
    for name in (*ROWS, "active_share", "throughput"):
        assert getattr(found, name) * 10**6 == e.fraction(name), name
    printed = bridge.per_million_text({name: getattr(found, name) for name in ROWS[:-1]})
    assert add(list(printed.values())) == e.decimal("total")
