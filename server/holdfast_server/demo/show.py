"""Run the agent, kill it, run it again, and show what a person finds in the folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast_server.demo.items import ITEMS, TASK

_KILLED_AFTER = 20
_BAR_WIDTH = 40
_HEAD_LINES = 24


def show() -> int:
    """Play the demo; the exit status says whether every item was done exactly once."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        folder = Path(name)
        print(
            f"An agent works through {len(ITEMS)} documents over MCP. We kill it at {_KILLED_AFTER}.\n"
        )
        first = _killed(folder)
        print("\n\nKilled with SIGKILL, agent and server alike. Now it is started again:\n")
        second = _finished(folder)
        is_right = first + second == ITEMS
        if is_right:
            print(f"\n\nIt resumed at {second[0]}: {len(ITEMS)} documents, each done once.\n")
            _show_folder(folder / ".holdfast")
        else:
            print(f"\n\nThis went wrong: {len(first)} documents, then {len(second)}.")
            print((folder / "server.log").read_text())
        return 0 if is_right else 1


def _killed(folder: Path) -> list[str]:
    """Run the agent, kill it in the middle, and give what it was told is done."""
    done: list[str] = []
    with _agent(folder, hang_after=_KILLED_AFTER) as agent:
        for item in _done(agent):
            done.append(item)
            if len(done) == _KILLED_AFTER:
                os.kill(_server_of(folder), signal.SIGKILL)
                agent.kill()
    return done


def _finished(folder: Path) -> list[str]:
    with _agent(folder) as agent:
        return list(_done(agent))


@contextmanager
def _agent(folder: Path, hang_after: int = 0) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "holdfast_server.demo.agent", str(folder), str(hang_after)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        try:
            yield agent
        finally:
            # Whoever interrupts the demo interrupts the agent.
            with suppress(ProcessLookupError):
                if sys.exc_info()[0] is not None:
                    agent.kill()


def _server_of(folder: Path) -> int:
    """Find the server that the agent started, in its log."""
    with (folder / "server.log").open() as log:
        served = [line for each in log if (line := json.loads(each))["event"] == "serving"]
    pid: int = served[-1]["pid"]
    return pid


def _done(agent: subprocess.Popen[str]) -> Iterator[str]:
    assert agent.stdout is not None
    for line in agent.stdout:
        word, _, about = line.strip().partition(" ")
        if word == "resumed":
            _bar(int(about))
        elif word == "done":
            _bar(ITEMS.index(about) + 1)
            yield about


def _bar(done: int) -> None:
    if not sys.stdout.isatty():
        if done % 10 == 0:
            print(f"  {done} of {len(ITEMS)} done", flush=True)
        return
    filled = _BAR_WIDTH * done // len(ITEMS)
    bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
    print(f"\r  {bar} {done:3d} of {len(ITEMS)}", end="", flush=True)


def _show_folder(workspace: Path) -> None:
    print("What a person finds in the folder:\n")
    for path in sorted(workspace.rglob("*")):
        relative = path.relative_to(workspace)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            print(f"  .holdfast/{relative}  ({path.stat().st_size:,} bytes)")
    view = workspace / "tasks" / TASK / "state.json"
    print(f"\nThe beginning of {view.name}, which anybody may edit:\n")
    for line in view.read_text().splitlines()[:_HEAD_LINES]:
        print(f"  {line}")
    print("  …")
