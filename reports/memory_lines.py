"""The memory table of a group of GPUs in words for a reader of reports, and as one drawn bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from finops.core.money import divide
from reports import figures
from reports.shapes import rect

Row = Mapping[str, Any]
# Name, title, what it is, tone of its piece in the bar ("" leaves the piece empty).
LINES = (
    ("weights", "Model weights", "The model itself, there as long as the engine runs.", "accent"),
    ("kv_active", "KV cache in use", "What live requests hold of the cache.", "gain"),
    (
        "kv_unreferenced",
        "KV cache reserved, not referenced",
        "Set aside at start for requests to come; may hold prompts for reuse. "
        "Neither waste nor free.",
        "pale",
    ),
    ("graphs", "CUDA graphs", "Recorded work that lets the engine answer faster.", ""),
    (
        "non_torch",
        "Driver context and communication",
        "Taken by the driver's libraries and by the cards talking to each other (non-torch).",
        "",
    ),
    ("other", "Other processes", "Programs that are not an engine known here.", ""),
    ("driver", "Reserved by the driver", "The card keeps it; no program can have it.", ""),
    ("free", "Free", "Held by nothing.", ""),
    (
        "unattributed",
        "Not attributed",
        "The remainder: working memory, allocator cache, and whatever is not measured. "
        "Shown with its sign and never set to zero.",
        "",
    ),
)
WIDTH, HEIGHT = 720, 22


def lines_of(row: Row) -> list[dict[str, Any]]:
    """Each line of the table: title, meaning, bytes or None and what is said then, share of the
    device or None."""
    total = row["total_bytes"]
    return [
        {
            "name": name,
            "title": title,
            "meaning": meaning,
            "tone": tone,
            "bytes": (value := row[f"{name}_bytes"]),
            "absent": absent(row, name),
            "share": divide(Decimal(value), Decimal(total))
            if total and value is not None
            else None,
        }
        for name, title, meaning, tone in LINES
    ]


def absent(row: Row, name: str) -> str:
    """What stands in place of a line that is not known: of a card that is measured, nobody may
    tell which programs hold what is in use."""
    return "not told" if name == "other" and row["used_bytes"] is not None else "not measured"


def together(rows: Sequence[Row]) -> dict[str, Any] | None:
    """GPUs that are measured as one row that closes; None without any.

    A part counts where every one of the GPUs tells it; what is left of the total is the remainder.
    """
    known = [row for row in rows if row["total_bytes"] is not None]
    if not known:
        return None
    names = [f"{name}_bytes" for name, *_ in LINES if name != "unattributed"]
    names += ["used_bytes", "kv_reserved_bytes", "activation_peak_bytes"]
    parts = {name: _sum([row.get(name) for row in known]) for name in names}
    total = sum(row["total_bytes"] for row in known)
    held = sum(parts[f"{name}_bytes"] or 0 for name, *_ in LINES if name != "unattributed")
    return {"total_bytes": total, "unattributed_bytes": total - held} | parts


def _sum(values: Sequence[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if len(told) == len(values) else None


def bar_of(row: Row) -> SafeString | None:
    """The device as one bar: weights, KV in use, KV reserved, and the rest left empty; None where
    the device or one of the three is not measured."""
    total = row["total_bytes"]
    pieces = [(line["tone"], line["bytes"]) for line in lines_of(row) if line["tone"]]
    if not total or any(value is None or value < 0 for _, value in pieces):
        return None
    if sum(value for _, value in pieces) > total:
        return None
    at, drawn = Decimal(0), []
    for tone, value in pieces:
        width = divide(Decimal(value) * WIDTH, Decimal(total))
        drawn.append(rect(at, 1, width, HEIGHT - 2, tone))
        at += width
    text = (
        f"Of {figures.gib(total)} on the devices: "
        f"{', '.join(_said(line) for line in lines_of(row) if line['tone'])}; the rest is other."
    )
    return mark_safe(  # noqa: S308 - figures and our own words, escaped
        f'<svg class="memory-bar" role="img" aria-label="{escape(text)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
        f'{"".join(drawn)}<rect class="frame" x="0.5" y="0.5" width="{WIDTH - 1}" '
        f'height="{HEIGHT - 1}" fill="none" stroke="#b6becc"/></svg>'
    )


def _said(line: Row) -> str:
    return f"{line['title'].lower().replace('kv', 'KV')} {figures.gib(line['bytes'])}"


def seen_on_device(row: Row) -> str:
    """What nvidia-smi shows of these GPUs, and what of that is the reservation, in a sentence."""
    used, reserved = row["used_bytes"], row["kv_reserved_bytes"]
    if used is None:
        return (
            "What nvidia-smi shows is not measured here: no exporter of GPU metrics reports on "
            "these cards."
        )
    text = f"nvidia-smi shows {figures.gib(used)} in use"
    if row["total_bytes"]:
        share = divide(Decimal(used), Decimal(row["total_bytes"]))
        text += f" of {figures.gib(row['total_bytes'])} ({figures.percent(share)})"
    if reserved is None:
        return text + ". How much of that is the cache's reservation is not known."
    text += f"; {figures.gib(reserved)} of that is the pool the engines set aside when they started"
    if row["kv_active_bytes"] is None:
        return text + ". How much of it requests held is not known."
    return text + (
        f", of which requests held {figures.gib(row['kv_active_bytes'])} on average. nvidia-smi "
        "cannot tell the two apart: it looks the same on a busy and on an idle day."
    )


_REMEDIES = {
    "raise-utilization": "Raise gpu_memory_utilization",
    "lower-utilization": "Lower gpu_memory_utilization",
    "lower-max-num-seqs": "Lower max_num_seqs (requests at once)",
    "lower-max-num-batched-tokens": "Lower max_num_batched_tokens (tokens in one step)",
    "raise-kv-cache-memory": "Raise kv_cache_memory_bytes",
    "start-again": "Start it again",
    "lower-max-model-len": "Lower max_model_len (the longest request)",
    "more-gpus": "Spread the model over more GPUs:",
    "free-device": "Free the card of other programs",
    "quantize-kv": "Keep the cache in fewer bits:",
    "quantize-weights": "Keep the weights in fewer bits:",
}


def remedy_words(kind: str, to: str | None) -> str:
    """A remedy as an instruction: `Lower max_model_len (the longest request) to 4096`."""
    text = _REMEDIES.get(kind) or kind.replace("-", " ").capitalize()
    if not to:
        return text.rstrip(":")
    return f"{text} {to}" if text.endswith(":") else f"{text} to {to}"
