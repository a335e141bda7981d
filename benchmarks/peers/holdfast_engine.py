"""The folder engine by itself: one synchronous commit, without decision, fold or thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.store import RESULT, LeftOut, State
from holdfast_storage.core.records import Draft, Entry, Record
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

_AT = "2026-01-02T03:04:05.678Z"


class _Given:
    """An operation that was decided before."""

    def __init__(self, known: int, draft: Draft) -> None:
        self.known, self._draft = known, draft

    def decide(self, entries: Sequence[Entry]) -> Draft:
        return self._draft

    def accept(self, record: Record | None) -> None:
        """Nobody asks."""


class HoldfastEngine:
    """Steps only."""

    flushes = "every record is flushed before it is answered"

    async def open(self, folder: Path) -> None:
        disk = Disk()
        workspace = WorkspaceFolder(disk, folder / ".holdfast")
        self._folder = TaskFolder(disk, workspace, "batch", Limits(), disk.boot_id())

    async def close(self) -> None:
        self._folder.close()

    async def step(self, task: str, number: int) -> None:
        body = {"step": f"step-{number:06d}", "result": RESULT}
        draft = Draft("0123456789abcdef0123", _AT, "benchmark", "done", body, opens=number == 0)
        [refusal] = self._folder.commit([_Given(number, draft)])
        if refusal:
            raise refusal

    async def kept(self, task: str) -> int:
        raise LeftOut("only steps")

    async def save(self, task: str, state: State) -> None:
        raise LeftOut("only steps")

    async def load(self, task: str) -> State:
        raise LeftOut("only steps")

    async def listed(self) -> int:
        raise LeftOut("only steps")


STORE = HoldfastEngine
