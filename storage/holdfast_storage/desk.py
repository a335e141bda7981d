"""Where decisions meet an engine: folds kept warm, one commit for each operation."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from threading import Lock
from typing import Any, Generic, TypeVar

from holdfast_storage.core import delta, strict_json
from holdfast_storage.core.advance import advance
from holdfast_storage.core.decide.context import Context, Decision
from holdfast_storage.core.errors import (
    Busy,
    Damaged,
    HoldfastError,
    JournalReplaced,
    NotSaved,
    Unavailable,
    Unknown,
)
from holdfast_storage.core.fold import Checkpoint, Fold
from holdfast_storage.core.limits import Settings, read_settings
from holdfast_storage.core.records import DamagedLine, Draft, Entry, Place, Record
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.engines.base import Engine, Following, Foreseeing, Operation

T = TypeVar("T")
Made = TypeVar("Made", bound=Operation)
_LOG = logging.getLogger("holdfast")

Decide = Callable[[Fold, Context], Decision]
# Made up from the task as it is right after this record, before it is known to be durable.
AnswerWith = Callable[[Fold, Decision, Record | None], T]

# These stay however large they are, and so many more that are small.
_FOLDS_KEPT, _SMALL_FOLDS_KEPT = 64, 192
_DROPS_KEPT = 256
_SMALL_BYTES, _STEP_BYTES = 2**20, 500
# How often something is looked for anew that prune moves while we look.
_TRIES = 5
# After so many answers at once the event loop comes to its timers and sockets in any case.
_ANSWERS_IN_A_ROW = 16


@dataclass(frozen=True, slots=True)
class Author:
    """Who is behind an operation."""

    by: str
    is_person: bool = False


class Folds:
    """The folds of the tasks in use, the least recently used one given up first."""

    def __init__(self) -> None:
        self._folds: OrderedDict[str, Fold] = OrderedDict()
        self._lock = Lock()  # workers and the event loop both come here
        self.drops = 0
        # When the tasks dropped last were dropped, by that count.
        self._dropped: OrderedDict[str, int] = OrderedDict()

    def get(self, task: str, *, is_anew: bool = False) -> Fold:
        """Give the fold of a task; a new one knows nothing yet."""
        with self._lock:
            fold = None if is_anew else self._folds.get(task)
            if fold is None:
                # Not by setdefault: an empty fold for each question costs more than the question.
                fold = self._folds[task] = Fold(task)
                self._make_room()
            self._folds.move_to_end(task)
            return fold

    def put(self, fold: Fold, drops: int) -> None:
        """Keep a fold that was made elsewhere, unless a newer one is there.

        Nor if its task was dropped since `drops` was read: it may rest on what was dropped for.
        """
        with self._lock:
            known = self._folds.get(fold.task)
            if self._is_dropped_since(drops, fold.task):
                return
            if known is None or known.seq < fold.seq:
                self._folds[fold.task] = fold
                self._folds.move_to_end(fold.task)
                self._make_room()

    def _make_room(self) -> None:
        """Give up the least recently used ones, the large before the small."""
        while len(self._folds) > _FOLDS_KEPT + _SMALL_FOLDS_KEPT:
            self._folds.popitem(last=False)
        out_of_use = len(self._folds) - _FOLDS_KEPT
        for fold in list(islice(self._folds.values(), max(0, out_of_use))):
            if not _is_small(fold):
                del self._folds[fold.task]

    def state_bytes(self, task: str) -> int:
        """Give about how large a task's state is; one that is not known may be of any size."""
        with self._lock:
            fold = self._folds.get(task)
            return fold.state_bytes if fold is not None else sys.maxsize

    def is_warm(self, task: str) -> bool:
        """Say whether the task is known."""
        return task in self._folds

    def drop(self, task: str) -> None:
        """Forget a fold that may rest on what did not become durable, or on a journal that is gone."""
        with self._lock:
            self._folds.pop(task, None)
            self.drops += 1
            self._dropped[task] = self.drops
            self._dropped.move_to_end(task)
            if len(self._dropped) > _DROPS_KEPT:
                self._dropped.popitem(last=False)

    def _is_dropped_since(self, drops: int, task: str) -> bool:
        # After so many others nobody can tell.
        return self._dropped.get(task, 0) > drops or self.drops - drops >= _DROPS_KEPT


def _is_small(fold: Fold) -> bool:
    """Say whether a fold can be kept for nothing; each change it remembers may hold a whole state."""
    states = fold.state_bytes * (1 + len(fold.changes))
    return states + len(fold.steps) * _STEP_BYTES <= _SMALL_BYTES


class _OnItsWay(Following):
    """What goes through an engine and sees one task through one fold to the end.

    The cache may give up its own while a worker waits for the disk, and a fold that begins in the middle
    takes the task for a new one.
    """

    def __init__(self, desk: Desk, task: str, *, may_read_again: bool, begins_anew: bool) -> None:
        self._desk, self._task = desk, task
        self._may_read_again, self._begins_anew = may_read_again, begins_anew
        self._fold: Fold

    @property
    def known(self) -> int:
        self._fold = self._desk.folds.get(self._task, is_anew=self._begins_anew)
        return self._fold.seq

    def follow(self, entries: Sequence[Entry]) -> None:
        fold = self._fold
        is_new = fold.seq == 0
        if entries:
            advance(fold, entries)
        if is_new:
            # What was read just now lies where it was read.
            fold.rewritten = False

    def _read_on(self, entries: Sequence[Entry]) -> Fold:
        fold = self._fold
        if entries or fold.seq == 0:
            self.follow(entries)
        if fold.rewritten and self._may_read_again:
            raise Moved
        return fold


class _Question(_OnItsWay, Generic[T]):
    """Something to be read off a task: nothing of it is recorded."""

    def __init__(
        self,
        desk: Desk,
        task: str,
        answer: Callable[[Fold], T],
        *,
        may_read_again: bool,
        begins_anew: bool,
    ) -> None:
        super().__init__(desk, task, may_read_again=may_read_again, begins_anew=begins_anew)
        self._answer = answer
        self.result: T

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        self.result = self._answer(self._read_on(entries))
        return None

    def accept(self, record: Record | None) -> None:
        if self._fold.rewritten:
            self._desk.folds.drop(self._task)


class _Operation(_OnItsWay, Foreseeing, Generic[T]):
    """One decision on its way to the log.

    Its answer tells of the task right after its own record, whatever else goes into the same write.
    """

    def __init__(
        self,
        desk: Desk,
        task: str,
        author: Author,
        decide: Decide,
        answer: AnswerWith[T],
        learn: Callable[[T], object],
        *,
        may_read_again: bool,
        begins_anew: bool,
    ) -> None:
        super().__init__(desk, task, may_read_again=may_read_again, begins_anew=begins_anew)
        self._author, self._decide = author, decide
        self._answer, self._learn = answer, learn
        self._decision: Decision
        self._foreseen: tuple[T, Record | None] | None = None
        self.record: Record | None = None
        self.result: T

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        self._foreseen = None
        fold = self._read_on(entries)
        self._decision = self._decide(fold, self._desk.context(fold, self._author))
        return self._decision.draft

    def foresee(self, record: Record | None) -> None:
        if record is not None:
            advance(self._fold, [record])
        self._foreseen = self._answer(self._fold, self._decision, record), record

    def abandon(self) -> None:
        self._desk.folds.drop(self._task)

    def accept(self, record: Record | None) -> None:
        if self._foreseen is None:
            self.foresee(record)
        assert self._foreseen is not None
        self.record = record
        self.result, foreseen = self._foreseen
        self._learn(self.result)
        is_elsewhere = (
            record is not foreseen
            and record is not None
            and foreseen is not None
            and record.place != foreseen.place
        )
        if self._fold.rewritten or is_elsewhere:
            # Prune moved lines about, or a failing disk did: the places remembered are not theirs.
            self._desk.folds.drop(self._task)


class Moved(Exception):
    """A record is not, or not as it was, where it was seen: somebody pruned meanwhile."""


class Desk:
    """The one place from which the log is written and read."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        settings: Settings,
    ) -> None:
        self.engine, self.clock, self.new_id, self.settings = engine, clock, new_id, settings
        self.folds = Folds()
        engine.when_forgotten(self.folds.drop)
        self.settings_problem = ""
        # What the settings were read from: an engine gives the same again while nothing changed.
        self._settings_read: Mapping[str, Any] | None = None
        self._warming: dict[str, asyncio.Lock] = {}
        self._answers = 0

    async def refresh_settings(self) -> None:
        """Read holdfast.json again; while it is broken the last good settings count."""
        try:
            found = await self.engine.settings()
            if found is not self._settings_read:
                self.settings = read_settings(dict(found))
            self._settings_read, self.settings_problem = found, ""
        except HoldfastError as error:
            self.settings_problem = f"{error}; the last good settings count"

    def context(self, fold: Fold, author: Author) -> Context:
        """Give the surroundings of a decision at this moment."""
        engine = self.engine
        return Context(
            self.clock(),
            self.new_id(),
            author.by,
            engine.process,
            engine.workspace_id,
            self.settings,
            self.gone(fold),
            author.is_person,
        )

    def state_bytes(self, task: str) -> int:
        """Give about how large a task's state is, as far as it is known without asking."""
        return self.folds.state_bytes(task)

    def gone(self, fold: Fold) -> frozenset[str]:
        """Name the processes that had steps in hand and live no more."""
        if not fold.claims:
            return frozenset()
        return frozenset(
            process for process in fold.processes_at_work() if not self.engine.is_alive(process)
        )

    # --- writing ------------------------------------------------------------------------------

    async def commit(
        self,
        task: str,
        author: Author,
        decide: Decide,
        answer: AnswerWith[T],
        learn: Callable[[T], object] = lambda answer: None,
        *,
        is_light: bool = False,
    ) -> tuple[T, Record | None]:
        """Have it decided on everything there is; when it is durable, `learn` from the answer and give it."""

        def operation(**how: bool) -> _Operation[T]:
            return _Operation(self, task, author, decide, answer, learn, **how)

        done = await self._carried_out(task, operation, is_light=is_light)
        record = done.record
        if record is not None and "conflicts" in record.body:
            await self._keep_lost_values(task, record)
        return done.result, record

    async def ask(self, task: str, answer: Callable[[Fold], T], *, is_light: bool = True) -> T:
        """Read something off the fold as it stands now, all of it durable."""

        if not self.folds.is_warm(task):
            await self.warm(task)
        if is_light and (asked := self.asked_at_once(task, answer)) is not None:
            if self.is_somebodys_turn():
                await asyncio.sleep(0)
            return asked.result

        def question(**how: bool) -> _Question[T]:
            return _Question(self, task, answer, **how)

        return (await self._carried_out(task, question, is_light=is_light)).result

    def asked_at_once(self, task: str, answer: Callable[[Fold], T]) -> _Question[T] | None:
        """Read the same where nothing has to be waited for; None where something has."""
        if not self.folds.is_warm(task):
            return None
        question = _Question(self, task, answer, may_read_again=True, begins_anew=False)
        try:
            return question if self.engine.answers_at_once(task, question) else None
        except (JournalReplaced, Moved):
            # Whoever asks again is told so again.
            return None
        except BaseException as error:
            self._forget_after(task, error)
            raise

    def is_somebodys_turn(self) -> bool:
        """Say whether whoever was answered at once should let others work first."""
        self._answers = (self._answers + 1) % _ANSWERS_IN_A_ROW
        return self._answers == 0

    async def _carried_out(self, task: str, make: Callable[..., Made], *, is_light: bool) -> Made:
        """Put what is to be done to the engine, anew if what is known of the task was replaced."""
        if not self.folds.is_warm(task):
            await self.warm(task)
        begins_anew = False
        for last_try in (False, True):
            operation = make(may_read_again=not last_try, begins_anew=begins_anew)
            try:
                await self.engine.commit(task, operation, is_light=is_light)
            except JournalReplaced:
                self.folds.drop(task)
                if last_try:
                    raise
                # Whatever others have read by then: only who knows nothing is never refused.
                begins_anew = True
            except Moved:
                self.folds.drop(task)
                await self.warm(task)
            except BaseException as error:
                self._forget_after(task, error)
                raise
            else:
                return operation
        raise AssertionError("unreachable")

    def _forget_after(self, task: str, error: BaseException) -> None:
        """Forget a fold that may rest on what went wrong."""
        is_refusal = isinstance(error, HoldfastError) and not isinstance(error, NotSaved)
        # Whoever was cancelled is gone; the operation goes on, and its fold with it.
        if not (is_refusal or isinstance(error, asyncio.CancelledError)):
            self.folds.drop(task)

    async def warm(self, task: str) -> None:
        """Read a task that is not known yet without holding its lock."""
        if self.folds.is_warm(task):
            return
        try:
            async with self._warming.setdefault(task, asyncio.Lock()):
                if not self.folds.is_warm(task):
                    drops = self.folds.drops
                    self.folds.put(await self.fold_to(task), drops)
        finally:
            self._warming.pop(task, None)

    async def _keep_lost_values(self, task: str, record: Record) -> None:
        """Lay each value that did not make it where people look; the journal has it already."""
        for lost in record.body["conflicts"]:
            if lost["path"]:
                told = {"task": task, "at": record.at, "revision": record.seq, **lost}
                name = lost["file"].removeprefix("conflicts/")
                try:
                    await self.engine.keep(task, "conflicts", name, strict_json.pretty(told))
                except HoldfastError as error:
                    # The operation is durable: it must not be answered as if it had failed.
                    _LOG.warning("%s not written, the journal has it: %s", lost["file"], error)

    # --- reading ------------------------------------------------------------------------------

    async def fold_to(self, task: str, seq: int | None = None, *, history: bool = False) -> Fold:
        """Fold the open run (with `history`, all of them) up to `seq`."""
        for _ in range(_TRIES):
            # Somebody pruned between two looks. This remembers nothing, so it can begin anew.
            with suppress(JournalReplaced):
                return await self._fold_to(task, seq, history=history)
        raise Busy(task, 0)

    async def _fold_to(self, task: str, seq: int | None, *, history: bool) -> Fold:
        fold = Fold(task, keeps_history=history)
        if not history:
            fold.seq = await self.engine.opening(task)
        if seq is not None and seq < fold.seq:
            raise Unknown("revision", str(seq))
        async for entries in self.engine.read(task, fold.seq):
            if seq is None:
                advance(fold, entries)
                continue
            wanted = list(takewhile(lambda entry: (entry.seq or 0) <= seq, entries))
            advance(fold, wanted)
            if len(wanted) < len(entries):
                break
        # What was read just now lies where it was read.
        fold.rewritten = False
        return fold

    async def state_of(self, task: str, checkpoint: Checkpoint, fold: Fold) -> JsonObject:
        """Rebuild a checkpoint exactly, from the full save it leans on."""
        for _ in range(_TRIES):
            with suppress(Moved):
                return await self._state_of(task, checkpoint, fold)
            number, fold = checkpoint.number, await self.fold_to(task, history=True)
            if number not in fold.checkpoints:
                raise Unavailable(number, "its record is gone")
            checkpoint = fold.checkpoints[number]
        raise Busy(task, 0)

    async def _state_of(self, task: str, checkpoint: Checkpoint, fold: Fold) -> JsonObject:
        chain = [checkpoint]
        while chain[-1].leans_on:
            before = fold.checkpoints.get(chain[-1].leans_on)
            if before is None:
                raise Unavailable(checkpoint.number, "a save it leans on is missing")
            chain.append(before)
        state: JsonObject = {}
        for kept, entry in zip(
            reversed(chain),
            await self.engine.fetch(task, [kept.place for kept in reversed(chain)]),
            strict=True,
        ):
            # What the line says counts: a restore that was interrupted may have brought it back.
            if isinstance(entry, Record) and "pruned" in entry.body:
                raise Unavailable(checkpoint.number, "it was pruned")
            if not kept.readable:
                raise Unavailable(checkpoint.number, "its record is damaged")
            if isinstance(entry, DamagedLine) or entry.seq != kept.seq:
                raise Moved
            state = with_save(state, entry.body)
        return state

    async def ending_of(self, task: str, step: str, place: Place, revision: int) -> Record:
        """Read the record that ended a step by that revision, at its place or wherever it lies now."""
        [there] = await self.engine.fetch(task, [place])
        if isinstance(there, Record) and _ends(there, step):
            return there
        # Prune moved it. By now the step may have been reopened, or the run may be over: what the fold
        # says of it is another story.
        found: Record | None = None
        async for entries in self.engine.read(task, 0):
            for entry in takewhile(lambda entry: (entry.seq or 0) <= revision, entries):
                if isinstance(entry, DamagedLine):
                    found = None if entry.step in ("", step) else found
                elif _ends(entry, step):
                    found = entry
        if found is None:
            raise Damaged(f"the result of {step} in {task}", "its record cannot be read")
        return found


def _ends(record: Record, step: str) -> bool:
    if record.op == "edit":
        return step in record.body.get("steps", {})
    return record.op in ("done", "resolve") and record.body.get("step") == step


def with_save(state: JsonObject, body: Mapping[str, Any]) -> JsonObject:
    """Give the state after a save: the one it holds, or the one before it with its changes."""
    if "from" not in body:
        full: JsonObject = body["state"]
        return full
    return delta.apply(state, body.get("changes", {}))
