"""LangGraph's SqliteSaver: a step is its writes and a checkpoint whose state stays as it is."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.store import RESULT, State

_NOTES = {"notes": "n" * 2_000}


def config(task: str, checkpoint: str = "") -> Any:
    """Name a thread, and a checkpoint of it."""
    named: dict[str, Any] = {"thread_id": task, "checkpoint_ns": ""}
    return {"configurable": named | ({"checkpoint_id": checkpoint} if checkpoint else {})}


def checkpoint_of(state: State, step: int) -> tuple[Any, Any, Any]:
    """Give a checkpoint with its metadata and versions."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"state": state}
    checkpoint["channel_versions"] = {"state": step + 1}
    return checkpoint, {"source": "loop", "step": step, "parents": {}}, {"state": step + 1}


class Threads:
    """What the savers of LangGraph have in common: how a step and a state are put to them."""

    flushes = ""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._last: dict[str, Any] = {}
        self._states: dict[str, State] = {}
        self._saves = 0

    saver: Any

    async def close(self) -> None:
        self._stack.close()

    async def step(self, task: str, number: int) -> None:
        if task.startswith("task"):
            # Several may be at it: read the newest, add, save; there is no other way to share one.
            return self._add(task, number)
        state = self._states.get(task, _NOTES)
        known = self._last.get(task) or self.saver.put(config(task), *checkpoint_of(state, -1))
        self.saver.put_writes(known, [("result", RESULT)], f"step-{number}")
        self._last[task] = self.saver.put(known, *checkpoint_of(state, number))

    def _add(self, task: str, number: int) -> None:
        newest = self.saver.get_tuple(config(task))
        done: list[Any] = newest.checkpoint["channel_values"]["state"]["done"] if newest else []
        empty = checkpoint_of({"done": []}, -1)
        where = newest.config if newest else self.saver.put(config(task), *empty)
        state = {"done": [*done, number]}
        self.saver.put_writes(where, [("result", RESULT)], f"step-{number}")
        self.saver.put(where, *checkpoint_of(state, len(done)))

    async def kept(self, task: str) -> int:
        newest = self.saver.get_tuple(config(task))
        return len(newest.checkpoint["channel_values"]["state"]["done"])

    async def save(self, task: str, state: State) -> None:
        known = self._last.get(task) or config(task)
        self._saves += 1
        self._states[task] = state
        self._last[task] = self.saver.put(known, *checkpoint_of(state, self._saves))

    async def load(self, task: str) -> State:
        state: State = self.saver.get_tuple(config(task)).checkpoint["channel_values"]["state"]
        return state

    async def listed(self) -> int:
        return len(list(self.saver.list(None)))


class LanggraphSqlite(Threads):
    """The synchronous saver."""

    flushes = "flushes its log twice a step, once a save (WAL, synchronous=FULL)"

    async def open(self, folder: Path) -> None:
        opened = SqliteSaver.from_conn_string(str(folder / "checkpoints.db"))
        self.saver = self._stack.enter_context(opened)
        self.saver.conn.execute("PRAGMA busy_timeout=30000")


STORE = LanggraphSqlite
