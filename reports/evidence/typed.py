"""The headline with the tools every terminal has: awk adds tokens, bc adds and divides money.

The commands were typed as they stand; a test types them again (tests/evidence/test_by_hand.py).
Which rows count is told by columns of the pack: `workload` of token_hours.csv, `place` and `target`
of charges.csv. awk splits at each comma, so that the commands stand only in packs where that is
right for every column they read.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

TYPED = """
#### Typed in a terminal

In the folder of the unpacked pack, with `awk`, `bc` and the `date` of GNU. The columns that are read here are plain in this
pack, so that splitting at each comma is right for them. Nothing is written.

```sh
export BC_LINE_LENGTH=0
rows() {{ awk -F, -v OFS=, -v s=$s -v e=$e "$@"; }}
tokens() {{  # of each workload: series of engines that count prompts or generated tokens
  rows 'NR == FNR {{ counts[$1] = ($4 == "prompt" || $4 == "generation") && $5 == "engine" && $9 == "0"; next }}
    counts[$1] && $3 && $2 >= s && $2 < e {{ sum[$3] += $4 }}
    END {{ for (one in sum) printf "tokens %s %.0f\\n", one, sum[one] }}' ledgers/series.csv ledgers/token_hours.csv
}}
money() {{  # inside the span, of each workload and each pot of shared charges; idle time not taken off
  S=$(date -ud $s +%s) E=$(date -ud $e +%s)
  rows '($12 == "workload" || $12 == "shared") && {amount} + 0 != 0{only} && $3 < e && ($4 > s || $3 >= s) {{
    print $12 " " $13, {amount}, $3, $4, ($3 >= s && $4 <= e) ? "whole" : "part" }}' ledgers/charges.csv |
  while IFS=, read -r name c a b how; do
    if [ $how = part ]; then  # across an edge of the span: the first of the three rules, a tie to the even digit
      A=$(date -ud $a +%s) B=$(date -ud $b +%s) f=${{c#*.}}; [ "$f" = "$c" ] && f=; d=$((${{#f}} + 4))
      c=$(echo "define r(n) {{ auto q, t, g
          g = 1; if (n < 0) {{ g = -1; n = -n }}
          q = n/($B-$A); t = 2*(n-q*($B-$A)); if (t > $B-$A) q = q+1; if (t == $B-$A) q = q+q%2
          return (g*q) }}
        n = $c*10^$d; u = n; if ($E < $B) u = r(n*($E-$A)); l = 0; if ($S > $A) l = r(n*($S-$A))
        scale = $d; (u-l)/10^$d" | bc)
    fi
    printf '%s,%s\\n' "$name" $c
  done | LC_ALL=C sort -t, -k1,1 | awk -F, '$1 != n {{ if (NR > 1) print "t"; n = $1; print "\\"" n " \\"; t = 0" }}
    {{ print "t = t+" $2 }} END {{ if (NR) print "t" }}' | bc
}}
{spans}```

To a workload's own charges comes its part of each pot, as the tables of steps say: pot × weight ÷ sum of weights, with
four decimals more than the pot has, say `echo "scale=6; 33.60 * 20 / 100" | bc`. `bc` cuts, and the digits then missing go to
the largest remainders, so that a part may end in one unit more. The cost of all workloads that count, divided:

```sh
echo "scale=60; {cost} * 1000000 / {tokens}" | bc    # {price}
```
"""

LEFT_OUT = """
#### Typed in a terminal

Of this pack the commands for a terminal are left out: a name or a unit in it holds a comma, a quote or a line's end, or a
charge is timed more finely than a second, and `awk` would misread those rows. A spreadsheet does not.
"""


def typed(files: Mapping[str, bytes], statement: Mapping[str, Any], week: Any) -> str:
    """Markdown: the commands of one week, whose second computation `week` is; a sentence where they
    would misread its tables; nothing where the report has no headline figure."""
    figures = statement["figures"]
    if figures["cost_per_million_tokens"] is None:
        return ""
    amount, only, last = _amount(files["ledgers/charges.csv"], week)
    readable = (
        _splits(files["ledgers/charges.csv"], first=13, last=last)
        and _splits(files["ledgers/series.csv"], first=9)
        and _splits(files["ledgers/token_hours.csv"], first=4)
        and all(isinstance(row[name], int) and row[name] % 1000 == 0
                for row in week.charges for name in ("start", "end"))
    )  # fmt: skip
    if not readable:
        return LEFT_OUT
    return TYPED.format(
        amount=amount,
        only=only,
        spans="".join(f"s={start} e={end}; tokens; money\n" for start, end in _spans(statement)),
        cost=figures["effective_cost"],
        tokens=figures["prompt_tokens"] + figures["generation_tokens"],
        price=figures["cost_per_million_tokens"],
    )


def _amount(charges: bytes, week: Any) -> tuple[str, str, int]:
    """awk's words for a charge's amount in the report's currency, for a condition on the currency,
    and how many columns at a row's end they read: free text stands before those."""
    header = next(csv.reader([charges.partition(b"\n")[0].decode()]))
    if "report_effective" in header:  # empty where no rate was published (method §3.9)
        last = len(header) - header.index("report_effective")
        return f"$(NF-{last - 1})", "", last
    placed = {r["currency"] for r in week.charges if r["place"] in ("workload", "shared")}
    if placed <= {week.currency}:
        return "$6", "", 0
    last = len(header) - header.index("currency")
    return "$6", f' && $(NF-{last - 1}) == "{week.currency}"', last


def _splits(table: bytes, *, first: int, last: int = 0) -> bool:
    """Whether each line of a table is a row, and a comma ends each of its first and last cells."""
    for line in table.splitlines() if b'"' in table else ():
        if b'"' in line and (
            line.count(b'"') % 2
            or line.partition(b'"')[0].count(b",") < first
            or line.rpartition(b'"')[2].count(b",") < last
        ):
            return False
    return True


def _spans(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The spans of hours that the workloads which count have: most weeks one."""
    found = set()
    for one in statement["workloads"]:
        counts = one["purpose"] == "inference" and one["basis"] == "processed" and one["common"]
        if counts and None not in (
            one["figures"]["effective_cost"],
            one["figures"]["prompt_tokens"],
        ):
            found.add((one["common"]["start"], one["common"]["end"]))
    return sorted(found)
