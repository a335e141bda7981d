"""When the view is rendered anew: soon, and never so often that agents have to wait for it."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from holdfast_storage import people
from holdfast_storage.engines.memory import MemoryEngine
from holdfast_storage.workspace import Workspace


class Rendering(MemoryEngine):
    """Says when it put a view in place, which takes as long as a test wants."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.rendered: asyncio.Queue[tuple[float, float]] = asyncio.Queue()

    async def swap_view(self, task: str, raw: bytes, revision: int) -> bool:
        began = monotonic()
        await asyncio.sleep(self._seconds)
        placed = await super().swap_view(task, raw, revision)
        self.rendered.put_nowait((began, monotonic()))
        return placed


async def test_a_view_that_takes_long_to_render_rests_for_many_times_as_long() -> None:
    engine = Rendering(seconds=0.02)
    async with Workspace(engine, by="agent") as workspace:
        task = workspace.task("report")
        await task.save({"n": 1})
        _, ended = await engine.rendered.get()

        await task.save({"n": 2})
        began, _ = await engine.rendered.get()

    assert began - ended >= 10 * 0.02


async def test_however_long_it_takes_the_view_rests_for_seconds_and_not_for_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 0.0

    def slowly() -> float:
        nonlocal seconds
        seconds += 100
        return seconds

    monkeypatch.setattr(people, "monotonic", slowly)
    engine = Rendering(seconds=0)
    async with Workspace(engine, by="agent") as workspace:
        task = workspace.task("report")
        for number in range(3):
            await task.save({"n": number})
            await asyncio.wait_for(engine.rendered.get(), 30)


async def test_closing_waits_for_no_rest() -> None:
    engine = Rendering(seconds=0.02)
    async with Workspace(engine, by="agent") as workspace:
        task = workspace.task("report")
        await task.save({"n": 1})
        _, ended = await engine.rendered.get()
        await task.save({"n": 2})

    began, _ = engine.rendered.get_nowait()
    assert b'"n": 2' in (await engine.view("report"))[-1].raw
    assert began > ended
