"""What every job asks of a store, so that each peer does the same work in its own way."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol

State = dict[str, Any]

RESULT = "r" * 200


class LeftOut(Exception):
    """This store cannot do that here; the text says why, and stands in the report."""


class Store(Protocol):
    """Keeps the progress of tasks in a folder."""

    flushes: str
    """What has reached the disk when a call returns, in a few honest words."""

    async def open(self, folder: Path) -> None:
        """Begin to use a folder, which other processes may be using too."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...

    async def step(self, task: str, number: int) -> None:
        """Record that a step is done, with `RESULT`."""
        ...

    async def kept(self, task: str) -> int:
        """Count the steps of a task as a new reader finds them."""
        ...

    async def save(self, task: str, state: State) -> None:
        """Save a whole state."""
        ...

    async def load(self, task: str) -> State:
        """Give the newest state."""
        ...

    async def listed(self) -> int:
        """List everything as a person would who looks for a task; answers how many items came."""
        ...


STORES = (
    *("holdfast", "holdfast_engine", "limit"),
    *("langgraph_sqlite", "langgraph_sqlite_async", "langgraph_postgres"),
    *("dbos_sqlite", "agent_framework", "server_memory", "agentcheckpoint"),
)
OURS = frozenset({"holdfast", "holdfast_engine", "limit"})


def made(name: str) -> Store:
    """Make a store of the module with its name."""
    store: Store = importlib.import_module(f"benchmarks.peers.{name}").STORE()
    return store
