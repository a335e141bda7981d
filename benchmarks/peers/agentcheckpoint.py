"""agentcheckpoint over MCP: keys and values in SQLite."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.over_mcp import OverMcp
from benchmarks.store import RESULT, LeftOut, State


class Agentcheckpoint(OverMcp):
    """A step and a state are a key each; one task is shared by compare-and-set."""

    flushes = "as SQLite does by default"

    def command(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        program = Path(sys.executable).with_name("agentcheckpoint")
        if not program.exists():
            raise LeftOut("it is not installed (make peers)")
        return [str(program)], {"CHECKPOINT_DB_PATH": str(folder / "checkpoints.db")}

    async def step(self, task: str, number: int) -> None:
        key = f"{task}:step:{number}"
        self.call("force_set_state", key=key, value=json.dumps(RESULT))

    async def kept(self, task: str) -> int:
        return self._count(f"{task}:step:%")

    async def save(self, task: str, state: State) -> None:
        self.call("force_set_state", key=task, value=json.dumps(state))

    async def load(self, task: str) -> State:
        value = self.call("get_state", key=task)["value"]
        state: State = json.loads(value) if isinstance(value, str) else value
        return state

    async def listed(self) -> int:
        return self._count("%")

    def _count(self, pattern: str) -> int:
        found: Any = self.call("list_state", pattern=pattern)
        return len(found.get("result", found))


STORE = Agentcheckpoint
