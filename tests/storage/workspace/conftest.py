"""Places to work in, each opened as often as wanted: every opening stands for a process."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage.engines.memory import MemoryEngine, MemoryStore
from holdfast_storage.workspace import Workspace

TASK = "report"


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **parts: float) -> None:
        self.now += timedelta(**parts)


def _new_ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: sha256(str(next(numbers)).encode()).hexdigest()[:20]


class Place(ABC):
    """A workspace as the world sees it: processes open it, people and failing disks change it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._new_id = _new_ids()
        self._opened: list[Workspace] = []

    async def open(self, by: str = "agent@test") -> Workspace:
        workspace = self._make(by)
        self._opened.append(workspace)
        return await workspace.__aenter__()

    async def close(self) -> None:
        for workspace in self._opened:
            await workspace.close()

    @abstractmethod
    def _make(self, by: str) -> Workspace: ...

    @abstractmethod
    async def view(self, task: str = TASK) -> bytes:
        """Give the bytes of state.json."""

    @abstractmethod
    async def save_view(self, raw: bytes, task: str = TASK) -> None:
        """Save bytes as state.json, as an editor would."""

    @abstractmethod
    def write_settings(self, raw: bytes) -> None:
        """Save bytes as holdfast.json."""

    @abstractmethod
    def spoil(self, seq: int, task: str = TASK) -> None:
        """Change a byte of a journal's line."""

    @abstractmethod
    async def kept(self, kind: str, task: str = TASK) -> dict[str, bytes]:
        """Give the files kept beside a task."""

    async def edit(
        self, workspace: Workspace, change: Callable[[dict[str, Any]], Any], task: str = TASK
    ) -> None:
        """Open state.json as it should look now, change it and save it."""
        await workspace.render(task)
        document = json.loads(await self.view(task))
        change(document)
        await self.save_view(json.dumps(document, indent=2).encode(), task)


class MemoryPlace(Place):
    def __init__(self) -> None:
        super().__init__()
        self._store = MemoryStore()
        self._person = MemoryEngine(self._store)

    def _make(self, by: str) -> Workspace:
        engine = MemoryEngine(self._store)
        return Workspace(engine, by=by, clock=self.clock, new_id=self._new_id)

    async def view(self, task: str = TASK) -> bytes:
        return (await self._person.view(task))[-1].raw

    async def save_view(self, raw: bytes, task: str = TASK) -> None:
        self._person.person_saves(task, raw)

    def write_settings(self, raw: bytes) -> None:
        self._person.person_writes_settings(raw)

    def spoil(self, seq: int, task: str = TASK) -> None:
        self._person.spoil(task, seq)

    async def kept(self, kind: str, task: str = TASK) -> dict[str, bytes]:
        return await self._person.kept(task, kind)  # type: ignore[arg-type]


class FolderPlace(Place):
    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = project
        self.root = project / ".holdfast"

    def _make(self, by: str) -> Workspace:
        return Workspace.open(self.root, by=by, clock=self.clock, new_id=self._new_id)

    def folder(self, task: str = TASK) -> Path:
        return self.root / "tasks" / task

    def tree(self) -> dict[str, bytes]:
        """Give every file of the project with its content, folders with none."""
        return {
            str(path.relative_to(self.project)): path.read_bytes() if path.is_file() else b""
            for path in sorted(self.project.rglob("*"))
            if path.parent.name != ".alive"
        }

    def lines(self, task: str = TASK) -> list[bytes]:
        """Give all lines of the journal, oldest first, without the room behind the last one."""
        segments = sorted((self.folder(task) / "journal").glob("*.jsonl"))
        raw = b"".join(each.read_bytes().rstrip(b" ") for each in segments)
        return raw.splitlines(keepends=True)

    async def view(self, task: str = TASK) -> bytes:
        return (self.folder(task) / "state.json").read_bytes()

    async def save_view(self, raw: bytes, task: str = TASK) -> None:
        (self.folder(task) / "state.json").write_bytes(raw)

    def write_settings(self, raw: bytes) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "holdfast.json").write_bytes(raw)

    def change_lines(
        self, change: Callable[[list[bytes]], list[bytes]], task: str = TASK, segment: int = 1
    ) -> None:
        """Put other lines into a segment, as a failing disk or a helpful person would."""
        path = self.folder(task) / "journal" / f"{segment:06d}.jsonl"
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    def spoil(self, seq: int, task: str = TASK) -> None:
        start = b'{"seq":%d,' % seq
        self.change_lines(
            lambda lines: [
                line.replace(b'"at":"2', b'"at":"3', 1) if line.startswith(start) else line
                for line in lines
            ],
            task,
        )

    async def kept(self, kind: str, task: str = TASK) -> dict[str, bytes]:
        folder = self.folder(task) / kind
        return {path.name: path.read_bytes() for path in folder.glob("*")}


@pytest.fixture(params=["memory", "folder"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    made = MemoryPlace() if request.param == "memory" else FolderPlace(_project(tmp_path))
    yield made
    await made.close()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[FolderPlace]:
    made = FolderPlace(_project(tmp_path))
    yield made
    await made.close()


@pytest.fixture
async def memory() -> AsyncIterator[MemoryPlace]:
    made = MemoryPlace()
    yield made
    await made.close()


@pytest.fixture
async def workspace(place: Place) -> Workspace:
    return await place.open()


def _project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project
