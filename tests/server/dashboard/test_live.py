"""Open pages are told what changed, whoever changed it, until they are closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.types import Message

from holdfast_server.dashboard.live import Live
from holdfast_storage import Workspace


@asynccontextmanager
async def listening(live: Live) -> AsyncGenerator[asyncio.Queue[str]]:
    """Listen as a browser does: what was sent so far can be taken, until it hangs up."""
    said: asyncio.Queue[str] = asyncio.Queue()
    gone = asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            said.put_nowait(message["body"].decode())

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/live", "headers": []}
    response = await live.stream(Request(scope))
    streaming = asyncio.create_task(response(scope, receive, send))
    yield said
    gone.set()
    await streaming


async def changes(said: asyncio.Queue[str]) -> set[str]:
    while not (text := await said.get()).startswith("event: changed\n"):
        pass
    return set(json.loads(text.partition("data: ")[2]))


async def test_a_page_hears_of_a_step_and_of_an_edit(workspace: Workspace) -> None:
    async with listening(Live(workspace)) as said:
        assert "event: hello" in await said.get()

        await workspace.task("report").done("a")
        assert await changes(said) == {"report"}
        await workspace.pause("report")
        assert await changes(said) == {"report"}


async def test_every_page_hears_and_nobody_watches_when_all_are_closed(
    workspace: Workspace,
) -> None:
    live = Live(workspace)
    async with listening(live) as one, listening(live) as other:
        await one.get()
        await other.get()
        await workspace.task("report").done("a")

        assert await changes(one) == await changes(other) == {"report"}

    assert live.is_idle


async def test_a_silent_stream_is_kept_awake(workspace: Workspace) -> None:
    async with listening(Live(workspace, (), heartbeat_seconds=0.01)) as said:
        await said.get()

        assert await said.get() == ": still here\n\n"


async def test_a_new_page_looks_again_in_case_the_watch_began_late(workspace: Workspace) -> None:
    async with listening(Live(workspace, (0.01, 0.01))) as said:
        await said.get()

        assert await said.get() == await said.get() == "event: look\ndata: {}\n\n"
