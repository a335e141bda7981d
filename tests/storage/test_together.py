"""Many agents on one task at the same time: everything acknowledged is there, and losers are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from tests.storage.processes import Parent, all_at_once, child, children, let_go, opened

from holdfast_storage.core import strict_json, view
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.results import StepLine
from holdfast_storage.workspace import Workspace

TASK = "shared"
PROCESSES = 8


async def steps_of(workspace: Workspace) -> list[StepLine]:
    caller = workspace.caller("reader")
    found: list[StepLine] = []
    cursor = ""
    while True:
        page = await caller.list_checkpoints(TASK, show="steps", limit=200, cursor=cursor)
        found += page.steps
        if not (cursor := page.cursor):
            return found


async def started(root: Path, **save: Any) -> None:
    async with opened(root, "starter") as workspace:
        await workspace.task(TASK).save(goal="Do it together.", **save)


async def state_of(workspace: Workspace) -> Any:
    return (await workspace.task(TASK).load(max_tokens=10**6)).state


# --- steps ------------------------------------------------------------------------------------

STEPS = 200


async def marks_steps(parent: Parent, root: Path, number: int) -> None:
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        for count in range(STEPS):
            marked = await task.done(f"{number}-{count}", [number, count])
            assert not marked.already_done


async def test_8_processes_mark_200_steps_each_and_all_1600_are_kept(root: Path) -> None:
    all_at_once(marks_steps, [(root, number) for number in range(PROCESSES)])

    async with opened(root) as workspace:
        steps = await steps_of(workspace)
        assert Counter(line.step for line in steps) == Counter(
            f"{number}-{count}" for number in range(PROCESSES) for count in range(STEPS)
        )
        for line in steps:
            number, count = line.result
            assert (line.step, line.status) == (f"{number}-{count}", "done")
            assert (line.by, line.attempts) == (f"agent-{number}", 1)
        assert await workspace.check() == []


async def mark_the_same(parent: Parent, root: Path, number: int) -> list[tuple[bool, Any]]:
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        marks = [await task.done(f"step-{count}", number) for count in range(50)]
        return [(marked.already_done, marked.result) for marked in marks]


async def test_of_all_who_mark_one_step_one_is_first_and_the_others_get_its_result(
    root: Path,
) -> None:
    answers = all_at_once(mark_the_same, [(root, number) for number in range(PROCESSES)])

    for of_one_step in zip(*answers, strict=True):
        [winner] = [result for already_done, result in of_one_step if not already_done]
        assert {result for _, result in of_one_step} == {winner}


async def test_200_coroutines_of_one_process_share_few_flushes(root: Path) -> None:
    disk = CountingDisk()
    engine = FolderEngine.open(
        root, schema=strict_json.pretty(view.schema()), disk=disk, young_view_seconds=3600.0
    )
    async with Workspace(engine) as workspace:
        task = workspace.task(TASK)
        await task.save({})
        disk.flushes = 0

        await asyncio.gather(*(task.done(f"step-{count}", count) for count in range(200)))

        assert {line.step: line.result for line in await steps_of(workspace)} == {
            f"step-{count}": count for count in range(200)
        }
        assert 0 < disk.flushes <= 50


class CountingDisk(Disk):
    flushes = 0

    def flush_data(self, fd: int) -> None:
        self.flushes += 1
        super().flush_data(fd)


# --- the state --------------------------------------------------------------------------------

ROUNDS = 50


async def changes_its_own_keys(parent: Parent, root: Path, number: int) -> int:
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        conflicts = 0
        for count in range(ROUNDS):
            own = (await task.load(max_tokens=10**6)).state["agents"].get(f"{number}", {})
            saved = await task.save({"agents": {f"{number}": {**own, f"{count}": count}}})
            conflicts += len(saved.conflicts)
        return conflicts


async def test_8_processes_change_different_keys_and_all_400_changes_are_kept(root: Path) -> None:
    await started(root, state={"agents": {}})

    conflicts = all_at_once(changes_its_own_keys, [(root, number) for number in range(PROCESSES)])

    async with opened(root) as workspace:
        assert await state_of(workspace) == {
            "agents": {
                f"{number}": {f"{count}": count for count in range(ROUNDS)}
                for number in range(PROCESSES)
            }
        }
        assert conflicts == [0] * PROCESSES
        assert not (root / "tasks" / TASK / "conflicts").exists()
        assert await workspace.check() == []


ITEMS = 100


async def appends(parent: Parent, root: Path, number: int) -> None:
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        for count in range(ITEMS):
            saved = await task.save(append={"found": [[number, count]]})
            assert saved.conflicts == []


async def test_8_processes_append_100_items_each_to_one_list_and_all_800_are_there(
    root: Path,
) -> None:
    await started(root, state={"found": []})

    all_at_once(appends, [(root, number) for number in range(PROCESSES)])

    async with opened(root) as workspace:
        found = (await state_of(workspace))["found"]
    assert len(found) == PROCESSES * ITEMS
    for number in range(PROCESSES):
        # Each one's items are in the order in which it added them.
        assert [count for who, count in found if who == number] == list(range(ITEMS))


TRIES = 25


async def wants_the_same_key(parent: Parent, root: Path, number: int) -> list[Any]:
    """Load and save one key again and again; tell what was loaded, submitted, and lost."""
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        tried: list[Any] = []
        for count in range(TRIES):
            loaded = (await task.load()).state["leader"]
            mine = f"{number}-{count}"
            saved = await task.save({"leader": mine})
            lost = [conflict.model_dump() for conflict in saved.conflicts]
            tried.append((loaded, mine, lost))
        return tried


async def test_on_the_same_key_no_value_vanishes_without_a_word(root: Path) -> None:
    await started(root, state={"leader": "nobody"})

    answers = all_at_once(wants_the_same_key, [(root, number) for number in range(PROCESSES)])

    async with opened(root) as workspace:
        final = (await state_of(workspace))["leader"]
        announced = (await workspace.task(TASK).load(max_tokens=10**6)).conflicts
    tried = [attempt for of_one in answers for attempt in of_one]
    lost = [attempt for attempt in tried if attempt[2]]
    won = {loaded: mine for loaded, mine, conflicts in tried if not conflicts}
    # Whoever won had loaded the value that it overwrote, so the winners form one chain.
    assert len(won) + len(lost) == PROCESSES * TRIES
    value, length = "nobody", 0
    while value in won:
        value, length = won[value], length + 1
    assert (value, length) == (final, len(won))
    assert lost, "they did not get in each other's way"
    for loaded, mine, conflicts in lost:
        [conflict] = conflicts
        assert (conflict["path"], conflict["yours"]) == ("/state/leader", mine)
        assert conflict["current"] not in (loaded, mine)
        kept = strict_json.parse_object((root / "tasks" / TASK / conflict["file"]).read_bytes())
        assert (kept["path"], kept["lost"]) == ("/state/leader", mine)
    assert announced


# --- claims -----------------------------------------------------------------------------------

PLAN = [f"step-{count:02}" for count in range(40)]


async def begins_each(parent: Parent, root: Path, number: int) -> list[str]:
    async with opened(root, f"agent-{number}") as workspace:
        task = workspace.task(TASK)
        parent.wait_for_go()
        begun = [await task.begin(step) for step in PLAN]
        parent.wait_for_go()
        for answer in begun:
            assert answer.go or (answer.status == "running" and answer.held_by), answer
        return [answer.step for answer in begun if answer.go]


async def test_two_processes_race_for_a_plan_and_each_step_is_begun_by_one(root: Path) -> None:
    await started(root, plan=PLAN)

    with children(begins_each, [(root, number) for number in range(2)]) as both:
        let_go(both)
        let_go(both)
        begun = [one.ended() for one in both]

    assert Counter(begun[0] + begun[1]) == Counter(PLAN)


async def takes_the_next_free(parent: Parent, root: Path, number: int) -> list[str]:
    async with opened(root, f"agent-{number}") as workspace:
        caller = workspace.caller(f"agent-{number}")
        parent.wait_for_go()
        mine: list[str] = []
        while (begun := await caller.begin(TASK)).go:
            mine.append(begun.step)
            await caller.mark(TASK, begun.step, number, claim=begun.claim)
        assert begun.status == "nothing_left"
        return mine


async def test_processes_that_take_the_next_free_step_share_the_plan(root: Path) -> None:
    await started(root, plan=PLAN)

    taken = all_at_once(takes_the_next_free, [(root, number) for number in range(4)])

    assert Counter(step for of_one in taken for step in of_one) == Counter(PLAN)
    async with opened(root) as workspace:
        assert {line.status for line in await steps_of(workspace)} == {"done"}


async def dies_with_a_claim(parent: Parent, root: Path) -> None:
    async with opened(root, "mortal") as workspace:
        parent.say((await workspace.task(TASK).begin("pay")).idempotency_key)
        parent.wait_to_be_killed()


async def asks_for_the_claim(parent: Parent, root: Path) -> list[Any]:
    async with opened(root, "heir") as workspace:
        task = workspace.task(TASK)
        before = await task.begin("pay")
        parent.wait_for_go()
        after = await task.begin("pay")
        return [
            (begun.go, begun.status, begun.held_by, begun.idempotency_key)
            for begun in (before, after)
        ]


async def test_when_a_process_dies_its_claim_is_in_doubt_at_once(root: Path) -> None:
    with child(dies_with_a_claim, root) as mortal:
        key = mortal.hear()
        with child(asks_for_the_claim, root) as heir:
            heir.expect("ready")
            mortal.kill()
            heir.tell("go")

            before, after = heir.ended()

    assert before == (False, "running", "mortal", key)
    assert after == (False, "in_doubt", "", key)
