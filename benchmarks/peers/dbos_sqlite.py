"""DBOS on SQLite: a task is a workflow, and its steps come to it from outside through a queue."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.store import RESULT, LeftOut, State

_WAITING: dict[str, queue.SimpleQueue[int | None]] = {}
_DONE: dict[str, queue.SimpleQueue[int]] = {}
_STATE: dict[str, State] = {}


@DBOS.step()
def _one(number: int) -> str:
    return RESULT


@DBOS.step()
def _given(key: str) -> State:
    return _STATE[key]


@DBOS.workflow()
def _steps(task: str) -> int:
    count = 0
    while (number := _WAITING[task].get()) is not None:
        _one(number)
        _DONE[task].put(number)
        count += 1
    return count


@DBOS.workflow()
def _save(key: str) -> State:
    return _given(key)


class DbosSqlite:
    """Workflows in one process; another one would only wait for them."""

    flushes = "flushes four times a step (SQLite with a rollback journal)"

    def __init__(self) -> None:
        self._saves: dict[str, str] = {}
        self._count = 0

    async def open(self, folder: Path) -> None:
        self._folder = folder
        file = folder / "dbos.db"
        config: Any = {
            "name": "benchmark",
            "system_database_url": f"sqlite:///{file}",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
        DBOS(config=config)
        DBOS.launch()

    async def close(self) -> None:
        for task in list(_WAITING):
            _WAITING.pop(task).put(None)
        DBOS.destroy(workflow_completion_timeout_sec=5)

    async def step(self, task: str, number: int) -> None:
        if task == "task":
            raise LeftOut("one process runs a workflow, the others wait for it")
        if task not in _WAITING:
            _WAITING[task], _DONE[task] = queue.SimpleQueue(), queue.SimpleQueue()
            with SetWorkflowID(f"steps-{task}"):
                DBOS.start_workflow(_steps, task)
        _WAITING[task].put(number)
        _DONE[task].get()

    async def kept(self, task: str) -> int:
        return len(await DBOS.list_workflow_steps_async(f"steps-{task}"))

    async def save(self, task: str, state: State) -> None:
        self._count += 1
        key = f"{task}-{self._count}"
        _STATE[key] = state
        with SetWorkflowID(key):
            _save(key)
        self._saves[task] = key

    async def load(self, task: str) -> State:
        key = self._saves.get(task)
        if key is None:
            raise LeftOut("it resumes by running the program again, not by loading a state")
        handle: Any = await DBOS.retrieve_workflow_async(key)
        state: State = await handle.get_result()
        return state

    async def listed(self) -> int:
        return len(await DBOS.list_workflows_async(limit=20_000))


STORE = DbosSqlite
