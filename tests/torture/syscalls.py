"""SIGKILL at the Nth system call of every operation: it is wholly there or wholly absent, and work goes on.

strace does the killing, for real, between two calls of the kernel.

    python -m tests.torture.syscalls --count 100000     # every call of every operation
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.torture import acknowledged
from tests.torture.agent import opened
from tests.torture.forking import Forked, Say, done
from tests.torture.harness import Row, main

from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.engines.folder.workers import Workers
from holdfast_storage.workspace import Workspace

TASK = "report"
# All calls that change something for others: killed before each of these, every state is seen that
# the ones between leave too. Whoever opens a file changes something only by making it.
CHANGES = (
    *(
        "openat",
        "mkdir",
        "mkdirat",
        "write",
        "pwrite64",
        "ftruncate",
        "fchmod",
        "fsync",
        "fdatasync",
    ),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "flock"),
)
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")

Call = tuple[str, int]  # its name, and which of that name

Act = Callable[[Workspace, Caller], Awaitable[Any]]
Snapshot = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """Something that one call does, and what must have happened before."""

    name: str
    before: Act | None
    act: Act


# --- the operations ---------------------------------------------------------------------------


async def _begun(workspace: Workspace, caller: Caller) -> None:
    """A run with a plan, steps, a few saves and an open question."""
    await caller.save(TASK, {"n": 1, "log": []}, goal="write", plan=["a", "b", "c"])
    await caller.mark(TASK, "a", {"pages": 1})
    for n in (2, 3, 4):
        await caller.save(TASK, {"n": n, "big": f"{n}" * 3000}, label=f"save {n}")
    await caller.ask(TASK, "go on?", ["yes", "no"])


async def _finished(workspace: Workspace, caller: Caller) -> None:
    await _begun(workspace, caller)
    await caller.finish(TASK, "abandoned")


async def _pruned(workspace: Workspace, caller: Caller) -> None:
    await _begun(workspace, caller)
    await caller.prune(TASK, keep_last=1, older_than_hours=0)


async def _edited(workspace: Workspace, caller: Caller) -> None:
    """A person saved, and nobody has looked yet."""
    await _begun(workspace, caller)
    await workspace.close()
    path = Path(workspace.location) / "tasks" / TASK / "state.json"
    document = json.loads(path.read_text())
    document["state"]["n"], document["plan"]["b"] = "corrected", "skipped"
    path.write_text(json.dumps(document))


async def _save(workspace: Workspace, caller: Caller) -> Any:
    await caller.load(TASK)
    return await caller.save(TASK, {"n": 5})


async def _save_large(workspace: Workspace, caller: Caller) -> Any:
    await caller.load(TASK)
    return await caller.save(TASK, {"large": "x" * 50_000}, milestone=True)


async def _new_run(workspace: Workspace, caller: Caller) -> Any:
    await caller.load(TASK)
    return await caller.save(TASK, {"n": 10}, goal="again")


async def _begin(workspace: Workspace, caller: Caller) -> Any:
    return await caller.begin(TASK, "b")


async def _restore(workspace: Workspace, caller: Caller) -> Any:
    [trashed] = await workspace.trash()
    return await workspace.restore(trashed.name)


async def _list(workspace: Workspace, caller: Caller) -> Any:
    await caller.list_checkpoints()
    return await caller.list_checkpoints(TASK, show="steps")


OPERATIONS = [
    Operation("first save", None, lambda w, c: c.save(TASK, {"n": 1}, goal="write", plan=["a"])),
    Operation("save", _begun, _save),
    Operation("large save", _begun, _save_large),
    Operation("append", _begun, lambda w, c: c.save(TASK, append={"log": [1]})),
    Operation("mark", _begun, lambda w, c: c.mark(TASK, "b", {"pages": 2})),
    Operation("begin", _begun, _begin),
    Operation("ask", _begun, lambda w, c: c.ask(TASK, "really?")),
    Operation("answer", _begun, lambda w, c: w.answer(TASK, "yes")),
    Operation("finish", _begun, lambda w, c: c.finish(TASK, "abandoned", "enough")),
    Operation("new run", _finished, _new_run),
    Operation("prune", _begun, lambda w, c: c.prune(TASK, keep_last=1, older_than_hours=0)),
    Operation("restore", _pruned, _restore),
    Operation("rewind", _begun, lambda w, c: w.rewind(TASK, 2)),
    Operation("fork", _begun, lambda w, c: w.fork(TASK, 0, "copy")),
    Operation("pin", _begun, lambda w, c: w.pin(TASK, 2)),
    Operation("reopen", _begun, lambda w, c: w.reopen(TASK, "a")),
    Operation("load of an edit", _edited, lambda w, c: c.load(TASK)),
    Operation("list", _begun, _list),
    Operation("check and repair", _edited, lambda w, c: w.check(repair=True)),
]


# --- in the child -----------------------------------------------------------------------------


def _at_once(_: Workers, work: Callable[[], None]) -> None:
    """Do it where it is asked for: strace counts the calls of each thread apart."""
    work()


async def _here(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(*arguments)


@dataclass(frozen=True)
class Doing:
    """The process that is killed: waits to be watched, acts, says that it was answered."""

    root: Path
    act: Act
    waits: bool = False

    async def __call__(self, say: Say) -> None:
        if self.waits:
            say("ready")
            os.kill(os.getpid(), signal.SIGSTOP)
        with patch.object(Workers, "put", _at_once), patch.object(asyncio, "to_thread", _here):
            async with opened(self.root, "agent", room_after_writes=0) as workspace:
                await self.act(workspace, workspace.caller("agent"))
                say("answered")


@dataclass(frozen=True)
class Telling:
    """Tells what an agent who comes after is told of the task."""

    root: Path

    async def __call__(self, say: Say) -> None:
        async with Workspace.open(self.root, by="reader") as workspace:
            try:
                say(await _snapshot(workspace, workspace.caller("reader")))
            except HoldfastError as error:
                # Neither before nor after: a kill may leave nothing that is refused.
                say({"found": False, "refused": str(error), "available": {}})


async def _snapshot(workspace: Workspace, caller: Caller) -> Snapshot:
    brief = await workspace.brief(TASK, max_tokens=10**6)
    if not brief.found:
        return {"found": False, "available": {}}
    steps = (await caller.list_checkpoints(TASK, show="steps", limit=100)).steps
    checkpoints = (await caller.list_checkpoints(TASK, limit=100)).checkpoints
    return {
        "found": True,
        "run": [brief.run, brief.status, brief.goal, brief.next, brief.checkpoint],
        "state": brief.state,
        "steps": {line.step: [line.status, line.result] for line in steps},
        "questions": [[asked.question, asked.answer] for asked in brief.questions],
        "checkpoints": {line.checkpoint: [line.label, line.pinned] for line in checkpoints},
        "others": {
            line.task: [line.status, line.problem, (await workspace.brief(line.task)).state]
            for line in await workspace.tasks()
            if line.task != TASK
        },
        "available": {
            str(line.checkpoint): await workspace.state_at(TASK, line.checkpoint)
            for line in checkpoints
            if line.available
        },
    }


# --- killing ----------------------------------------------------------------------------------


class Victim:
    """One operation, from the state before it, killed as often as it has system calls."""

    def __init__(self, operation: Operation, folder: Path) -> None:
        self._operation, self._folder = operation, folder
        self._template = folder / "before" / ".holdfast"
        self._template.parent.mkdir(parents=True)
        if operation.before:
            done(Doing(self._template, operation.before))
        self._before = self._told(self._copied("told"))
        self.calls, self._after = self._watched()
        self.kills = 0

    def _copied(self, name: str) -> Path:
        root = self._folder / name / ".holdfast"
        shutil.rmtree(root.parent, ignore_errors=True)
        root.parent.mkdir()
        if self._template.exists():
            shutil.copytree(self._template, root)
        return root

    def _told(self, root: Path) -> Snapshot:
        [[told]] = done(Telling(root))
        snapshot: Snapshot = told
        return snapshot

    def _watched(self) -> tuple[list[Call], Snapshot]:
        """Learn the calls of a whole run, and what it leads to."""
        root = self._copied("whole")
        log = self._folder / "log"
        said, child = self._traced(root, "-o", str(log))
        assert ["answered"] in said, said
        return _calls_in(log.read_text(), child.pid), self._told(root)

    def _traced(self, root: Path, *how: str) -> tuple[list[Any], Forked]:
        child = Forked(Doing(root, self._operation.act, waits=True))
        os.waitpid(child.pid, os.WUNTRACED)
        strace = subprocess.Popen(
            ["strace", "-f", "-qq", "-p", str(child.pid), "-e", f"trace={','.join(CHANGES)}", *how],
            stderr=subprocess.DEVNULL,
        )
        _wait_until_traced(child.pid)
        child.signal(signal.SIGCONT)
        said = child.joined()
        strace.wait()
        return said, child

    def killed_at(self, call: Call) -> Iterator[str]:
        """Kill it there and name every promise that is broken."""
        name, number = call
        root = self._copied(f"killed-{name}-{number}")
        inject = f"inject={name}:signal=KILL:when={number}"
        said, child = self._traced(root, "-o", "/dev/null", "-e", inject)
        self.kills += child.was_killed
        where = f"{self._operation.name}, killed before {name} number {number}: "
        for words in said:
            if words[0] == "failed":
                yield where + words[1]
        now = self._told(root)
        problems = [*self._judged(now, was_answered=["answered"] in said)]
        if now["found"]:
            problems += acknowledged.unhealthy(root, [TASK, *now["others"]])
        for problem in problems:
            yield where + problem
        if not problems:
            shutil.rmtree(root.parent)

    def _judged(self, now: Snapshot, *, was_answered: bool) -> Iterator[str]:
        before, after = _without_available(self._before), _without_available(self._after)
        if was_answered and _without_available(now) != after:
            yield f"it was answered, but there is {now}"
        elif _without_available(now) not in (before, after):
            yield f"half of it is there: {now}"
        states = self._before["available"] | self._after["available"]
        for number, state in now["available"].items():
            if state != states[number]:
                yield f"checkpoint {number} is {state}"
        kept = self._before["available"].keys() & self._after["available"].keys()
        if missing := kept - now["available"].keys():
            yield f"checkpoints {missing} cannot be had any more"


def _without_available(snapshot: Snapshot) -> Snapshot:
    """Prune goes segment by segment, so of what it takes some may be gone and some not yet."""
    return {key: value for key, value in snapshot.items() if key != "available"}


def _calls_in(log: str, pid: int) -> list[Call]:
    """Give the calls that can make a difference, each as strace counts it."""
    counts: Counter[str] = Counter()
    found: list[Call] = []
    for line in log.splitlines():
        told = _LINE.match(line)
        if told and int(told[1]) == pid:
            name, arguments = told[2], told[3]
            counts[name] += 1
            if name != "openat" or "O_CREAT" in arguments:
                found.append((name, counts[name]))
    return found


def _wait_until_traced(pid: int) -> None:
    while "TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text():
        os.sched_yield()


# --- how many ---------------------------------------------------------------------------------


def long(seed: int, count: int) -> Row:
    """Kill at every call of every operation, or at `count` of them, the same number for each."""
    if shutil.which("strace") is None:
        return Row("syscalls", 0, "system calls", seed, remark="skipped: strace is not installed")
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-syscalls-"))
    violations: list[str] = []
    killed = of = 0
    for number, operation in enumerate(OPERATIONS):
        victim = Victim(operation, folder / f"{number}")
        share = min(len(victim.calls), max(1, count // len(OPERATIONS)))
        for call in chance.sample(victim.calls, share):
            violations += victim.killed_at(call)
        killed, of = killed + victim.kills, of + len(victim.calls)
    if not violations:
        shutil.rmtree(folder)
    remark = f"of the {of} calls of {len(OPERATIONS)} operations that change something"
    return Row("syscalls", killed, "system calls", seed, tuple(violations[:50]), remark)


def short(seed: int) -> Row:
    """Kill at a few calls of each operation."""
    return long(seed, 4 * len(OPERATIONS))


if __name__ == "__main__":
    main(short, by_count=long)
