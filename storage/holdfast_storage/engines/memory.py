"""Keep everything in memory: the reference for what an engine promises, with nothing to set up."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import JournalReplaced, NotSaved, Unknown, Unreadable
from holdfast_storage.core.records import (
    DamagedLine,
    Draft,
    Entry,
    Place,
    Record,
    decode_line,
    encode_line,
)
from holdfast_storage.core.seal import embedded_revision, is_sealed
from holdfast_storage.core.times import stamp
from holdfast_storage.engines.base import (
    Beside,
    Capabilities,
    Finding,
    Head,
    Host,
    Kind,
    Operation,
    Sighting,
    Trashed,
)

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Container,
        Generator,
        Iterator,
        Mapping,
        Sequence,
    )

Mode = Literal["locked", "compare_and_append"]

_VIEW = "state.json"
_SETTINGS = "holdfast.json"
_PORTION = 256
_LOADS_KEPT = 1000


def _random_word() -> str:
    return secrets.token_hex(8)


async def _give_way() -> None:
    await asyncio.sleep(0)


class MemoryEngine:
    """An engine whose workspace is a `MemoryStore`.

    Engines on one store stand for processes on one folder. All of them belong to one event loop:
    there a stretch without an await is a lock. With `mode="compare_and_append"` nothing relies on
    that between deciding and appending, as it will be where the log is on another machine;
    `give_way` is what happens in between.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        mode: Mode = "locked",
        give_way: Callable[[], Awaitable[None]] = _give_way,
        view_rest_seconds: float = 0.0,
        random_word: Callable[[], str] = _random_word,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store = MemoryStore() if store is None else store
        self._mode = mode
        self._give_way = give_way
        self._view_rest_seconds = view_rest_seconds
        self._random_word = random_word
        self._now_ns = now_ns
        self._process = random_word()
        self._turns: dict[str, asyncio.Lock] = {}
        self._seen: dict[str, int] = {}
        self._watchers: WeakSet[_Watcher] = WeakSet()
        self._failure = ""
        self._closed = False
        self._underway = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._store.alive.add(self._process)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("memory", durable=False, shared=True, editable=True, watch=True)

    @property
    def workspace_id(self) -> str:
        return self._store.workspace_id

    @property
    def host(self) -> Host:
        return Host("", 0)

    @property
    def process(self) -> str:
        return self._process

    def when_forgotten(self, call: Callable[[str], object]) -> None:
        pass  # nothing is ever forgotten, and nobody can replace anything

    async def prepare(self) -> None:
        pass

    async def close(self) -> None:
        self._closed = True
        await self._idle.wait()
        self._store.alive.discard(self._process)
        for watcher in list(self._watchers):
            watcher.close()

    # --- the log ------------------------------------------------------------------------------

    def answers_at_once(self, task: str, operation: Operation) -> bool:
        if self._closed or self._mode != "locked":
            return False
        self._commit_locked(task, operation)
        return True

    async def commit(self, task: str, operation: Operation, *, is_light: bool = False) -> None:
        with self._counted_as_underway():
            if self._mode == "locked":
                return self._commit_locked(task, operation)
            # Operations of one process would only make each other decide again: they queue.
            async with self._turns.setdefault(task, asyncio.Lock()):
                await self._commit_comparing(task, operation)

    def _commit_locked(self, task: str, operation: Operation) -> None:
        draft = _decided(task, self._log(task), operation)
        record = None if draft is None else self._append(task, draft)
        operation.accept(record)

    async def _commit_comparing(self, task: str, operation: Operation) -> None:
        while True:
            version = self._log(task).version
            draft = _decided(task, self._log(task), operation)
            if draft is None:
                return operation.accept(None)
            await self._give_way()
            if self._log(task).version == version:
                return operation.accept(self._append(task, draft))

    def _append(self, task: str, draft: Draft) -> Record:
        if self._failure:
            raise NotSaved(self._failure)
        record = self._store.task(task).log.append(draft)
        self._store.announce(task)
        return record

    @contextmanager
    def _counted_as_underway(self) -> Generator[None, None, None]:
        if self._closed:
            raise NotSaved("the workspace was closed")
        self._underway += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._underway -= 1
            if not self._underway:
                self._idle.set()

    async def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
        while portion := self._log(task).after(after, _PORTION):
            yield portion
            after += len(portion)

    async def opening(self, task: str) -> int:
        log = self._log(task)
        for seq in range(log.head, 0, -1):
            entry = log.entry(seq)
            if isinstance(entry, Record) and entry.opens:
                return seq - 1
        return 0

    async def fetch(self, task: str, places: Sequence[Place]) -> list[Entry]:
        log = self._log(task)
        return [log.at(place) for place in places]

    async def heads(self, cursor: str, limit: int) -> tuple[list[Head], str]:
        names = sorted(name for name, found in self._store.tasks.items() if found.log.head)
        rest = [name for name in names if name > cursor]
        listed = [Head(name, self._store.tasks[name].summary()) for name in rest[:limit]]
        return listed, listed[-1].task if listed and len(rest) > limit else ""

    async def note_head(self, task: str, revision: int, summary: Mapping[str, Any]) -> None:
        self._store.task(task).noted_head = (revision, strict_json.encode(summary))

    async def rewrite(self, task: str, lines: Mapping[int, Draft], label: str) -> str:
        log = self._existing(task).log
        old = {seq: log.raw(seq) for seq in lines}
        new = {seq: encode_line(seq, draft) for seq, draft in lines.items()}
        if self._failure:
            raise NotSaved(self._failure)
        at_ns = self._now_ns()
        trashed = Trashed(
            name=f"{label}-{self._random_word()}",
            task=task,
            at=stamp(datetime.fromtimestamp(at_ns / 1e9, UTC)),
            checkpoints=tuple(_checkpoints_taken(log, lines)),
            size=sum(map(len, old.values())),
        )
        self._store.trash[trashed.name] = _Taken(trashed, at_ns, old)
        self._put_lines(task, new)
        return trashed.name

    def _put_lines(self, task: str, lines: Mapping[int, bytes]) -> None:
        for seq, raw in lines.items():
            self._existing(task).log.replace(seq, raw)
        self._store.announce(task)

    async def plant(
        self, task: str, portions: AsyncIterator[Sequence[Draft]], beside: Beside
    ) -> bool:
        planted = _Task(loads=deque(map(strict_json.encode, beside.loads), maxlen=_LOADS_KEPT))
        for (kind, name), raw in beside.kept.items():
            planted.kept.setdefault(kind, {})[name] = raw
        async for drafts in portions:
            for draft in drafts:
                planted.log.append(draft)
        if self._failure:
            raise NotSaved(self._failure)
        if self._log(task).head:
            return False
        self._store.tasks[task] = planted
        self._store.announce(task)
        return True

    async def trash(self) -> list[Trashed]:
        return [taken.trashed for taken in reversed(self._store.trash.values())]

    async def restore(self, name: str) -> Trashed:
        taken = self._store.trash.pop(name, None)
        if taken is None:
            raise Unknown("trash", name)
        self._put_lines(taken.trashed.task, taken.lines)
        return taken.trashed

    async def empty_trash(self, older_than_seconds: float) -> None:
        newest_ns = self._now_ns() - older_than_seconds * 1e9
        for name, taken in list(self._store.trash.items()):
            if taken.at_ns < newest_ns:
                del self._store.trash[name]

    # --- the view -----------------------------------------------------------------------------

    def may_have_changed(self, task: str) -> bool:
        view = self._view(task)
        return view.version != self._seen.get(task, 0) or bool(view.leftovers)

    async def view(self, task: str) -> list[Sighting]:
        view = self._view(task)
        found = sorted(view.leftovers.values(), key=lambda leftover: leftover.mtime_ns)
        if view.raw is not None:
            found.append(Sighting(view.raw, view.mtime_ns, _VIEW, view.version))
        return found

    async def seen(self, task: str, sighting: Sighting) -> None:
        leftovers = self._view(task).leftovers
        if sighting.name == _VIEW:
            self._seen[task] = max(sighting.token, self._seen.get(task, 0))
        elif leftovers.get(sighting.name) == sighting:
            del leftovers[sighting.name]

    async def swap_view(self, task: str, raw: bytes, revision: int) -> bool:
        view = self._store.task(task).view
        if view.raw is not None and is_sealed(view.raw):
            if _revision_of(view.raw) >= revision:
                return True
        elif view.raw is not None and not self._is_seen_through(task, view.raw):
            return False
        view.put(raw, self._now_ns())
        self._seen[task] = view.version
        self._store.announce(task)
        return True

    def _is_seen_through(self, task: str, raw: bytes) -> bool:
        """Say whether somebody's file holds nothing that is not in the journal by now."""
        return self._view(task).version == self._seen.get(task) and _fault_in(raw) is None

    def view_rest(self, task: str) -> float:
        age_seconds = (self._now_ns() - self._view(task).mtime_ns) / 1e9
        return max(0.0, self._view_rest_seconds - age_seconds)

    async def keep(self, task: str, kind: Kind, name: str, raw: bytes) -> str:
        if self._failure:
            raise NotSaved(self._failure)
        if kind == "checkpoints" and task not in self._store.tasks:
            return ""
        files = self._store.task(task).kept.setdefault(kind, {})
        if kind != "checkpoints":
            name = _name_of_its_own(files, name, raw)
        files[name] = raw
        return f"tasks/{task}/{kind}/{name}"

    async def kept(self, task: str, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        found = self._store.tasks.get(task)
        kept = found.kept.get(kind, {}) if found else {}
        return {name: raw for name, raw in kept.items() if name not in but}

    async def drop_checkpoint_view(self, task: str, name: str) -> None:
        self._store.task(task).kept.get("checkpoints", {}).pop(name, None)

    # --- the surroundings ---------------------------------------------------------------------

    async def log_load(self, task: str, line: Mapping[str, Any]) -> None:
        self._store.task(task).loads.append(strict_json.encode(line))

    async def loads(self, task: str) -> list[Mapping[str, Any]]:
        found = self._store.tasks.get(task)
        return [strict_json.decode(line) for line in found.loads] if found else []

    def is_alive(self, process: str) -> bool:
        return process in self._store.alive

    def watch(self) -> AsyncIterator[set[str]]:
        watcher = _Watcher()
        self._watchers.add(watcher)
        self._store.watchers.add(watcher)
        return watcher.announcements()

    async def check(self, repair: bool) -> list[Finding]:
        findings = [
            Finding(f"tasks/{name}/journal", entry.problem, task=name, line=seq)
            for name, task in self._store.tasks.items()
            for seq, entry in enumerate(task.log.after(0), start=1)
            if isinstance(entry, DamagedLine)
        ]
        for name, task in self._store.tasks.items():
            if task.view.raw is not None and (fault := _fault_in(task.view.raw)):
                file, aside = f"tasks/{name}/{_VIEW}", "move it to quarantine/"
                findings.append(Finding(file, fault.problem, aside, task=name, line=fault.line))
                if repair:
                    await self.keep(name, "quarantine", _VIEW, task.view.raw)
                    task.view.put(None, self._now_ns())
        if fault := _fault_in(self._store.settings):
            findings.append(Finding(_SETTINGS, fault.problem, line=fault.line))
        return findings

    async def settings(self) -> Mapping[str, Any]:
        if fault := _fault_in(self._store.settings):
            raise Unreadable(fault.problem, fault.line, fault.column, _SETTINGS) from fault
        return strict_json.parse_object(self._store.settings)

    # --- what happens to a folder from outside, for tests -------------------------------------

    def person_saves(self, task: str, raw: bytes, mtime_ns: int | None = None) -> None:
        """Put bytes in the place of the view, as an editor would."""
        mtime_ns = self._now_ns() if mtime_ns is None else mtime_ns
        self._store.task(task).view.put(raw, mtime_ns)
        self._store.announce(task)

    def person_removes(self, task: str) -> None:
        """Remove the view, as somebody would who wonders what the file is for."""
        self._store.task(task).view.put(None, self._now_ns())
        self._store.announce(task)

    def leave_over(self, task: str, name: str, raw: bytes, mtime_ns: int | None = None) -> None:
        """Leave bytes beside the view, as a save that a rendering displaced in the same moment."""
        mtime_ns = self._now_ns() if mtime_ns is None else mtime_ns
        self._store.task(task).view.leftovers[name] = Sighting(raw, mtime_ns, name)
        self._store.announce(task)

    def person_writes_settings(self, raw: bytes) -> None:
        """Put bytes in the place of the settings."""
        self._store.settings = raw

    def spoil(self, task: str, seq: int) -> None:
        """Change a line so that its crc no longer fits, as a failing disk would."""
        self._existing(task).log.spoil(seq)

    @contextmanager
    def failing(self, why: str = "the disk is full") -> Generator[None, None, None]:
        """While this lasts nothing can be made durable."""
        self._failure = why
        try:
            yield
        finally:
            self._failure = ""

    # --- one level down -----------------------------------------------------------------------

    def _log(self, task: str) -> _Log:
        found = self._store.tasks.get(task)
        return found.log if found else _Log()

    def _view(self, task: str) -> _View:
        found = self._store.tasks.get(task)
        return found.view if found else _View()

    def _existing(self, task: str) -> _Task:
        found = self._store.tasks.get(task)
        if found is None or not found.log.head:
            raise Unknown("task", task)
        return found


@dataclass(slots=True)
class _Line:
    raw: bytes
    # A rewritten line is in another place, even where it is no longer or shorter than before.
    segment: int = 1


@dataclass(slots=True)
class _Log:
    """The lines of one task as they would stand in a file; the seq of the first one is 1."""

    lines: list[_Line] = field(default_factory=list[_Line])
    version: int = 0

    @property
    def head(self) -> int:
        return len(self.lines)

    def append(self, draft: Draft) -> Record:
        seq, raw = self.head + 1, encode_line(self.head + 1, draft)
        record = decode_line(raw[:-1], Place(1, seq - 1, len(raw)))
        assert isinstance(record, Record), f"what was written cannot be read: {record.problem}"
        self.lines.append(_Line(raw))
        self.version += 1
        return record

    def after(self, seq: int, limit: int | None = None) -> list[Entry]:
        stop = self.head if limit is None else min(self.head, seq + limit)
        return [self.entry(number) for number in range(seq + 1, stop + 1)]

    def entry(self, seq: int) -> Entry:
        line = self.lines[seq - 1]
        return decode_line(line.raw[:-1], Place(line.segment, seq - 1, len(line.raw)))

    def at(self, place: Place) -> Entry:
        if 0 <= place.offset < self.head:
            entry = self.entry(place.offset + 1)
            if entry.place == place:
                return entry
        return DamagedLine(place, "it was rewritten")

    def raw(self, seq: int) -> bytes:
        if not 1 <= seq <= self.head:
            raise Unknown("record", str(seq))
        return self.lines[seq - 1].raw

    def replace(self, seq: int, raw: bytes) -> None:
        self.lines[seq - 1] = _Line(raw, self.lines[seq - 1].segment + 1)
        self.version += 1

    def spoil(self, seq: int) -> None:
        line = self.lines[seq - 1]
        line.raw = line.raw.replace(b'"at":"', b'"at":"?', 1)
        self.version += 1


@dataclass(slots=True)
class _View:
    """The file that people edit. Whoever has seen `version` has seen these bytes."""

    raw: bytes | None = None
    mtime_ns: int = 0
    version: int = 0
    leftovers: dict[str, Sighting] = field(default_factory=dict[str, Sighting])

    def put(self, raw: bytes | None, mtime_ns: int) -> None:
        self.raw, self.mtime_ns = raw, mtime_ns
        self.version += 1


@dataclass(slots=True)
class _Task:
    log: _Log = field(default_factory=_Log)
    view: _View = field(default_factory=_View)
    kept: dict[Kind, dict[str, bytes]] = field(default_factory=dict[Kind, dict[str, bytes]])
    loads: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LOADS_KEPT))
    noted_head: tuple[int, bytes] = (0, b"")

    def summary(self) -> Mapping[str, Any] | None:
        revision, raw = self.noted_head
        found: Mapping[str, Any] | None = None
        if revision == self.log.head:
            found = strict_json.decode(raw)
        return found


@dataclass(frozen=True, slots=True)
class _Taken:
    trashed: Trashed
    at_ns: int
    lines: Mapping[int, bytes]


class _Watcher:
    """Gathers what is announced until somebody looks."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._event = asyncio.Event()
        self._closed = False

    def announce(self, task: str) -> None:
        self._changed.add(task)
        self._event.set()

    def close(self) -> None:
        self._closed = True
        self._event.set()

    async def announcements(self) -> AsyncIterator[set[str]]:
        while not self._closed:
            await self._event.wait()
            self._event.clear()
            changed, self._changed = self._changed, set()
            if changed:
                yield changed


@dataclass(slots=True)
class MemoryStore:
    """A workspace that several engines may have open at once."""

    workspace_id: str = field(default_factory=_random_word)
    settings: bytes = b"{}\n"
    tasks: dict[str, _Task] = field(default_factory=dict[str, _Task])
    trash: dict[str, _Taken] = field(default_factory=dict[str, _Taken])
    alive: set[str] = field(default_factory=set[str])
    watchers: WeakSet[_Watcher] = field(default_factory=WeakSet["_Watcher"])

    def task(self, name: str) -> _Task:
        """Give a task's place, made if need be; the task exists from its first record on."""
        return self.tasks.setdefault(name, _Task())

    def announce(self, task: str) -> None:
        """Tell everybody who watches that something may have changed."""
        for watcher in list(self.watchers):
            watcher.announce(task)


def _decided(task: str, log: _Log, operation: Operation) -> Draft | None:
    # Asked each time: what the decider knows may have grown since it decided last.
    known = operation.known
    if known > log.head:
        raise JournalReplaced(task)
    return operation.decide(log.after(known))


def _checkpoints_taken(log: _Log, lines: Mapping[int, Draft]) -> Iterator[int]:
    for seq, draft in lines.items():
        entry = log.entry(seq)
        if isinstance(entry, Record) and entry.op == "save" and "pruned" in draft.body:
            yield entry.body["checkpoint"]


def _name_of_its_own(files: Mapping[str, bytes], name: str, raw: bytes) -> str:
    path = PurePosixPath(name)
    others = (f"{path.stem}-{number}{path.suffix}" for number in count(2))
    while files.get(name, raw) != raw:
        name = next(others)
    return name


def _revision_of(sealed: bytes) -> int:
    revision = embedded_revision(strict_json.parse_object(sealed))
    return -1 if revision is None else revision


def _fault_in(raw: bytes) -> Unreadable | None:
    try:
        strict_json.parse_object(raw)
    except Unreadable as error:
        return error
    return None
