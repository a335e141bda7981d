"""Start an example's agents as processes, kill them where it hurts, and check what is left.

Nothing in here is needed to use Holdfast.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from holdfast_storage import Workspace

_SHOWN = 8
Agent = Callable[[Path], Coroutine[Any, Any, None]]


def tell(what: str) -> None:
    """Say where the agent is, and wait for a word: so it can be killed at exactly this point.

    In your agent this is a line of its log.
    """
    print(what, flush=True)
    sys.stdin.readline()


class Stage:
    """A temporary folder in which agents work, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self, agent: str, *, kill_at: str = "", meanwhile: Mapping[str, Callable[[], None]] = {}
    ) -> list[str]:
        """Run an agent and give what it told; kill it where it tells `kill_at`.

        `meanwhile` says what happens when the agent tells something: a person may do their part.
        """
        command = [sys.executable, sys.argv[0], agent, str(self.folder)]
        pipe = subprocess.PIPE
        told: list[str] = []
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin and process.stdout and process.stderr
            log = _Log(process.stderr)
            for line in process.stdout:
                told.append(line.strip())
                if told[-1] == kill_at:
                    log.kill_server()
                    process.kill()  # SIGKILL: it cannot prepare for this
                    break
                meanwhile.get(told[-1], lambda: None)()
                process.stdin.write("go on\n")
                process.stdin.flush()
            # Agent and server write to the same log: where it ends, both are gone.
            log.ended.join()
        if process.returncode and not kill_at:
            sys.exit(f"{agent} ended with {process.returncode}:\n{''.join(log.complaints)}")
        shown = told if len(told) <= _SHOWN else [*told[:2], "…", *told[-2:]]
        print(f"  {agent}: {', '.join(shown)}{'  KILLED' if kill_at else ''}", flush=True)
        return told

    def check(self, claim: str, *, holds: bool) -> None:
        """End the example if something is not as it should be."""
        if not holds:
            sys.exit(f"NO: {claim}")
        print(f"  yes: {claim}", flush=True)

    def results(self, task: str) -> dict[str, Any]:
        """Give the result of every step that is done, as the workspace tells it."""

        async def read() -> dict[str, Any]:
            async with Workspace.open(self.folder / ".holdfast") as workspace:
                listing = await workspace.caller().list_checkpoints(
                    task, show="steps", status="done", limit=200
                )
                return {line.step: line.result for line in listing.steps}

        return asyncio.run(read())

    def edit(self, task: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change state.json as a person does: open it, change it, save it."""

        async def render() -> None:
            # Agents that were killed had no time to; whoever opens the workspace next does it.
            async with Workspace.open(self.folder / ".holdfast") as workspace:
                await workspace.render(task)

        asyncio.run(render())
        file = self.folder / ".holdfast" / "tasks" / task / "state.json"
        view = json.loads(file.read_text())
        change(view)
        file.write_text(json.dumps(view, indent=2))


class _Log:
    """What agent and server write to stderr; a server says there which process it is."""

    def __init__(self, stream: IO[str]) -> None:
        self.complaints: list[str] = []
        self._server = 0
        self.ended = threading.Thread(target=self._read, args=(stream,))
        self.ended.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                event = json.loads(line)
            except ValueError:
                self.complaints.append(line)
            else:
                if event["event"] == "serving":
                    self._server = event["pid"]

    def kill_server(self) -> None:
        """Kill the server too: one that only lost its agent would end in good order."""
        if self._server:
            with suppress(ProcessLookupError):
                os.kill(self._server, signal.SIGKILL)


def play(agents: Mapping[str, Agent], story: Callable[[Stage], str]) -> None:
    """Be one of the agents, if told so; otherwise play the story and end with its summary."""
    if len(sys.argv) == 3:
        asyncio.run(agents[sys.argv[1]](Path(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-example-") as folder:
        summary = story(Stage(Path(folder)))
    print(f"{Path(sys.argv[0]).stem}: {summary}")
