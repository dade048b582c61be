"""Adding workloads and the keys that shared charges are split by (method §4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from finops.core.allocation import BUILT_IN_KEYS
from finops.ledger.models import SharedKey, Workload
from finops.ledger.which import atomic
from finops.trail.operations import record

from .locks import lock

PURPOSES = ("inference", "training")
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
RESERVED = frozenset({"out-of-scope", "idle", "unassigned", "shared", "unused-commitment", "add"})
LONGEST_TEXT = 300


class NotAccepted(ValueError):
    """What was given cannot be kept; the message says why and what to write."""


def add_workload(
    slug: str,
    *,
    model: str,
    stack: str,
    purpose: str,
    by: str,
    at: datetime,
    team: str = "",
    cluster: str = "",
    namespace: str = "",
    kv_bytes_per_token: int | None = None,
    max_model_len: int | None = None,
    rate_cap_tokens_per_second: int | None = None,
) -> Workload:
    """A new workload. NotAccepted says what is wrong with it.

    `rate_cap_tokens_per_second` is the fastest that one token counter of one of its engines can rise,
    for the upper bounds (method §2.6).
    """
    texts = {
        "model": model,
        "stack": stack,
        "team": team,
        "cluster": cluster,
        "namespace": namespace,
    }
    _check_slug(slug, "workload")
    _check_texts(texts)
    if purpose not in PURPOSES:
        raise NotAccepted(f"a workload's purpose is {' or '.join(PURPOSES)}, not {purpose!r}")
    if kv_bytes_per_token is not None and kv_bytes_per_token <= 0:
        raise NotAccepted("the KV bytes of one token must be more than zero")
    if max_model_len is not None and max_model_len <= 0:
        raise NotAccepted("the longest request must be more than zero tokens")
    if rate_cap_tokens_per_second is not None and rate_cap_tokens_per_second <= 0:
        raise NotAccepted("the highest rate must be more than zero tokens a second")
    with atomic():
        lock("workload", slug)
        if Workload.objects.filter(slug=slug).exists():
            raise NotAccepted(f"there is a workload {slug!r} already")
        workload = Workload.objects.create(
            slug=slug,
            purpose=purpose,
            kv_bytes_per_token=kv_bytes_per_token,
            max_model_len=max_model_len,
            rate_cap_tokens_per_second=rate_cap_tokens_per_second,
            created_at=at,
            created_by=by,
            **texts,
        )
        record(at=at, actor=by, action="workload added", subject=f"workload {slug}",
               detail={**texts, "purpose": purpose} | (
                   {"rate_cap_tokens_per_second": rate_cap_tokens_per_second}
                   if rate_cap_tokens_per_second else {}
               ))  # fmt: skip
    return workload


def workload_named(slug: str) -> Workload:
    """The workload of a slug. NotAccepted names those there are."""
    found = Workload.objects.filter(slug=slug).first()
    if found is None:
        known = ", ".join(Workload.objects.order_by("slug").values_list("slug", flat=True)[:20])
        raise NotAccepted(f"there is no workload {slug[:80]!r}; there are: {known or 'none yet'}")
    return found


def add_shared_key(name: str, shares: Mapping[str, int], *, by: str, at: datetime) -> SharedKey:
    """A key with fixed whole-number shares of workloads. NotAccepted says what is wrong with it."""
    _check_slug(name, "shared key")
    if name in BUILT_IN_KEYS:
        raise NotAccepted(f"the key {name!r} is built in and needs no shares")
    for slug in shares:
        workload_named(slug)
    with atomic():
        lock("shared key", name)
        if SharedKey.objects.filter(name=name).exists():
            raise NotAccepted(f"there is a shared key {name!r} already; keys do not change")
        key = SharedKey.objects.create(
            name=name, method="fixed", shares=dict(shares), created_at=at, created_by=by
        )
        record(at=at, actor=by, action="shared key added", subject=f"shared key {name}",
               detail={"shares": dict(shares)})  # fmt: skip
    return key


def shared_key_named(name: str, *, by: str, at: datetime) -> SharedKey:
    """The key of a name; the built-in ones get their row when first used. To be called inside the
    ledger's transaction."""
    if name in BUILT_IN_KEYS:
        key, _ = SharedKey.objects.get_or_create(
            name=name, defaults={"method": name, "created_at": at, "created_by": by}
        )
        return key
    found = SharedKey.objects.filter(name=name).first()
    if found is None:
        own = SharedKey.objects.order_by("name").values_list("name", flat=True)
        known = ", ".join(sorted({*BUILT_IN_KEYS, *own}))
        raise NotAccepted(f"there is no shared key {name[:80]!r}; there are: {known}")
    return found


def _check_slug(slug: str, what: str) -> None:
    if not SLUG.fullmatch(slug) or slug in RESERVED:
        raise NotAccepted(
            f"a {what}'s name is made of a-z, 0-9, - and _ (at most 80), not {slug[:80]!r}"
        )


def _check_texts(texts: Mapping[str, str]) -> None:
    for name in ("model", "stack"):
        if not texts[name].strip():
            raise NotAccepted(f"a workload needs a {name}")
    for name, text in texts.items():
        longest = 40 if name == "stack" else LONGEST_TEXT
        if len(text) > longest or not text.isprintable():
            raise NotAccepted(f"{name} must be printable text of at most {longest} characters")
