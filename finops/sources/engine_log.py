"""Start-up logs of vLLM as evidence: memory by worker, settings, and why a start failed (§8.2).

One file may hold several starts, several data-parallel engines and the workers of each, with
colours, container prefixes or JSON around every line. What a log does not say stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from finops.core.engine_start import EngineStart
from finops.sources import engine_log_lines as lines
from finops.sources.engine_log_build import Building
from finops.sources.engine_log_failures import failure_of
from finops.sources.files import byte_lines
from finops.sources.records import Account, EngineStartRecord, Parsed, Refused

FORMATS: Final[tuple[str, ...]] = ("engine-log",)

_JSON_LIST: Final = re.compile(rb"\[\s*[\[{\"\]]")
"""Logs too may begin with a bracket: `[pod/…]`, `[rank0]:`, a time."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTAINER: Final = re.compile(
    r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?\S*) (?:std(?:out|err) [FP] )?",
    re.ASCII,
)
_SHIPPED: Final = re.compile(r"^(?:\[(pod/[^\]\s]+)\]\s|([\w./@-]+)\s*\|\s)")
"""Tools that print the logs of several containers put the name of each before its lines."""
_RANK: Final = re.compile(r"\s*\[rank(\d+)\]:\s*", re.ASCII)
_PROCESS: Final = re.compile(
    r"\s*\((?P<name>[A-Za-z][\w.-]*)(?P<parts>(?:\s+(?:DP|PP|TP)\d+)*)(?:\s+rank=(?P<rank>\d+))?"
    r"(?:\s+pid=(?P<pid>\d+))?(?:,[^)]*)?\)(?=\s)",
    re.ASCII,
)  # fmt: skip
_LEVEL: Final = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_FARTHEST: Final = 300
_INSIDE: Final = re.compile(
    r"(?:^|(?<=[\s:\]]))(?=\[rank[0-9]+\]:|\([A-Za-z][\w.-]*(?:\s+(?:DP|PP|TP)[0-9]+)*"
    r"(?:\s+rank=[0-9]+)?\s+pid=[0-9]+[^)]*\)\s)"
)
"""Where the first process stands in a line that a journal or a log shipper put words before."""
_STAMP: Final = re.compile(r"\b((?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d)\b", re.ASCII)
_PART: Final = re.compile(r"[_ ](DP|PP|TP)(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Process:
    """Who prints a line, by its prefix."""

    name: str = ""
    pid: str | None = None
    data_parallel: int | None = None
    pipeline: int | None = None
    tensor: int | None = None
    rank: int | None = None

    @property
    def is_worker(self) -> bool:
        """Whether the process is a worker apart from its engine."""
        return "worker" in self.name.lower()


def recognises(head: bytes, name: str) -> str | None:
    """The format's name when the document holds lines of an engine's start."""
    if _JSON_LIST.match(head.lstrip()) or b'"__name__"' in head[:65536]:
        return None
    return FORMATS[0] if lines.CORE.search(head) else None


def parse(path: Path, name: str, format: str) -> Parsed:
    """One record for each start of each engine, in the file's order.

    Refused when the document holds no line of an engine's start.
    """
    account = Account(format)
    return Parsed(account, _records(account, path, name))


def read_text(text: str) -> list[EngineStart]:
    """The starts in a pasted log; empty when it holds none."""
    return _starts(enumerate(text.splitlines(), start=1))


def _records(account: Account, path: Path, name: str) -> Iterator[EngineStartRecord]:
    def numbered() -> Iterator[tuple[int, str]]:
        # A log that was cut while its engine wrote on begins with NUL bytes; a terminal shows none.
        for number, line in byte_lines(path, name, without_nul=True):
            account.rows_read = number
            yield number, line.decode("utf-8", "replace").rstrip("\r\n")

    found = _starts(numbered())
    # Every start is a row of this document; its other lines tell nothing of memory.
    account.rows_read = len(found)
    if not found:
        raise Refused(f"{name}: no line of an engine's start was found in it")
    account.version = next((one.engine_version for one in found if one.engine_version), None)
    for one in found:
        yield EngineStartRecord(one.line, one)


def _starts(numbered: Iterable[tuple[int, str]]) -> list[EngineStart]:
    logs: dict[str, _Log] = {"": _Log()}
    last = ""
    for number, raw in numbered:
        container, text, at = _plain(raw)
        if lines.WORTH_A_LOOK.search(text):
            # Lines of several containers come mixed: each is a log of its own. A line without a
            # name belongs to the one before it.
            last = container or last
            if last not in logs:
                logs[last] = logs.pop("") if "" in logs else _Log()
            logs[last].take(number, text, at)
    return [start for log in logs.values() for start in log.finish()]


def _plain(raw: str) -> tuple[str, str, str | None]:
    """The container that a line names, "" for none; the line without colours and what containers
    put around it; its full instant, if told."""
    container = ""
    if raw.startswith("{"):
        container, raw = _unwrapped(raw)
    text = _COLOURS.sub("", raw.rsplit("\r", 1)[-1])
    shipped = _SHIPPED.match(text)
    if shipped:
        container, text = shipped[1] or shipped[2], text[shipped.end() :]
    outside = _CONTAINER.match(text)
    if outside:
        return container, text[outside.end() :], outside[1]
    return container, text, None


def _unwrapped(raw: str) -> tuple[str, str]:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return "", raw
    if isinstance(value, dict):
        around = value.get("kubernetes")
        pod = around.get("pod_name") if isinstance(around, dict) else None
        for name in ("log", "message", "msg", "textPayload"):
            if isinstance(value.get(name), str):
                text = str(value[name]).replace("\0", "").rstrip("\n")
                return pod if isinstance(pod, str) else "", text
    return "", raw


def _process(text: str) -> Process:
    """Who prints a line. Processes that pass on what others print put their own name before it, so
    of several names in brackets the innermost counts; what it does not tell the outer ones do."""
    level = _LEVEL.search(text)
    inside = _INSIDE.search(text, 0, level.start() if level else _FARTHEST)
    text = text[inside.start() :] if inside else text
    rank = _RANK.match(text)
    at, whole = rank.end() if rank else 0, rank[1] if rank else None
    found = Process(rank=int(whole) if whole else None)
    while match := _PROCESS.match(text, at):
        found, at = _within(found, match), match.end()
    return found


def _within(outer: Process, match: re.Match[str]) -> Process:
    name = match["name"]
    told = {kind: int(number) for kind, number in _PART.findall(name + match["parts"])}
    engine = re.fullmatch(r"EngineCore_(\d+)", name, re.ASCII)
    if engine:
        told["DP"] = int(engine[1])
    return Process(
        name,
        match["pid"],
        told.get("DP", outer.data_parallel),
        told.get("PP", outer.pipeline),
        told.get("TP", outer.tensor),
        int(match["rank"]) if match["rank"] else outer.rank,
    )


class _Log:
    """The starts of one log while it is read."""

    def __init__(self) -> None:
        self.done: list[Building] = []
        self.current: dict[int | None, Building] = {}
        self.header: dict[str, str] = {}
        self.strangers = Building({}, 0)
        self.ranks: dict[str, int] = {}

    def take(self, number: int, text: str, at: str | None) -> None:
        """Takes one line."""
        process = _process(text)
        self._launch(text)
        if found := lines.INITIALISING.search(text):
            self._initialise(process, found[1], number, at or _stamp(text))
        self._settings(process, text, number)
        if (found := lines.RANKS.search(text)) and process.pid:
            self.ranks[process.pid] = int(found[1])
        for scope, figures in lines.figures(text):
            self._figures(process, scope, figures, number)
        self._notes(process, text, number)
        if failure := failure_of(text, number):
            self._engine(process, number).fail(failure)

    def _launch(self, text: str) -> None:
        found = lines.LAUNCHING.search(text)
        if found:
            # A start that was killed before it told a figure is a start all the same.
            if any(one.is_initialised or one.has_figures() for one in self.current.values()):
                self._close()
            self.header["engine_version"] = found[1] or found[2]
        elif model := lines.BANNER_MODEL.search(text):
            self.header.setdefault("model", model[1])

    def _initialise(
        self, process: Process, version: str | None, number: int, at: str | None
    ) -> None:
        known = self.current.get(process.data_parallel)
        if known is not None and known.is_initialised:
            self.done.append(self.current.pop(process.data_parallel))
        one = self._engine(process, number)
        one.is_initialised = True
        one.start.started = one.start.started or at
        if version:
            one.start.engine_version = version

    def _engine(self, process: Process, number: int) -> Building:
        """The engine that a process belongs to; one that the log does not name gets the only one,
        or the first."""
        rank = process.data_parallel
        if rank in self.current:
            return self.current[rank]
        if rank is None and self.current:
            return self.current[min(self.current, key=_first_none)]
        if None in self.current:
            self.current[rank] = self.current.pop(None)
        else:
            self.current[rank] = Building(dict(self.header), number)
        self.current[rank].start.data_parallel_rank = rank
        return self.current[rank]

    def _settings(self, process: Process, text: str, number: int) -> None:
        found = lines.settings(text)
        if not found:
            return
        if "LLM engine" in text:
            self._engine(process, number).set(found)
        else:
            self._set_all(found)

    def _set_all(self, found: Mapping[str, str]) -> None:
        """What holds for all engines of this launch, also those that come later."""
        self.header.update(found)
        for one in self.current.values():
            one.set(found)

    def _figures(
        self, process: Process, scope: str, figures: Mapping[str, str], number: int
    ) -> None:
        if scope == "engine" and figures.keys() == {"max_model_len"}:
            self._set_all(figures)
            return
        nameless = process.is_worker and process.data_parallel is None and self._is_parallel()
        one = self.strangers if nameless else self._engine(process, number)
        if scope == "engine":
            one.set(figures)
        else:
            one.worker(self._key(process)).add(figures)

    def _is_parallel(self) -> bool:
        """Whether the log is of several data-parallel engines."""
        return int(self.header.get("data_parallel", "1")) > 1 or len(self.current) > 1

    def _key(self, process: Process) -> tuple[int | None, int | None, int | None, str | None]:
        rank = process.rank
        if rank is None and process.is_worker and process.pid:
            rank = self.ranks.get(process.pid)
        if process.tensor is not None or process.pipeline is not None:
            return None, process.pipeline or 0, process.tensor or 0, None
        return rank, None, None, process.pid if process.is_worker else None

    def _notes(self, process: Process, text: str, number: int) -> None:
        if found := lines.SLEPT.search(text):
            self._engine(process, number).note(
                f"Sleep freed {found[1]} GiB; {found[2]} GiB of the GPU were still in use, by all "
                "processes on it together."
            )
        if lines.SIZED_BY_HAND.search(text):
            self._engine(process, number).note(lines.SIZED_IN_BYTES)
        if lines.GREW.search(text):
            self._engine(process, number).note(
                "Free memory grew while the engine measured: what it measured is not valid."
            )

    def _close(self) -> None:
        self._deal_out()
        order = [self.current[rank] for rank in sorted(self.current, key=_first_none)]
        started = next((one.start.started for one in order if one.start.started), None)
        for one in order:
            # Only the first engine of several prints that it starts.
            one.start.started = one.start.started or started
        self.done.extend(order)
        self.current, self.header = {}, {}

    def _deal_out(self) -> None:
        """Workers whose engine the log does not name go to the engines in the order printed."""
        nameless = self.strangers.take_workers()
        engines = [self.current[rank] for rank in sorted(self.current, key=_first_none)]
        if not nameless or not engines:
            return
        each = max(1, len(nameless) // len(engines))
        for number, worker in enumerate(nameless):
            one = engines[min(number // each, len(engines) - 1)]
            one.adopt(worker)
            one.note("The log does not say which worker belongs to which engine.")

    def finish(self) -> list[EngineStart]:
        """All starts that told something, in the order of the file."""
        self._close()
        return [one.finish() for one in self.done if one.tells()]


def _first_none(rank: int | None) -> int:
    return -1 if rank is None else rank


def _stamp(text: str) -> str | None:
    found = _STAMP.search(text)
    return found[1] if found else None
