"""A workspace that a person looks after, and the `holdfast` command in it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
import termios
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast_server.cli.main import main
from holdfast_storage import Workspace

T = TypeVar("T")


class Typed:
    """What came of a command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


class Desk:
    """Somebody with a shell in a project folder."""

    def __init__(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self._capsys = project, capsys
        self.root = project / ".holdfast"

    def __call__(self, *words: str) -> Typed:
        """Type a command."""
        self._capsys.readouterr()
        try:
            status = main(list(words))
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        told = self._capsys.readouterr()
        return Typed(status, told.out, told.err)

    def ok(self, *words: str) -> Typed:
        """Type a command that must succeed."""
        typed = self(*words)
        assert typed.status == 0, typed.err
        return typed

    def json(self, *words: str) -> Any:
        """Type a command that must succeed, and read its answer."""
        return self.ok(*words, "--json").json

    def work(self, agent: Callable[[Workspace], Coroutine[Any, Any, T]]) -> T:
        """Have an agent at work in the workspace."""

        async def in_workspace() -> T:
            async with Workspace.open(self.root, by="claude@laptop") as workspace:
                return await agent(workspace)

        return asyncio.run(in_workspace())

    def damage(self, task: str, seq: int) -> None:
        """Change a byte of a line of the journal."""
        path = self.root / "tasks" / task / "journal" / "000001.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        lines[seq - 1] = lines[seq - 1].replace(b'"at":"2', b'"at":"3', 1)
        path.write_bytes(b"".join(lines))


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    for name in ("HOLDFAST_WORKSPACE", "NO_COLOR", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Desk(project, capsys)


async def at_work(workspace: Workspace) -> None:
    """Leave a task with something of everything that a person can see and settle."""
    agent = workspace.caller("claude@laptop")
    plan = [f"doc-{number:03d}" for number in range(1, 6)]
    await agent.save("ingest", {"model": "small", "pages": 10}, goal="One row each", plan=plan)
    await agent.mark("ingest", "doc-001", {"rows": 4})
    await agent.mark("ingest", "doc-002", {"error": "password"}, outcome="failed")
    await agent.save("ingest", {"pages": 12, "files": ["a"]}, label="half way", milestone=True)
    await agent.begin("ingest", "doc-003")
    await agent.ask("ingest", "Skip doc-002?", ["skip", "stop"])


@pytest.fixture
def busy(desk: Desk) -> Desk:
    """Sit before a workspace in which an agent worked and was killed."""
    desk.work(at_work)
    return desk


class Terminal:
    """A terminal of a given size, in the place of stdin, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (lines, columns))
        self._shown: list[bytes] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._files = [os.fdopen(os.dup(slave), mode) for mode in ("r", "w", "w")]
        os.close(slave)
        for name, file in zip(("stdin", "stdout", "stderr"), self._files, strict=True):
            monkeypatch.setattr(sys, name, file)

    def _read(self) -> None:
        while True:
            try:
                raw = os.read(self._master, 65536)
            except OSError:
                return
            with self._changed:
                self._shown.append(raw)
                self._changed.notify_all()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> str:
        """Wait until this is to be seen; gives everything that was."""
        with self._changed:
            assert self._changed.wait_for(lambda: text in self._text(), timeout=50), self._text()
            return self._text()

    def _text(self) -> str:
        return b"".join(self._shown).decode(errors="replace").replace("\r\n", "\n")

    def shown(self) -> str:
        """Give everything that was shown so far."""
        self._files[1].write("\x00")
        for file in self._files[1:]:
            file.flush()
        return self.wait_for("\x00").replace("\x00", "")

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._reader.join(timeout=5)
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sit at a terminal: what is written is shown there, and answers are typed there."""
    made: list[Terminal] = []

    def make(columns: int = 120, lines: int = 30) -> Terminal:
        made.append(Terminal(monkeypatch, columns, lines))
        return made[-1]

    yield make
    for each in made:
        each.close()
