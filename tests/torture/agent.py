"""One process that does whatever agents do, in random order, and says what it was told."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from tests.torture.forking import Say
from tests.torture.live_memory import LiveMemory
from tests.torture.person import Person

from holdfast_storage.caller import Caller
from holdfast_storage.core import strict_json, view
from holdfast_storage.core.errors import HoldfastError, Unavailable
from holdfast_storage.core.limits import Settings
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.readme import README
from holdfast_storage.workspace import Workspace

# What racing agents are rightly refused: they load, or leave it.
_EXPECTED = {"run_closed", "load_first", "unfinished", "unknown", "busy"}

_AT_ONCE = 8
_IN_A_ROW = 12
_TELLS_EVERY_SECONDS = 5.0

ChooseTask = Callable[[random.Random], str]


def opened(root: Path, by: str, room_after_writes: int) -> Workspace:
    """Open a workspace as everybody does, but for when journals get room behind their lines."""
    engine = FolderEngine.open(
        root,
        schema=strict_json.pretty(view.schema()),
        readme=README,
        settings=asdict(Settings()),
        room_after_writes=room_after_writes,
    )
    return Workspace(engine, by=by, location=str(root))


class Agent:
    """An agent at work, until it is told to stop or killed."""

    def __init__(
        self,
        root: Path,
        name: str,
        seed: int,
        choose_task: ChooseTask,
        think_seconds: float,
        say: Say,
    ) -> None:
        self._root, self._name, self._say = root, name, say
        self._chance = random.Random(f"{seed}-{name}")
        self._choose_task, self._think_seconds = choose_task, think_seconds
        self._count = 0
        self._tells_at = 0.0

    async def work(self, is_over: Callable[[], bool]) -> None:
        async with opened(self._root, self._name, self._chance.choice((0, 8))) as workspace:
            self._caller = workspace.caller(self._name)
            self._workspace = workspace
            while not is_over():
                await self._act(self._choose_task(self._chance))
                self._tell_what_is_alive()
                await asyncio.sleep(self._chance.expovariate(1 / self._think_seconds))

    def _tell_what_is_alive(self) -> None:
        """Between two acts, when nothing is held that the next moment lets go."""
        if time.monotonic() >= self._tells_at:
            self._say("alive", *LiveMemory.now())
            self._tells_at = time.monotonic() + _TELLS_EVERY_SECONDS

    async def _act(self, task: str) -> None:
        self._count += 1
        [act] = self._chance.choices(list(_SHARES), list(_SHARES.values()))
        try:
            await act(self, self._caller, task)
            self._say("did", act.__name__)
        except HoldfastError as error:
            self._say("refused", error.code)
            was_pruned = isinstance(error, Unavailable) and error.why == "it was pruned"
            if error.code not in _EXPECTED and not was_pruned:
                self._say("failed", f"{act.__name__} of {task}: {error.code}: {error}")
            if error.code in ("run_closed", "load_first"):
                await self._caller.load(task)

    async def mark(self, caller: Caller, task: str) -> None:
        step, result = f"{self._name}-{self._count}", {"n": self._count, "text": "x" * 200}
        marked = await caller.mark(task, step, result)
        self._say("done", task, marked.revision, step, result)

    async def mark_in_a_row(self, caller: Caller, task: str) -> None:
        """Mark steps one after the other, as a program does that does nothing else."""
        for number in range(_IN_A_ROW):
            step = f"{self._name}-{self._count}-{number}"
            marked = await caller.mark(task, step, 1)
            self._say("done", task, marked.revision, step, 1)

    async def begin_and_mark(self, caller: Caller, task: str) -> None:
        step = f"{self._name}-{self._count}"
        begun = await caller.begin(task, step)
        if begun.go:
            marked = await caller.mark(task, step, 1, claim=begun.claim)
            self._say("done", task, marked.revision, step, 1)

    async def mark_at_once(self, caller: Caller, task: str) -> None:
        """Mark steps of several tasks at the same time, as a server does for its clients."""
        tasks = [task, *(self._choose_task(self._chance) for _ in range(_AT_ONCE - 1))]
        steps = [f"{self._name}-{self._count}-{number}" for number in range(_AT_ONCE)]
        outcomes = await asyncio.gather(
            *(caller.mark(each, step, 1) for each, step in zip(tasks, steps, strict=True)),
            return_exceptions=True,
        )
        refusals: list[BaseException] = []
        for each, step, outcome in zip(tasks, steps, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                refusals.append(outcome)
            else:
                self._say("done", each, outcome.revision, step, 1)
        for refusal in refusals:
            raise refusal

    async def append(self, caller: Caller, task: str) -> None:
        item = [self._name, self._count]
        saved = await caller.save(task, append={"log": [item]})
        self._say("saved", task, saved.revision, saved.checkpoint)
        self._say("appended", task, saved.run, item)

    async def save(self, caller: Caller, task: str) -> None:
        state = {"agents": {self._name.split(".")[0]: {"n": self._count, "text": "y" * 500}}}
        milestone = self._chance.random() < 0.05
        saved = await caller.save(task, state, label="mine", milestone=milestone)
        self._say("saved", task, saved.revision, saved.checkpoint)

    async def load(self, caller: Caller, task: str) -> None:
        await caller.load(task)

    async def look_back(self, caller: Caller, task: str) -> None:
        listed = await caller.list_checkpoints(task, limit=50)
        if there := [line.checkpoint for line in listed.checkpoints if line.available]:
            await caller.load(task, checkpoint=self._chance.choice(there))

    async def list_all(self, caller: Caller, task: str) -> None:
        await caller.list_checkpoints(limit=20)
        for show in ("steps", "events"):
            await caller.list_checkpoints(task, show=show, limit=20)

    async def prune(self, caller: Caller, task: str) -> None:
        await caller.prune(task, keep_last=3, older_than_hours=0)

    async def finish(self, caller: Caller, task: str) -> None:
        outcome = self._chance.choice(["done", "abandoned", "abandoned", "paused"])
        await caller.finish(task, outcome)

    async def pin(self, caller: Caller, task: str) -> None:
        brief = await self._workspace.brief(task)
        if brief.checkpoint:
            await self._workspace.pin(task, brief.checkpoint, pinned=self._chance.random() < 0.2)


_SHARES: dict[Callable[[Agent, Caller, str], Awaitable[None]], int] = {
    Agent.mark: 45,
    Agent.append: 15,
    Agent.save: 10,
    Agent.load: 10,
    Agent.begin_and_mark: 8,
    Agent.mark_at_once: 3,
    Agent.mark_in_a_row: 3,
    Agent.list_all: 4,
    Agent.look_back: 3,
    Agent.prune: 2,
    Agent.finish: 2,
    Agent.pin: 1,
}


async def edit(
    root: Path,
    seed: int,
    choose_task: ChooseTask,
    pause_seconds: float,
    is_over: Callable[[], bool],
    say: Say,
) -> None:
    """Be the person who edits what the agents work on."""
    chance = random.Random(f"{seed}-person")
    person = Person(root, chance)
    count = 0
    while not is_over():
        task, word = choose_task(chance), f"word-{count:06}"
        if person.edit(task, word):
            say("edited", task, word)
            count += 1
        await asyncio.sleep(chance.expovariate(1 / pause_seconds))
