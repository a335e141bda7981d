"""Copies of whole tasks: one beside the original to rehearse on, or a file for another workspace."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import aiofiles

from holdfast_storage import standing
from holdfast_storage.core import ids, strict_json, view
from holdfast_storage.core.advance import advance
from holdfast_storage.core.errors import (
    MISFITS,
    AlreadyThere,
    Damaged,
    InvalidValue,
    TooLarge,
    Unknown,
)
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Draft, Entry, Place, Record, decode_line, encode_line
from holdfast_storage.core.strict_json import JsonObject, is_object
from holdfast_storage.core.times import moment, stamp
from holdfast_storage.engines.base import Beside, Kind
from holdfast_storage.results import Load, TaskLine

if TYPE_CHECKING:
    from aiofiles.threadpool.binary import AsyncBufferedIOBase, AsyncBufferedReader

    from holdfast_storage.desk import Author, Desk

FORMAT = 1
_KINDS: tuple[Kind, ...] = ("conflicts", "quarantine")
_NOWHERE = Place(0, 0, 0)
_PORTION = 512
_MORE_THAN_STATE = 2**20

T = TypeVar("T")

File = str | Path | int
"""A path, or the number of an open descriptor, which stays open."""


async def fork(
    desk: Desk, author: Author, task: str, checkpoint: int, revision: int, new: str
) -> int:
    """Copy a task as it was at a revision to a new one that nobody works on; answers its revision."""

    async def portions() -> AsyncIterator[Sequence[Draft]]:
        async for records in _records(desk, task, revision):
            yield [_as_draft(record) for record in records]
        origin = {"task": task, "checkpoint": checkpoint, "revision": revision}
        body: JsonObject = {"forked_from": origin}
        yield [Draft(desk.new_id(), stamp(desk.clock()), author.by, "fork", body)]

    beside = Beside(await _kept(desk, task), ())
    await _plant(desk, new, portions(), beside)
    return revision + 1


async def _plant(
    desk: Desk, task: str, portions: AsyncIterator[Sequence[Draft]], beside: Beside
) -> None:
    if not await desk.engine.plant(task, portions, beside):
        raise AlreadyThere(task)
    desk.folds.drop(task)


async def _records(desk: Desk, task: str, revision: int) -> AsyncIterator[list[Record]]:
    """Give every record up to a revision, or refuse: what is damaged cannot be copied as if it were not."""
    seq = 0
    async for entries in desk.engine.read(task, 0):
        wanted = [entry for entry in entries if (entry.seq or 0) <= revision]
        yield [_sound(task, entry, seq + number) for number, entry in enumerate(wanted, start=1)]
        seq += len(wanted)
        if seq >= revision:
            return
    raise Damaged(f"the journal of {task}", f"record {seq + 1} is missing")


def _sound(task: str, entry: Entry, seq: int) -> Record:
    if not isinstance(entry, Record) or entry.seq != seq:
        raise Damaged(f"the journal of {task}", f"record {seq} cannot be believed")
    return entry


def _as_draft(record: Record) -> Draft:
    return Draft(record.id, record.at, record.by, record.op, record.body, record.opens)


async def _kept(desk: Desk, task: str) -> dict[tuple[Kind, str], bytes]:
    found = {kind: await desk.engine.kept(task, kind) for kind in _KINDS}
    return {(kind, name): raw for kind in _KINDS for name, raw in found[kind].items()}


# --- out --------------------------------------------------------------------------------------


async def export(desk: Desk, tasks: Sequence[str], file: File) -> None:
    """Write everything that these tasks say into one file."""
    if isinstance(file, int):
        async with aiofiles.open(file, "wb", closefd=False) as out:
            await _write(desk, tasks, out)
        return
    # The file must not exist: an export is often the only copy of something.
    async with aiofiles.open(file, "xb", opener=_for_owner_only) as out:
        try:
            await _write(desk, tasks, out)
            await asyncio.to_thread(os.fsync, out.fileno())
        except BaseException:
            await asyncio.to_thread(Path(file).unlink)
            raise


def _for_owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


async def _write(desk: Desk, tasks: Sequence[str], out: AsyncBufferedIOBase) -> None:
    for task in tasks:
        digest = sha256()
        async for line in _lines(desk, task):
            digest.update(line)
            await out.write(line)
        await out.write(_line({"end": task, "sha256": digest.hexdigest()}))
    await out.flush()


async def _lines(desk: Desk, task: str) -> AsyncIterator[bytes]:
    revision = await desk.ask(task, lambda fold: fold.seq)
    yield _line({"export": FORMAT, "task": task, "revision": revision})
    for (kind, name), raw in (await _kept(desk, task)).items():
        yield _line({"kept": kind, "name": name, "base64": base64.b64encode(raw).decode()})
    for load in await desk.engine.loads(task):
        yield _line({"load": load})
    async for records in _records(desk, task, revision):
        yield b"".join(encode_line(record.seq, _as_draft(record)) for record in records)


def _line(value: Mapping[str, Any]) -> bytes:
    return strict_json.encode(value) + b"\n"


# --- in ---------------------------------------------------------------------------------------


async def import_from(desk: Desk, file: File, tasks: Sequence[str], new: str) -> AsyncIterator[str]:
    """Take tasks in from a file, each wholly or not at all; gives each name when it is in."""
    limit = desk.settings.limits.state_bytes + _MORE_THAN_STATE
    if new and len(tasks) > 1:
        raise _several()
    taken: list[str] = []
    async with aiofiles.open(file, "rb", closefd=not isinstance(file, int)) as source:
        reader = _Reader(source, limit, desk.clock)
        while (task := await reader.next_task()) is not None:
            if tasks and task not in tasks:
                await reader.pass_over()
                continue
            if new and taken:
                raise _several()
            beside = await reader.beside()
            portions = reader.portions(is_only_one=bool(new) and not tasks)
            await _plant(desk, new or task, portions, beside)
            taken.append(new or task)
            yield new or task
    missing = set(tasks) - set(taken) if not new else set[str]()
    if missing or not taken:
        raise Unknown("task", min(missing, default=""), [])


def _require_sense(fold: Fold, now: datetime) -> None:
    """Show a task in every way that one is shown; what cannot be shown must not come in."""
    TaskLine.model_validate(view.summary(fold, now))
    standing.standing(fold, now, frozenset(), 0, ())
    # A person must be able to read it back: not too deep, no number too long.
    strict_json.parse_object(view.render(fold, now, frozenset(), 0))
    for name in fold.steps:
        ids.check_id("step", name)
    for kept in fold.checkpoints.values():
        ids.checkpoint_file_name(kept.number, kept.label)


def _several() -> InvalidValue:
    return InvalidValue("new", "the file holds several tasks; say which one is meant")


class _Reader:
    """Reads an export line by line, believing what its checksums confirm."""

    def __init__(
        self, source: AsyncBufferedReader, limit_bytes: int, clock: Callable[[], datetime]
    ) -> None:
        self._source, self._limit, self._clock = source, limit_bytes, clock
        self._number = 0
        self._digest = sha256()
        self._task = ""
        self._revision = 0
        self._ahead = b""

    async def next_task(self) -> str | None:
        """Go to the beginning of the next task; None at the end of the file."""
        self._digest = sha256()
        line = await self._next()
        if not line:
            return None
        header = self._object(line)
        if "export" not in header:
            raise self._bad("it is not an export of Holdfast, or damaged here")
        if header["export"] != FORMAT:
            raise self._bad("a later version wrote it; upgrade Holdfast")
        if type(header.get("revision")) is not int or header["revision"] < 1:
            raise self._bad("it does not say how long the journal is")
        self._task = ids.check_id("task", header.get("task", ""))
        self._revision = header["revision"]
        return self._task

    async def beside(self) -> Beside:
        """Read what belongs to the task besides its log."""
        kept: dict[tuple[Kind, str], bytes] = {}
        loads: list[JsonObject] = []
        while not (line := await self._next()).startswith(b'{"seq":'):
            told = self._object(line)
            if told.get("kept") in _KINDS:
                try:
                    raw = base64.b64decode(told["base64"], validate=True)
                    kept[told["kept"], ids.check_id("file", told["name"])] = raw
                except (KeyError, TypeError, ValueError) as error:
                    raise self._bad("it is not a kept file") from error
            elif is_object(told.get("load")):
                loads.append(self._load(told["load"]))
            else:
                raise self._bad("nobody knows what it says")
        self._ahead = line
        return Beside(kept, loads)

    async def portions(self, *, is_only_one: bool) -> AsyncIterator[list[Draft]]:
        """Give the records; whoever takes them must take none if this raises."""
        fold = Fold(self._task, keeps_history=True)
        portion: list[Draft] = []
        for seq in range(1, self._revision + 1):
            line, self._ahead = self._ahead or await self._next(), b""
            record = self._record(line, seq)
            self._try(partial(advance, fold, [record]))
            portion.append(_as_draft(record))
            if len(portion) == _PORTION:
                yield portion
                portion = []
        yield portion
        await self._end()
        self._try(lambda: _require_sense(fold, self._clock()))
        if is_only_one and await self._next():
            raise _several()

    async def pass_over(self) -> None:
        """Go to the end of a task that is not wanted."""
        while not (line := await self._next()).startswith(b'{"end":'):
            if not line:
                raise self._bad("the end of the task is missing")

    async def _end(self) -> None:
        digest = self._digest.hexdigest()
        if self._object(await self._next()) != {"end": self._task, "sha256": digest}:
            raise self._bad("what the task says is not what was exported")

    def _record(self, line: bytes, seq: int) -> Record:
        record = decode_line(line.removesuffix(b"\n"), _NOWHERE)
        if not isinstance(record, Record) or record.seq != seq or "task" in record.body:
            raise self._bad(f"record {seq} cannot be believed")
        if seq == 1 and record.opens is not True:
            raise self._bad("the first record opens no run")
        if self._try(lambda: stamp(moment(record.at))) != record.at:
            raise self._bad(f"record {seq} was written at no time")
        return record

    def _load(self, load: JsonObject) -> JsonObject:
        self._try(lambda: Load.model_validate(load))
        return load

    def _try(self, work: Callable[[], T]) -> T:
        """Do what only fails if the file says what no program of ours writes: anybody can count a crc."""
        try:
            return work()
        except MISFITS as error:
            raise self._bad("what it says makes no task") from error

    async def _next(self) -> bytes:
        line = await self._source.readline(self._limit)
        self._number += 1
        if len(line) >= self._limit:
            raise TooLarge(f"line {self._number}", len(line), self._limit - 1)
        if not line.startswith(b'{"end":'):
            self._digest.update(line)
        return line

    def _object(self, line: bytes) -> JsonObject:
        if not line:
            raise self._bad("the file ends here, in the middle of a task")
        try:
            found: object = strict_json.decode(line)
        except ValueError as error:
            raise self._bad("it does not parse") from error
        if not is_object(found):
            raise self._bad("it is not an object")
        return found

    def _bad(self, problem: str) -> InvalidValue:
        return InvalidValue(f"line {self._number} of the export", problem)
