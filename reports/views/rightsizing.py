"""Right-sizing: what each engine's share of GPU memory should be, and what another would do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from finops.core.money import parse_decimal, plain
from finops.core.period import rfc3339
from finops.core.rightsizing import HIGHEST, LEAST, STEP
from finops.ledger.queries.rightsizing import last_window, rightsizing
from reports.figures import percent
from reports.ladder_words import guidance_rows, ladder_rows
from reports.queries.notes import current_annotations
from reports.queries.weeks import zone
from reports.roles import allowed

from .page import page, typed

ENGINES_A_PAGE = 20
TOO_SMALL_SHOWN = 2
TONES = {
    "at risk": "rejected",
    "tight": "waiting",
    "fits": "ok",
    "over-reserved": "waiting",
}
MEANINGS = {
    "at risk": "Requests were pushed out, or waited, because the cache was full.",
    "tight": "Nothing suffered, but little is left for a busier day.",
    "fits": "The cache is as large as the load asks for.",
    "over-reserved": "The cache is larger than the load asked for, even at its busiest.",
    "not enough data": "No verdict is given on less than a week of readings.",
}
SETTINGS = [plain(LEAST + STEP * n) for n in range(int((HIGHEST - LEAST) / STEP) + 1)]


@require_GET
@allowed("read")
def listing(request: HttpRequest) -> HttpResponse:
    """The verdicts over the last window, one section an engine, with a what-if."""
    window = last_window()
    asked, refusal = _setting(typed(request.GET, "setting"))
    slug = typed(request.GET, "workload")
    context: dict[str, Any] = {"window": window, "zone": zone().key, "settings": SETTINGS}
    context |= {"setting": None if asked is None else _written(asked), "refusal": refusal}
    if context["setting"] not in (None, *SETTINGS):
        context["settings"] = [*SETTINGS, context["setting"]]
    if window is not None:
        rows = rightsizing(window, setting=asked)
        context["workloads"] = sorted({row["workload"] for row in rows if row["workload"]})
        shown = [row for row in rows if slug in ("", row["workload"])]
        context["rows"] = found = Paginator(shown, ENGINES_A_PAGE).get_page(request.GET.get("page"))
        notes = current_annotations()
        context["engines"] = [_shown(row) | ladder_rows(row, notes) for row in found]
        context |= {"slug": slug, "count": len(shown), "end": rfc3339(window.end)}
    return page(request, "reports/rightsizing.html", context)


def _setting(text: str) -> tuple[Decimal | None, str]:
    """The setting to try, or why it cannot be one."""
    if not text:
        return None, ""
    try:
        found = parse_decimal(text)
    except ValueError:
        found = Decimal(0)
    if len(text) > 12 or not LEAST <= found <= 1:
        return None, f"A setting is a share from {plain(LEAST)} to 1, like 0.80."
    return found, ""


def _written(setting: Decimal) -> str:
    """A setting as the list writes it: two decimals, more only where it has more."""
    short = setting.quantize(STEP)
    return plain(short if short == setting else setting)


def _use(share: str | None) -> str:
    """A predicted use of the cache; a cache cannot be more than full."""
    exact = None if share is None else Decimal(share)
    return "over 100 %" if exact is not None and exact > 1 else percent(exact)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its words: the steps that are near, and what the annotation would say."""
    proposal = row["proposal"]
    now = row["setting"]
    note = ""
    if proposal:
        note = (
            f"gpu_memory_utilization {now} → {proposal['utilization']} on {row['engine']}. "
            f"Predicted: {proposal['kv_blocks']:,} KV blocks"
        )
        note += f", p99 use {_percent(proposal['p99'])}." if proposal["p99"] else "."
    return {
        "row": row,
        "tone": TONES.get(row["verdict"], ""),
        "meaning": MEANINGS.get(row["verdict"], ""),
        "steps": _near(row["steps"], now, proposal),
        "note": note,
        "guidance": guidance_rows(row["guidance"]),
        "twice": _twice(row),
        "what_if_use": _use(row["what_if"]["p99"]) if row["what_if"] else "",
    }


def _twice(row: dict[str, Any]) -> str:
    """That another job or source may tell of the same engine, and which of them is added up."""
    if not row["told_by"]:
        return ""
    how = "it is the one that counts" if row["counts"] else "it is not added up"
    return (
        f"Read twice, it seems: this is what {row['told_by']} tells; another job or source tells of "
        f"what may be the same engine. Each is judged for itself; {how} where engines are added up, "
        "until a rule on job or source puts all but one out of scope."
    )


def _near(
    steps: list[dict[str, Any]], now: str | None, proposal: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The steps with what each is, highest first; of those too small only the nearest two."""
    chosen = proposal["utilization"] if proposal else None
    found, too_small = [], 0
    for step in reversed(steps):
        is_now = step["utilization"] == now
        below = not step["fits"] and not is_now and step["change_bytes"] < 0
        too_small += below
        if below and too_small > TOO_SMALL_SHOWN:
            break
        marks = {"is_now": is_now, "is_proposal": step["utilization"] == chosen}
        found.append(step | marks | {"use": _use(step["p99"])})
    return found


def _percent(share: str) -> str:
    return f"{Decimal(share) * 100:.1f} %"
