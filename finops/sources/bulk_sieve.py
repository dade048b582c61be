"""Which lines of a FOCUS file must be read one by one, as conditions of SQL that never miss one.

A condition may let more lines through than it need: the parser reads those and decides. It may not
hold one back. So texts are looked for anywhere in a cell, as written or escaped, and what cannot be
said in SQL holds for every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from re import _constants as tokens  # type: ignore[attr-defined]
from re import _parser as regex_parser  # type: ignore[attr-defined]
from typing import Final

from finops.core.allocation import Rule
from finops.core.matching import Matcher
from finops.sources.focus import NO_CURRENCY, UNKNOWN_ACCOUNT, UNKNOWN_ISSUER
from finops.sources.focus_columns import ALLOCATED, ALLOCATED_TAGS, CALLED, NAMES, UNITS
from finops.sources.gpu_shapes import BUILT, SHORT, SURE, catalogue

EVERY: Final = "TRUE"
NONE: Final = "FALSE"

_DETAILS: Final = ("SkuPriceDetails", "x_SkuDetails")
MACHINE: Final = (
    *_DETAILS,
    "x_InstanceType",
    "x_UsageType",
    "ResourceType",
    "ChargeDescription",
    "SkuMeter",
    "x_SkuDescription",
    "x_SkuMeterName",
    *NAMES,
    CALLED,
    *UNITS,
)
PARTS: Final = ("SkuId", "SkuPriceId")
_PART: Final = "B[0-9]{5,6}"
_GPU: Final = (
    r"(?i:gpu|nvidia|tesla|instinct|trainium|inferentia|rtx|a6000|v[56]20)"
    rf"|(?:^|[^A-Za-z0-9]|[0-9][xX×])(?i:{'|'.join(SURE)})(?:$|[^A-Za-z0-9]|(?i:{BUILT}))"
    rf"|[0-9](?i:x(?:{'|'.join(SHORT)}))(?:$|[^A-Za-z0-9]|(?i:{BUILT}))"
    r"|(?:^|[^A-Za-z0-9_]|ml\.)(?i:p|g|gr|trn|inf|dl)[0-9][A-Za-z0-9-]*\."
    r"|(?i:g[24]-standard)"
    r"|(?i:u-p[0-9])"
    r"|(?:^|[^A-Za-z0-9]|Standard_)N[CDGV][0-9]"
    r"|(?i:[ag][0-9][A-Za-z]*)[^A-Za-z0-9]+(?i:instance)[^A-Za-z0-9]+(?i:core|ram)"
)
_SEEN: Final = re.compile(_GPU)

# Where a rule's column comes from, and the texts that stand in it when the file has none.
_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "account": ("BillingAccountId",),
    "account_name": ("BillingAccountName",),
    "sub_account": ("SubAccountId",),
    "sub_account_name": ("SubAccountName",),
    "provider": ("ProviderName", "ServiceProviderName"),
    "issuer": ("InvoiceIssuerName", "ProviderName", "ServiceProviderName"),
    "service": ("ServiceName",),
    "service_category": ("ServiceCategory",),
    "sku": ("SkuId",),
    "sku_price": ("SkuPriceId",),
    "resource": ("ResourceId",),
    "resource_name": ("ResourceName",),
    "resource_type": ("ResourceType",),
    "region": ("RegionId", "RegionName"),
    "category": ("ChargeCategory",),
    "class": ("ChargeClass",),
    "pricing_category": ("PricingCategory",),
    "commitment": ("CommitmentDiscountId",),
    "commitment_name": ("CommitmentDiscountName",),
    "commitment_status": ("CommitmentDiscountStatus",),
    "invoice": ("InvoiceId",),
    "description": ("ChargeDescription",),
    "frequency": ("ChargeFrequency",),
    "currency": ("BillingCurrency",),
}
_STANDING_IN: Final = {
    "account": UNKNOWN_ACCOUNT,
    "issuer": UNKNOWN_ISSUER,
    "currency": NO_CURRENCY,
}
_NEVER_IN_SUMS: Final = ("gpu_model", "rate_card")
_PLAIN_TAG: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_WORDS_OF_JSON: Final = ("true", "false", "null", "none")
_BACKSLASH: Final = "'\\'"
# Escapes, and texts of Python that stand side by side and are one.
_HIDES_TEXT: Final = (
    r"""contains({cell}, '\') OR contains({cell}, '''') OR regexp_matches({cell}, '"\s*"')"""
)

Texts = Mapping[str, str]
"""The SQL text of each column that the file has, by its FOCUS name."""


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def looks_like_gpu(texts: Texts, *, together: bool = False) -> str:
    """A condition that holds for every line in which `gpu_of` could see GPU time.

    `together` searches the texts of a line at once, a line feed between, which spares work where
    the engine has no dictionary of them.
    """
    more = [re.escape(s.instance_type) for s in catalogue() if not _SEEN.search(s.instance_type)]
    pattern = quoted("|".join((_GPU, *more)))
    machine, parts = (_present(names, texts, together) for names in (MACHINE, PARTS))
    found = [_is_seen(text, pattern) for text in machine]
    found += [_is_seen(text, quoted(_PART)) for text in parts]
    found += [f"contains({texts[name]}, {_BACKSLASH})" for name in _DETAILS if name in texts]
    return _either(found)


def gpu_text(texts: Texts) -> str:
    """All that `looks_like_gpu` looks at in a line, as one text: in lines of one text it finds the same.

    No cell may hold a line feed. Names of resources, of which there are too many, are left out, so
    that those must be looked at in any case (see `named_like_gpu`).
    """
    names = dict.fromkeys((*MACHINE, *PARTS))
    found = [texts[name] for name in names if name in texts and name != CALLED]
    return f"concat_ws(chr(10), {', '.join(found)})" if found else "''"


def named_like_gpu(texts: Texts) -> str:
    """The part of `looks_like_gpu` that `gpu_text` does not tell."""
    return looks_like_gpu({CALLED: texts[CALLED]}) if CALLED in texts else NONE


def _present(names: Iterable[str], texts: Texts, together: bool) -> list[str]:
    """The texts of columns that the file has; in one, where that is wanted."""
    found = [texts[name] for name in names if name in texts]
    return [f"concat_ws(chr(10), {', '.join(found)})"] if together and found else found


def _is_seen(text: str, pattern: str) -> str:
    """Whether a pattern that no empty text meets is found; once per entry of a file's dictionary.

    The engine asks `regexp_matches` of every line, `regexp_extract` of every different text.
    """
    return f"regexp_extract({text}, {pattern}) <> ''"


def is_reached(rules: Iterable[Rule], texts: Texts) -> str:
    """A condition that holds for every line that one of the rules reaches."""
    return _either(
        "(" + " AND ".join(_holds(matcher, texts) for matcher in rule.matchers) + ")"
        for rule in rules
    )


def _either(conditions: Iterable[str]) -> str:
    return " OR ".join(conditions) or NONE


def _holds(matcher: Matcher, texts: Texts) -> str:
    """A condition that a line meets when the matcher holds for it."""
    if matcher.op in ("!=", "!~"):
        return EVERY
    start = matcher.value if matcher.op == "=" else _beginning(matcher.value)
    if not start:
        return EVERY
    if matcher.name.startswith("tag:"):
        return _tag(matcher.name[len("tag:") :], start, texts)
    if matcher.name in _NEVER_IN_SUMS:
        return NONE
    columns = _SOURCES.get(matcher.name)
    if columns is None or _STANDING_IN.get(matcher.name, "").startswith(start):
        return EVERY
    return (
        "("
        + _either(
            f"contains(lower({texts[one]}), lower({quoted(start)}))"
            for one in columns
            if one in texts
        )
        + ")"
    )


def _tag(name: str, start: str, texts: Texts) -> str:
    """A tag's name and value stand in the cell as they are, unless an escape hides them."""
    if name in ALLOCATED:
        return EVERY
    cells = [texts[column] for column in ("Tags", ALLOCATED_TAGS) if column in texts]
    return _either(_tag_in(cell, name, start) for cell in cells)


def _tag_in(cell: str, name: str, start: str) -> str:
    """Whether one cell may hold the tag."""
    wanted = [
        f"contains({cell}, {quoted(text)})"
        for text in (name, start)
        if _PLAIN_TAG.fullmatch(text)
        and not any(word.startswith(text.lower()) for word in _WORDS_OF_JSON)
    ]
    if not wanted:
        return EVERY
    return f"({_HIDES_TEXT.format(cell=cell)} OR ({' AND '.join(wanted)}))"


def _beginning(pattern: str) -> str:
    """The plain text that every match of an anchored pattern begins with; often empty."""
    begins = ""
    parsed = regex_parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return ""
    for op, value in parsed:
        if op is not tokens.LITERAL:
            break
        begins += chr(value)
    return begins
