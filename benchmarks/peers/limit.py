"""Not a peer but the limit: the plainest file that keeps the same promises, a locked and flushed append."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from benchmarks.store import RESULT, State


class Limit:
    """One file of lines for each task, one file for each state."""

    flushes = "every append is flushed under a lock"

    def __init__(self) -> None:
        self._files: dict[str, int] = {}

    async def open(self, folder: Path) -> None:
        self._folder = folder

    async def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)

    async def step(self, task: str, number: int) -> None:
        if task not in self._files:
            file = self._folder / f"{task}.jsonl"
            self._files[task] = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        fd = self._files[task]
        line = json.dumps({"step": f"step-{number:06d}", "result": RESULT})
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
        fcntl.flock(fd, fcntl.LOCK_UN)

    async def kept(self, task: str) -> int:
        return len((self._folder / f"{task}.jsonl").read_text().splitlines())

    async def save(self, task: str, state: State) -> None:
        temporary = self._folder / f"{task}.tmp"
        fd = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(fd, json.dumps(state).encode())
        os.fsync(fd)
        os.close(fd)
        temporary.rename(self._folder / f"{task}.json")
        above = os.open(self._folder, os.O_RDONLY)
        os.fsync(above)
        os.close(above)

    async def load(self, task: str) -> State:
        state: State = json.loads((self._folder / f"{task}.json").read_bytes())
        return state

    async def listed(self) -> int:
        return len(list(self._folder.glob("*.json")))


STORE = Limit
