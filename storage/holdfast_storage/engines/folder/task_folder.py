"""Everything that happens in one task's folder, as plain calls: no thread, no event loop.

The engine calls these from its worker threads; torture calls exactly these.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import proxy

from holdfast_storage.core.errors import (
    Damaged,
    HoldfastError,
    JournalReplaced,
    NotSaved,
    UnsafeFile,
)
from holdfast_storage.core.ids import folder_name
from holdfast_storage.core.records import DamagedLine
from holdfast_storage.engines.base import Following
from holdfast_storage.engines.folder import heads, loads, names
from holdfast_storage.engines.folder.batch import Batch, accept, asked
from holdfast_storage.engines.folder.disk import FOLDER, Disk
from holdfast_storage.engines.folder.files import (
    make_folder,
    open_folder,
    reading,
    remove_abandoned,
)
from holdfast_storage.engines.folder.found import NO_FILE, stamp_of
from holdfast_storage.engines.folder.history import History
from holdfast_storage.engines.folder.journal import Journal
from holdfast_storage.engines.folder.kept import Kept
from holdfast_storage.engines.folder.lock import LOCK, LockReplaced, TaskLock
from holdfast_storage.engines.folder.progress import Extent
from holdfast_storage.engines.folder.rewriting import Rewriting
from holdfast_storage.engines.folder.segments import Segments
from holdfast_storage.engines.folder.views import Views
from holdfast_storage.engines.folder.waiting import WhileWaiting

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping, Sequence

    from holdfast_storage.core.records import Draft, Entry, Place, Record
    from holdfast_storage.engines.base import Kind, Operation, Sighting, Trashed
    from holdfast_storage.engines.folder.found import Stamp
    from holdfast_storage.engines.folder.limits import Limits
    from holdfast_storage.engines.folder.lines import Numbered
    from holdfast_storage.engines.folder.progress import Reached
    from holdfast_storage.engines.folder.trash import Trash
    from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

# How often a folder that somebody replaces underneath is opened anew before we give up.
_ATTEMPTS = 5
# So many noted loads are not read again for each that follows.
_LOADS_KEPT = 100


class TaskFolder:
    """One task as it lies on the disk, seen by one process."""

    def __init__(
        self,
        disk: Disk,
        workspace: WorkspaceFolder,
        task: str,
        limits: Limits,
        boot: str,
        *,
        reached: Reached | None = None,
        was_forgotten: bool = False,
    ) -> None:
        self.task, self.name = task, folder_name(task)
        self.path = f"{names.TASKS}/{self.name}"
        self._disk, self._workspace, self._limits = disk, workspace, limits
        # No Path: it would intern every name, and Python never makes that table smaller.
        whole_path = f"{workspace.root}/{self.path}"
        self._lock_path = f"{whole_path}/{LOCK}"
        self._lock = TaskLock(disk, task, limits.lock_wait_seconds)
        # How long others had the lock when we last took it, and when we last committed.
        self._waited_seconds = self.waited_seconds = 0.0
        self._folder = -1
        self.segments = Segments(disk, task, f"{whole_path}/{names.JOURNAL}")
        # What belongs to this one does not keep it: a task that is forgotten is gone at once, and not
        # when the collector comes by.
        weak: TaskFolder = proxy(self)
        self.journal = Journal(
            disk,
            task,
            self._lock,
            self.segments,
            boot=boot,
            limits=limits,
            quarantine=lambda name, raw: weak.keep_in_quarantine(name, raw),
            flush_parents=lambda: weak.flush_parents(),
        )
        self.journal.reached = reached
        self._views = Views(disk, weak, whole_path, limits)
        self._is_swept = self._was_looked_at = False
        self._loads_paths = [f"{whole_path}/{name}" for name in (names.LOADS, names.OLD_LOADS)]
        self._loads_read: tuple[Stamp | None, list[Mapping[str, Any]]] | None = None
        # Whoever remembers a journal that was replaced is told so until it has begun anew: those
        # who write and those who read each for themselves, for they do not share what they remember.
        # If we forgot the task in between, nobody can tell whether it is still the same.
        self._is_replaced, self._is_replaced_for_readers = was_forgotten, False

    # --- descriptors --------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of descriptors; what was read stays remembered."""
        with self._lock.one_thread():
            self._leave_tidy()
            self._close()

    @property
    def can_be_forgotten(self) -> bool:
        """Say whether another one could be made in its place: all it knows can be read again."""
        return not (self.journal.is_distrusted or self._views.is_busy)

    @property
    def is_known(self) -> bool:
        """Say whether anything of its journal was read, so that somebody may remember it."""
        return self._was_looked_at or self.journal.reached is not None or self._is_replaced

    @property
    def reached(self) -> Reached | None:
        """How far its journal was read, if that is all there is to know to go on from there."""
        is_replaced = self._is_replaced or self._is_replaced_for_readers
        return None if is_replaced else self.journal.reached

    def close_if_idle(self) -> bool:
        """Let go of descriptors unless somebody is using them."""
        if not self._lock.enter_if_free():
            return False
        try:
            self._leave_tidy()
            self._close()
        finally:
            self._lock.leave()
        return True

    def _leave_tidy(self) -> None:
        """Leave a journal that is as long as its lines are, unless others are at work on it just now."""
        if not (self.journal.has_room and self._lock.is_open):
            return
        with suppress(OSError):
            if self._lock.take_if_free(self._lock_path):
                try:
                    self.journal.give_room_back()
                finally:
                    self._lock.release()

    def _close(self) -> None:
        self.segments.close()
        self._lock.close()
        if self._folder >= 0:
            self._disk.close(self._folder)
        self._folder = -1

    def _open(self, *, create: bool) -> bool:
        """Open the folder; False if there is none and none was to be made."""
        if create and not self._workspace.is_prepared:
            # Also where it was open to be read: who writes shows that it is alive.
            self._workspace.prepare()
        if self.segments.folder < 0:
            tasks = self._workspace.prepare() if create else self._workspace.tasks_folder()
            if tasks is None:
                return False
            began = self._disk.monotonic()
            try:
                self._open_folders(tasks, create=create)
            except FileNotFoundError:
                self._close()
                return False
            self._lock.open(self._folder)
            self._note_opening(began)
        self._lock.open(self._folder)
        if create and not self._is_swept:
            self._sweep()
            self._is_swept = True
        return True

    def _is_opened(self, *, create: bool) -> bool:
        """Open the folder, again if it was taken away the moment it was made."""
        for _ in range(_ATTEMPTS):
            if self._open(create=create):
                return True
            if not create:
                return False
            self._close()
            self._workspace.look_again()
        raise self._replaced_again_and_again()

    def _replaced_again_and_again(self) -> Damaged:
        return Damaged(self.path, "the folder is being replaced again and again")

    def _note_opening(self, began: float) -> None:
        took = self._disk.monotonic() - began
        self._workspace.opens_quickly = took < self._limits.at_once_seconds

    def _open_folders(self, tasks: int, *, create: bool) -> None:
        if create:
            make_folder(self._disk, self.name, at=tasks)
        if self._folder < 0:
            self._folder = open_folder(self._disk, self.name, at=tasks, label=self.path)
        self.segments.open(self._folder, create=create)

    def _sweep(self) -> None:
        """Remove what processes that were killed had not put in place yet."""
        abandoned = self._limits.abandoned_seconds
        with suppress(OSError, UnsafeFile):
            for folder in (self._folder, self.segments.folder):
                remove_abandoned(self._disk, folder, abandoned)
            self._kept().tidy(abandoned)

    def flush_parents(self) -> None:
        """Make the folder's own name survive a power cut, and those of the ones it lies in."""
        self._disk.flush(self._folder)
        self._workspace.flush()

    @contextmanager
    def locked(self, *, create: bool = False) -> Generator[bool, None, None]:
        """Hold the task's lock; False, and no lock, if there is no such task."""
        is_there = self._take_lock(create=create)
        try:
            yield is_there
        finally:
            self._let_go(is_there)

    def _take_lock(self, *, create: bool, while_waiting: WhileWaiting | None = None) -> bool:
        self._lock.enter()
        try:
            for _ in range(_ATTEMPTS):
                if not self._is_opened(create=create):
                    return False
                if self._takes_lock(while_waiting):
                    return True
                # Somebody replaced the folder.
                self._close()
                self._workspace.look_again()
            raise self._replaced_again_and_again()
        except BaseException:
            self._lock.leave()
            raise

    def _takes_lock(self, while_waiting: WhileWaiting | None) -> bool:
        began = self._disk.monotonic()
        try:
            had_to_wait = self._lock.take(self._lock_path, while_waiting)
        except LockReplaced:
            return False
        self._waited_seconds = self._disk.monotonic() - began if had_to_wait else 0.0
        return True

    def _let_go(self, is_locked: bool) -> None:
        try:
            if is_locked:
                self._lock.release()
        finally:
            self._lock.leave()

    @contextmanager
    def folder(self, *, create: bool = False) -> Generator[int | None, None, None]:
        """Have a descriptor of the folder that nobody closes, without the lock; None if there is none."""
        with self._lock.one_thread():
            own = self._own(self._folder) if self._is_opened(create=create) else None
        try:
            yield own
        finally:
            if own is not None:
                self._disk.close(own)

    def held_folder(self) -> int:
        """Give the folder's descriptor to whoever holds the lock."""
        return self._folder

    def _own(self, folder: int) -> int:
        return self._disk.open(".", FOLDER, at=folder)

    # --- commit -------------------------------------------------------------------------------

    def commit(
        self, operations: Sequence[Operation], *, stint_seconds: float = 0.0
    ) -> list[Exception | None]:
        """Decide, write and flush a batch; for each operation None, or why it was not accepted.

        Each decision sees the records of the operations before it. If the lock had to be waited for, a
        stint of so long begins.
        """
        try:
            is_there = self._folder >= 0 or self._exists()
            decided = [] if is_there else self._decided_on_nothing(operations)
            verdicts = decided or self._commit(operations, stint_seconds)
        except HoldfastError as error:
            verdicts = [error] * len(operations)
        except OSError as error:
            failure = NotSaved(f"the disk did not take it ({error.strerror or error})")
            verdicts = [failure] * len(operations)
        return list(map(accept, operations, verdicts))

    def answer_at_once(self, operation: Operation) -> list[Exception | None]:
        """Answer what only asks without the lock, if nothing was written since we last held it.

        Then what the asker remembers is all there is, and durable. Needs no descriptor, unless the
        journal has room behind its lines.
        """
        if self._is_replaced or not self._lock.enter_if_free():
            return []
        try:
            if not self.journal.is_as_it_was() or operation.known != self.journal.seq:
                return []
            return [accept(operation, asked(operation))]
        finally:
            self._lock.leave()

    def commit_at_once(self, operation: Operation) -> list[Exception | None]:
        """Commit if that means to wait for nobody and to read little first; else answer nothing.

        A task that was read before and closed since is opened again where that is quickly done: sooner
        than it would be handed to another thread.
        """
        if self.journal.reached is None or not (self._workspace.is_prepared and self._is_swept):
            return []
        if not self._lock.enter_if_free():
            return []
        try:
            verdicts = self._decided_at_once(operation)
        except HoldfastError as error:
            verdicts = [error]
        except OSError as error:
            verdicts = [NotSaved(f"the disk did not take it ({error.strerror or error})")]
        finally:
            self._lock.leave()
        return [accept(operation, verdict) for verdict in verdicts]

    def _decided_at_once(self, operation: Operation) -> list[Record | Exception | None]:
        if not self._reopened() or not self._lock.take_if_free(self._lock_path):
            return []
        try:
            if operation.known != self.journal.seq:
                return []
            fresh = self.journal.read_a_little()
            return [] if fresh is None else self._written([operation], fresh)
        finally:
            self._lock.release()

    def _reopened(self) -> bool:
        """Have the task open as it was when it was read; False if that is for another thread to do."""
        reached = self.journal.reached
        is_closed = self.segments.folder < 0
        if reached is None or (is_closed and not self._workspace.opens_quickly):
            return False
        began = self._disk.monotonic()
        try:
            return self._open(create=False) and self.segments.hold_again(reached.segment)
        except FileNotFoundError:
            return False
        finally:
            if is_closed:
                self._note_opening(began)

    def _decided_on_nothing(
        self, operations: Sequence[Operation]
    ) -> list[Record | Exception | None]:
        """Let refusals leave no trace where there is no task yet."""
        verdicts: list[Record | Exception | None] = []
        for operation in operations:
            try:
                if operation.known:
                    # Of a task that is not there nothing can be known.
                    raise JournalReplaced(self.task)
                if operation.decide([]) is not None:
                    return []
            except Exception as refusal:  # noqa: BLE001 - whatever it is, it is the caller's
                verdicts.append(refusal)
            else:
                verdicts.append(None)
        return verdicts

    def _exists(self) -> bool:
        tasks = self._workspace.tasks_folder()
        if tasks is None:
            return False
        try:
            self._disk.stat(self.name, at=tasks)
        except FileNotFoundError:
            return False
        return True

    def _commit(
        self, operations: Sequence[Operation], stint_seconds: float
    ) -> list[Record | Exception | None]:
        every = self._limits.read_ahead_seconds
        while_waiting = WhileWaiting(every, lambda: self._read_ahead(operations[0]))
        # Not `with self.locked()`: this is the hot path, and a generator costs as much as a call of
        # the kernel.
        self._take_lock(create=True, while_waiting=while_waiting)
        try:
            try:
                self.waited_seconds = self._waited_seconds
                verdicts = self._written(operations, self.catch_up())
                if stint_seconds and self.waited_seconds:
                    self._lock.begin_stint(stint_seconds)
                return verdicts
            finally:
                self._lock.release()
        finally:
            self._lock.leave()

    def _read_ahead(self, operation: Operation) -> None:
        """While others have the lock, take in what they wrote."""
        if not isinstance(operation, Following) or operation.known != self.journal.seq:
            return
        # What goes wrong here does so again under the lock, where it can be said whose fault it is.
        with suppress(Exception):
            if fresh := self.journal.read_ahead():
                operation.follow([entry for _, entry in fresh])

    # --- stints -------------------------------------------------------------------------------

    @property
    def has_stint(self) -> bool:
        """Say whether the lock is kept, or is about to be, for what this process does next."""
        return self._lock.has_stint

    def end_stint(self) -> None:
        """Let go of a lock that was kept."""
        self._lock.end_stint()

    # --- writing ------------------------------------------------------------------------------

    def _written(
        self, operations: Sequence[Operation], fresh: list[Numbered]
    ) -> list[Record | Exception | None]:
        batch = Batch(self.journal, fresh, self._read_again, self._refuse_if_replaced)
        for operation in operations:
            batch.decide(operation)
        # Whoever knew nothing was shown everything; it remembers the journal that is there.
        if batch.has_begun_anew:
            self._is_replaced = False
        return batch.written()

    def catch_up(self) -> list[Numbered]:
        """Read the journal on to its end; under the lock."""
        try:
            return self.journal.catch_up()
        except JournalReplaced:
            self._is_replaced = self._is_replaced_for_readers = True
            return self.journal.catch_up()

    def _refuse_if_replaced(self, known: int) -> None:
        if known > self.journal.seq:
            self._is_replaced = True
        if known and self._is_replaced:
            raise JournalReplaced(self.task)

    def _read_again(self, after: int) -> list[Numbered]:
        """Read, under the lock, what we have seen and a decider has not."""
        reached = self.journal.reached
        if reached is None:
            return []
        extent = Extent(reached.segment, reached.offset, reached.inode)
        history = self._history(self.segments.folder)
        progress = history.begin(after, extent, reached)
        return [
            one for part in history.portions(progress, extent) for one in part if one[0] > after
        ]

    def _history(self, folder: int) -> History:
        return History(self._disk, self.task, self.segments, folder)

    # --- reading ------------------------------------------------------------------------------

    def read(self, after: int) -> Generator[list[Entry], None, None]:
        """Give the durable entries after a seq, in portions; the lock is held only to begin."""
        with reading(self.path), self._reading(is_fresh=after == 0) as begun:
            if begun is None:
                return
            extent, folder = begun
            history = self._history(folder)
            progress = history.begin(after, extent, self.journal.reached)
            for portion in history.portions(progress, extent):
                if fresh := [entry for seq, entry in portion if seq > after]:
                    yield fresh
            with self._lock.one_thread():
                self.journal.adopt(progress)

    def opening(self) -> int:
        """Give the seq before the first record of the open run."""
        with reading(self.path), self._reading(is_fresh=True) as begun:
            return self._history(begun[1]).opening(begun[0]) if begun else 0

    def fetch(self, places: Sequence[Place]) -> list[Entry]:
        """Read entries again; places are only learnt of what is durable, so no lock is needed."""
        with reading(self.path), self.folder() as folder:
            if folder is None:
                return [DamagedLine(place, "there is no such journal") for place in places]
            journal = open_folder(self._disk, names.JOURNAL, at=folder)
            try:
                return self._history(journal).fetch(places)
            finally:
                self._disk.close(journal)

    @contextmanager
    def _reading(self, *, is_fresh: bool) -> Generator[tuple[Extent, int] | None, None, None]:
        begun: tuple[Extent, int] | None = None
        with self.locked() as is_there:
            extent = self._looked(is_fresh=is_fresh) if is_there else None
            if extent is not None:
                begun = extent, self._own(self.segments.folder)
        try:
            yield begun
        finally:
            if begun is not None:
                self._disk.close(begun[1])

    def _looked(self, *, is_fresh: bool) -> Extent | None:
        """Learn how far the journal goes; whoever remembers another one is told to begin anew."""
        self._was_looked_at = True
        try:
            extent = self.journal.look(is_only_reading=True)
        except JournalReplaced:
            self._is_replaced = self._is_replaced_for_readers = True
            extent = self.journal.look(is_only_reading=True)
        if is_fresh:
            self._is_replaced_for_readers = False
        elif self._is_replaced_for_readers:
            raise JournalReplaced(self.task)
        return extent

    # --- prune --------------------------------------------------------------------------------

    def rewrite(self, drafts: Mapping[int, Draft], label: str, trash: Trash) -> str:
        """Put other records in the place of those with these seqs; answers a name in the trash."""
        with self._saving():
            return Rewriting(self._disk, self, trash).rewrite(drafts, label)

    def restore(self, name: str, trash: Trash) -> Trashed:
        """Put the old ones back; answers what is back."""
        with self._saving():
            back = Rewriting(self._disk, self, trash).restore(name)
            # It is all back: what is left of it in the trash is emptied with the rest.
            with suppress(OSError):
                trash.remove(name)
            return back

    # --- the view -----------------------------------------------------------------------------

    def may_have_changed(self) -> bool:
        """Say at the cost of one stat whether the view may differ from what was seen through."""
        return self._views.may_have_changed()

    def view(self) -> list[Sighting]:
        """Give every file that may be a person's work."""
        with reading(self.path):
            return self._views.look()

    def seen(self, sighting: Sighting) -> None:
        """Learn that a sighting was taken care of."""
        with reading(self.path):
            self._views.seen(sighting)

    def swap_view(self, raw: bytes, revision: int) -> bool:
        """Publish a view."""
        with self._saving():
            return self._views.swap(raw, revision)

    def view_rest(self) -> float:
        """Give how many seconds the view should be left alone."""
        return self._views.rest()

    # --- files beside it ----------------------------------------------------------------------

    def keep(self, kind: Kind, name: str, raw: bytes) -> str:
        """Keep a file durably; answers its path in the workspace, "" if it would be all there is.

        Somebody may have deleted the task while its checkpoints were being rendered.
        """
        with self._saving(), self.folder(create=kind != "checkpoints") as folder:
            if folder is None:
                return ""
            kept = Kept(self._disk, folder).keep(kind, name, raw)
            if self.journal.reached is None:
                # As far as we know no record made the task's own folder durable.
                self._workspace.flush()
            return f"{self.path}/{kept}"

    def kept(self, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        """Give what was kept, but for these names."""
        with reading(self.path), self.folder() as folder:
            return {} if folder is None else Kept(self._disk, folder).kept(kind, but)

    def drop_checkpoint_view(self, name: str) -> None:
        """Remove the rendering of a checkpoint."""
        with reading(self.path), self.folder() as folder:
            if folder is not None:
                Kept(self._disk, folder).drop(name)

    def keep_in_quarantine(self, name: str, raw: bytes) -> str:
        """Keep what cannot be believed, for whoever holds the lock."""
        return self._kept().keep("quarantine", name, raw)

    def _kept(self) -> Kept:
        return Kept(self._disk, self._folder)

    def note_head(self, revision: int, summary: Mapping[str, Any]) -> None:
        """Remember a summary, if the journal as far as we know it ends at that revision."""
        reached = self.journal.reached
        if reached is not None and reached.seq == revision:
            with self._saving(), self.folder() as folder:
                if folder is not None:
                    heads.write(self._disk, folder, self.task, reached, summary)

    def log_load(self, line: Mapping[str, Any]) -> None:
        """Note who resumed."""
        with self._saving(), self.folder() as folder:
            if folder is not None:
                loads.append(self._disk, folder, line, self._limits.loads_bytes)

    def loads(self) -> list[Mapping[str, Any]]:
        """Give the noted loads."""
        stamp = self._loads_stamp()
        with reading(self.path), self.folder() as folder:
            found = [] if folder is None else loads.read(self._disk, folder)
        self._loads_read = (stamp, found) if len(found) <= _LOADS_KEPT else None
        return list(found)

    def loads_if_unchanged(self) -> list[Mapping[str, Any]] | None:
        """Give the noted loads if they were few and one look tells that there are no others."""
        known = self._loads_read
        is_same = known is not None and known[0] is not None and known[0] == self._loads_stamp()
        return list(known[1]) if known and is_same else None

    def _loads_stamp(self) -> Stamp | None:
        # Whoever adds a line changes its size, whoever begins another its inode. One that is not there
        # may have become the old one just now; if that is not there either, nobody has resumed yet.
        for path in self._loads_paths:
            try:
                return stamp_of(self._disk.stat(path, at=None))
            except FileNotFoundError:
                continue
            except OSError:
                return None
        return NO_FILE

    @contextmanager
    def _saving(self) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            why = f"the disk did not take it ({error.strerror or error})"
            raise NotSaved(why) from error
