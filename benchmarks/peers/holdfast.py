"""Holdfast as a library."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.store import RESULT, State
from holdfast_storage import Task, Workspace

_ALL = 10_000_000  # tokens: the whole state, however large


class Holdfast:
    """Steps and states through the asynchronous workspace."""

    flushes = "every step and save is flushed before it is answered"

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._tasks: dict[str, Task] = {}

    async def open(self, folder: Path) -> None:
        opened = Workspace.open(folder / ".holdfast", by="benchmark")
        self._workspace = await self._stack.enter_async_context(opened)

    async def close(self) -> None:
        await self._stack.aclose()

    def _task(self, name: str) -> Task:
        if name not in self._tasks:
            self._tasks[name] = self._workspace.task(name)
        return self._tasks[name]

    async def step(self, task: str, number: int) -> None:
        await self._task(task).done(f"step-{number:06d}", RESULT)

    async def kept(self, task: str) -> int:
        return (await self._workspace.brief(task)).progress.done

    async def save(self, task: str, state: State) -> None:
        await self._task(task).save(state, replace=True)

    async def merge(self, task: str, patch: State) -> None:
        """Save what changed and nothing else."""
        await self._task(task).save(patch)

    async def load(self, task: str) -> State:
        return await self._task(task).state()

    async def listed(self) -> int:
        return len(await self._workspace.tasks())


STORE = Holdfast
