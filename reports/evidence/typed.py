"""The headline with the tools every terminal has: awk adds tokens, bc adds and divides money.

The commands were typed as they stand; a test types them again (tests/evidence/test_by_hand.py).
Which rows count is told by columns of the pack: `workload` of token_hours.csv, `place` and `target`
of charges.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPED = """
#### Typed in a terminal

In the folder of the unpacked pack, with `awk`, `bc` and the `date` of GNU. The first thirteen columns of `charges.csv` and
the first nine of `series.csv` are plain, so that splitting at each comma is right for them.

```sh
rows() {{ awk -F, -v s=$s -v e=$e "$@"; }}
tokens() {{  # of each workload: series of engines that count prompts or generated tokens
  rows 'NR == FNR {{ counts[$1] = ($4 == "prompt" || $4 == "generation") && $5 == "engine" && $9 == "0"; next }}
    counts[$1] && $3 && $2 >= s && $2 < e {{ sum[$3] += $4 }}
    END {{ for (one in sum) printf "%s %.0f tokens\\n", one, sum[one] }}' ledgers/series.csv ledgers/token_hours.csv
}}
money() {{  # inside the span, of each workload and each pot of shared charges; idle time not taken off
  rows '($12 == "workload" || $12 == "shared") && $6 != 0 && $3 < e && ($4 > s || $3 >= s) {{
    print $12, $13, $6, $3, $4, ($3 >= s && $4 <= e) ? "whole" : "part" }}' ledgers/charges.csv > money.txt
  S=$(date -ud $s +%s) E=$(date -ud $e +%s)
  while read kind name c a b how; do
    if [ $how = part ]; then  # across an edge of the span: the first of the three rules
      A=$(date -ud $a +%s) B=$(date -ud $b +%s) f=${{c#*.}}; [ "$f" = "$c" ] && f=; d=$((${{#f}} + 4))
      c=$(echo "scale=60; u=$c*($E-$A)/($B-$A); l=$c*($S-$A)/($B-$A); if ($E>=$B) u=$c; if ($S<=$A) l=0
        h=5/10^($d+1); if ($c<0) h=-h; scale=$d; (u+h)/1-(l+h)/1" | bc)
    fi
    echo $kind $name $c
  done < money.txt > inside.txt
  cut -d' ' -f1,2 inside.txt | sort -u | while read kind name; do
    echo $kind $name $(awk -v k=$kind -v n=$name '$1 == k && $2 == n {{ print $3 }}' inside.txt | paste -sd+ - | sed 's/+-/-/g' | bc)
  done
}}
{spans}```

To a workload's own charges comes its part of each pot, as the tables of steps say: pot × weight ÷ sum of weights, with
four decimals more than the pot has, say `echo "scale=6; 33.60 * 20 / 100" | bc`. `bc` cuts, and the digits then missing go to
the largest remainders, so that a part may end in one unit more. The cost of all workloads that count, divided:

```sh
echo "scale=60; {cost} * 1000000 / {tokens}" | bc    # {price}
```
"""


def typed(statement: Mapping[str, Any]) -> str:
    """Markdown: the commands of one week; nothing where the report has no headline figure."""
    figures = statement["figures"]
    if figures["cost_per_million_tokens"] is None:
        return ""
    return TYPED.format(
        spans="".join(f"s={start} e={end}; tokens; money\n" for start, end in _spans(statement)),
        cost=figures["effective_cost"],
        tokens=figures["prompt_tokens"] + figures["generation_tokens"],
        price=figures["cost_per_million_tokens"],
    )


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
