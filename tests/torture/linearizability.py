"""Record what several processes did to one task at the same time, and find an order that explains it.

    python -m tests.torture.linearizability --count 10000     # the long form
    python -m tests.torture.linearizability --count 1 --seed 4711

Each history is some processes with one to three connections each, some of them killed in the middle. The
seed decides who asks for what; when it happens is up to the machine, so a seed is tried several times.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture import harness, processors
from tests.torture.asking import TASK, answered
from tests.torture.forking import Forked, Said, Say, wait_for
from tests.torture.harness import Row
from tests.torture.search import Search, Undecided
from tests.torture.specification import Answer, Call, TaskState

from holdfast_storage.caller import Caller
from holdfast_storage.core import strict_json, view
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.workspace import Workspace

PLAN = ("s1", "s2", "s3", "s4")
SHORT_COUNT = 80
_FOREVER = 1 << 62
# Nobody may be refused only because the machine is slow.
_LOCK_WAIT_SECONDS = 60.0


# --- what somebody asks for -------------------------------------------------------------------


class Agent:
    """One connection that does random things; what it learnt decides what it may ask for next."""

    def __init__(self, name: str, workspace: Workspace, rng: random.Random, say: Say) -> None:
        self._workspace, self._rng, self._say, self._name = workspace, rng, say, name
        self._caller: Caller = workspace.caller(name)
        self._claims: dict[str, str] = {}
        self._revisions: list[int] = []
        self._checkpoints: list[int] = []
        self._last_save: dict[str, Any] = {}

    async def act(self, count: int) -> None:
        """Ask for so many things, one after the other, and tell of each when it began and ended."""
        for number in range(count):
            await self._do(number, *self._next())
            if self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.random() * 0.003)

    async def look(self) -> None:
        """Look at everything once."""
        for number, name in enumerate(_AFTERWARDS):
            await self._do(number, name, {})

    async def _do(self, number: int, name: str, arguments: dict[str, Any]) -> None:
        self._say("began", self._name, number, name, arguments, time.monotonic_ns())
        answer = await answered(self._caller, self._workspace, name, arguments)
        self._say("ended", self._name, number, answer, time.monotonic_ns())
        self._learn(name, arguments, answer)

    def _learn(self, name: str, arguments: dict[str, Any], answer: Answer) -> None:
        if answer.get("claim"):
            self._claims[answer["step"]] = answer["claim"]
        if name in ("save", "load", "mark") and answer.get("revision"):
            self._revisions.append(answer["revision"])
        if name == "save":
            self._last_save = arguments
        if answer.get("checkpoint"):
            self._checkpoints.append(answer["checkpoint"])

    def _next(self) -> tuple[str, dict[str, Any]]:
        names, weights = zip(*_WEIGHTS.items(), strict=True)
        name: str = self._rng.choices(names, weights)[0]
        if name == "look_at" and not self._checkpoints:
            name = "load"
        return name, getattr(self, f"_some_{name}", dict)()

    def _value(self) -> int | None:
        return self._rng.choice([1, 2, 3, self._rng.randrange(100, 10**6), None])

    def _step(self) -> str:
        return self._rng.choice(PLAN)

    def _patch(self) -> dict[str, Any]:
        return {key: self._value() for key in self._rng.sample(["a", "b", "c"], 2)}

    def _some_save(self) -> dict[str, Any]:
        kind = self._rng.random()
        if kind < 0.1 and self._last_save:
            return self._last_save
        if kind < 0.3:
            return {"append": {"log": [f"{self._name}-{self._rng.randrange(10**6)}"]}}
        arguments: dict[str, Any] = {"state": self._patch()}
        if kind < 0.5:
            arguments["plan"] = PLAN
        elif kind < 0.75 and self._revisions:
            arguments["revision"] = self._rng.choice(self._revisions[-3:])
        return arguments

    def _some_mark(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"step": self._step(), "result": self._rng.randrange(3)}
        if self._rng.random() < 0.3:
            arguments["outcome"] = self._rng.choice(["failed", "skipped"])
        if self._rng.random() < 0.3 and arguments["step"] in self._claims:
            arguments["claim"] = self._claims[arguments["step"]]
        if self._rng.random() < 0.2:
            arguments["append"] = {"log": [f"{self._name}-{self._rng.randrange(10**6)}"]}
        elif self._rng.random() < 0.2:
            arguments["state"] = self._patch()
        return arguments

    def _some_begin(self) -> dict[str, Any]:
        step = "" if self._rng.random() < 0.2 else self._step()
        if step in self._claims and self._rng.random() < 0.6:
            return {"step": step, "claim": self._claims[step], "retry": self._rng.random() < 0.6}
        return {"step": step}

    def _some_look_at(self) -> dict[str, Any]:
        return {"checkpoint": self._rng.choice(self._checkpoints)}

    def _some_finish(self) -> dict[str, Any]:
        return {"outcome": self._rng.choice(["done", "done", "abandoned", "paused", "failed"])}

    def _some_ask(self) -> dict[str, Any]:
        return {"question": self._rng.choice(["which?", "why?"])}

    def _some_answer(self) -> dict[str, Any]:
        return {"question": self._rng.choice(["q1", "q2"]), "answer": self._rng.randrange(1, 3)}

    def _some_resolve(self) -> dict[str, Any]:
        happened = self._rng.random() < 0.5
        return {"step": self._step(), "happened": happened, "result": 7 if happened else None}

    def _some_reopen(self) -> dict[str, Any]:
        return {"step": self._step()}

    _some_release = _some_reopen


_WEIGHTS = {
    "save": 20,
    "mark": 22,
    "begin": 16,
    "load": 12,
    "list_steps": 6,
    "list_tasks": 3,
    "look_at": 3,
    "finish": 7,
    "ask": 2,
    "answer": 2,
    "resolve": 4,
    "reopen": 3,
    "release": 2,
    "pause": 1,
    "go_on": 2,
    "prune": 1,
}
# Small things that only look, for whoever comes when all is over.
_AFTERWARDS = ("load", "list_steps", "list_tasks")


# --- one history ------------------------------------------------------------------------------


@dataclass
class _Told:
    """What one process said of itself, and when it was gone."""

    process: str
    said: list[Said] = field(default_factory=list[Said])
    killed: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """What several processes were told while they worked at the same time."""

    calls: tuple[Call, ...]
    workspace_id: str
    failures: tuple[str, ...] = ()


def record(seed: int, root: Path) -> History:
    """Let some processes work on one task in this folder, some of them only for a while."""
    rng = random.Random(seed)
    reading, writing = os.pipe()
    told: dict[Forked, _Told] = {}
    for number in range(rng.choice([2, 2, 3, 3, 4])):
        process = f"p{number}"
        child = Forked(
            _at_work(
                root, process, rng.randrange(2**32), rng.choice([1, 1, 2, 3]), reading, writing
            )
        )
        told[child] = _Told(process)
    victims = rng.sample(list(told), rng.choice([0, 0, 0, 1, 1, 2]))
    delays = sorted(rng.random() * 0.06 for _ in victims)
    os.close(reading)
    _wait_until_ready(told)
    began = time.monotonic()
    os.close(writing)  # they all wait for this
    for victim, delay in zip(victims, delays, strict=True):
        _listen(told, until=began + delay)
        told[victim].killed = time.monotonic_ns()
        victim.signal(signal.SIGKILL)
    while not all(child.is_over for child in told):
        _listen(told, until=None)
    for child, what in told.items():
        if not what.gone:
            child.joined()
            what.gone = time.monotonic_ns()
    return _history(list(told.values()), root)


def _wait_until_ready(told: dict[Forked, _Told]) -> None:
    while not all(what.said for what in told.values()):
        _listen(told, until=None)


def _listen(told: dict[Forked, _Told], until: float | None) -> None:
    """Take down what is said, once or until then."""
    while True:
        left = None if until is None else until - time.monotonic()
        alive = [child for child in told if not child.is_over]
        if not alive or (left is not None and left <= 0):
            return
        for child in wait_for(alive, left):
            told[child].said += child.heard()
        if until is None:
            return


def _at_work(
    root: Path, process: str, seed: int, callers: int, barrier: int, other_end: int
) -> Any:
    async def act(say: Say) -> None:
        os.close(other_end)
        rng = random.Random(seed)
        async with _opened(root) as workspace:
            agents = [
                Agent(f"{process}c{number}", workspace, random.Random(rng.random()), say)
                for number in range(callers)
            ]
            say("ready")
            os.read(barrier, 1)
            await asyncio.gather(*(agent.act(rng.randrange(4, 9)) for agent in agents))
            say("leaving", time.monotonic_ns())
            if rng.random() < 0.7:
                os._exit(0)  # no farewell: as dead as one that was killed

    return act


def _opened(root: Path) -> Workspace:
    schema = strict_json.pretty(view.schema())
    engine = FolderEngine.open(root, schema=schema, lock_wait_seconds=_LOCK_WAIT_SECONDS)
    return Workspace(engine, by="agent")


def _look_afterwards(root: Path) -> list[Said]:
    async def act(say: Say) -> None:
        async with _opened(root) as workspace:
            say("workspace", workspace._engine.workspace_id)  # pyright: ignore[reportPrivateUsage]
            await Agent("afterwards", workspace, random.Random(0), say).look()
            os._exit(0)

    return Forked(act).joined()


def _history(told: list[_Told], root: Path) -> History:
    after = _Told("afterwards", _look_afterwards(root))
    calls: list[Call] = []
    failures: list[str] = []
    workspace_id = ""
    for what in (*told, after):
        begun: dict[tuple[str, int], tuple[str, dict[str, Any], int]] = {}
        left = what.killed
        for word, *about in what.said:
            if word == "began":
                caller, number, name, arguments, at = about
                begun[caller, number] = name, arguments, at
            elif word == "ended":
                caller, number, answer, at = about
                name, arguments, began = begun.pop((caller, number))
                if answer.get("error") in _NEVER:
                    failures.append(f"{name}({arguments}) of {caller}: {answer}")
                answer.pop("said", None)
                calls.append(Call(caller, what.process, name, arguments, began, at, answer))
            elif word == "leaving":
                left = about[0]
            elif word == "workspace":
                workspace_id = about[0]
            elif word == "failed":
                failures.append(f"{what.process}: {about[0]}")
        calls += [
            Call(caller, what.process, name, arguments, at, _FOREVER, None)
            for (caller, _), (name, arguments, at) in begun.items()
        ]
        if what is not after:
            calls.append(Call("", "", "die", {"process": what.process}, left, what.gone, {}))
    return History(tuple(calls), workspace_id, tuple(failures))


# What no caller must ever be told on a healthy folder, whatever the others do.
_NEVER = frozenset(
    {
        *("crash", "damaged", "not_saved", "busy", "journal_replaced", "unsafe_file", "unreadable"),
        *("newer_format", "warned"),
    }
)


def problems(history: History) -> list[str]:
    """Say what is wrong with a history: things nobody must be told, or no order that explains it."""
    if history.failures:
        return list(history.failures)
    prunes = any(call.name == "prune" for call in history.calls)
    search = Search(history.calls, TaskState(history.workspace_id, TASK, pruned=prunes))
    try:
        if search.order() is not None:
            return []
    except Undecided:
        return ["undecided: too many orders to try"]
    return [f"no order explains it; {search.explanation()}"]


# --- many of them -----------------------------------------------------------------------------


def tried(seed: int) -> list[str]:
    """Record and check one history; what is wrong with it is told with its seed."""
    with _folder(seed) as root:
        return [f"seed {seed}: {each}" for each in problems(record(seed, root))]


@contextmanager
def _folder(seed: int) -> Generator[Path, None, None]:
    """Give a new folder: mostly in memory, where more happens in the same time."""
    memory = Path("/dev/shm")
    place = memory if seed % 4 and os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="holdfast-histories-", dir=place))
    try:
        yield folder / ".holdfast"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def many(seed: int, count: int) -> Row:
    """Try so many histories, on all processors."""
    found = tuple(processors.findings(range(seed, seed + count), tried))
    return Row("linearizability", count, "histories of several processes", seed, found[:20])


def short(seed: int) -> Row:
    """A few seconds of it."""
    return many(seed, SHORT_COUNT)


if __name__ == "__main__":
    harness.main(short, by_count=many)
