"""The folder engine keeps what every engine promises."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest_asyncio

from holdfast_storage.conformance import EngineConformance, OpenEngine, closing_all
from holdfast_storage.core.ids import folder_name
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from pathlib import Path

    from holdfast_storage.engines.base import Engine


class _FailingDisk(Disk):
    is_failing = False

    def flush(self, fd: int) -> None:
        self._fail_if_told()
        super().flush(fd)

    def flush_data(self, fd: int) -> None:
        self._fail_if_told()
        super().flush_data(fd)

    def _fail_if_told(self) -> None:
        if self.is_failing:
            raise OSError(5, os.strerror(5))


class TestFolderEngine(EngineConformance):
    root: Path
    disk: _FailingDisk

    @pytest_asyncio.fixture
    async def open_engine(self, tmp_path: Path) -> AsyncIterator[OpenEngine]:
        self.root, self.disk = tmp_path / ".holdfast", _FailingDisk()
        async with closing_all(
            lambda: FolderEngine.open(self.root, disk=self.disk, settle_pause_seconds=0.001)
        ) as open_engine:
            yield open_engine

    def save_as_person(self, engine: Engine, task: str, raw: bytes) -> None:
        (self._folder(task) / "state.json").write_bytes(raw)

    def leave_over(self, engine: Engine, task: str, number: int, raw: bytes, mtime_ns: int) -> None:
        file = self._folder(task) / f".hfview.{number:016x}"
        file.write_bytes(raw)
        os.utime(file, ns=(mtime_ns, mtime_ns))

    def spoil_line(self, engine: Engine, task: str, seq: int) -> None:
        for segment in (self._folder(task) / "journal").iterdir():
            raw = segment.read_bytes()
            start = raw.find(b'{"seq":%d,' % seq)
            if start >= 0:
                at = raw.index(b'"at":"', start) + 6
                # In place, as a failing disk would: the file stays the same one.
                with segment.open("r+b") as file:
                    file.seek(at)
                    file.write(b"?")

    @contextmanager
    def failing(self, engine: Engine) -> Generator[None, None, None]:
        self.disk.is_failing = True
        try:
            yield
        finally:
            self.disk.is_failing = False

    def write_settings(self, engine: Engine, raw: bytes) -> None:
        (self.root / "holdfast.json").write_bytes(raw)

    def _folder(self, task: str) -> Path:
        return self.root / "tasks" / folder_name(task)
