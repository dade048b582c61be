"""The allocation statement: what each team's workloads cost, own and shared, and the rest (§4)."""

from __future__ import annotations

from .allocation import WORKLOAD
from .facts import Facts
from .money import add, divide, plain
from .plainly import Value, text_of


def allocation_statement(facts: Facts) -> Value:
    """A row per team, in the report's currency, then what stands in no workload; they sum to all.

    `team` is None for workloads without one. Workloads without any cost stand in no row.
    """
    total = add([m.effective for m in facts.money if m.currency == facts.currency])
    teams: dict[str, list[int]] = {}
    for index, workload in enumerate(facts.workloads):
        if workload.cost:
            teams.setdefault(workload.team, []).append(index)
    rows = []
    for team, indexes in sorted(teams.items(), key=lambda item: (not item[0], item[0])):
        mine = [facts.workloads[index] for index in indexes]
        effective = add([w.cost for w in mine])
        rows.append(
            {
                "team": team or None,
                "workloads": [w.slug for w in mine],
                "own": plain(add([w.cost_own for w in mine])),
                "shared": plain(add([w.cost_shared for w in mine])),
                "effective": plain(effective),
                "share": text_of(divide(effective, total) if total else None),
            }
        )
    rest = [
        p.effective for p in facts.places if p.kind != WORKLOAD and p.currency == facts.currency
    ]
    return {"teams": rows, "elsewhere": plain(add(rest)), "effective": plain(total)}
