"""FastChat's conversation logs (`…-conv.json`): text without counts, so tokens are counted anew (§6).

FastChat keeps no token totals. Its web server writes one JSON object a line: times, model, and the
messages. With the model's own tokenizer file the messages are counted and labelled *re-tokenised*.
What the conversation template adds around the messages is not in the log and is left out. The
messages themselves are kept nowhere but in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from finops.core.period import instant_of
from finops.sources.files import text_lines
from finops.sources.records import Account, Parsed, Refused, Rejection, UsageRecord

PREFIX: Final = "fastchat:"
FORMATS: Final[tuple[str, ...]] = ("fastchat",)
FIRST_S, END_S = 946_684_800, 7_258_118_400  # the years 2000 and 2200
MOST_MESSAGES: Final = 10_000

_HINT: Final = (
    "a FastChat log holds text and no token counts; give the model's own tokenizer file: "
    "`ingest FILE --as fastchat:/path/to/tokenizer.json`"
)
Count = Callable[[str], int]


class _Fault(Exception):
    """Why a line is no conversation: column, value, reason."""

    def __init__(self, column: str | None, value: object, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the first line is a logged event of FastChat's web server."""
    first = head.split(b"\n", 1)[0]
    return FORMATS[0] if all(k in first for k in (b'"tstamp"', b'"type"', b'"model"')) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """Always Refused: without a tokenizer nothing can be counted; the message says what to give."""
    raise Refused(f"{name}: {_HINT}")


def parse_with(path: Path, name: str, format: str, tokenizer: Path) -> Parsed:
    """One usage record for each answer; votes and other events are counted as read and passed over.

    Refused where the tokenizer cannot be read, or the library `tokenizers` is not installed.
    """
    account = Account(format)
    return Parsed(account, _records(path, name, account, counter_of(tokenizer, name)))


def counter_of(tokenizer: Path, name: str) -> Count:
    """What counts the tokens of a text by a `tokenizer.json`, without special tokens."""
    try:
        from tokenizers import Tokenizer  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise Refused(
            f"{name}: counting tokens needs the Python package tokenizers, not installed in .venv"
        ) from None
    try:
        engine = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # noqa: BLE001 - the library raises its own plain Exception
        raise Refused(f"{name}: the tokenizer file cannot be read ({str(error)[:200]})") from None
    return lambda text: len(engine.encode(text, add_special_tokens=False).ids)


def _records(
    path: Path, name: str, account: Account, count: Count
) -> Iterator[UsageRecord | Rejection]:
    for line, text in enumerate(text_lines(path, name), 1):
        if not text.strip():
            continue
        account.rows_read += 1
        try:
            record = _record(line, text, count)
        except _Fault as fault:
            yield Rejection.of(line, fault.column, fault.value, fault.reason)
            continue
        if record is None:
            account.rows_in_parent += 1
        else:
            yield record


def _record(line: int, text: str, count: Count) -> UsageRecord | None:
    """The usage of one answered message; None for an event that is no answer."""
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Fault(None, text, f"not readable as JSON ({error.msg})") from None
    if not isinstance(event, dict):
        raise _Fault(None, text, "a line must be a JSON object")
    if event.get("type") != "chat":
        return None
    state = event.get("state")
    if not isinstance(state, dict):
        raise _Fault("state", state, "no conversation stands in the line")
    asked, answer = _messages(state)
    at_s = next((event[k] for k in ("finish", "tstamp") if k in event), None)
    if type(at_s) not in (int, float) or not FIRST_S <= at_s < END_S:  # type: ignore[operator]
        raise _Fault("finish", at_s, "not a time in seconds of the years 2000 to 2199")
    model = event.get("model")
    if not isinstance(model, str) or not model:
        raise _Fault("model", model, "no model is named")
    return UsageRecord(
        line=line,
        at=instant_of(round(at_s * 1000)),  # type: ignore[operator]
        model=model,
        labels=(),
        request=f"{state['conv_id']} {at_s}" if state.get("conv_id") else None,
        prompt_tokens=sum(map(count, asked)),
        cached_tokens=None,
        generation_tokens=count(answer),
        choices=1,
        quality="re-tokenised",
    )


def _messages(state: dict[str, Any]) -> tuple[list[str], str]:
    """What was sent to the model (system message and all before) and what it answered."""
    system = state.get("system_message", state.get("system", ""))
    messages = state.get("messages")
    start = state.get("offset", 0)
    if not isinstance(messages, list) or not 2 <= len(messages) <= MOST_MESSAGES:
        raise _Fault("state.messages", messages, "no question and answer stand in the line")
    if type(start) is not int or not 0 <= start <= len(messages) - 2:
        raise _Fault("state.offset", start, "points past the question")
    texts = [_text(message) for message in messages[:-1]]
    asked = [*([system] if isinstance(system, str) and system else []), *texts]
    return asked, _text(messages[-1])


def _text(message: Any) -> str:
    """The text of a [role, text] pair; with images it is [role, [text, …]]."""
    if isinstance(message, list) and len(message) >= 2:
        text = message[1][0] if isinstance(message[1], list) and message[1] else message[1]
        if isinstance(text, str):
            return text
    raise _Fault("state.messages", message, "a message must be [role, text]")
