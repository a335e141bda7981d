from __future__ import annotations

import asyncio

import pytest

from holdfast_storage.eager import begun


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
