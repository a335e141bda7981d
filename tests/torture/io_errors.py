"""Fail the Nth call of every operation, for every N until none fires, and see that nothing is lost.

    python -m tests.torture.io_errors --count 100000 --seed 1

The answer to a call that could not be kept is NOT SAVED (or another refusal that says what to do), never
a traceback and never ok. Afterwards the same process goes on as soon as the disk works again, another
one is not kept waiting for a lock, no descriptor is left open, and a power cut takes nothing back that was
answered. `small_disk` does the same to a real disk that is full.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

from tests.torture import power_cut, promises
from tests.torture.direct_engine import no_event_loop, run
from tests.torture.failing_disk import FAULTS, FailingDisk, Fault
from tests.torture.harness import Row, main
from tests.torture.ledger import Broken
from tests.torture.workloads import TASK, Agent, Person, World

from holdfast_storage.core.errors import HoldfastError, NotSaved
from holdfast_storage.engines.folder.limits import Limits

Operation = Callable[[Agent], object]

_BEFORE = ("save", "mark", "begin", "save", "append", "save_pages", "render")


@functools.cache
def _worked_on(seed: int) -> World:
    """Give a workspace with something of everything in it; for odd seeds an edit waits there."""
    room = 8 if seed % 4 < 2 else 0
    world = World.empty(
        seed, Limits(segment_bytes=900, room_after_writes=room, lock_wait_seconds=1e9)
    )
    Agent(world, "p").perform(_BEFORE)
    if seed % 2:
        Person(world).perform(["edit"])
    return world


def _prepared(seed: int) -> World:
    """Give one to spoil."""
    world = _worked_on(seed)
    fs, _ = power_cut.after(world.fs, power_cut.harshest(world.fs))
    return world.after(fs, seed + 1)


def _reach_anew(agent: Agent) -> None:
    """Mark after the descriptors were let go of, as happens to tasks that are not used for a while."""
    agent.engine.folder(TASK).close()
    agent.mark()


def _reopen(agent: Agent) -> None:
    agent.ledger.results.pop((1, "p-2"))
    run(agent.workspace.reopen(TASK, "p-2"))


def _prune_and_restore(agent: Agent) -> None:
    agent.prune()
    agent.restore()


OPERATIONS: dict[str, Operation] = {
    # The eight of every caller.
    "save": Agent.save,
    "save_pages": Agent.save_pages,
    "append": Agent.append,
    "load": Agent.load,
    "load one": lambda agent: run(agent.caller.load(TASK, checkpoint=1)),
    "list tasks": lambda agent: run(agent.caller.list_checkpoints()),
    "list": lambda agent: run(agent.caller.list_checkpoints(TASK)),
    "mark": Agent.mark,
    "begin": Agent.begin,
    "begin_and_mark": Agent.begin_and_mark,
    "ask": lambda agent: run(agent.caller.ask(TASK, "go on?")),
    "prune": Agent.prune,
    "finish": Agent.finish,
    # What people decide.
    "reopen": _reopen,
    "resolve": lambda agent: run(agent.workspace.resolve(TASK, "p-begun-4", happened=True)),
    "release": lambda agent: run(agent.workspace.release(TASK, "p-begun-4")),
    "pin": lambda agent: run(agent.workspace.pin(TASK, 1)),
    "pause": lambda agent: run(agent.workspace.pause(TASK)),
    "rewind": Agent.rewind,
    "fork": Agent.fork,
    "acknowledge": lambda agent: run(agent.workspace.acknowledge(TASK)),
    "prune and restore": _prune_and_restore,
    # Looking after it.
    "reach anew": _reach_anew,
    "render": Agent.render,
    "check": lambda agent: run(agent.workspace.check()),
    "repair": lambda agent: run(agent.workspace.check(repair=True)),
    "tasks": lambda agent: run(agent.workspace.tasks()),
    "tidy": lambda agent: run(agent.workspace.tidy()),
    "trash": lambda agent: run(agent.workspace.trash()),
}
# Refused whatever the disk does, with a reason of their own.
_MAY_REFUSE = ("resolve", "release")


class Failing:
    """One operation on one disk that fails at its Nth call."""

    def __init__(self, name: str, fault: Fault, at: int, seed: int, *, is_cold: bool) -> None:
        self._name, self._fault, self._at, self._seed = name, fault, at, seed
        self._is_cold = is_cold

    def run(self) -> tuple[bool, str]:
        """Answer whether it fired, and what broke."""
        try:
            return self._run(_prepared(self._seed)), ""
        except Broken as broken:
            return True, self._told(str(broken))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not happen
            return True, self._told(f"{type(error).__name__}: {error}")

    def _told(self, what: str) -> str:
        when = "cold" if self._is_cold else "warm"
        return f"seed {self._seed}: {self._name}, {self._fault.name} at call {self._at}, {when}: {what}"

    def _run(self, world: World) -> bool:
        world.make_disk = FailingDisk
        agent = Agent(world, "a")
        agent.start()
        if not self._is_cold:
            agent.mark()
        disk = agent.disk
        assert isinstance(disk, FailingDisk)
        disk.fail(self._fault, self._at)
        is_refused = self._perform(agent)
        has_fired = disk.has_failed
        disk.heal()
        if is_refused and not has_fired and self._name not in _MAY_REFUSE:
            raise Broken("it was refused although nothing failed")
        self._look(world, agent)
        return has_fired

    def _perform(self, agent: Agent) -> bool:
        try:
            OPERATIONS[self._name](agent)
        except NotSaved as refusal:
            if "NOT SAVED" not in str(refusal):
                raise Broken(f"the answer does not say NOT SAVED: {refusal}") from refusal
            return True
        except HoldfastError:
            return True
        return False

    def _look(self, world: World, agent: Agent) -> None:
        # Somebody else is not kept waiting, and finds everything.
        other = Agent(world, "b")
        other.start()
        other.mark()
        # The same process goes on, and ends in good order.
        agent.load()
        agent.mark()
        agent.save()
        agent.render()
        agent.leave()
        other.leave()
        fs, _ = power_cut.after(world.fs, power_cut.harshest(world.fs))
        world.make_disk = FailingDisk
        promises.hold(world, fs, self._seed + 1_000_003)


def cases(seed: int) -> Iterator[tuple[str, Fault, bool, int]]:
    """Give operations and faults for ever; the first round has each of them once."""
    for number in count(seed):
        for name in OPERATIONS:
            for fault in FAULTS:
                yield name, fault, bool(number % 2), number


def until_none_fires(
    name: str, fault: Fault, seed: int, *, is_cold: bool, stride: int = 1
) -> tuple[int, list[str]]:
    """Fail each call of one operation in turn; answers how many failed, and what broke."""
    violations: list[str] = []
    at = 1 + Random(f"{name}{fault.name}{seed}").randrange(stride)
    fired = 0
    while True:
        has_fired, violation = Failing(name, fault, at, seed, is_cold=is_cold).run()
        if violation:
            violations.append(violation)
        if not has_fired or len(violations) == 3:
            return fired, violations
        fired += 1
        at += stride


def tortured(seed: int, at_least: int, *, stride: int = 1) -> Row:
    """Fail so many calls."""
    began = time.monotonic()
    failed = 0
    violations: list[str] = []
    with no_event_loop():
        for name, fault, is_cold, number in cases(seed):
            if failed >= at_least:
                break
            fired, found = until_none_fires(name, fault, number, is_cold=is_cold, stride=stride)
            failed += fired
            violations += found
            for violation in found:
                print(violation[:400], file=sys.stderr, flush=True)
    remark = (
        f"{len(OPERATIONS)} operations, {len(FAULTS)} faults, "
        f"{failed / (time.monotonic() - began):.0f} a second"
    )
    return Row("I/O errors", failed, "calls that failed", seed, tuple(violations), remark)


def short(seed: int) -> Row:
    """Give the short form: some calls of every operation with every fault."""
    return tortured(seed, 200, stride=61)


def long(seed: int, count: int) -> Row:
    """Fail so many calls, none left out."""
    return tortured(seed, count)


if __name__ == "__main__":
    main(short, by_count=long)
