"""Microsoft Agent Framework's FileCheckpointStorage: a file for each checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path

from agent_framework import FileCheckpointStorage, WorkflowCheckpoint

from benchmarks.store import RESULT, State

_NOTES = {"notes": "n" * 2_000}


class AgentFramework:
    """A step is a checkpoint with its result."""

    flushes = "never flushes: a power cut may take any checkpoint"

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    async def open(self, folder: Path) -> None:
        logging.getLogger("agent_framework").setLevel(logging.ERROR)
        self._storage = FileCheckpointStorage(folder / "checkpoints")

    async def close(self) -> None:
        """There is nothing to close."""

    async def step(self, task: str, number: int) -> None:
        if not task.startswith("task"):
            kept = self._states.get(task, _NOTES)
            await self._put(task, kept | {"step": number, "result": RESULT})
            return
        newest = await self._storage.get_latest(workflow_name=task)
        state = newest.state if newest else {"done": []}
        await self._put(task, state | {"done": [*state.get("done", []), number]})

    async def kept(self, task: str) -> int:
        return len((await self.load(task))["done"])

    async def save(self, task: str, state: State) -> None:
        self._states[task] = state
        await self._put(task, state)

    async def _put(self, task: str, state: State) -> None:
        checkpoint = WorkflowCheckpoint(
            workflow_name=task, graph_signature_hash="benchmark", state=state
        )
        await self._storage.save(checkpoint)

    async def load(self, task: str) -> State:
        newest = await self._storage.get_latest(workflow_name=task)
        assert newest is not None
        return dict(newest.state)

    async def listed(self) -> int:
        # It has no list of everything; this is that of one workflow, for which it reads all files.
        return len(await self._storage.list_checkpoints(workflow_name="task-0000"))


STORE = AgentFramework
