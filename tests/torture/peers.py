"""Give the same job to Holdfast and to servers like it: several processes, one store, and what is left of it.

    make peers                                   # installs the peers apart, then runs this
    make peers ARGS="--count 3 --seed 4711"      # three times

Each process stands for a client with a server of its own, as clients start them. All of them note their own
steps in the same place at the same time. What was acknowledged is compared with what a new process finds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture import harness
from tests.torture.harness import Row

PROCESSES = 8
STEPS = 25
_PATIENCE_SECONDS = 300.0
_MOST_TRIES = 500
_HERE = Path(__file__).parents[2]
_QUIET = {"DO_NOT_TRACK": "1", "NO_UPDATE_NOTIFIER": "1", "ANONYMIZED_TELEMETRY": "False"}


class Missing(Exception):
    """A peer cannot be run here; the message says why."""


# --- a client ---------------------------------------------------------------------------------


class Server:
    """One process that speaks MCP over its standard input and output."""

    def __init__(self, command: Sequence[str], home: Path, env: dict[str, str]) -> None:
        quiet = {"HOME": str(home), "PATH": os.environ["PATH"], **_QUIET, **env}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=quiet,
            cwd=home,
        )
        self._number = 0
        self._timer = threading.Timer(_PATIENCE_SECONDS, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def greet(self) -> None:
        """Say who we are, and wait until it is ready."""
        client = {"name": "peers", "version": "1"}
        self._ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number:
                return answer
        raise EOFError(f"the server ended during {method}")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; gives what it answered as JSON, {} if it refused."""
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        result = answer.get("result", {"isError": True})
        if result.get("isError"):
            return {}
        structured: dict[str, Any] | None = result.get("structuredContent")
        told: dict[str, Any] = structured or json.loads(result["content"][0]["text"])
        return told

    def close(self) -> None:
        """Let it end by itself."""
        self._timer.cancel()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


# --- the same job for each --------------------------------------------------------------------


@dataclass(frozen=True)
class Peer:
    """How one of them is started, told of a step, and asked what it kept."""

    name: str
    command: Callable[[], list[str]]
    env: Callable[[Path], dict[str, str]]
    note: Callable[[Server, str], bool]
    kept: Callable[[Server], set[str]]


def _holdfast() -> list[str]:
    return [sys.executable, "-m", "holdfast_server", "serve"]


def _mark(server: Server, step: str) -> bool:
    return server.call("mark_step_done", task="job", step=step).get("outcome") == "done"


def _marked(server: Server) -> set[str]:
    steps: set[str] = set()
    cursor = ""
    while True:
        page = server.call(
            "list_checkpoints", task="job", show="steps", status="done", limit=100, cursor=cursor
        )
        steps |= {line["step"] for line in page.get("steps", [])}
        cursor = page.get("cursor", "")
        if not cursor:
            return steps


def _installed(*parts: str) -> Path:
    """Find what `make peers` has put apart."""
    found = _HERE.joinpath(*parts)
    if not found.exists():
        raise Missing(f"{parts[-1]} is not installed: make peers")
    return found


def _server_memory() -> list[str]:
    node = shutil.which("node")
    if node is None:
        raise Missing("node is not installed")
    package = ("build", "peers", "node_modules", "@modelcontextprotocol", "server-memory")
    return [node, str(_installed(*package) / "dist" / "index.js")]


def _create(server: Server, step: str) -> bool:
    entity = {"name": step, "entityType": "step", "observations": ["done"]}
    told = server.call("create_entities", entities=[entity])
    return bool(told.get("entities"))


def _created(server: Server) -> set[str]:
    return {each["name"] for each in server.call("read_graph").get("entities", [])}


def _agentcheckpoint() -> list[str]:
    return [str(_installed(".venv-peers", "bin", "agentcheckpoint"))]


def _compare_and_set(server: Server, step: str) -> bool:
    """Add a step to one value, as its documentation asks for: read, add, set, and again if it changed."""
    for _ in range(_MOST_TRIES):
        there = server.call("get_state", key="job")
        steps = json.loads(there.get("value", "[]"))
        told = server.call(
            "set_state",
            key="job",
            value=json.dumps([*steps, step]),
            expected_version=there.get("version", 0),
        )
        if told.get("status") == "ok":
            return True
        if told.get("status") != "conflict":
            return False
        time.sleep(random.random() * 0.01)
    return False


def _set(server: Server) -> set[str]:
    return set(json.loads(server.call("get_state", key="job").get("value", "[]")))


PEERS = (
    Peer(
        "holdfast",
        _holdfast,
        lambda store: {
            "HOLDFAST_WORKSPACE": str(store / ".holdfast"),
            "PYTHONPATH": os.pathsep.join([str(_HERE / "server"), str(_HERE / "storage")]),
        },
        _mark,
        _marked,
    ),
    Peer(
        "server-memory",
        _server_memory,
        lambda store: {"MEMORY_FILE_PATH": str(store / "memory.jsonl")},
        _create,
        _created,
    ),
    Peer(
        "agentcheckpoint",
        _agentcheckpoint,
        lambda store: {"CHECKPOINT_DB_PATH": str(store / "state.db")},
        _compare_and_set,
        _set,
    ),
)


# --- doing it ---------------------------------------------------------------------------------


@dataclass
class Result:
    """What came of it."""

    peer: str
    asked: int = 0
    acknowledged: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    began: float = 0.0
    seconds: float = 0.0
    skipped: str = ""
    failures: list[str] = field(default_factory=list[str])

    def begin(self) -> None:
        """Note that all of them are ready."""
        self.began = time.monotonic()

    @property
    def lost(self) -> int:
        """How many were acknowledged and are not there."""
        return len(self.acknowledged - self.kept)

    def line(self) -> str:
        """Give its line of the table."""
        if self.skipped:
            return f"{self.peer:<16} left out: {self.skipped}"
        numbers = f"{self.asked:>6} {len(self.acknowledged):>13} {len(self.kept):>6} {self.lost:>6}"
        rate = len(self.acknowledged) / self.seconds if self.seconds else 0.0
        failed = f"  {len(self.failures)} processes failed" if self.failures else ""
        return f"{self.peer:<16} {numbers} {rate:>9.0f}{failed}"


def measured(peer: Peer) -> Result:
    """Let all processes note their steps at the same time, then look what is there."""
    result = Result(peer.name)
    try:
        command = peer.command()
    except Missing as error:
        result.skipped = str(error)
        return result
    with _store() as store:
        servers = [Server(command, store, peer.env(store)) for _ in range(PROCESSES)]
        barrier = threading.Barrier(PROCESSES, action=result.begin)
        threads = [
            threading.Thread(target=_work, args=(peer, server, number, barrier, result))
            for number, server in enumerate(servers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result.seconds = time.monotonic() - result.began
        for server in servers:
            server.close()
        result.asked = PROCESSES * STEPS
        _look(peer, Server(command, store, peer.env(store)), result)
    return result


def _work(
    peer: Peer, server: Server, number: int, barrier: threading.Barrier, result: Result
) -> None:
    try:
        server.greet()
        barrier.wait(_PATIENCE_SECONDS)
        for count in range(STEPS):
            step = f"p{number}-step-{count}"
            if peer.note(server, step):
                result.acknowledged.add(step)
    except Exception as error:  # noqa: BLE001 - a server that dies is a result, too
        result.failures.append(repr(error))
        barrier.abort()


def _look(peer: Peer, server: Server, result: Result) -> None:
    try:
        server.greet()
        result.kept = peer.kept(server)
    except Exception as error:  # noqa: BLE001 - a store that cannot be read kept nothing
        result.failures.append(f"it cannot be read any more: {error!r}")
    finally:
        server.close()


@contextmanager
def _store() -> Generator[Path, None, None]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-peers-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def many(seed: int, count: int) -> Row:
    """Do it so many times with each, and print the table."""
    random.seed(seed)
    print(f"{PROCESSES} processes, {STEPS} steps each, one store")
    print(f"{'':<16} {'asked':>6} {'acknowledged':>13} {'kept':>6} {'lost':>6} {'steps/s':>9}")
    ours: list[Result] = []
    lost: list[str] = []
    for _ in range(count):
        for peer in PEERS:
            result = measured(peer)
            print(result.line(), flush=True)
            if peer is PEERS[0]:
                ours.append(result)
            elif result.skipped:
                lost.append(f"{peer.name} left out")
            else:
                lost.append(f"{peer.name} lost {result.lost} of {len(result.acknowledged)}")
    found = [
        f"holdfast kept {len(each.kept)} of {len(each.acknowledged)}, asked {each.asked}: "
        f"{each.failures}"
        for each in ours
        if each.lost or each.failures or len(each.acknowledged) != each.asked
    ]
    asked = sum(each.asked for each in ours)
    return Row("peers", asked, "steps of 8 processes", seed, tuple(found), ", ".join(lost))


def short(seed: int) -> Row:
    """Once."""
    return many(seed, 1)


if __name__ == "__main__":
    harness.main(short, by_count=many)
