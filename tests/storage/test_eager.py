from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage import Workspace
from holdfast_storage.eager import begun
from holdfast_storage.engines.memory import MemoryEngine


async def test_what_waits_for_nothing_is_done_at_once() -> None:
    async def work() -> int:
        return 7

    found = begun(work())

    assert found.done()
    assert found.result() == 7


async def test_what_fails_at_once_fails_whoever_waits() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await begun(work())


async def test_what_waits_goes_on_from_there() -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def work() -> int:
        seen.append("begun")
        found = await gate
        await asyncio.sleep(0)
        return found + 1

    waiting = begun(work())
    assert seen == ["begun"]
    assert not waiting.done()
    gate.set_result(1)

    assert await waiting == 2


async def test_an_error_of_what_it_waits_for_is_raised_where_it_waits() -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except KeyError:
            return "told"
        return "not told"

    waiting = begun(work())
    gate.set_exception(KeyError("gone"))

    assert await waiting == "told"


async def test_whoever_stops_waiting_does_not_stop_it() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def work() -> None:
        await gate
        done.set()

    async def wait() -> None:
        await asyncio.shield(begun(work()))

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set_result(None)

    await asyncio.wait_for(done.wait(), 10)


class Timed(MemoryEngine):
    """An engine that waits within a timeout, as one that talks to a database does."""

    async def commit(self, *arguments: Any, **more: Any) -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
            await super().commit(*arguments, **more)


async def test_an_engine_that_does_not_say_so_is_called_in_one_task_throughout() -> None:
    async with Workspace(Timed(), by="agent") as workspace:
        for number in range(3):
            await workspace.caller("agent").save(f"task-{number}", {"n": number})

        assert len(await workspace.tasks()) == 3


@pytest.mark.parametrize("is_folder", [False, True])
async def test_whoever_saves_again_and_again_lets_others_have_their_turns(
    tmp_path: Path, is_folder: bool
) -> None:
    url = tmp_path / ".holdfast" if is_folder else "memory:"
    async with Workspace.open(url, by="agent") as workspace, others_at_work() as others:
        caller = workspace.caller("agent")
        for number in range(100):
            await caller.save("task", {"n": number})

    assert others.turns >= 100 // 16


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("what", ["load", "state", "standing"])
async def test_whoever_asks_again_and_again_lets_others_have_their_turns(
    tmp_path: Path, what: str, is_folder: bool
) -> None:
    url = tmp_path / ".holdfast" if is_folder else "memory:"
    async with Workspace.open(url, by="agent") as workspace:
        caller = workspace.caller("agent")
        asks: dict[str, Callable[[str], Awaitable[object]]]
        asks = {"load": caller.load, "state": caller.state, "standing": workspace.standing}
        ask = asks[what]
        await caller.save("task", {"n": 1})
        await ask("task")
        async with others_at_work() as others:
            for _ in range(100):
                await ask("task")

    assert others.turns >= 100 // 16


class Others:
    """How often others were at work."""

    turns = 0


@asynccontextmanager
async def others_at_work() -> AsyncGenerator[Others]:
    others = Others()

    async def work() -> None:
        while True:
            others.turns += 1
            await asyncio.sleep(0)

    working = asyncio.create_task(work())
    try:
        yield others
    finally:
        working.cancel()
