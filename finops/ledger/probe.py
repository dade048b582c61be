"""What a store says of itself: product, version, retention, its clock, and what to mind."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from finops.core.period import rfc3339

from .access import PRODUCTS, FetchFailed
from .fetch import Door

SKEWED_SECONDS: Final = 5
_HINTS: Final = {
    "victoriametrics": (
        "VictoriaMetrics drops labels beyond 30 unless started with -maxLabelsPerTimeseries=60; "
        "vllm:cache_config_info has more"
    ),
    "thanos": "asked for raw samples only; a partial answer is a failure, never a zero",
    "gmp": (
        "Google stores counters relative to their first sample: values differ from the engine's, "
        "and births cannot be proven"
    ),
}


def probe(door: Door, at: datetime) -> dict[str, Any]:
    """Plain values; None where the store does not say. Asks a few small questions, fails never."""
    built = _data(door, "/api/v1/status/buildinfo")
    product = door.access.product or _product(door, built)
    skew = _skew(door)
    return {
        "at": rfc3339(at),
        "product": product,
        "name": PRODUCTS.get(product or "", None) if product else None,
        "version": str(built.get("version") or "") or None,
        "retention": _retention(door),
        "clock_skew_seconds": skew,
        "hints": [
            *([_HINTS[product]] if product in _HINTS else []),
            *([f"its clock differs by {skew} s from ours"] if _is_skewed(skew) else []),
        ],
    }


def _is_skewed(skew: int | None) -> bool:
    return skew is not None and abs(skew) > SKEWED_SECONDS


def _data(door: Door, path: str) -> dict[str, Any]:
    try:
        answer = door.get(path)
    except FetchFailed:
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, dict) else {}


def _product(door: Door, built: dict[str, Any]) -> str | None:
    """The product, by what only it says; None for an answer of the plain API and nothing more."""
    if "x-server-hostname" in door.told:
        return "victoriametrics"
    application = str(built.get("application") or "").lower()
    if "mimir" in application or "cortex" in application:
        return "mimir"
    if _data(door, "/api/v1/stores"):
        return "thanos"
    return "prometheus" if built.get("goVersion") else None


def _retention(door: Door) -> str | None:
    """How long the store keeps samples, in its own words."""
    told = _data(door, "/api/v1/status/runtimeinfo").get("storageRetention")
    if not told:
        told = _data(door, "/api/v1/status/flags").get("storage.tsdb.retention.time")
    return str(told)[:80] if told else None


def _skew(door: Door) -> int | None:
    """Seconds by which the store's clock is ahead of ours, from the head of its last answer."""
    try:
        told = parsedate_to_datetime(door.told["date"])
    except (KeyError, ValueError, TypeError):
        return None
    return round((told - datetime.now(UTC)).total_seconds())
