"""FOCUS files in bulk against the parser: the same charges, rejections and totals, whatever is in them.

The expected sums are added here with Python's Decimal from what the line-by-line parser reads.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal, Inexact
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finops.core.allocation import OUT_OF_SCOPE, Place, Rule, charge_matchers
from finops.core.matching import parse_matchers
from finops.sources import bulk_chunks, bulk_csv, bulk_harmless, bulk_store, focus, focus_bulk
from finops.sources.bulk_table import LINE, KeptTable, SumsTable
from finops.sources.records import ChargeRecord, Refused, Rejection
from finops.sources.summing import AMOUNTS, DIMENSIONS, is_summable
from tests.ledger.focus_files import ROW, columns_of, focus_text, hours
from tests.paths import SAMPLES

EXACT = Context(prec=300, traps=[Inexact])
THOUSAND = SAMPLES / "invoices" / "focus-1.0_anonymised_aws-azure-oci_1000rows.csv"

Sums = dict[tuple[object, ...], list[Decimal | int | None]]


def rule(text: str) -> Rule:
    return Rule(1, 1, 1, "charge", Place(OUT_OF_SCOPE), charge_matchers(parse_matchers(text)))


def reached(record: ChargeRecord, rules: Iterable[Rule]) -> bool:
    """By the columns of the record itself, as a rule would see its charge."""
    names = {"account": "billing_account", "class": "charge_class"}

    class Columns(dict[str, str | None]):
        def get(self, name: str, default: object = None) -> str | None:  # type: ignore[override]
            if name.startswith("tag:"):
                return record.tags.get(name[4:])
            return getattr(record, names.get(name, name), None)

    return any(one.reaches(Columns()) for one in rules)


def summed(records: Iterable[ChargeRecord]) -> Sums:
    """Lines or sums of lines by what a sum keeps, added exactly; counts and places of lines."""
    found: Sums = {}
    for one in records:
        amounts = [getattr(one, name) for name in AMOUNTS]
        key = (*(getattr(one, name) for name in DIMENSIONS), *(a is None for a in amounts))
        known = found.setdefault(key, [*(None if a is None else Decimal(0) for a in amounts), 0])
        for place, amount in enumerate(amounts):
            if amount is not None:
                known[place] = EXACT.add(Decimal(known[place] or 0), amount)
        known[4] = int(known[4] or 0) + one.line_count
    return found


def told(records: Iterable[object]) -> Iterator[object]:
    """All records, those of tables too; lines and totals of a table must say the same as these."""
    for one in records:
        if isinstance(one, SumsTable):
            sums = list(one.records())
            endings = {kind.key: f"\t{shared(kind.total)!a}\n" for kind in one.kinds}
            lines = "".join(one.lines(endings)).splitlines()
            assert sorted(lines) == sorted(as_line(each) for each in sums)
            assert sum(kind.sums for kind in one.kinds) == len(sums)
            assert merged(kind.total for kind in one.kinds) == merged(sums)
            yield from sums
        elif isinstance(one, KeptTable):
            kept = list(one.records())
            endings = {kind.key: f"\t{rest(one, kind.total)!a}\n" for kind in one.kinds}
            lines = "".join(one.lines(endings)).removesuffix("\n").split("\n")
            assert [cells(line) for line in lines] == [as_cells(one, each) for each in kept]
            assert sum(kind.sums for kind in one.kinds) == len(kept)
            assert gathered(one, (kind.total for kind in one.kinds)) == gathered(one, kept)
            yield from kept
        else:
            yield one


def rest(table: KeptTable, record: ChargeRecord) -> list[object]:
    """What a line's ending has to tell: all that the line does not."""
    names = [one.name for one in dataclasses.fields(record)]
    return [getattr(record, n) for n in names if n not in (*table.fields, "line_count")]


def cells(line: str) -> list[object]:
    """The cells of a line of COPY's text form, amounts as Decimal."""
    *told, ending = line.split("\t")
    found: list[object] = [None if cell == r"\N" else unescaped(cell) for cell in told]
    for place in range(3, 3 + 8):
        text = found[place]
        found[place] = None if text is None else str(Decimal(str(text)))
    return [*found, ending]


def unescaped(cell: str) -> str:
    signs = {r"\\": "\\", r"\t": "\t", r"\n": "\n", r"\r": "\r"}
    return re.sub(r"\\.", lambda found: signs[found[0]], cell)


def as_cells(table: KeptTable, record: ChargeRecord) -> list[object]:
    """The same of a record."""
    found: list[object] = []
    for name in table.fields:
        value = getattr(record, name)
        if name == "tags":
            value = json.dumps(value, ensure_ascii=False)
        found.append(None if value is None else str(value))
    return [*found, ascii(rest(table, record))]


def gathered(table: KeptTable, records: Iterable[ChargeRecord]) -> dict[str, list[object]]:
    """What lines come to that differ in nothing but what a line tells."""
    found: dict[str, list[ChargeRecord]] = defaultdict(list)
    for one in records:
        found[ascii(rest(table, one))].append(one)
    return {
        key: [
            min(one.line for one in each),
            sum(one.line_count for one in each),
            min(one.charge_period_start for one in each),
            max(one.charge_period_end for one in each),
            *(str(known(getattr(one, name) for one in each)) for name in AMOUNTS),
        ]
        for key, each in found.items()
    }


def known(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of what is known."""
    return added(amount for amount in amounts if amount is not None)


def shared(record: ChargeRecord) -> list[object]:
    """What all sums of a kind have in common."""
    return [getattr(record, name) for name in DIMENSIONS if name not in LINE]


def as_line(record: ChargeRecord) -> str:
    amounts = (getattr(record, name) for name in AMOUNTS)
    plain = ["\\N" if amount is None else f"{amount:f}" for amount in amounts]
    texts = [str(getattr(record, name)) for name in LINE[:5]]
    return "\t".join((*texts, *plain, ascii(shared(record))))


def merged(records: Iterable[ChargeRecord]) -> dict[str, list[object]]:
    """What records come to that differ in their lines and charge periods alone."""
    found: dict[str, list[ChargeRecord]] = defaultdict(list)
    for one in records:
        unknown = [getattr(one, name) is None for name in AMOUNTS]
        found[ascii((shared(one), unknown))].append(one)
    return {
        key: [
            min(one.line for one in each),
            max(one.last_line or 0 for one in each),
            sum(one.line_count for one in each),
            min(one.charge_period_start for one in each),
            max(one.charge_period_end for one in each),
            *(str(added(getattr(one, name) for one in each)) for name in AMOUNTS),
        ]
        for key, each in found.items()
    }


def added(amounts: Iterable[Decimal | None]) -> Decimal | None:
    total: Decimal | None = None
    for amount in amounts:
        total = amount if total is None or amount is None else EXACT.add(total, amount)
    return total


def both_ways(
    path: Path, rules: Iterable[Rule] = (), threads: int = 1
) -> tuple[list[ChargeRecord], list[ChargeRecord], list[Rejection], list[str]]:
    """Reads a file both ways and compares; the lines kept whole, the sums, rejections, warnings."""
    rules = list(rules)
    slow = list(focus.parse(path, path.name, "focus").records)
    parsed = focus_bulk.parse(path, path.name, "focus", rules, threads)
    fast = list(told(parsed.records))

    def whole(records: Iterable[object]) -> list[ChargeRecord]:
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        kept = [one for one in charges if one.last_line is None]
        return [one for one in kept if not is_summable(one) or reached(one, rules)]

    def loose(records: Iterable[object]) -> list[ChargeRecord]:
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        return [one for one in charges if one not in kept_whole]

    kept_whole = whole(slow)
    assert sorted(whole(fast), key=lambda one: one.line) == kept_whole
    rejections = [one for one in slow if isinstance(one, Rejection)]
    found = [one for one in fast if isinstance(one, Rejection)]
    assert sorted(found, key=lambda one: one.line) == rejections
    assert summed(loose(fast)) == summed(loose(slow))
    assert parsed.account.rows_read == len(slow)
    sums = [one for one in fast if isinstance(one, ChargeRecord) and one.last_line is not None]
    return kept_whole, sums, rejections, parsed.account.warnings


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1500)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def written(folder: Path, *rows: Mapping[str, str], packed: bool = False) -> Path:
    text = focus_text(rows).encode()
    path = folder / ("lines.csv.gz" if packed else "lines.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_plain_lines_become_sums_and_the_others_stay(folder: Path, packed: bool) -> None:
    plain = [{"ResourceId": f"i-{i}", "BilledCost": f"{i}.25", "EffectiveCost": f"{i}.25"}
             for i in range(40)]  # fmt: skip
    gpu = {"ChargeDescription": "$98.32 per On Demand Linux p5.48xlarge Instance Hour"}
    month = {"ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-11-01T00:00:00Z"}
    bad = {"BilledCost": "1e400"}
    path = written(folder, *plain, gpu, month, bad, packed=packed)
    whole, sums, rejections, _ = both_ways(path)
    assert [one.line for one in whole] == [42, 43]
    assert [(one.line, one.column, one.value) for one in rejections] == [
        (44, "BilledCost", "1e400")
    ]
    (one,) = sums
    assert (one.line, one.last_line, one.line_count) == (2, 41, 40)
    assert str(one.billed_cost) == "790.00"
    assert (one.service, one.sub_account, one.invoice) == ("Compute", "team-a", "INV-1")
    assert one.resource is None


@pytest.mark.skipif(not THOUSAND.exists(), reason="third-party samples are not here")
def test_a_real_file_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 100_000)
    whole, _, _, _ = both_ways(THOUSAND)
    assert len([one for one in whole if one.gpu_model]) > 0


def test_many_decimals_and_many_digits_are_added_exactly(folder: Path) -> None:
    amounts = ["0.12345678901234567890123456", "123456789012345678901234567890123456", "1.81E-8",
               "-0.5", "999999999999.999999999999999999", "1000000000000", "+3", " 7 ", ".5", "5."]  # fmt: skip
    path = written(folder, *({"BilledCost": a, "EffectiveCost": "1"} for a in amounts))
    _, sums, rejections, _ = both_ways(path)
    assert not rejections
    assert sums


def test_ordinary_lines_of_gpu_time_come_by_the_table_and_odd_ones_alone(folder: Path) -> None:
    gpu = {"ChargeDescription": "8 H100 GPUs"}
    odd = [
        {"ResourceId": "a\\b"},
        {"ResourceId": " blank"},
        {"ServiceName": "tab\tin it"},
        {"BilledCost": "1e3"},
        {"ListCost": "0." + "1" * 19},
        {"Tags": "no map"},
        {"ChargePeriodEnd": "2026-10-05T30:00:00Z"},
        {"BillingCurrency": ""},
        {"ChargeDescription": "no GPU"},
    ]
    fine = [
        {"ResourceId": "an é in it"},
        {"SubAccountId": "NULL"},
        {"Tags": '{"a": "b\\\\c"}'},
        {"ListCost": ""},
    ]
    path = written(folder, *(gpu | row for row in (*odd, *fine)))
    both_ways(path)
    records = focus_bulk.parse(path, path.name, "focus", [], 1).records
    tables = [one for one in records if isinstance(one, KeptTable)]
    assert sum(kind.total.line_count for table in tables for kind in table.kinds) == len(fine)


def test_a_sum_has_the_decimals_of_its_most_exact_line(folder: Path) -> None:
    path = written(folder, {"BilledCost": "1"}, {"BilledCost": "2.500"}, {"BilledCost": "3.1"})
    _, sums, _, _ = both_ways(path)
    assert sorted(str(one.billed_cost) for one in sums) == ["1", "5.600"]  # 1 = its effective cost


def test_more_sums_than_memory_is_for_come_in_several_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_store, "MOST_ROWS", 8)
    rows = [{"ServiceName": f"service {i % 7}", "BilledCost": f"{i}.5"} for i in range(80)]
    rows += [{"ChargeDescription": "H100 GPU"}]
    whole, sums, _, _ = both_ways(written(folder, *rows))
    assert [one.line for one in whole] == [82]
    assert len(sums) > 7
    assert sum(one.line_count for one in sums) == 80
    assert len({one.line for one in sums}) == len(sums)


def test_kinds_that_come_late_are_summed_with_those_that_were_there(folder: Path) -> None:
    """Behind chunks that brought no new one, alone and among known ones in one chunk."""
    early = [{"ServiceName": "early", "BilledCost": f"{i}.5"} for i in range(60)]
    late = [{"ServiceName": ("early", "late")[i % 2], "BilledCost": "0.25"} for i in range(60)]
    _, sums, _, _ = both_ways(written(folder, *early, *late, *early))
    assert sorted((one.service, one.line_count) for one in sums) == [("early", 150), ("late", 30)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_quoted_line_feed_across_chunks(folder: Path, threads: int) -> None:
    note = "a text\nof several\n" + "lines, " * 400
    rows = [{"ResourceId": f"i-{i}", "ChargeDescription": note if i == 3 else "x"}
            for i in range(9)]  # fmt: skip
    path = written(folder, *rows)
    _, sums, _, _ = both_ways(path, threads=threads)
    assert sum(one.line_count for one in sums) < 9


@pytest.mark.parametrize("cells", [-1, 0, 1, 2])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("cell", ["", '""', '"b"', '"a" '])
def test_rows_of_another_length_are_rejected_both_ways(
    folder: Path, cells: int, end: str, place: int, cell: str
) -> None:
    """At any place of a document, and whatever stands in the cells too many."""
    header, *lines = focus_text({"ResourceId": f"i-{i}"} for i in range(6)).splitlines()
    lines[place] = ",".join([*lines[place].split(",")[: len(header.split(","))], *[cell] * cells])
    if cells < 0:
        lines[place] = lines[place].rpartition(",")[0]
    text = (end or "\n").join((header, *lines)) + end
    path = folder / "lines.csv"
    path.write_bytes(text.encode())
    try:
        list(focus.parse(path, path.name, "focus").records)
    except Refused:
        with pytest.raises(Refused):
            list(focus_bulk.parse(path, path.name, "focus", [], 1).records)
    else:
        _, _, rejections, _ = both_ways(path)
        assert len(rejections) == bool(cells)


@pytest.mark.parametrize("cells", [-1, 1])
def test_one_uneven_row_at_any_place_of_what_the_engine_holds_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """At the edges of its buffers too, where it gives fewer rows and no error."""
    monkeypatch.setattr(bulk_csv, "LONGEST_LINE", 1000)  # a buffer holds 16 of those
    monkeypatch.setattr(bulk_chunks, "CHUNK_BYTES", 1 << 20)
    header, *lines = focus_text({"ResourceId": f"i-{i}"} for i in range(200)).splitlines()
    edges = [n * 16_000 // (len(lines[50]) + 1) for n in (1, 2)]
    assert edges[1] + 2 < len(lines)
    path = folder / "lines.csv"
    for place in (0, 1, *(edge + by for edge in edges for by in range(-2, 3)), 198, 199):
        uneven = f"{lines[place]}," if cells > 0 else lines[place].rpartition(",")[0]
        path.write_text("\n".join((header, *lines[:place], uneven, *lines[place + 1 :], "")))
        records = list(told(focus_bulk.parse(path, path.name, "focus", [], 1).records))
        (rejected,) = (one for one in records if isinstance(one, Rejection))
        assert rejected.line == place + 2
        charges = [one for one in records if isinstance(one, ChargeRecord)]
        assert sum(one.line_count for one in charges) == len(lines) - 1


def test_texts_known_to_be_harmless_hide_no_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that comes later, nor one that only a resource's name tells."""
    monkeypatch.setattr(bulk_harmless, "MOST_TEXTS", 3)
    plain = [{"ChargeDescription": f"hours {i % 2}"} for i in range(40)]
    machine = {"ChargeDescription": "$98.32 per p5.48xlarge Instance Hour"}
    named = {"ChargeDescription": "hours 1", "ResourceName": "gpu H100 of team a"}
    many = [{"ChargeDescription": f"hours {i}"} for i in range(40)]
    path = written(folder, *plain, machine, *plain, named, *many, machine)
    whole, sums, _, _ = both_ways(path)
    assert {42, 124} <= {one.line for one in whole}
    assert sum(one.line_count for one in sums) + len(whole) == 123


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("Compute", ' "Compute'),
        lambda text: text.replace("Compute", 'Com"pute'),
        lambda text: text.replace("i-4", "i-4,more"),
        lambda text: text.replace("i-4", '"i-4\ri-5"'),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace("10:00:00Z", "34:00:00Z").replace("11:00:00Z", "35:00:00Z"),
        lambda text: text.replace("2026-10-05T1", "10/5/2026 1").replace(":00:00Z", ":00"),
    ],
)
def test_spellings_of_csv(folder: Path, change: object) -> None:
    text = focus_text({"ResourceId": f"i-{i}"} for i in range(30))
    path = folder / "lines.csv"
    path.write_bytes(change(text).encode())  # type: ignore[operator]
    both_ways(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda text: text.encode() + b'"unclosed', "not readable as CSV"),
        (lambda text: text.replace("i-20", "i\0-20").encode(), "line 22 holds a NUL byte"),
        (lambda text: text.replace("i-20", "i-é").encode("latin-1"), "line 22, byte"),
        (lambda text: text.replace("i-20", '"i"-20').encode(), "line 22: not readable as CSV"),
        (lambda text: gzip.compress(text.encode() * 50)[:-300], "cut off"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_same_words(
    folder: Path, content: object, reason: str
) -> None:
    path = folder / "lines.csv"
    path.write_bytes(content(focus_text({"ResourceId": f"i-{i}"} for i in range(30))))  # type: ignore[operator]
    said = []
    for parsed in (
        focus.parse(path, path.name, "focus"),
        focus_bulk.parse(path, path.name, "focus", [], 1),
        focus_bulk.parse(path, path.name, "focus", [], 3),
    ):
        with pytest.raises(Refused) as refused:
            list(parsed.records)
        said.append(str(refused.value))
    assert reason in said[0]
    assert said == said[:1] * 3


@pytest.mark.parametrize(
    "text",
    [
        "sub_account=team-b",
        "service=~Sto.*",
        "tag:team=chat",
        "tag:team=~ch.*",
        "tag:owner=4",
        'tag:owner="true"',
        "region!=eu",
        "issuer=Cloud Ltd,category=Purchase",
        "category=Usage,service!=Compute",
        "resource=~i-1.",
        "instance_type=~m5.*",
        "gpu_model=H100",
        "currency=EUR",
        "sub_account=team-b,tag:team!=chat",
    ],
)
def test_lines_that_a_rule_reaches_stay_whole(folder: Path, text: str) -> None:
    rows = [
        {
            "ResourceId": f"i-{i}",
            "SubAccountId": ("team-a", " team-b ", "NULL")[i % 3],
            "ServiceName": ("Compute", "Storage")[i % 2],
            "ChargeCategory": ("Usage", "purchase", "Tax")[i % 3],
            "BillingCurrency": ("USD", "eur")[i % 2],
            "ChargeDescription": ("m5.large hours", "x")[i % 2],
            "Tags": (
                '{"team": "chat"}',
                '"team":"chat"',
                "{'team': 'ch' 'at', 'owner': True}",
                '{"te\\u0061m": "ch\\u0061t"}',
                "{team=chat, owner=4}",
                '[{"key": "team", "value": "chat"}]',
                '{"owner": 4}',
                "",
            )[i % 8],
        }
        for i in range(48)
    ]
    both_ways(written(folder, *rows), [rule(text)])


# -- whatever a file may hold ----------------------------------------------------------------------

AMOUNT_TEXTS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**9),
                max_value=10**9).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{0,20})?", fullmatch=True),
    st.sampled_from(["", "NULL", "NaN", "inf", "1e400", "1,234.5", "1_000", "0x10", "-0", "0.0",
                     "1.81E-8", "1" * 36, "0." + "1" * 26, "١٢", " 3.5 ", "--1", "9" * 61]),
)  # fmt: skip
WORDS = st.sampled_from(
    ["", "Compute", " Compute ", "NULL", "Storage", 'a "quoted" one', ' "b"', 'c" ', "x, y",
     "x;y", "two\nlines", "tab\t", "H100", "NVIDIA", "g2-standard-4", "p5.48xlarge", "gpu",
     "8xH100", "gd-8xh100ib-i128", "gpu_1x_gh200", "RTX 3090", "A4X Instance Core", "NG8ads V620 v1",
     "2xl4", "8xh100-logs", "E2 Instance Core", "Elastic MapReduce", "Standard_NC24ads_A100_v4", "B88206", "ML.P4D.24XLARGE", "Non GPU", "é", "\u00a0", "#", "'"]
)  # fmt: skip
INSTANTS = st.sampled_from(
    ["2026-10-05T10:00:00Z", "2026-10-05T11:00:00Z", "2026-10-06T10:00:00Z", "2026-10-05",
     "2026-10-05 10:00:00", "2026-10-07T00:00:00+02:00", "10/5/2026", "2026-10-05T30:00:00Z",
     "1999-01-01", "soon", "", "2026-10-05T10:00:00.123456789Z"]
)  # fmt: skip
MAPS = st.sampled_from(
    ["", '{"team": "chat"}', '{"InstanceType": "p5.48xlarge"}', '{"GpuCount": 8}',
     '{"\\u0047puCount": "2"}', "{a=b, c=d}", "not a map", '{"a": ""}', "[1]", '"a":"b"']
)  # fmt: skip
CELLS = st.fixed_dictionaries(
    {},
    optional={
        "BilledCost": AMOUNT_TEXTS,
        "EffectiveCost": AMOUNT_TEXTS,
        "ListCost": AMOUNT_TEXTS,
        "ContractedCost": AMOUNT_TEXTS,
        "ServiceName": WORDS,
        "ChargeDescription": WORDS,
        "SubAccountId": WORDS,
        "ProviderName": WORDS,
        "InvoiceIssuerName": WORDS,
        "BillingAccountId": WORDS,
        "ChargeClass": st.sampled_from(["", "Correction"]),
        "ChargeCategory": st.sampled_from(["Usage", "usage", "TAX", "Gift", "", "Credit"]),
        "BillingCurrency": st.sampled_from(["USD", "usd", "", "EURO", " EUR "]),
        "ChargePeriodStart": INSTANTS,
        "ChargePeriodEnd": INSTANTS,
        "BillingPeriodEnd": INSTANTS,
        "CommitmentDiscountId": st.sampled_from(["", "sp-1"]),
        "CommitmentDiscountStatus": st.sampled_from(["", "Used", "Unused"]),
        "ResourceId": WORDS,
        "RegionId": WORDS,
        "PricingQuantity": AMOUNT_TEXTS,
        "ResourceName": WORDS,
        "SkuId": WORDS,
        "PricingUnit": st.sampled_from(["", "Hours", "GPU-Hours"]),
        "Tags": MAPS,
        "AllocatedTags": MAPS,
        "AllocatedResourceId": st.sampled_from(["", "", "pod-1", "NULL"]),
    },
)


def rows_text(rows: list[dict[str, str]], feed: str, quoting: int) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(
        out,
        columns_of(rows),
        lineterminator=feed,
        quoting=quoting,  # type: ignore[arg-type]
        restval="",
    )
    writer.writeheader()
    writer.writerows(ROW | row for row in rows)
    return out.getvalue()


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(CELLS, max_size=25),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["", "service=Compute", "tag:team=chat", "sub_account=~Sto.*", "issuer!=x"]),
    st.sampled_from([1, 2, 3]),
)
def test_whatever_the_cells_hold(
    rows: list[dict[str, str]], feed: str, quoting: int, text: str, threads: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lines.csv"
        path.write_bytes(rows_text(rows, feed, quoting).encode())
        both_ways(path, [rule(text)] if text else [], threads)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.text(alphabet="ab\", \t\r\n;\\'", max_size=14), min_size=1, max_size=6),
    st.sampled_from([1, 2]),
)
def test_whatever_stands_between_the_commas(texts: list[str], threads: int) -> None:
    """Unquoted, as a broken exporter writes: refused in the same words, or read alike."""
    whole = focus_text([{"ServiceName": "HERE"}] * len(texts))
    for text in texts:
        whole = whole.replace("HERE", text, 1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lines.csv"
        path.write_bytes(whole.encode())
        said: dict[str, object] = defaultdict()
        try:
            list(focus.parse(path, path.name, "focus").records)
        except Refused as refused:
            said["slow"] = str(refused)
            with pytest.raises(Refused) as other:
                list(focus_bulk.parse(path, path.name, "focus", [], threads).records)
            assert str(other.value) == said["slow"]
            return
        both_ways(path, threads=threads)


# -- Parquet ---------------------------------------------------------------------------------------


def parquet(folder: Path, select: str) -> Path:
    import duckdb

    path = folder / "lines.parquet"
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


COMMON = """
    'Cloud Ltd' AS InvoiceIssuerName, '1' AS BillingAccountId, 'USD' AS BillingCurrency,
    'Usage' AS ChargeCategory, 'Compute' AS ServiceName, 's' || (i % 3) AS SubAccountId,
    CASE WHEN i % 10 = 7 THEN 'H100 GPU hours' ELSE 'hours' END AS ChargeDescription,
    MAP {'team': 'chat'} AS Tags
"""
TIMES = """
    TIMESTAMP '2026-10-01' AS BillingPeriodStart, TIMESTAMP '2026-11-01' AS BillingPeriodEnd,
    TIMESTAMP '2026-10-05 10:00:00' + to_hours((i % 4)::INT) AS ChargePeriodStart,
    TIMESTAMP '2026-10-05 11:00:00' + to_hours((i % 4)::INT) AS ChargePeriodEnd
"""


@pytest.mark.parametrize(
    "amounts",
    [
        "(i * 0.001)::DECIMAL(18,3) AS BilledCost, (i * 0.1)::DECIMAL(38,18) AS EffectiveCost, "
        "CASE WHEN i % 2 = 0 THEN i END AS ListCost",
        "i::DOUBLE / 7 AS BilledCost, i::VARCHAR AS EffectiveCost, NULL::DECIMAL(9,2) AS ListCost",
        "CASE WHEN i = 9 THEN NULL ELSE i::BIGINT END AS BilledCost, "
        "(i::DECIMAL(38,10) * 1000000000000) AS EffectiveCost",
        "(i / 3)::DECIMAL(38,24) AS BilledCost, i::HUGEINT AS EffectiveCost",
        "'1e-' || i AS BilledCost, i::FLOAT AS EffectiveCost",
        "(999999999970 + i)::DECIMAL(13,0) AS BilledCost, "
        "-(999999999970 + i)::DECIMAL(38,18) AS EffectiveCost",
        "CASE WHEN i % 2 = 0 THEN 999999999999 - i ELSE i - 1000000000001 END::BIGINT AS BilledCost, "
        "(i - 30)::TINYINT AS EffectiveCost, (99999999999.5 - i)::DECIMAL(12,1) AS ContractedCost",
        "(i // 3)::DECIMAL(9,2) AS BilledCost, (i // 2)::DECIMAL(12,5) AS EffectiveCost, "
        '(i % 2)::DECIMAL(20,6) AS ContractedCost, i AS "ALONE"',
    ],
)
def test_parquet_of_any_types(folder: Path, amounts: str) -> None:
    path = parquet(folder, f"SELECT {COMMON}, {TIMES}, {amounts} FROM range(60) t(i)")
    whole, sums, _, _ = both_ways(path, [rule("sub_account=s2,tag:team=chat")])
    assert whole
    assert {one.line % 10 for one in whole if one.gpu_model} <= {9}
    del sums


def test_parquet_with_texts_and_long_lines(folder: Path) -> None:
    times = (
        "'2026-10-01' AS BillingPeriodStart, '2026-11-01' AS BillingPeriodEnd, "
        "'2026-10-0' || (i % 3 + 1) AS ChargePeriodStart, "
        "CASE WHEN i = 20 THEN 'soon' ELSE '2026-10-03T00:00:00Z' END AS ChargePeriodEnd"
    )
    amounts = "(i || '.5') AS BilledCost, (i || '.5') AS EffectiveCost"
    path = parquet(folder, f"SELECT {COMMON}, {times}, {amounts} FROM range(40) t(i)")
    whole, sums, rejections, _ = both_ways(path)
    assert [(one.line, one.column) for one in rejections] == [(22, "ChargePeriodEnd")]
    assert all((one.charge_period_end - one.charge_period_start).days <= 1 for one in sums)
    assert any((one.charge_period_end - one.charge_period_start).days == 2 for one in whole)


def test_more_lines_than_a_limit(folder: Path) -> None:
    path = written(folder, *[hours("2026-10-05T10", "2026-10-05T11")] * 10, packed=True)
    assert focus_bulk.has_more_lines(path, path.name, 9)
    assert not focus_bulk.has_more_lines(path, path.name, 10)
    table = parquet(folder, "SELECT i FROM range(10) t(i)")
    assert focus_bulk.has_more_lines(table, table.name, 9)
    assert not focus_bulk.has_more_lines(table, table.name, 10)
