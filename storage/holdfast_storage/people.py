"""Between the journal and the files people touch: renders views, takes edits in, loses neither."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from shlex import quote

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.decide.context import Context, Decision
from holdfast_storage.core.edits import (
    Base,
    SavedFile,
    apply_said,
    decide_edit,
    decide_keep_aside,
    edits_before,
    is_known,
)
from holdfast_storage.core.errors import (
    MISFITS,
    HoldfastError,
    InvalidValue,
    Unavailable,
    Unknown,
    Unreadable,
    UnsafeFile,
)
from holdfast_storage.core.fold import Checkpoint, Fold, IngestedEdit
from holdfast_storage.core.ids import checkpoint_file_name
from holdfast_storage.core.records import Record
from holdfast_storage.core.seal import embedded_revision, is_sealed, seal
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.desk import Author, Desk, Moved
from holdfast_storage.engines.base import Sighting

HUMAN = Author("human", is_person=True)
_LOG = logging.getLogger("holdfast")

# So many bases are at hand, and besides the newest no more than so much; others are folded anew.
_BASES_KEPT, _BASES_BYTES_KEPT = 64, 16 * 2**20
_CHECKPOINT_VIEWS = 5
_CHECKPOINT_VIEW_BYTES = 64 * 2**10
_RENDER_TRIES = 5
_TRY_AGAIN_SECONDS = 1.0
_TASKS_KEPT = 256


@dataclass(slots=True)
class _Rendered:
    """A view ready to be published, and what goes with it."""

    raw: bytes
    revision: int
    run: int
    editable: JsonObject
    summary: JsonObject
    checkpoints: list[tuple[Checkpoint, JsonObject | None]]
    places: Fold  # where each lies, as far as it matters to read one again


@dataclass(slots=True)
class _Case:
    """What the journal says about a file before it is read closely."""

    known: bool
    head: int
    opened: int
    before: list[IngestedEdit] = field(default_factory=list[IngestedEdit])


class _Bases:
    """What views show of a task, by its revision: a person's save is compared with what they saw."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[JsonObject, int]] = OrderedDict()
        self._size = 0

    def get(self, task: str, revision: int) -> JsonObject | None:
        """Give one if it is at hand."""
        kept = self._kept.get((task, revision))
        return kept and kept[0]

    def put(self, task: str, revision: int, base: JsonObject, size: int) -> None:
        """Keep one of about so many bytes, and give up the oldest if that is too much."""
        self._size -= self._kept.pop((task, revision), (base, 0))[1]
        self._kept[task, revision] = base, size
        self._size += size
        while len(self._kept) > _BASES_KEPT or (
            self._size > _BASES_BYTES_KEPT and len(self._kept) > 1
        ):
            _, (_, gone) = self._kept.popitem(last=False)
            self._size -= gone


class People:
    """Looks after the view of every task in use."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._broken: dict[str, str] = {}
        self._bases = _Bases()
        self._published: dict[str, int] = {}
        self._checkpoints: dict[str, dict[str, int]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._dirty: set[str] = set()
        self._is_closing = False

    def warnings(self, task: str) -> list[str]:
        """Say what is wrong with the files people edited, if anything."""
        return [self._broken[task]] if task in self._broken else []

    # --- taking edits in ----------------------------------------------------------------------

    async def look(self, task: str) -> None:
        """Take in what a person saved, if anybody did."""
        if not self._desk.engine.may_have_changed(task):
            return
        async with self._lock(task):
            # It may have been our own rendering that had not come to its end.
            if self._desk.engine.may_have_changed(task):
                await self._take_in(task)

    def _lock(self, task: str) -> asyncio.Lock:
        if task not in self._locks:
            if len(self._locks) >= _TASKS_KEPT:
                self._forget_idle()
            self._locks[task] = asyncio.Lock()
        return self._locks[task]

    def _forget_idle(self) -> None:
        for task in [name for name, lock in self._locks.items() if not lock.locked()]:
            if task not in self._dirty:
                for memory in (self._locks, self._published, self._checkpoints):
                    memory.pop(task, None)

    async def _take_in(self, task: str) -> None:
        try:
            sightings = await self._desk.engine.view(task)
        except UnsafeFile as error:
            self._broken[task] = f"{error}; it was left as it is, and the last good state counts"
            return
        for sighting in sightings:
            await self._take_in_one(task, sighting)
            await self._desk.engine.seen(task, sighting)
        if not any(sighting.name == "state.json" for sighting in sightings):
            # Whoever deletes a broken file wants a good one.
            self._broken.pop(task, None)
            self.touch(task)

    async def _take_in_one(self, task: str, sighting: Sighting) -> None:
        is_view = sighting.name == "state.json"
        try:
            document = strict_json.parse_object(sighting.raw)
        except Unreadable as error:
            if is_view:
                self._broken[task] = (
                    f"state.json does not parse: {error}; it was left as it is, "
                    "and the last good state counts"
                )
            return
        if is_view:
            self._broken.pop(task, None)
        file = SavedFile(
            document=document,
            digest=sha256(sighting.raw).hexdigest(),
            mtime_ns=sighting.mtime_ns,
            revision=_revision(document, task),
            is_sealed=is_sealed(sighting.raw),
        )
        await self._ingest(task, file, sighting.raw)

    async def edit(self, task: str, raw: bytes, author: Author) -> Record | None:
        """Take in a view that a person changed elsewhere than in the file, by the same rules."""
        document = strict_json.parse_object(raw)
        if _is_of_another(document, task):
            raise InvalidValue("task", "it must stay as it is")
        file = SavedFile(
            document=document,
            digest=sha256(raw).hexdigest(),
            mtime_ns=int(self._desk.clock().timestamp() * 1e9),
            revision=_revision(document, task),
            is_sealed=is_sealed(raw),
        )
        await self.look(task)
        async with self._lock(task):
            return await self._ingest(task, file, raw, author)

    async def _ingest(
        self, task: str, file: SavedFile, raw: bytes, author: Author = HUMAN
    ) -> Record | None:
        """Make a save a record; answers the record, None if it says nothing new."""
        for _ in range(3):
            case = await self._desk.ask(task, lambda fold: _case(fold, file))
            if case.known:
                if file.is_sealed and file.revision < case.head:
                    # An old view was put in place of a newer one, or of a broken file.
                    self.touch(task)
                return None
            try:
                base = await self._base(task, file, case)
            except Moved:
                self._desk.folds.drop(task)
                continue
            if base is None:
                return await self._keep_aside(task, file, raw, author)
            again, record = await self._commit_edit(task, file, base, len(case.before), author)
            if not again:
                return record
        return await self._keep_aside(task, file, raw, author)

    async def _commit_edit(
        self, task: str, file: SavedFile, base: Base, before: int, author: Author
    ) -> tuple[bool, Record | None]:
        """Commit unless another save from the same buffer came first: the base is then another."""

        def decide(fold: Fold, context: Context) -> Decision:
            if len(edits_before(fold, file)) != before and not is_known(fold, file):
                return Decision(None, {"again": True})
            return decide_edit(fold, file, base, context)

        again, record = await self._desk.commit(
            task, author, decide, lambda fold, decision, record: "again" in decision.found
        )
        if record is not None:
            _LOG.info("edit task=%s revision=%d", task, record.seq)
        # Even if it says nothing new: what was changed in read_only is put back.
        self.touch(task)
        return again, record

    async def _base(self, task: str, file: SavedFile, case: _Case) -> Base | None:
        """Give what the person had before them when they made the change."""
        if _is_of_another(file.document, task):
            return None
        if not case.opened <= file.revision <= case.head:
            published = self._published.get(task)
            if file.revision >= 0 or published != case.head:
                return None
            # No revision in the file, but nothing was recorded since it was rendered.
            shown = await self._editable_at(task, case.head)
            return Base(shown, shown)
        try:
            shown = base = await self._editable_at(task, file.revision)
            places = [edit.place for edit in case.before]
            for entry in await self._desk.engine.fetch(task, places):
                if not isinstance(entry, Record):
                    raise Moved
                base = apply_said(base, entry)
        except (ValueError, Unknown):
            return None
        return Base(base, shown)

    async def _editable_at(self, task: str, revision: int) -> JsonObject:
        cached = self._bases.get(task, revision)
        if cached is not None:
            return cached
        fold = await self._desk.fold_to(task, revision)
        if fold.is_state_unknown:
            # What the person saw is gone; taken for empty, it would undo everything since.
            raise Unknown("revision", str(revision))
        base = view.editable(fold, self._desk.clock(), frozenset())
        self._bases.put(task, revision, base, fold.state_bytes)
        return base

    async def _keep_aside(
        self, task: str, file: SavedFile, raw: bytes, author: Author
    ) -> Record | None:
        """Nothing says what this file was made from: keep it whole and say so."""
        name = f"{file.digest[:12]}-state.json"
        kept = _in_task(await self._desk.engine.keep(task, "conflicts", name, raw))
        why = f"a saved state.json could not be merged, because its base is not known: see {kept}"
        file = SavedFile(file.document, file.digest, file.mtime_ns, max(file.revision, 0))
        _, record = await self._desk.commit(
            task,
            author,
            lambda fold, context: decide_keep_aside(fold, file, kept, why, context),
            lambda fold, decision, record: None,
        )
        if record is not None:
            self.touch(task)
        return record

    # --- rendering ----------------------------------------------------------------------------

    def touch(self, task: str) -> None:
        """Have the view rendered soon, without anybody waiting for it."""
        self._dirty.add(task)
        if task not in self._timers and not self._is_closing:
            self._timers[task] = asyncio.get_running_loop().create_task(self._render_soon(task))

    def touch_if_behind(self, task: str, revision: int) -> None:
        """Have the view rendered if, as far as we know, nobody has rendered it at this revision."""
        if self._published.get(task) != revision:
            self.touch(task)

    async def _render_soon(self, task: str) -> None:
        try:
            while task in self._dirty:
                await asyncio.sleep(self._desk.engine.view_rest(task) or 0.01)
                if self._desk.engine.view_rest(task) > 0:
                    continue
                self._dirty.discard(task)
                if not await self._render_or_say_why(task):
                    # The journal has everything; the view follows when it can.
                    self._dirty.add(task)
                    await asyncio.sleep(_TRY_AGAIN_SECONDS)
        except asyncio.CancelledError:
            self._dirty.add(task)
            raise
        finally:
            self._timers.pop(task, None)

    async def close(self) -> None:
        """Render what is not rendered yet and stop."""
        self._is_closing = True
        timers = list(self._timers.values())
        for timer in timers:
            timer.cancel()
        await asyncio.gather(*timers, return_exceptions=True)
        for task in {*self._locks, *self._dirty}:
            await self._leave(task)

    async def _leave(self, task: str) -> None:
        """Take in what was saved last, and leave the view as it should be."""
        try:
            async with self._lock(task):
                # An editor may have written late into a file that a rendering displaced.
                await self._take_in(task)
        except (HoldfastError, *MISFITS) as error:
            _LOG.warning("%s was not looked at: %s", task, error)
        if task in self._dirty:
            self._dirty.discard(task)
            await self._render_or_say_why(task)

    async def _render_or_say_why(self, task: str) -> bool:
        try:
            return await self.render(task)
        except (HoldfastError, *MISFITS) as error:
            _LOG.warning("the view of %s was not rendered: %s", task, error)
            return False

    async def render(self, task: str) -> bool:
        """Publish the view as it should be now, taking in first whatever lies in its place.

        Answers whether it is in place; where a broken file is, nothing else should be.
        """
        async with self._lock(task):
            for _ in range(_RENDER_TRIES):
                if self._desk.engine.may_have_changed(task):
                    await self._take_in(task)
                if task in self._broken:
                    return True
                rendered = await self._rendered(task)
                if rendered is None:
                    return True
                if await self._publish(task, rendered):
                    if self._desk.engine.may_have_changed(task):
                        # What it displaced is looked at now, not when somebody comes by.
                        await self._take_in(task)
                    return True
                await self._take_in(task)
        return False

    async def view(self, task: str) -> bytes:
        """Give the view as it should be now, whatever lies in the file."""
        await self.look(task)
        rendered = await self._rendered(task)
        if rendered is None:
            raise Unknown("task", task)
        self._bases.put(task, rendered.revision, rendered.editable, len(rendered.raw))
        return rendered.raw

    async def _rendered(self, task: str) -> _Rendered | None:
        resumes = await self.resumes(task)

        def of(fold: Fold) -> _Rendered | None:
            if fold.run == 0:
                return None
            now, gone = self._desk.clock(), self._desk.gone(fold)
            return _Rendered(
                raw=view.render(fold, now, gone, sum(run == fold.run for run in resumes)),
                revision=fold.seq,
                run=fold.run,
                editable=view.editable(fold, now, gone),
                summary=view.summary(fold, now),
                checkpoints=_to_show(fold),
                places=Fold(task, checkpoints=dict(fold.checkpoints)),
            )

        return await self._desk.ask(task, of, is_light=False)

    async def resumes(self, task: str) -> list[int]:
        """Give the run of every noted load."""
        return [load.get("run", 0) for load in await self._desk.engine.loads(task)]

    async def _publish(self, task: str, rendered: _Rendered) -> bool:
        engine = self._desk.engine
        if not await engine.swap_view(task, rendered.raw, rendered.revision):
            return False
        if rendered.revision < self._published.get(task, 0):
            # Somebody deleted the task, and it was begun anew.
            self.forget_checkpoint_files(task)
        self._published[task] = rendered.revision
        self._bases.put(task, rendered.revision, rendered.editable, len(rendered.raw))
        await engine.note_head(task, rendered.revision, rendered.summary)
        await self._publish_checkpoints(task, rendered)
        return True

    # --- checkpoint files ---------------------------------------------------------------------

    async def _publish_checkpoints(self, task: str, rendered: _Rendered) -> None:
        """Lay milestones and the newest small checkpoints beside the view, for people to read."""
        there = await self._shown_checkpoints(task)
        wanted = {
            checkpoint_file_name(kept.number, kept.label): (kept, state)
            for kept, state in rendered.checkpoints
        }
        old = [name for name, run in there.items() if run == rendered.run and name not in wanted]
        await self._drop_checkpoint_files(task, old)
        for name in old:
            del there[name]
        for name, (kept, state) in wanted.items():
            if name not in there:
                await self._write_checkpoint(task, name, kept, state, rendered.places)
                there[name] = kept.run

    async def _shown_checkpoints(self, task: str) -> dict[str, int]:
        """Give the files that are there, each with the run whose it is; set edited ones aside."""
        shown = self._checkpoints.setdefault(task, {})
        # Another process may have written some since: what is there need not be made again.
        fresh = await self._desk.engine.kept(task, "checkpoints", but=shown)
        for name, raw in fresh.items():
            if is_sealed(raw):
                shown[name] = strict_json.parse_object(raw)["read_only"].get("run", 0)
            else:
                await self._keep_edited_checkpoint(task, name, raw)
                await self._desk.engine.drop_checkpoint_view(task, name)
        return shown

    async def drop_checkpoint_files(self, task: str, names: Sequence[str]) -> None:
        """Remove files of checkpoints that went, after a rendering that may be about to write them."""
        async with self._lock(task):
            await self._drop_checkpoint_files(task, names)
            self.forget_checkpoint_files(task)

    async def _drop_checkpoint_files(self, task: str, names: Sequence[str]) -> None:
        """Remove files that are no longer shown; what somebody wrote into one is kept."""
        if not names:
            return
        others = self._checkpoints.get(task, {}).keys() - set(names)
        for name, raw in (await self._desk.engine.kept(task, "checkpoints", but=others)).items():
            if name in names and not is_sealed(raw):
                await self._keep_edited_checkpoint(task, name, raw)
        for name in names:
            await self._desk.engine.drop_checkpoint_view(task, name)

    def forget_checkpoint_files(self, task: str) -> None:
        """Look at the checkpoint files anew the next time: somebody may have changed them."""
        self._checkpoints.pop(task, None)

    async def _write_checkpoint(
        self,
        task: str,
        name: str,
        kept: Checkpoint,
        state: JsonObject | None,
        fold: Fold,
    ) -> None:
        if state is None:
            try:
                state = await self._desk.state_of(task, kept, fold)
            except Unavailable:
                return
        if not kept.milestone and len(strict_json.encode(state)) > _CHECKPOINT_VIEW_BYTES:
            # For people it takes more room, and ten times as long to write.
            return
        raw = _checkpoint_file(task, kept, state)
        if kept.milestone or len(raw) <= _CHECKPOINT_VIEW_BYTES:
            await self._desk.engine.keep(task, "checkpoints", name, raw)

    async def _keep_edited_checkpoint(self, task: str, name: str, raw: bytes) -> None:
        kept = _in_task(await self._desk.engine.keep(task, "conflicts", f"checkpoint-{name}", raw))
        why = f"checkpoints/{name} was edited and is rendered anew: edit state.json, or rewind"
        file = SavedFile({}, sha256(raw).hexdigest(), 0, 0)
        await self._desk.commit(
            task,
            HUMAN,
            lambda fold, context: decide_keep_aside(fold, file, kept, why, context),
            lambda fold, decision, record: None,
        )


def _in_task(path: str) -> str:
    """Name a kept file as people see it who look at the task's folder."""
    return "/".join(path.split("/")[-2:])


def _case(fold: Fold, file: SavedFile) -> _Case:
    return _Case(is_known(fold, file), fold.seq, fold.opened_seq, edits_before(fold, file))


def _revision(document: JsonObject, task: str) -> int:
    """Give the revision a file names; -1 if it names none or belongs to another task."""
    revision = embedded_revision(document)
    return -1 if revision is None or _is_of_another(document, task) else revision


def _is_of_another(document: JsonObject, task: str) -> bool:
    """Say whether a file is another task's; where the name was deleted it is put back."""
    return not strict_json.same(document.get("task", task), task)


def _to_show(fold: Fold) -> list[tuple[Checkpoint, JsonObject | None]]:
    """Choose the checkpoints that people find as files."""
    there = [
        kept for _, kept in sorted(fold.checkpoints.items()) if kept.readable and not kept.pruned
    ]
    newest = there[-_CHECKPOINT_VIEWS:]
    small = {kept.number for kept in newest} - _surely_too_large(fold, newest)
    return [
        (kept, fold.checkpoint_state if kept.number == fold.checkpoint else None)
        for kept in there
        if kept.milestone or kept.number in small
    ]


def _surely_too_large(fold: Fold, newest: Sequence[Checkpoint]) -> set[int]:
    """Name those of the newest checkpoints of which no file is made, without reading any of them.

    What a save adds to a state is in its record, so the state before it is smaller by no more than that.
    """
    found = {kept.number for kept in newest if kept.state_bytes > _CHECKPOINT_VIEW_BYTES}
    number, least = fold.checkpoint, len(fold.checkpoint_snapshot.encoding())
    for kept in reversed(newest):
        if kept.number != number or least <= _CHECKPOINT_VIEW_BYTES:
            break
        found.add(number)
        number, least = kept.leans_on, least - kept.place.length
    return found


def _checkpoint_file(task: str, kept: Checkpoint, state: JsonObject) -> bytes:
    return seal(
        {
            "task": task,
            "checkpoint": kept.number,
            "label": kept.label,
            "milestone": kept.milestone,
            "saved_at": kept.at,
            "saved_by": kept.by,
            "state": state,
            "read_only": {
                "help": "A copy to look at. To change things edit state.json; to go back to this "
                f"point: holdfast rewind {quote(task)} {kept.number}",
                "run": kept.run,
                "revision": kept.seq,
                "format": view.FORMAT,
            },
        }
    )
