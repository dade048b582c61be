"""What a store says of itself: product, version, limits, retention, its clock, what to mind."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from finops.core.period import rfc3339
from finops.sources.engines import NEVER_COUNTED

from .access import PRODUCTS, FetchFailed, shown
from .fetch import Door

SKEWED_SECONDS: Final = 5
HA_LABELS: Final = ("prometheus_replica", "__replica__", "receive_replica", "replica", "prometheus")
"""Labels that setups of two stores commonly use to tell the halves of a pair apart."""
MOST_VALUES: Final = 10
_LIMITS: Final = {
    "query.max-samples": "samples a query",
    "query.timeout": "time a query",
    "query.max-concurrency": "queries at once",
    "query.max-concurrent": "queries at once",
    "search.maxSamplesPerQuery": "samples a query",
    "search.maxQueryDuration": "time a query",
    "search.maxConcurrentRequests": "queries at once",
    "search.maxUniqueTimeseries": "series a query",
    "maxLabelsPerTimeseries": "labels a series",
}
"""Flags of stores that bound what is asked, and what each bounds."""
_HINTS: Final = {
    "victoriametrics": (
        "VictoriaMetrics drops labels beyond 30 unless started with -maxLabelsPerTimeseries=60; "
        "vllm:cache_config_info has more",
        "fractions are rounded to about 13 digits; token counters are whole and stay exact",
    ),
    "thanos": ("asked for raw samples only; a partial answer is a failure, never a zero",),
    "mimir": (
        "halves of a pair are made one when samples arrive, if its tracker of pairs is on; else "
        "declare the replica label",
    ),
    "amp": ("every request is signed; the store keeps samples for 150 days by default",),
    "gmp": (
        "Google stores counters relative to their first sample: values differ from the engine's, "
        "and births cannot be proven",
    ),
    "azure": ("the token is that of an OAuth 2 client and is asked for anew at each collection",),
}
_FLAG: Final = re.compile(r'^-?-?([\w.-]+)="?(.*?)"?$', re.MULTILINE)
_KEPT: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)?(?![\w.])")
_DAYS: Final = {"ms": 0, "s": 1 / 86_400, "m": 1 / 1440, "h": 1 / 24, "d": 1, "w": 7, "y": 365}
LONGEST: Final = timedelta(days=400)
_OTHER_SERIES: Final = re.compile(r"^\s*external_labels:|^remote_read:", re.MULTILINE)
_OTHERS_SAMPLES: Final = re.compile(r"^remote_read:|/federate\b", re.MULTILINE)
_PLAIN_DAY: Final = timedelta(days=1)


def probe(door: Door, at: datetime) -> dict[str, Any]:
    """Plain values; None where the store does not say. Asks a few small questions, fails never."""
    built = _data(door, "/api/v1/status/buildinfo")
    product = door.access.product or _product(door, built)
    skew = _skew(door)
    flags = _flags(door, product)
    return {
        "at": rfc3339(at),
        "product": product,
        "name": PRODUCTS.get(product or "", None) if product else None,
        "version": str(built.get("version") or "") or None,
        "retention": _retention(door, flags),
        "clock_skew_seconds": skew,
        "limits": {words: shown(flags[flag]) for flag, words in _LIMITS.items() if flags.get(flag)},
        "ha_labels": _ha_labels(door, at),
        "remote_read": product == "prometheus" and _reads_plainly(door),
        "scrapes_alone": product == "prometheus" and _scrapes_alone(door, flags),
        "hints": [
            *_HINTS.get(product or "", ()),
            *_deduplicated(flags),
            *_never_counted(door, at),
            *([f"its clock differs by {skew} s from ours"] if _is_skewed(skew) else []),
        ],
    }


def _reads_plainly(door: Door) -> bool:
    """Whether a Prometheus's remote read gives the very series that its query API gives.

    With external labels it adds them to every series, and warnings of stores that it reads itself
    do not reach its answer: then its query API is asked.
    """
    told = _table(door, "/api/v1/status/config").get("yaml")
    return isinstance(told, str) and not _OTHER_SERIES.search(told)


def _scrapes_alone(door: Door, flags: dict[str, str]) -> bool:
    """Whether a Prometheus has every sample from its own scrapes of the targets themselves: nobody
    writes to it, it asks no other store, and it takes no other's samples over by federation."""
    told = _table(door, "/api/v1/status/config").get("yaml")
    written = flags.get("web.enable-remote-write-receiver"), flags.get("web.enable-otlp-receiver")
    features = flags.get("enable-feature", "")
    return (
        isinstance(told, str)
        and not _OTHERS_SAMPLES.search(told)
        and written[0] == "false"
        and written[1] != "true"
        and not any(one in features for one in ("remote-write-receiver", "otlp"))
    )


def _is_skewed(skew: int | None) -> bool:
    return skew is not None and abs(skew) > SKEWED_SECONDS


def _data(door: Door, path: str, query: dict[str, str] | None = None) -> Any:
    """The data of an answer; an empty object where the store does not know the question."""
    try:
        answer = door.get(path, query)
    except FetchFailed:
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, dict | list) else {}


def _table(door: Door, path: str) -> dict[str, Any]:
    data = _data(door, path)
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


def _flags(door: Door, product: str | None) -> dict[str, str]:
    """The flags a store was started with, by name; of VictoriaMetrics those that were given."""
    if product == "victoriametrics":
        try:
            return dict(_FLAG.findall(door.text("/flags")))
        except FetchFailed:
            return {}
    return {str(name): str(value) for name, value in _table(door, "/api/v1/status/flags").items()}


def _retention(door: Door, flags: dict[str, str]) -> str | None:
    """How long the store keeps samples, in its own words."""
    told = _table(door, "/api/v1/status/runtimeinfo").get("storageRetention")
    for flag in ("storage.tsdb.retention.time", "retentionPeriod"):
        told = told or flags.get(flag)
    return shown(str(told)) if told else None


def kept_for(retention: str | None, product: str | None) -> timedelta | None:
    """The retention that a store told, at most LONGEST; None where it says nothing of time.

    Prometheus says `15d` or `15d or 10GiB`; VictoriaMetrics counts months where no unit stands.
    """
    found = _KEPT.match(retention or "")
    if found is None:
        return None
    number, unit = float(found.group(1)), found.group(2)
    days = number * (_DAYS[unit] if unit else 31 if product == "victoriametrics" else 0)
    return min(timedelta(days=min(days, LONGEST.days)), LONGEST) if days else None


def _ha_labels(door: Door, at: datetime) -> dict[str, list[str]]:
    """Labels of the last day by which the halves of a pair may differ, with their values."""
    span = {"start": str((at - _PLAIN_DAY).timestamp()), "end": str(at.timestamp())}
    known = _data(door, "/api/v1/labels", span)
    found: dict[str, list[str]] = {}
    for label in HA_LABELS:
        if label in known:
            values = _data(door, f"/api/v1/label/{label}/values", span)
            if isinstance(values, list) and values:
                found[label] = [shown(str(value)) for value in values[:MOST_VALUES]]
    return found


def _never_counted(door: Door, at: datetime) -> list[str]:
    """Why metrics of the last day that look like counts of tokens give none. They are never asked for, so
    that an engine which has only these would not be told of anywhere."""
    names = "|".join(NEVER_COUNTED)
    span = {"start": str((at - _PLAIN_DAY).timestamp()), "end": str(at.timestamp())}
    asked = span | {"match[]": f'{{__name__=~"{names}"}}'}
    known = _data(door, "/api/v1/label/__name__/values", asked)
    return [f"it holds {name}: {why}" for name, why in NEVER_COUNTED.items() if name in known]


def _deduplicated(flags: dict[str, str]) -> list[str]:
    """What a store's own deduplication by interval does to readings."""
    interval = flags.get("dedup.minScrapeInterval", "")
    if interval in ("", "0", "0s", "1ms"):
        return []
    return [
        f"it keeps one sample in {shown(interval)} of each series (-dedup.minScrapeInterval): "
        "readings between are gone, and a restart between two kept ones may be hidden"
    ]


def _skew(door: Door) -> int | None:
    """Seconds by which the store's clock is ahead of ours, from the head of its last answer."""
    try:
        told = parsedate_to_datetime(door.told["date"])
    except (KeyError, ValueError, TypeError):
        return None
    return round((told - datetime.now(UTC)).total_seconds())
