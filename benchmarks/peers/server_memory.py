"""@modelcontextprotocol/server-memory over MCP: entities in one file that it rewrites each time."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.peers.over_mcp import OverMcp
from benchmarks.store import RESULT, LeftOut, State

# The SDK it is made with takes no longer line.
_LONGEST = 9_000_000


class ServerMemory(OverMcp):
    """A step is an entity, a state one observation."""

    flushes = "never flushes; reads and rewrites its whole file at each call"

    def command(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        modules = Path(os.environ.get("HOLDFAST_PEERS_NPM", "")) / "node_modules"
        program = modules / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
        if not program.exists():
            raise LeftOut("it is not installed (make peers)")
        return ["node", str(program)], {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}

    def _create(self, name: str, kind: str, text: str) -> None:
        entity = {"name": name, "entityType": kind, "observations": [text]}
        self.call("create_entities", entities=[entity])

    async def step(self, task: str, number: int) -> None:
        self._create(f"{task}/{number}", "step", RESULT)

    async def kept(self, task: str) -> int:
        graph = self.call("read_graph")
        return len([each for each in graph["entities"] if each["name"].startswith(f"{task}/")])

    async def save(self, task: str, state: State) -> None:
        raw = json.dumps(state)
        if len(raw) > _LONGEST:
            raise LeftOut("its SDK takes no message over 10 MiB")
        self.call("delete_entities", entityNames=[task])
        self._create(task, "state", raw)

    async def load(self, task: str) -> State:
        [entity] = self.call("open_nodes", names=[task])["entities"]
        state: State = json.loads(entity["observations"][0])
        return state

    async def listed(self) -> int:
        return len(self.call("read_graph")["entities"])


STORE = ServerMemory
