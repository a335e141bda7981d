"""What several calls of one caller, and tasks that come and go, must not do to each other."""

# Two of these moments come about only by chance, so they are made by reaching inside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.results import Marked, Saved
from holdfast_storage.workspace import Workspace

TASK = "report"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncGenerator[Workspace]:
    async with Workspace(FolderEngine.open(tmp_path / ".holdfast")) as opened:
        yield opened


async def test_what_a_caller_adds_at_the_same_time_is_all_its_own(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save(TASK, {"log": [0]})
    await asyncio.gather(*(ann.mark(TASK, f"s{n}", append={"log": [n]}) for n in range(1, 5)))

    saved = await ann.save(TASK, {"log": []})

    assert saved.conflicts == []
    assert (await workspace.caller("bob").load(TASK)).state == {"log": []}


async def test_who_loads_while_it_saves_has_loaded(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, {"x": 0})
    for number in range(1, 20):
        await bob.load(TASK)
        await bob.save(TASK, {"x": number})

        async def saves(number: int = number) -> None:
            for each in range(6):
                await ann.save(TASK, {"y": [number, each]})

        brief, _ = await asyncio.gather(ann.load(TASK), saves())
        assert brief.state["x"] == number

        saved = await ann.save(TASK, {"x": -number})

        assert saved.conflicts == []


@pytest.mark.parametrize("is_step", [False, True])
async def test_a_state_that_is_asked_for_does_not_overtake_what_waits(
    workspace: Workspace, is_step: bool
) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, {"a": 1, "x": 1})
    await bob.load(TASK)
    for number in range(10):
        # So that bob's next step is made without a turn of the loop.
        await bob.mark(TASK, f"s{number}")
    await ann.state(TASK)

    async def changed_by_bob() -> None:
        await bob.mark(TASK, "last", state={"x": 2})
        await ann.state(TASK)

    async def changed_by_ann() -> Marked | Saved:
        if is_step:
            return await ann.mark(TASK, "own", state={"a": 3, "x": 1})
        return await ann.save(TASK, {"a": 3, "x": 1}, replace=True)

    _, told, _ = await asyncio.gather(ann.save(TASK, {"a": 2}), changed_by_ann(), changed_by_bob())

    assert (await bob.state(TASK))["x"] == 2
    assert [conflict.path for conflict in told.conflicts] == ["/state/x"]


async def test_whoever_gives_up_waiting_for_a_state_was_not_told(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, {"x": 0})
    cancelled = 0
    for number in range(1, 41):
        await ann.state(TASK)
        await bob.load(TASK)
        await bob.save(TASK, {"x": number})
        asking = asyncio.create_task(ann.state(TASK))
        await asyncio.sleep(0)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            cancelled += 1
            saved = await ann.save(TASK, {"x": -number})
            assert [conflict.path for conflict in saved.conflicts] == ["/state/x"]

    assert cancelled


async def test_what_a_program_does_with_an_answer_is_no_change(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, {"list": [1]})
    await bob.load(TASK)
    await ann.save(TASK, {"list": [2]})
    saved = await bob.save(TASK, {"list": [3]})

    saved.changes[0].new.append("mine")
    saved.conflicts[0].current.append("mine")

    assert (await ann.load(TASK)).state == {"list": [2]}


async def test_what_a_program_does_with_a_persons_answer_is_no_change(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save(TASK, {"list": [1]})
    await ann.ask(TASK, "Which?")
    await workspace.answer(TASK, {"pick": ["a"]})

    asked = await ann.ask(TASK, "Which?")
    asked.answer["pick"].append("mine")

    assert (await workspace.caller("bob").ask(TASK, "Which?")).answer == {"pick": ["a"]}


async def test_a_task_that_is_forgotten_twice_in_one_call_was_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FolderEngine.open(tmp_path / ".holdfast", known_tasks=1)
    async with Workspace(engine) as workspace:
        await workspace.caller("ann").mark(TASK, "s1")
        commit, desk, numbers = engine.commit, workspace._desk, count()

        async def commit_late(task: str, operation: Any, **more: Any) -> None:
            # By the time it is its turn somebody else has read the task, and many use others.
            await desk.warm(task)
            while TASK in engine._tasks:
                engine._task(f"another-{next(numbers)}")
            await commit(task, operation, **more)

        monkeypatch.setattr(engine, "commit", commit_late)

        marked = await workspace.caller("bob").mark(TASK, "s2")

        assert marked.progress.done == 2
        monkeypatch.undo()


async def test_a_call_in_a_forgotten_task_is_answered_whoever_else_is_in_it(tmp_path: Path) -> None:
    engine = FolderEngine.open(tmp_path / ".holdfast", known_tasks=1, lock_wait_seconds=0.1)
    folder: Any = engine._task(TASK)
    is_inside, may_leave = threading.Event(), threading.Event()

    def be_inside() -> None:
        with folder._lock.one_thread():
            is_inside.set()
            may_leave.wait(10)

    def call(_: Any) -> str:
        engine._task("another")
        threading.Thread(target=be_inside).start()
        assert is_inside.wait(10)
        return "done"

    try:
        assert engine._with(folder, call) == "done"
    finally:
        may_leave.set()
        await engine.close()


async def test_a_task_that_somebody_deleted_is_no_longer_answered_for(tmp_path: Path) -> None:
    engine = FolderEngine.open(tmp_path / ".holdfast", hot_tasks=1, young_view_seconds=3600.0)
    async with Workspace(engine) as workspace:
        ann = workspace.caller("ann")
        await ann.mark(TASK, "s1", "first")
        await ann.mark("b", "s1")
        await ann.mark("c", "s1")
        shutil.rmtree(tmp_path / ".holdfast" / "tasks" / TASK)

        assert not (await ann.load(TASK)).found
        marked = await ann.mark(TASK, "s1", "second")

        assert (marked.already_done, marked.revision) == (False, 1)
