"""The threads of graphs in a workspace: every operation of a checkpointer, on tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast_storage import listing, pruning
from holdfast_storage.core import ids, strict_json
from holdfast_storage.core.decide.context import Context, Decision, draft
from holdfast_storage.core.decide.people import decide_finish
from holdfast_storage.core.errors import Damaged, JournalReplaced, Unavailable
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Draft, Entry, Record
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.desk import Author, Decide, with_save
from holdfast_storage.langgraph.decide import (
    PutRequest,
    WriteRequest,
    decide_put,
    decide_write,
    values_in,
)
from holdfast_storage.langgraph.thread import Key, Put, Save, Thread, Written
from holdfast_storage.workspace import Workspace

T = TypeVar("T")
_THREADS_KEPT = 256
_SEEN_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Now:
    """A task at this moment: what people and agents made of the newest save, and their answers."""

    seq: int
    last_id: str  # of the newest record
    is_open: bool
    checkpoint: int
    state: JsonObject | None
    is_edited: bool  # since that checkpoint
    answers: Mapping[str, Any]  # by interrupt


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint with all that belongs to it, as JSON."""

    thread: str
    put: Put
    graph: JsonObject
    label: str
    values: JsonObject
    edited: frozenset[str]  # channels that somebody else changed since it was put
    writes: Sequence[JsonObject]
    answers: Mapping[str, Any]  # by interrupt, only those asked of this very graph


class _Recent(OrderedDict[str, T]):
    """What belongs to the threads that were used last; a program may have thousands."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, task: str, value: T) -> None:
        super().__setitem__(task, value)
        self.move_to_end(task)
        if len(self) > self._most:
            self.popitem(last=False)


class Threads:
    """Puts and finds checkpoints. Remembers what it has shown, because a graph replaces what it saw."""

    def __init__(self, workspace: Workspace, by: str) -> None:
        self._desk, self._people = workspace.desk, workspace.people
        self._author = Author(by)
        self._threads: _Recent[Thread] = _Recent(_THREADS_KEPT)
        # Of a thread that is not in here people's changes are taken for unseen: kept, and announced.
        self._seen: _Recent[int] = _Recent(_SEEN_KEPT)

    # --- putting ------------------------------------------------------------------------------

    async def put(self, task: str, request: PutRequest) -> None:
        """Save a checkpoint; it is durable when this returns."""
        seen = self._seen.get(task, 0)
        await self._commit(task, lambda fold, context: decide_put(fold, request, seen, context))

    async def write(self, task: str, request: WriteRequest) -> None:
        """Write down what a node wrote; it is durable when this returns."""
        seen, known, graph = self._seen.get(task, 0), self._threads.get(task), request.graph
        key = (graph.get("ns", ""), graph["checkpoint"])
        stopped_by = known.interrupts_of(key, graph["task"]) if known else frozenset[str]()
        await self._commit(
            task,
            lambda fold, context: decide_write(fold, request, stopped_by, seen, context),
        )

    async def _commit(self, task: str, decide: Decide) -> None:
        ids.check_id("task", task)
        await self._people.look(task)
        before = (0, "")

        def deciding(fold: Fold, context: Context) -> Decision:
            nonlocal before
            before = fold.seq, fold.last_id
            return decide(fold, context)

        _, record = await self._desk.commit(
            task, self._author, deciding, lambda fold, decision, record: None
        )
        known = self._threads.get(task)
        if known is not None and record is not None and (known.seq, known.last_id) == before:
            known.take([record])
        self._people.touch(task)

    # --- finding ------------------------------------------------------------------------------

    async def get(self, task: str, ns: str, checkpoint_id: str = "") -> Found | None:
        """Find a checkpoint, by default the one to go on from."""
        try:
            return await self._get(task, ns, checkpoint_id)
        except JournalReplaced:
            # Somebody pruned in this very moment.
            return await self._get(task, ns, checkpoint_id)

    async def _get(self, task: str, ns: str, checkpoint_id: str) -> Found | None:
        now = await self._now(task)
        thread = await self._thread(task, now)
        put = thread.puts.get((ns, checkpoint_id)) if checkpoint_id else thread.latest(ns)
        # Whoever looked at the newest one replaces it knowingly; looking back shows nothing new.
        if put is None or put is thread.last_put.get(ns):
            self._seen[task] = now.seq
        if put is None:
            return None
        return await self._found(task, thread, now, put, _States(self, task, thread))

    async def each(self, task: str, wanted: Callable[[Put], bool]) -> AsyncIterator[Found]:
        """Find the checkpoints of a thread that are wanted, newest first."""
        now = await self._now(task)
        thread = await self._thread(task, now)
        states = _States(self, task, thread)
        for put in sorted(thread.puts.values(), key=lambda put: put.id, reverse=True):
            if wanted(put):
                yield await self._found(task, thread, now, put, states)

    async def all(self) -> list[str]:
        """List the tasks that can be read, whether graphs or not."""
        return [line.task for line in await listing.all_tasks(self._desk) if not line.problem]

    async def _now(self, task: str) -> Now:
        ids.check_id("task", task)
        await self._people.look(task)

        def of(fold: Fold) -> Now:
            newest = fold.checkpoints.get(fold.checkpoint)
            is_gone = newest is not None and newest.pruned
            is_known = not (fold.state_pruned or fold.state_lost or is_gone)
            answers = {
                question.step: question.answer
                for question in fold.questions.values()
                if question.answer is not None
            }
            return Now(
                fold.seq,
                fold.last_id,
                fold.run > 0 and not fold.is_closed,
                fold.checkpoint,
                fold.state if is_known else None,
                fold.snapshot is not fold.checkpoint_snapshot,
                answers,
            )

        return await self._desk.ask(task, of)

    async def _thread(self, task: str, now: Now) -> Thread:
        """Give the thread as far as it is known now; a closed run is over for the graph too."""
        if not now.is_open:
            self._threads.pop(task, None)
            return Thread()
        thread = self._threads.get(task)
        if thread is None or not await self._has_read_on(task, thread, now) or thread.is_stale:
            thread = await self._fresh(task)
        self._threads[task] = thread
        return thread

    async def _fresh(self, task: str) -> Thread:
        thread = Thread(seq=await self._desk.engine.opening(task))
        async for entries in self._desk.engine.read(task, thread.seq):
            thread.take(entries)
        # What was read just now lies where it was read.
        thread.is_stale = False
        return thread

    async def _has_read_on(self, task: str, thread: Thread, now: Now) -> bool:
        """Bring a thread up to date; False if somebody put another journal in the place of its own."""
        if thread.seq >= now.seq:
            return (thread.seq, thread.last_id) == (now.seq, now.last_id)
        if not thread.last_id:
            return False
        is_its_own = False
        # Others may bring it up to date at the same time.
        seq, last_id = thread.seq, thread.last_id
        try:
            # With the last record that it knows, to know the journal by.
            async for entries in self._desk.engine.read(task, seq - 1):
                is_its_own = is_its_own or _begins_with(entries, seq, last_id)
                if not is_its_own:
                    break
                thread.take(entries)
        except JournalReplaced:
            return False
        return is_its_own

    async def _found(self, task: str, thread: Thread, now: Now, put: Put, states: _States) -> Found:
        if put.number == now.checkpoint and now.state is not None and not now.is_edited:
            # The newest save as it is: what would be rebuilt of it is at hand.
            state, [record] = now.state, await self.fetch(task, [thread.saves[put.number]])
        else:
            state, record = await states.at(put)
        exact = values_in(state, put.ns) or {}
        values = exact
        if now.state is not None and put is thread.last_put.get(put.ns):
            values = values_in(now.state, put.ns) or exact
        names = exact.keys() | values.keys()
        absent = object()
        edited = frozenset(
            name
            for name in names
            if not strict_json.same(exact.get(name, absent), values.get(name, absent))
        )
        writes = await self.fetch(task, thread.written.get(put.key, ()))
        own = {
            name: told for name, told in now.answers.items() if thread.owners.get(name) == put.ns
        }
        return Found(
            thread=task,
            put=put,
            graph=record.body["graph"],
            label=record.body.get("label", ""),
            values=values,
            edited=edited,
            writes=[each.body["graph"] for each in writes],
            answers=own,
        )

    async def fetch(self, task: str, seen: Sequence[Save | Written]) -> list[Record]:
        """Read records again that were seen before."""
        entries = await self._desk.engine.fetch(task, [each.place for each in seen])
        if any(entry.seq != each.seq for entry, each in zip(entries, seen, strict=True)):
            # Somebody pruned meanwhile: the next look finds where they lie now.
            self._threads.pop(task, None)
            raise JournalReplaced(task)
        return [_believed(task, entry) for entry in entries]

    # --- removing and copying -----------------------------------------------------------------

    async def delete(self, task: str) -> None:
        """Remove all checkpoints and writes of a thread, also those of runs that are over."""
        now = await self._now(task)
        if not now.seq:
            return
        if now.is_open:
            # Closed first, so that nothing can come to lean on what goes.
            await self._commit(
                task, lambda fold, context: decide_finish(fold, "abandoned", "", context)
            )
        history = await self._desk.fold_to(task, history=True)
        going = {each.number for each in history.checkpoints.values() if not each.pruned}
        await self._remove(task, going, lambda written: True)
        self._seen[task] = (await self._now(task)).seq

    async def remove(self, task: str, going: Iterable[Put]) -> None:
        """Remove some checkpoints with what was written to them."""
        gone = {put.key: put for put in going}
        if not gone:
            return
        numbers = {put.number for put in gone.values()}
        await self._let_nothing_lean_on(task, numbers)
        await self._remove(task, numbers, lambda written: written in gone)
        self._threads.pop(task, None)

    async def _let_nothing_lean_on(self, task: str, going: set[int]) -> None:
        """If the newest save goes, have the next one written in full."""

        def decide(fold: Fold, context: Context) -> Decision:
            if fold.checkpoint not in going:
                return Decision(None)
            return Decision(draft(context, "prune", {"checkpoints": [fold.checkpoint]}))

        await self._desk.commit(task, self._author, decide, lambda fold, decision, record: None)

    async def _remove(self, task: str, numbers: set[int], is_gone: Callable[[Key], bool]) -> None:
        emptied: dict[int, Draft] = {}
        async for entries in self._desk.engine.read(task, 0):
            for entry in entries:
                if isinstance(entry, Record) and entry.op == "write":
                    graph = entry.body["graph"]
                    if "pruned" not in entry.body and is_gone(
                        (graph.get("ns", ""), graph["checkpoint"])
                    ):
                        emptied[entry.seq] = _emptied(entry)
        if numbers or emptied:
            await pruning.remove(self._desk, self._people, self._author, task, numbers, emptied)

    async def keep_latest(self, task: str) -> None:
        """Remove all but the latest checkpoint of each graph, and what delta channels need of others."""
        thread = await self._thread(task, await self._now(task))
        latest = [put for ns in thread.namespaces() if (put := thread.latest(ns))]
        staying = {put.key for put in latest}
        staying |= {older.key for put in latest for older in thread.needed_for(put)}
        await self.remove(task, [put for key, put in thread.puts.items() if key not in staying])

    async def delete_runs(self, run_ids: Iterable[str]) -> None:
        """Remove what certain runs of graphs put into any thread."""
        wanted = set(run_ids)
        for task in await self.all() if wanted else ():
            thread = await self._thread(task, await self._now(task))
            going = [it for it in thread.puts.values() if it.metadata.get("run_id") in wanted]
            await self.remove(task, going)

    async def copy(self, source: str, target: str) -> None:
        """Put everything of one thread into another, in the order in which it came."""
        now = await self._now(source)
        thread = await self._thread(source, now)
        states = _States(self, source, thread)
        for put in sorted(thread.puts.values(), key=lambda put: put.seq):
            found = await self._found(source, thread, now, put, states)
            await self.put(target, PutRequest(put.ns, found.values, found.graph, found.label))
            for graph in found.writes:
                await self.write(target, WriteRequest(graph))


class _States:
    """Rebuilds states, a chain of saves at a time, so that listing all reads each save once."""

    def __init__(self, threads: Threads, task: str, thread: Thread) -> None:
        self._threads, self._task, self._thread = threads, task, thread
        self._known: dict[int, tuple[JsonObject, Record]] = {}

    async def at(self, put: Put) -> tuple[JsonObject, Record]:
        """Give the state that a checkpoint's save holds, and its record."""
        if put.number not in self._known:
            # Only one chain is kept: checkpoints are asked for in order, or one by one.
            self._known = await self._rebuilt(put.number)
        return self._known[put.number]

    async def _rebuilt(self, number: int) -> dict[int, tuple[JsonObject, Record]]:
        saves = self._thread.saves
        chain = list(reversed(list(self._thread.chain(number))))
        if not chain or saves[chain[0]].leans_on:
            raise Unavailable(number, "a save it leans on is missing")
        records = await self._threads.fetch(self._task, [saves[each] for each in chain])
        state: JsonObject = {}
        known: dict[int, tuple[JsonObject, Record]] = {}
        for each, record in zip(chain, records, strict=True):
            state = with_save(state, record.body)
            known[each] = (state, record)
        return known


def _believed(task: str, entry: Entry) -> Record:
    if isinstance(entry, Record):
        return entry
    raise Damaged(f"the journal of {task}", entry.problem)


def _emptied(record: Record) -> Draft:
    kept = {key: value for key, value in record.body.items() if key not in ("graph", "asks")}
    graph = {key: value for key, value in record.body["graph"].items() if key != "writes"}
    asks = [{**ask, "question": "(deleted)"} for ask in record.body.get("asks", ())]
    body = {**kept, "graph": graph, **({"asks": asks} if asks else {}), "pruned": True}
    return Draft(record.id, record.at, record.by, record.op, body, record.opens)


def _begins_with(entries: Sequence[Entry], seq: int, last_id: str) -> bool:
    first = entries[0]
    return isinstance(first, Record) and (first.seq, first.id) == (seq, last_id)
