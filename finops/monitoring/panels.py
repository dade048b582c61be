"""The parts of a Grafana dashboard: panels, their places, variables and the frame around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Panel = dict[str, Any]
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS: Final = 24


def query(expr: str, legend: str = "", *, table: bool = False, now: bool = False) -> dict[str, Any]:
    """A query of a panel: over the time range, or `now` only; `table` for labels as columns."""
    return {
        "datasource": SOURCE,
        "expr": expr,
        "legendFormat": legend or "__auto",
        "format": "table" if table else "time_series",
        "instant": now or table,
        "range": not (now or table),
    }


def text(title: str, content: str, *, height: int = 4) -> Panel:
    """A panel of words over the whole width."""
    options = {"mode": "markdown", "content": content}
    return {"type": "text", "title": title, "options": options, "size": (COLUMNS, height)}


def stat(
    title: str, why: str, expr: str, unit: str, *, width: int = 4, decimals: int | None = None
) -> Panel:
    """One number, as it is now."""
    reduce = {"calcs": ["lastNotNull"], "values": False, "fields": ""}
    return {
        "type": "stat",
        "title": title,
        "description": why,
        "targets": [query(expr, now=True)],
        "fieldConfig": _fields(unit, decimals=decimals),
        "options": {"reduceOptions": reduce, "graphMode": "none", "colorMode": "none"},
        "size": (width, 4),
    }


def lines(
    title: str, why: str, queries: Sequence[dict[str, Any]], unit: str,
    *, width: int = 12, stacked: bool = False, most: float | None = None,
) -> Panel:  # fmt: skip
    """Lines over time, or areas on one another."""
    look = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,  # a gap is shown as a gap
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    return {
        "type": "timeseries",
        "title": title,
        "description": why,
        "targets": list(queries),
        "fieldConfig": _fields(unit, custom=look, most=most),
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "size": (width, 9),
    }


def bars(title: str, why: str, expr: str, legend: str, unit: str, *, width: int = 12) -> Panel:
    """Bars side by side, as they are now."""
    reduce = {"calcs": ["lastNotNull"], "values": False, "fields": ""}
    return {
        "type": "bargauge",
        "title": title,
        "description": why,
        "targets": [query(expr, legend, now=True)],
        "fieldConfig": _fields(unit),
        "options": {
            "reduceOptions": reduce,
            "orientation": "horizontal",
            "displayMode": "basic",
            "showUnfilled": False,
        },
        "size": (width, 9),
    }


def table(title: str, why: str, expr: str, hidden: Sequence[str] = (), *, unit: str = "none",
          width: int = COLUMNS, height: int = 8) -> Panel:  # fmt: skip
    """The labels of series as columns, as they are now."""
    hide = dict.fromkeys(("Time", "__name__", *hidden), True)
    return {
        "type": "table",
        "title": title,
        "description": why,
        "targets": [query(expr, table=True)],
        "fieldConfig": _fields(unit),
        "options": {"showHeader": True},
        "transformations": [{"id": "organize", "options": {"excludeByName": hide}}],
        "size": (width, height),
    }


def variable(name: str, label: str, values: str) -> dict[str, Any]:
    """A choice of label values above the panels; all at first."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": values, "refId": name},
        "definition": values,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard(
    uid: str, title: str, description: str, variables: Sequence[dict[str, Any]],
    panels: Sequence[Panel], *, since: str,
) -> dict[str, Any]:  # fmt: skip
    """The whole dashboard; panels flow left to right, row by row."""
    source = {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["headroom"],
        "timezone": "utc",
        "editable": True,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "1m",
        "time": {"from": since, "to": "now"},
        "templating": {"list": [source, *variables]},
        "annotations": {"list": []},
        "panels": _placed(panels),
    }


def _fields(unit: str, *, custom: dict[str, Any] | None = None, most: float | None = None,
            decimals: int | None = None) -> dict[str, Any]:  # fmt: skip
    defaults: dict[str, Any] = {"unit": unit, "noValue": "n/a"}
    defaults |= {"min": 0, "max": most} if most is not None else {}
    defaults |= {"decimals": decimals} if decimals is not None else {}
    defaults |= {"custom": custom} if custom else {}
    return {"defaults": defaults, "overrides": []}


def _placed(panels: Sequence[Panel]) -> list[Panel]:
    found, x, y, tallest = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        width, height = panel["size"]
        if x + width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        place = {"h": height, "w": width, "x": x, "y": y}
        rest = {key: value for key, value in panel.items() if key != "size"}
        for letter, target in zip("ABCDEF", rest.get("targets", ()), strict=False):
            target["refId"] = letter
        found.append({"id": number, "gridPos": place, "datasource": SOURCE, **rest})
        x, tallest = x + width, max(tallest, height)
    return found
