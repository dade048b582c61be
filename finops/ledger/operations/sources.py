"""Adding, stopping and testing the stores that readings are collected from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from finops.core.period import Period, parse_instant
from finops.ledger.access import (
    ENCODINGS,
    Access,
    FetchFailed,
    checked_product,
    checked_secret_name,
    checked_url,
    shown,
)
from finops.ledger.fetch import Door, Limits
from finops.ledger.models import Source
from finops.ledger.probe import probe
from finops.ledger.selecting import checked_matchers
from finops.ledger.store import live_series
from finops.ledger.which import atomic
from finops.sources.engines import role_of
from finops.trail.operations import record

TEST_REACH = timedelta(hours=1)
PROBE_EVERY = timedelta(days=1)
TEST_LIMITS = Limits(read_seconds=20, total_seconds=30, attempts=1)

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SourceRefused(ValueError):
    """A source that cannot be kept as it was given; the message says what to write."""


def access_to(source: Source) -> Access:
    """How to come to a source's store."""
    return Access(
        source.url,
        source.secret,
        source.user,
        source.accept_encoding,
        source.tenant,
        source.product or str(source.probe.get("product") or ""),
        source.region,
        bool(source.replica_labels),
        bool(source.probe.get("remote_read")),
    )


def limits_of_stores() -> Limits:
    """How long and how much a store may take, as the settings have it."""
    return Limits(silent_seconds=settings.STORE_SILENT_SECONDS)


def add_source(
    name: str,
    url: str,
    *,
    by: str,
    at: datetime,
    matchers: str = "",
    replica_labels: Sequence[str] = (),
    secret: str = "",
    user: str = "",
    accept_encoding: str = "identity",
    tenant: str = "",
    product: str = "",
    region: str = "",
) -> Source:
    """A new Prometheus source, checked but not asked. SourceRefused says what is wrong with it.

    `secret` is the name of an environment variable, never the secret itself.
    """
    source = Source(
        name=name,
        kind="prometheus",
        url=_checked(url, matchers, secret, user, accept_encoding),
        matchers=matchers.strip(),
        replica_labels=_labels(replica_labels),
        secret=secret,
        user=user,
        accept_encoding=accept_encoding,
        tenant=tenant,
        product=product,
        region=region,
        created_at=at,
        created_by=by,
    )
    try:
        checked_product(product, tenant, region)
    except FetchFailed as error:
        raise SourceRefused(str(error)) from None
    if not _NAME.fullmatch(name):
        raise SourceRefused(f"a source's name is a-z, 0-9, - and _, not {shown(name)!r}")
    with atomic():
        _refuse_known(source)
        source.save(force_insert=True)
        record(
            at=at,
            actor=by,
            action="source added",
            subject=name,
            detail={"url": source.url, "matchers": source.matchers, "secret": secret},
        )
    return source


def _checked(url: str, matchers: str, secret: str, user: str, accept_encoding: str) -> str:
    """The URL in its plain form, when everything about the access will do."""
    try:
        plain = checked_url(url)
        checked_matchers(matchers)
        if secret:
            checked_secret_name(secret)
    except FetchFailed as error:
        raise SourceRefused(str(error)) from None
    if user and not secret:
        raise SourceRefused("basic authentication needs a secret beside the user")
    if ":" in user or not user.isprintable():
        raise SourceRefused("the user of basic authentication must hold no colon")
    if accept_encoding not in ENCODINGS:
        raise SourceRefused(f"the encoding is one of {', '.join(ENCODINGS)}")
    return plain


def _labels(names: Sequence[str]) -> list[str]:
    for name in names:
        if not _LABEL.fullmatch(name):
            raise SourceRefused(f"{shown(name)!r} is no label name")
    return list(names)


def _refuse_known(source: Source) -> None:
    """The same store read twice would count its tokens twice."""
    if Source.objects.filter(name=source.name).exists():
        raise SourceRefused(f"there is a source named {source.name} already")
    for other in Source.objects.filter(kind="prometheus", url=source.url):
        if not other.matchers or not source.matchers or other.matchers == source.matchers:
            raise SourceRefused(
                f"{other.name} reads {source.url} already; the same engines read by two sources "
                "would count twice. Give each its own matchers"
            )


def source_for_url(url: str, *, by: str, at: datetime) -> Source:
    """The source that reads a URL; made and named after its host when there is none.

    A store that does not answer is not made a source: the URL may be mistyped. SourceRefused for
    that, and when several sources read the URL: then the name must say which.
    """
    try:
        plain = checked_url(url)
    except FetchFailed as error:
        raise SourceRefused(str(error)) from None
    known = list(Source.objects.filter(kind="prometheus", url=plain).order_by("name"))
    if len(known) > 1:
        names = ", ".join(source.name for source in known)
        raise SourceRefused(f"several sources read {plain}: {names}; say which with --source")
    if known:
        return known[0]
    try:
        with Door(Access(plain), TEST_LIMITS) as door:
            live_series(door, (), Period(at - TEST_REACH, at), limit=1)
    except FetchFailed as error:
        raise SourceRefused(f"no source was made: {error}") from None
    return add_source(_free_name(plain), plain, by=by, at=at)


def _free_name(url: str) -> str:
    """The host, and the port when it is given, as a name not yet taken."""
    parts = urlsplit(url)
    text = "-".join(filter(None, (parts.hostname or "", str(parts.port or ""))))
    base = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:70] or "store"
    taken = set(Source.objects.filter(name__startswith=base).values_list("name", flat=True))
    names = (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def note_probe(source: Source, *, at: datetime) -> None:
    """Asks a store what it is and keeps the answer with its source, once a day; of one that answers
    nothing, nothing is kept, and it is asked again the next time."""
    known = source.probe.get("at")
    if known and parse_instant(known) > at - PROBE_EVERY:
        return
    try:
        with Door(access_to(source), TEST_LIMITS) as door:
            told = probe(door, at)
            is_silent = not door.has_answered
    except FetchFailed:
        return  # the collection itself will say what is wrong
    if is_silent:
        return  # it may well say what it is when it answers again
    if told["version"] or not known:
        source.probe = told
        source.save(update_fields=["probe"])


def set_active(name: str, active: bool, *, by: str, at: datetime) -> Source:
    """Stop or start collecting a source; what was read stays. SourceRefused for an unknown one."""
    with atomic():
        source = Source.objects.select_for_update().filter(name=name).first()
        if source is None:
            raise SourceRefused(f"there is no source named {shown(name)!r}")
        source.active = active
        source.save(update_fields=["active"])
        action = "source started" if active else "source stopped"
        record(at=at, actor=by, action=action, subject=name, detail={})
    return source


def test_access(
    access: Access, matchers: str, *, at: datetime, limits: Limits = TEST_LIMITS
) -> dict[str, Any]:
    """What a store answers about the last hour: version, jobs, engines and what is amiss.

    Plain values: `ok`, `version`, `series`, `engines` (series of each engine kind), `jobs`,
    `warnings`, and `problem` in words when it cannot be used as it is.
    """
    result: dict[str, Any] = {"ok": False, "version": None, "series": 0, "engines": {}, "jobs": {}}
    result |= {"warnings": [], "problem": None, "store": {}}
    try:
        with Door(access, limits) as door:
            result["store"] = probe(door, at)
            result["version"] = result["store"]["version"]
            period = Period(at - TEST_REACH, at)
            series, warnings = live_series(door, checked_matchers(matchers), period)
    except FetchFailed as error:
        return result | {"problem": str(error)}
    roles = [role_of(row.get("__name__", "")) for row in series]
    prompts = [
        row
        for row, role in zip(series, roles, strict=True)
        if role is not None and role.name in ("prompt", "delivered_prompt")
    ]
    engines = Counter(role.engine for role in roles if role is not None)
    result["series"] = len(series)
    result["engines"] = {k: n for k, n in sorted(engines.items()) if k != "target"}
    result["jobs"] = dict(sorted(Counter(row.get("job", "") for row in prompts).items()))
    result["warnings"] = warnings
    result["problem"] = _problem(series, prompts, warnings)
    return result | {"ok": result["problem"] is None}


def _problem(
    series: Sequence[object], prompts: Sequence[object], warnings: list[str]
) -> str | None:
    """The first thing that keeps a store from being of use."""
    if warnings:
        return "the store warns that its answer is not whole: " + "; ".join(warnings)
    if not series:
        return "the store has no series of an engine in the last hour; look at its matchers"
    if not prompts:
        return "the store has series, but no token counter of a known engine in the last hour"
    return None
