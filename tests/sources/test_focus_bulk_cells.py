"""FOCUS files in bulk against the parser: whatever the cells may hold."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger.focus_files import ROW, columns_of
from tests.sources.both_ways import (  # noqa: F401 - small chunks for every test
    both_ways,
    rule,
    small_chunks,
)

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
