"""Our engines keep the promises of `engines.base`, also where they are set up unlike elsewhere.

The folder engine as people meet it is in folder/test_conformance.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from holdfast_storage.conformance import EngineConformance, OpenEngine, closing_all
from holdfast_storage.core.ids import folder_name
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.memory import MemoryEngine, MemoryStore, Mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from holdfast_storage.engines.base import Engine


class TestMemoryEngine(EngineConformance):
    mode: ClassVar[Mode] = "locked"

    @pytest.fixture
    async def open_engine(self) -> AsyncIterator[OpenEngine]:
        store = MemoryStore()
        async with closing_all(lambda: MemoryEngine(store, mode=self.mode)) as open_engine:
            yield open_engine

    def save_as_person(self, engine: Engine, task: str, raw: bytes) -> None:
        _memory(engine).person_saves(task, raw)

    def leave_over(self, engine: Engine, task: str, number: int, raw: bytes, mtime_ns: int) -> None:
        _memory(engine).leave_over(task, f"leftover {number}", raw, mtime_ns)

    def spoil_line(self, engine: Engine, task: str, seq: int) -> None:
        _memory(engine).spoil(task, seq)

    def failing(self, engine: Engine) -> AbstractContextManager[None]:
        return _memory(engine).failing()

    def write_settings(self, engine: Engine, raw: bytes) -> None:
        _memory(engine).person_writes_settings(raw)


class TestMemoryEngineThatCompares(TestMemoryEngine):
    mode: ClassVar[Mode] = "compare_and_append"


class TestFolderEngineThatRollsOften(EngineConformance):
    """Segments of a few lines, and a person whose editor saves by renaming."""

    root: Path

    @pytest.fixture
    async def open_engine(self, tmp_path: Path) -> AsyncIterator[OpenEngine]:
        self.root = tmp_path / ".holdfast"
        async with closing_all(
            lambda: FolderEngine.open(self.root, segment_bytes=500, settle_pause_seconds=0.001)
        ) as open_engine:
            yield open_engine

    def save_as_person(self, engine: Engine, task: str, raw: bytes) -> None:
        view = self.root / "tasks" / folder_name(task) / "state.json"
        temporary = view.with_name("state.json~")
        temporary.write_bytes(raw)
        temporary.replace(view)


def _memory(engine: Engine) -> MemoryEngine:
    assert isinstance(engine, MemoryEngine)
    return engine
