"""The folder engine's asynchronous face: one queue and at most one thread per task, one hop per commit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast_storage.core.errors import NotSaved
from holdfast_storage.engines.base import (
    Capabilities,
    Finding,
    Head,
    Host,
    Kind,
    Operation,
    Sighting,
)
from holdfast_storage.engines.folder import heads, names, watcher
from holdfast_storage.engines.folder.check import Checker
from holdfast_storage.engines.folder.commit_queue import CommitQueue, Turns
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.planting import Planting
from holdfast_storage.engines.folder.progress import Reached
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.workers import Workers
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
    from pathlib import Path

    from holdfast_storage.core.records import Draft, Entry, Place
    from holdfast_storage.engines.base import Beside, Trashed

T = TypeVar("T")
_FORGOTTEN_KEPT = 1024
_CAPABILITIES = Capabilities(
    "folder", durable=True, shared=True, editable=True, watch=True, begins_anywhere=True
)


class FolderEngine:
    """Keeps a workspace as a folder of readable files, for any number of processes of one host."""

    def __init__(self, workspace: WorkspaceFolder, disk: Disk, limits: Limits) -> None:
        self._workspace, self._disk, self._limits = workspace, disk, limits
        self._boot = disk.boot_id()
        self._host = Host(self._boot, disk.up_since())
        self._trash = Trash(disk, workspace)
        self._workers = Workers(limits.threads)
        # The most recently used last.
        self._tasks: OrderedDict[str, TaskFolder] = OrderedDict()
        self._hot: OrderedDict[str, TaskFolder] = OrderedDict()
        self._queues: dict[str, CommitQueue] = {}
        # How far the journals of forgotten tasks were read, so that each is known again; None if only
        # that it was read.
        self._forgotten: dict[str, bytes | None] = {}
        self._when_forgotten: Callable[[str], object] = lambda task: None
        self._turns = Turns()
        self._mutex = Lock()
        self._is_closed = False
        self._closing = asyncio.Event()

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        schema: bytes = b"",
        readme: str = "",
        settings: Mapping[str, Any] | None = None,
        disk: Disk | None = None,
        **times: Any,
    ) -> FolderEngine:
        """Open a workspace; a missing one is made on the first write.

        `times` are fields of `Limits`. `settings` are what a new holdfast.json says besides its format.
        """
        disk = disk or Disk()
        # The way to the workspace is the operator's, links and all; only the last step is ours.
        root = root.absolute().parent.resolve() / root.name
        limits = Limits(**times)
        workspace = WorkspaceFolder(
            disk,
            root,
            schema=schema,
            readme=readme,
            settings=settings,
            abandoned_seconds=limits.abandoned_seconds,
        )
        return cls(workspace, disk, limits)

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def workspace_id(self) -> str:
        return self._workspace.workspace_id

    @property
    def host(self) -> Host:
        return self._host

    @property
    def process(self) -> str:
        return self._workspace.process

    async def prepare(self) -> None:
        await self._saving(self._workspace.prepare)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._closing.set()
        # What the loop is about to commit in this thread comes before.
        await asyncio.sleep(0)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._workers.close()
        for task in self._tasks.values():
            task.close()
        self._workspace.close()

    def when_forgotten(self, call: Callable[[str], object]) -> None:
        self._when_forgotten = call

    # --- tasks --------------------------------------------------------------------------------

    def _task(self, task: str) -> TaskFolder:
        with self._mutex:
            found = self._tasks.get(task)
            if found is None:
                packed = self._forgotten.pop(task, b"")
                found = self._tasks[task] = TaskFolder(
                    self._disk,
                    self._workspace,
                    task,
                    self._limits,
                    self._boot,
                    reached=Reached.unpacked(packed) if packed else None,
                    was_forgotten=packed is None,
                )
            self._tasks.move_to_end(task)
            if len(self._tasks) > self._limits.known_tasks:
                # More than one only if some were in use when it was their turn.
                for _ in range(len(self._tasks) - self._limits.known_tasks):
                    self._forget_the_coldest()
            return found

    def _forget_the_coldest(self) -> None:
        """Forget the task used least recently; one that is in use stays until its turn comes again."""
        coldest, folder = next(iter(self._tasks.items()))
        if folder.can_be_forgotten and folder.close_if_idle():
            del self._tasks[coldest]
            self._hot.pop(coldest, None)
            # Whoever still waits in it is served all the same.
            self._queues.pop(coldest, None)
            if folder.is_known:
                self._remember(coldest, folder.reached)
        else:
            self._tasks.move_to_end(coldest)

    def _remember(self, task: str, reached: Reached | None) -> None:
        self._forgotten[task] = reached.packed() if reached else None
        if len(self._forgotten) > _FORGOTTEN_KEPT:
            lost = next(iter(self._forgotten))
            del self._forgotten[lost]
            self._when_forgotten(lost)

    def _warm(self, folder: TaskFolder) -> None:
        """Keep the descriptors of the tasks used last, and let go of others'."""
        with self._mutex:
            self._hot[folder.task] = folder
            self._hot.move_to_end(folder.task)
            # More than one only if some were in use when it was their turn.
            too_many = max(0, len(self._hot) - self._limits.hot_tasks)
            for coldest in list(islice(self._hot, too_many)):
                # In use right now it stays, and its turn comes again.
                if self._hot[coldest].close_if_idle():
                    del self._hot[coldest]

    def _with(self, folder: TaskFolder, call: Callable[[TaskFolder], T]) -> T:
        self._warm(folder)
        try:
            return call(folder)
        finally:
            if self._tasks.get(folder.task) is not folder:
                # It was forgotten before the call had begun, and opened its files again. If another
                # call is at work in it, that one closes it: what this one did is done.
                folder.close_if_idle()
                # What was read in it, nobody can know again.
                self._when_forgotten(folder.task)

    async def _in_thread(self, task: str, call: Callable[[TaskFolder], T]) -> T:
        return await self._run(lambda: self._with(self._task(task), call))

    async def _run(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise NotSaved("the workspace was closed")
        return await self._workers.run(work)

    # --- the log ------------------------------------------------------------------------------

    async def commit(self, task: str, operation: Operation, *, is_light: bool = False) -> None:
        if self._is_closed:
            raise NotSaved("the workspace was closed")
        queue = self._queues.get(task)
        if queue is None:
            queue = self._queues[task] = CommitQueue(
                self._workers, lambda: self._task(task), self._with, self._limits, self._turns
            )
        await queue.put(operation, is_light=is_light)

    def answers_at_once(self, task: str, operation: Operation) -> bool:
        queue = self._queues.get(task)
        return queue is not None and not self._is_closed and queue.is_answered_here(operation)

    async def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
        folder = self._task(task)
        portions = folder.read(after)

        def next_portion() -> list[Entry] | None:
            return self._with(folder, lambda _: next(portions, None))

        try:
            while (portion := await self._run(next_portion)) is not None:
                yield portion
        finally:
            # A reader that was cancelled may still be at work in its thread; it ends by itself.
            with suppress(ValueError):
                portions.close()

    async def opening(self, task: str) -> int:
        return await self._in_thread(task, lambda folder: folder.opening())

    async def fetch(self, task: str, places: Sequence[Place]) -> list[Entry]:
        return await self._in_thread(task, lambda folder: folder.fetch(places))

    async def heads(self, cursor: str, limit: int) -> tuple[list[Head], str]:
        return await self._run(lambda: self._heads(cursor, limit))

    def _heads(self, cursor: str, limit: int) -> tuple[list[Head], str]:
        tasks = self._workspace.tasks_folder()
        return heads.listed(self._disk, tasks, cursor, limit) if tasks is not None else ([], "")

    async def note_head(self, task: str, revision: int, summary: Mapping[str, Any]) -> None:
        await self._in_thread(task, lambda folder: folder.note_head(revision, summary))

    async def rewrite(self, task: str, lines: Mapping[int, Draft], label: str) -> str:
        return await self._in_thread(task, lambda folder: folder.rewrite(lines, label, self._trash))

    async def plant(
        self, task: str, portions: AsyncIterator[Sequence[Draft]], beside: Beside
    ) -> bool:
        planting = await self._saving(
            lambda: Planting(self._disk, self._workspace, task, self._limits)
        )
        try:
            if not await self._saving(lambda: planting.begin(beside)):
                return False
            async for drafts in portions:
                await self._saving(partial(planting.add, drafts))
            return await self._saving(planting.finish)
        finally:
            await self._saving(planting.close)

    async def _saving(self, work: Callable[[], T]) -> T:
        try:
            return await self._run(work)
        except OSError as error:
            why = f"the disk did not take it ({error.strerror or error})"
            raise NotSaved(why) from error

    async def trash(self) -> list[Trashed]:
        return await self._run(self._trash.listed)

    async def restore(self, name: str) -> Trashed:
        task = (await self._run(lambda: self._trash.taken(name))).trashed.task
        return await self._in_thread(task, lambda folder: folder.restore(name, self._trash))

    async def empty_trash(self, older_than_seconds: float) -> None:
        await self._run(lambda: self._trash.empty(older_than_seconds))

    # --- the view -----------------------------------------------------------------------------

    def may_have_changed(self, task: str) -> bool:
        return self._task(task).may_have_changed()

    async def view(self, task: str) -> list[Sighting]:
        return await self._in_thread(task, lambda folder: folder.view())

    async def seen(self, task: str, sighting: Sighting) -> None:
        if sighting.name == names.VIEW:
            return self._task(task).seen(sighting)  # it only remembers
        await self._in_thread(task, lambda folder: folder.seen(sighting))

    async def swap_view(self, task: str, raw: bytes, revision: int) -> bool:
        return await self._in_thread(task, lambda folder: folder.swap_view(raw, revision))

    def view_rest(self, task: str) -> float:
        return self._task(task).view_rest()

    async def keep(self, task: str, kind: Kind, name: str, raw: bytes) -> str:
        return await self._in_thread(task, lambda folder: folder.keep(kind, name, raw))

    async def kept(self, task: str, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        return await self._in_thread(task, lambda folder: folder.kept(kind, but))

    async def drop_checkpoint_view(self, task: str, name: str) -> None:
        await self._in_thread(task, lambda folder: folder.drop_checkpoint_view(name))

    # --- the surroundings ---------------------------------------------------------------------

    async def log_load(self, task: str, line: Mapping[str, Any]) -> None:
        await self._in_thread(task, lambda folder: folder.log_load(line))

    async def loads(self, task: str) -> list[Mapping[str, Any]]:
        known = self._task(task).loads_if_unchanged()
        if known is not None:
            return known
        return await self._in_thread(task, lambda folder: folder.loads())

    def is_alive(self, process: str) -> bool:
        return self._workspace.is_alive(process)

    def watch(self) -> AsyncIterator[set[str]]:
        return watcher.changes(self._workspace.root, self._task_in, self._closing)

    def _task_in(self, folder: str) -> str | None:
        """Find whose folder this is."""
        with self._mutex:
            known = [task.task for task in self._tasks.values() if task.name == folder]
        if known:
            return known[0]
        tasks = self._workspace.tasks_folder()
        return heads.task_in(self._disk, tasks, folder) if tasks is not None else None

    async def check(self, repair: bool) -> list[Finding]:
        checker = Checker(self._disk, self._workspace, repair=repair)
        return await self._run(checker.findings)

    async def settings(self) -> Mapping[str, Any]:
        known = self._workspace.settings_if_unchanged()
        return known if known is not None else await self._run(self._workspace.settings)
