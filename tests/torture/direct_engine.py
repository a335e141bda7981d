"""The real folder engine driven directly: a workspace on it does everything at once, in one thread.

Only the asynchronous face is replaced (queues, worker threads, timers). Everything that touches a disk
or decides anything is the code that is shipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from holdfast_storage.core.errors import NotSaved
from holdfast_storage.core.records import Draft, Entry, Place
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
from holdfast_storage.engines.folder import heads, workspace_folder
from holdfast_storage.engines.folder.check import Checker
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.planting import Planting
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder
from holdfast_storage.workspace import Workspace

T = TypeVar("T")
E = TypeVar("E", bound="DirectEngine")


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Waits until an operation was committed together with others; gives what became of it."""

    operation: Operation

    def __await__(self) -> Generator[Operation, Exception | None, Exception | None]:
        return (yield self.operation)


class DirectEngine:
    """An engine whose every method has ended when it returns."""

    def __init__(self, root: Path, disk: Disk, limits: Limits) -> None:
        # Each stands for a process of its own, and these are what processes do not share.
        workspace_folder._pending_ids.clear()  # pyright: ignore[reportPrivateUsage]
        self._disk, self._limits = disk, limits
        self._workspace = WorkspaceFolder(disk, root, readme="readme", settings={"limits": {}})
        self._trash = Trash(disk, self._workspace)
        self._tasks: dict[str, TaskFolder] = {}
        self._gathers = False

    def together(self, task: str, calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Let calls of different callers be committed by one write, as those that come at once are."""
        answers: list[T] = []
        try:
            self._gathers = True
            operations = [call.send(None) for call in calls]
            self._gathers = False
            for call, refusal in zip(calls, self.folder(task).commit(operations), strict=True):
                try:
                    call.send(refusal)
                except StopIteration as done:
                    answers.append(done.value)
        finally:
            self._gathers = False
            for call in calls:
                call.close()
        return answers

    def folder(self, task: str) -> TaskFolder:
        """Give one task's folder."""
        if task not in self._tasks:
            boot = self._disk.boot_id()
            self._tasks[task] = TaskFolder(self._disk, self._workspace, task, self._limits, boot)
        return self._tasks[task]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("folder", durable=True, shared=True, editable=True, watch=True)

    @property
    def workspace_id(self) -> str:
        return self._workspace.workspace_id

    @property
    def process(self) -> str:
        return self._workspace.process

    @property
    def host(self) -> Host:
        return Host(self._disk.boot_id(), self._disk.up_since())

    async def close(self) -> None:
        for folder in self._tasks.values():
            folder.close()
        self._workspace.close()

    async def commit(self, task: str, operation: Operation, *, is_light: bool = False) -> None:
        folder = self.folder(task)
        if self._gathers:
            refusal = await _Gathered(operation)
        else:
            at_once = folder.commit_at_once(operation) if is_light else []
            [refusal] = at_once or folder.commit([operation])
        if refusal:
            raise refusal

    def answers_at_once(self, task: str, operation: Operation) -> bool:
        folder = self.folder(task)
        if self._gathers:
            return False
        outcomes = folder.answer_at_once(operation) or folder.commit_at_once(operation)
        if outcomes and outcomes[0]:
            raise outcomes[0]
        return bool(outcomes)

    async def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
        portions = self.folder(task).read(after)
        try:
            for portion in portions:
                yield portion
        finally:
            portions.close()

    async def opening(self, task: str) -> int:
        return self.folder(task).opening()

    async def fetch(self, task: str, places: Sequence[Place]) -> list[Entry]:
        return self.folder(task).fetch(places)

    async def heads(self, cursor: str, limit: int) -> tuple[list[Head], str]:
        tasks = self._workspace.tasks_folder()
        return heads.listed(self._disk, tasks, cursor, limit) if tasks is not None else ([], "")

    async def note_head(self, task: str, revision: int, summary: Mapping[str, Any]) -> None:
        self.folder(task).note_head(revision, summary)

    async def rewrite(self, task: str, lines: Mapping[int, Draft], label: str) -> str:
        return self.folder(task).rewrite(lines, label, self._trash)

    def when_forgotten(self, call: Callable[[str], object]) -> None:
        pass  # a process lives for a story, and forgets no task

    async def prepare(self) -> None:
        self._workspace.prepare()

    async def plant(
        self, task: str, portions: AsyncIterator[Sequence[Draft]], beside: Beside
    ) -> bool:
        try:
            planting = Planting(self._disk, self._workspace, task, self._limits)
            try:
                if not planting.begin(beside):
                    return False
                async for drafts in portions:
                    planting.add(drafts)
                return planting.finish()
            finally:
                planting.close()
        except OSError as error:
            raise NotSaved(f"the disk did not take it ({error})") from error

    async def trash(self) -> list[Trashed]:
        return self._trash.listed()

    async def restore(self, name: str) -> Trashed:
        task = self._trash.taken(name).trashed.task
        return self.folder(task).restore(name, self._trash)

    async def empty_trash(self, older_than_seconds: float) -> None:
        self._trash.empty(older_than_seconds)

    def may_have_changed(self, task: str) -> bool:
        return self.folder(task).may_have_changed()

    async def view(self, task: str) -> list[Sighting]:
        return self.folder(task).view()

    async def seen(self, task: str, sighting: Sighting) -> None:
        self.folder(task).seen(sighting)

    async def swap_view(self, task: str, raw: bytes, revision: int) -> bool:
        return self.folder(task).swap_view(raw, revision)

    def view_rest(self, task: str) -> float:
        return self.folder(task).view_rest()

    async def keep(self, task: str, kind: Kind, name: str, raw: bytes) -> str:
        return self.folder(task).keep(kind, name, raw)

    async def kept(self, task: str, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        return self.folder(task).kept(kind, but)

    async def drop_checkpoint_view(self, task: str, name: str) -> None:
        self.folder(task).drop_checkpoint_view(name)

    async def log_load(self, task: str, line: Mapping[str, Any]) -> None:
        self.folder(task).log_load(line)

    async def loads(self, task: str) -> list[Mapping[str, Any]]:
        return self.folder(task).loads()

    def is_alive(self, process: str) -> bool:
        return self._workspace.is_alive(process)

    async def watch(self) -> AsyncIterator[set[str]]:
        for nothing in tuple[set[str]]():
            yield nothing

    async def check(self, repair: bool) -> list[Finding]:
        return Checker(self._disk, self._workspace, repair=repair).findings()

    async def settings(self) -> Mapping[str, Any]:
        return self._workspace.settings()


# --- doing without an event loop --------------------------------------------------------------


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("it waited for something, and there is nothing to wait for")


class _AtOnce:
    """In the place of an event loop: whatever is to be done soon is done now."""

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(self, coroutine: Coroutine[Any, Any, T], **more: Any) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(run(coroutine))
        except Exception as error:  # noqa: BLE001 - whoever awaits it is told
            done.set_exception(error)
        return done

    def call_soon(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        call(*arguments)

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        pass


@contextmanager
def no_event_loop() -> Generator[None, None, None]:
    """Let coroutines find something that does at once what a loop would do soon."""
    asyncio._set_running_loop(_AtOnce())  # type: ignore[arg-type]
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


def open_workspace(
    disk: Disk, by: str, new_id: Callable[[], str], open_engine: Callable[[], E]
) -> tuple[Workspace, E]:
    """Open a workspace as one more process. Nobody renders by itself: the workload says when."""
    engine = open_engine()
    workspace = Workspace(
        engine,
        by=by,
        clock=lambda: datetime.fromtimestamp(disk.now_ns() / 1e9, UTC),
        new_id=new_id,
    )
    run(workspace.__aenter__())
    workspace._people._is_closing = True  # pyright: ignore[reportPrivateUsage]
    return workspace, engine
