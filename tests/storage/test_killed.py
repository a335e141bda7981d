"""A process is killed with SIGKILL: what it was told is kept is there, and nothing is done twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.storage.processes import Parent, child, children, let_go, opened

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import ClaimReplaced, InDoubt
from holdfast_storage.results import StepLine
from holdfast_storage.workspace import Workspace

TASK = "ingest"
ITEMS = range(1, 51)


def doc(item: int) -> str:
    return f"doc-{item:03}"


class World:
    """What the work does outside of Holdfast: a file with a line for each time an item was processed."""

    def __init__(self, root: Path) -> None:
        self._file = root.parent / "world.txt"

    def process(self, item: int) -> dict[str, int]:
        with self._file.open("a") as world:
            world.write(f"{item}\n")
        return {"words": item * 100}

    def times_processed(self) -> Counter[int]:
        return Counter(map(int, self._file.read_text().split()))


async def works_until(parent: Parent, root: Path, last: int) -> None:
    """Work through the items, and stand still when the last of them has been acknowledged."""
    async with opened(root) as workspace:
        await works(parent, workspace, World(root), last)


async def works(parent: Parent, workspace: Workspace, world: World, last: int) -> None:
    task = workspace.task(TASK)
    async for item in task.remaining(ITEMS, key=doc):
        parent.say(("begins", item))
        await task.done(doc(item), world.process(item))
        parent.say(("acknowledged", item))
        if item == last:
            parent.wait_to_be_killed()


async def steps_of(workspace: Workspace, task: str = TASK) -> dict[str, StepLine]:
    caller = workspace.caller("reader")
    found: dict[str, StepLine] = {}
    cursor = ""
    while True:
        page = await caller.list_checkpoints(task, show="steps", limit=200, cursor=cursor)
        assert not found.keys() & {line.step for line in page.steps}
        found |= {line.step: line for line in page.steps}
        if not (cursor := page.cursor):
            return found


async def test_killed_after_item_20_of_50_it_begins_again_with_item_21(root: Path) -> None:
    with child(works_until, root, 20) as first:
        while first.hear() != ("acknowledged", 20):
            pass
        first.kill()

    with child(works_until, root, 0) as second:
        assert second.hear() == ("begins", 21)
        second.ended()

    async with opened(root) as workspace:
        steps = await steps_of(workspace)
        assert {name: line.result for name, line in steps.items()} == {
            doc(item): {"words": item * 100} for item in ITEMS
        }
        assert {line.status for line in steps.values()} == {"done"}
        assert World(root).times_processed() == Counter(ITEMS)
        assert await workspace.check() == []


async def test_killed_at_any_moment_only_the_item_in_flight_is_processed_again(root: Path) -> None:
    acknowledged: list[int] = []
    in_flight: list[int] = []
    for kill_at in (3, 11, 12, 27, 40):
        # It waits a few items later: a kill that comes late must leave something for the next one.
        with child(works_until, root, kill_at + 5) as worker:
            heard: list[Any] = []
            # The one before may have got further than it was let live to say.
            while not any(word == "acknowledged" and item >= kill_at for word, item in heard):
                heard.append(worker.hear())
            heard += worker.kill()
        acknowledged += [item for word, item in heard if word == "acknowledged"]
        if heard[-1][0] == "begins":
            in_flight.append(heard[-1][1])
    with child(works_until, root, 0) as worker:
        acknowledged += [item for word, item in worker.all_heard() if word == "acknowledged"]

    async with opened(root) as workspace:
        steps = await steps_of(workspace)
    assert {name: line.status for name, line in steps.items()} == {doc(i): "done" for i in ITEMS}
    # An item may have been recorded without the child having lived to say so.
    assert len(set(acknowledged)) == len(acknowledged)
    assert set(ITEMS) - set(acknowledged) <= set(in_flight)
    for item, times in World(root).times_processed().items():
        assert times == 1 or (times == 2 and item in in_flight), item


# --- killed inside a step ---------------------------------------------------------------------


async def begins_21_and_stops(parent: Parent, root: Path) -> None:
    async with opened(root, "first") as workspace:
        task, world = workspace.task(TASK), World(root)
        async for item in task.remaining(ITEMS, key=doc):
            begun = await task.begin(doc(item))
            assert begun.go
            if item == 21:
                parent.say(begun.model_dump())
                parent.wait_to_be_killed()
            await task.done(doc(item), world.process(item))


@pytest.fixture
def killed_in_21(root: Path) -> dict[str, Any]:
    """Give what `begin_step` had answered to the process that was killed in its 21st item."""
    with child(begins_21_and_stops, root) as first:
        begun: dict[str, Any] = first.hear()
        first.kill()
    return begun


async def rest_of(workspace: Workspace, root: Path) -> list[int]:
    task, world = workspace.task(TASK), World(root)
    left: list[int] = []
    async for item in task.remaining(ITEMS, key=doc):
        left.append(item)
        await task.done(doc(item), world.process(item))
    return left


async def test_killed_inside_a_step_it_is_in_doubt_and_not_pending(
    root: Path, killed_in_21: dict[str, Any]
) -> None:
    async with opened(root, "second") as workspace:
        with pytest.raises(InDoubt) as doubt:
            await rest_of(workspace, root)
        brief = await workspace.task(TASK).load()

        assert doubt.value.step == doc(21)
        assert doubt.value.idempotency_key == killed_in_21["idempotency_key"]
        assert brief.in_doubt == [doc(21)]
        assert brief.remaining == []
        assert brief.progress.done == 20


async def test_what_happened_before_the_kill_is_confirmed_with_the_new_claim(
    root: Path, killed_in_21: dict[str, Any]
) -> None:
    async with opened(root, "second") as workspace:
        task = workspace.task(TASK)
        begun = await task.begin(doc(21))
        assert (begun.go, begun.status) == (False, "in_doubt")
        assert begun.claim not in ("", killed_in_21["claim"])
        assert begun.idempotency_key == killed_in_21["idempotency_key"]

        marked = await task.done(doc(21), {"words": 2100}, claim=begun.claim)

        assert not marked.already_done
        assert await rest_of(workspace, root) == list(range(22, 51))
        steps = await steps_of(workspace)
        assert {line.status for line in steps.values()} == {"done"}
        assert steps[doc(21)].result == {"words": 2100}
        assert 21 not in World(root).times_processed()


async def test_what_did_not_happen_before_the_kill_is_begun_again_with_the_same_key(
    root: Path, killed_in_21: dict[str, Any]
) -> None:
    async with opened(root, "second") as workspace:
        task = workspace.task(TASK)
        doubtful = await task.begin(doc(21))

        again = await task.begin(doc(21), claim=doubtful.claim, retry=True)

        assert (again.go, again.status) == (True, "running")
        assert again.idempotency_key == killed_in_21["idempotency_key"]
        assert again.attempts == 2
        await task.done(doc(21), World(root).process(21), claim=again.claim)
        assert await rest_of(workspace, root) == list(range(22, 51))
        assert World(root).times_processed() == Counter(ITEMS)


async def test_a_doubt_outlives_whoever_looked_into_it(
    root: Path, killed_in_21: dict[str, Any]
) -> None:
    with child(looks_into_21, root) as second:
        second.expect("in_doubt")
        second.kill()

    async with opened(root, "third") as workspace:
        begun = await workspace.task(TASK).begin(doc(21))

        assert (begun.go, begun.status) == (False, "in_doubt")
        assert begun.idempotency_key == killed_in_21["idempotency_key"]


async def looks_into_21(parent: Parent, root: Path) -> None:
    async with opened(root, "second") as workspace:
        parent.say((await workspace.task(TASK).begin(doc(21))).status)
        parent.wait_to_be_killed()


async def holds_a_step_too_long(parent: Parent, root: Path) -> str:
    async with opened(root, "slow") as workspace:
        task = workspace.task(TASK)
        assert (await task.begin("pay")).go
        parent.wait_for_go()
        try:
            await task.done("pay", {"receipt": "slow-1"})
        except ClaimReplaced as error:
            return error.code
        return "confirmed"


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_a_replaced_holder_cannot_confirm_and_its_result_is_kept(root: Path) -> None:
    with child(holds_a_step_too_long, root) as slow:
        slow.expect("ready")
        # For this one the lease is over, though the holder lives.
        async with Workspace.open(root, by="fast", clock=in_an_hour) as workspace:
            task = workspace.task(TASK)
            begun = await task.begin("pay")
            assert (begun.go, begun.status) == (False, "in_doubt")

            slow.tell("go")

            assert slow.ended() == "claim_replaced"
            [kept] = kept_conflicts(root)
            assert kept["step"] == "pay"
            assert kept["result"] == {"receipt": "slow-1"}
            assert kept["by"] == "slow"
            assert (await steps_of(workspace))["pay"].status == "in_doubt"
            await task.done("pay", {"receipt": "fast-1"}, claim=begun.claim)
            assert (await steps_of(workspace))["pay"].result == {"receipt": "fast-1"}


def kept_conflicts(root: Path, task: str = TASK) -> list[dict[str, Any]]:
    files = sorted((root / "tasks" / task / "conflicts").glob("*.json"))
    return [strict_json.parse_object(file.read_bytes()) for file in files]


# --- killed at random -------------------------------------------------------------------------

KILLS = 60
AT_ONCE = 2


async def works_until_killed(parent: Parent, root: Path, number: int, slot: str) -> None:
    """Mark, save, append and begin, and tell of each as soon as it was acknowledged."""
    async with opened(root, slot, young_view_seconds=0.01) as workspace:
        task = workspace.task(TASK)
        await task.load()
        parent.wait_for_go()
        for count in range(10_000):
            name = f"{number}-{count}"
            await task.done(name, {"is": name})
            parent.say(("done", name))
            await task.save({slot: {"number": number, "count": count}}, next=f"{slot} {count}")
            parent.say(("saved", [number, count]))
            await task.save(append={"log": [name]})
            parent.say(("appended", name))
            begun = await task.begin(f"{name}-claimed")
            parent.say(("begun", [begun.step, begun.idempotency_key]))


def a_moment(chance: random.Random) -> None:
    """Wait for no reason at all: most operations take about a millisecond."""
    end = time.perf_counter() + chance.uniform(0, 0.004)
    while time.perf_counter() < end:
        pass


@pytest.mark.timeout(120)
async def test_killed_60_times_at_random_nothing_acknowledged_is_missing(
    root: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    record_property("seed", seed)
    chance = random.Random(seed)
    async with opened(root) as workspace:
        await workspace.task(TASK).save({}, goal="Outlive it.")
    heard: list[tuple[str, Any]] = []

    for first in range(0, KILLS, AT_ONCE):
        slots = [(root, first + at, f"slot-{at}") for at in range(AT_ONCE)]
        with children(works_until_killed, slots) as workers:
            let_go(workers)
            for worker in workers:
                heard += [worker.hear() for _ in range(chance.randrange(12))]
                a_moment(chance)
                heard += worker.kill()

    acknowledged: dict[str, list[Any]] = {}
    for word, what in heard:
        acknowledged.setdefault(word, []).append(what)
    assert len(acknowledged["done"]) > KILLS
    async with opened(root) as workspace:
        assert await workspace.check() == []
        steps = await steps_of(workspace)
        state = (await workspace.task(TASK).load(max_tokens=10**6)).state
        for name in acknowledged["done"]:
            assert (steps[name].status, steps[name].result) == ("done", {"is": name})
        for name, key in acknowledged.get("begun", []):
            assert steps[name].status == "in_doubt"
            assert (await workspace.task(TASK).begin(name)).idempotency_key == key
        assert set(acknowledged["appended"]) <= set(state["log"])
        assert len(set(state["log"])) == len(state["log"])
        for at in range(AT_ONCE):
            newest = max(saved for saved in acknowledged["saved"] if saved[0] % AT_ONCE == at)
            there = state[f"slot-{at}"]
            assert [there["number"], there["count"]] >= newest
