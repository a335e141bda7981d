"""What the tests of the server share: agents that speak MCP, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.types import TextContent

from holdfast_server.app import HoldfastServer, build, watching
from holdfast_storage import Workspace

Mode = Literal["auto", "legacy"]
SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "HOLDFAST_UPDATE_SNAPSHOTS"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Give one generation of the protocol after the other."""
    chosen: Mode = request.param
    return chosen


@pytest.fixture
async def workspace() -> AsyncGenerator[Workspace]:
    async with Workspace.open("memory:", by="program") as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the folder of a workspace that is not there yet."""
    return tmp_path / ".holdfast"


class Refused(Exception):
    """A tool answered with an error."""

    @property
    def code(self) -> str:
        return str(self).partition(":")[0]

    @property
    def call(self) -> tuple[str, dict[str, Any]] | None:
        """Give the call that the error tells to make, if any."""
        found = re.search(r"Call(?: again)?: (\w+) with (?=\{)", str(self))
        if not found:
            return None
        arguments, _ = json.JSONDecoder().raw_decode(str(self)[found.end() :])
        return found[1], arguments


@dataclass(frozen=True)
class Agent:
    """A model's client: calls tools and sees nothing but structured answers and errors' texts."""

    client: Client
    server: HoldfastServer

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.send(tool, arguments)

    async def send(self, tool: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        answer = await self.client.call_tool(tool, arguments)
        text = answer.content[0]
        assert isinstance(text, TextContent)
        if answer.is_error:
            assert answer.structured_content is None
            raise Refused(text.text)
        told: dict[str, Any] = answer.structured_content
        # Either form is enough by itself.
        assert json.loads(text.text) == told
        return told

    async def follow(self, refused: Refused) -> dict[str, Any]:
        """Make the call that an error tells to make."""
        assert refused.call is not None, refused
        tool, arguments = refused.call
        return await self.send(tool, arguments)

    async def refusal(self, tool: str, **arguments: Any) -> Refused:
        with pytest.raises(Refused) as refused:
            await self.send(tool, arguments)
        return refused.value


@asynccontextmanager
async def connected(
    workspace: Workspace, mode: Mode = "auto", *, watch: bool = False, **more: Any
) -> AsyncGenerator[Agent]:
    """Connect an agent to a server of its own on this workspace; `more` is for server or client."""
    options = {name: more.pop(name) for name in ("agent", "tools") if name in more}
    server, subscriptions = build(workspace, **options)
    assert isinstance(server, HoldfastServer)
    async with AsyncExitStack() as stack:
        if watch:
            await stack.enter_async_context(watching(workspace, subscriptions))
        yield Agent(await stack.enter_async_context(Client(server, mode=mode, **more)), server)


@asynccontextmanager
async def process(root: Path, mode: Mode = "auto", **more: Any) -> AsyncGenerator[Agent]:
    """Serve a folder from its opening to its closing, as one process would."""
    async with Workspace.open(root) as workspace, connected(workspace, mode, **more) as agent:
        yield agent


Connect = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture
async def agent(workspace: Workspace, mode: Mode) -> AsyncGenerator[Agent]:
    """Connect an agent in a task of its own: only the task that opened a client may close it."""
    opened: asyncio.Future[Agent] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with connected(workspace, mode) as one:
            opened.set_result(one)
            await done.wait()

    holding = asyncio.create_task(hold())
    yield await opened
    done.set()
    await holding


def assert_snapshot(name: str, found: Any) -> None:
    """Compare with what was reviewed before; a change in what agents see is a change in review."""
    path = SNAPSHOTS / f"{name}.json"
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if os.environ.get(UPDATE):
        path.write_text(text)
    known = path.read_text() if path.exists() else ""
    assert text == known, (
        f"{path.name} differs from what agents saw before; if that is meant, run the test again with "
        f"{UPDATE}=1 and commit the file"
    )
