"""LangGraph's AsyncSqliteSaver, as a graph in an event loop uses it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.peers.langgraph_sqlite import checkpoint_of, config
from benchmarks.store import RESULT, State

_NOTES = {"notes": "n" * 2_000}


class LanggraphSqliteAsync:
    """The asynchronous saver."""

    flushes = "flushes its log twice a step, once a save (WAL, synchronous=FULL)"

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._last: dict[str, Any] = {}
        self._states: dict[str, State] = {}
        self._saves = 0

    async def open(self, folder: Path) -> None:
        opened = AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db"))
        self._saver = await self._stack.enter_async_context(opened)
        await self._saver.conn.execute("PRAGMA busy_timeout=30000")

    async def close(self) -> None:
        await self._stack.aclose()

    async def step(self, task: str, number: int) -> None:
        put = self._saver.aput
        if not task.startswith("task"):
            state = self._states.get(task, _NOTES)
            known = self._last.get(task) or await put(config(task), *checkpoint_of(state, -1))
            await self._saver.aput_writes(known, [("result", RESULT)], f"step-{number}")
            self._last[task] = await put(known, *checkpoint_of(state, number))
            return
        newest = await self._saver.aget_tuple(config(task))
        done: list[Any] = newest.checkpoint["channel_values"]["state"]["done"] if newest else []
        empty = checkpoint_of({"done": []}, -1)
        where: Any = newest.config if newest else await put(config(task), *empty)
        state = {"done": [*done, number]}
        await self._saver.aput_writes(where, [("result", RESULT)], f"step-{number}")
        await put(where, *checkpoint_of(state, len(done)))

    async def kept(self, task: str) -> int:
        return len((await self.load(task))["done"])

    async def save(self, task: str, state: State) -> None:
        known = self._last.get(task) or config(task)
        self._saves += 1
        self._states[task] = state
        self._last[task] = await self._saver.aput(known, *checkpoint_of(state, self._saves))

    async def load(self, task: str) -> State:
        newest: Any = await self._saver.aget_tuple(config(task))
        state: State = newest.checkpoint["channel_values"]["state"]
        return state

    async def listed(self) -> int:
        return len([item async for item in self._saver.alist(None)])


STORE = LanggraphSqliteAsync
