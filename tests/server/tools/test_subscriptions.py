"""Clients hear of a change whoever made it, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.types import (
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequestParams,
)
from tests.server.conftest import Agent, Mode, connected

from holdfast_server import subscriptions
from holdfast_server.subscriptions import Subscriptions
from holdfast_storage import Workspace
from holdfast_storage.core.errors import Busy

LIST_CHANGED = "the list"


class Heard:
    """What a client was told of, in the order it came."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str] = asyncio.Queue()

    def note(self, event: object) -> None:
        if isinstance(event, ResourceUpdated):
            self._events.put_nowait(event.uri)
        elif isinstance(event, ResourceUpdatedNotification):
            self._events.put_nowait(str(event.params.uri))
        elif isinstance(event, ResourcesListChanged | ResourceListChangedNotification):
            self._events.put_nowait(LIST_CHANGED)

    async def until(self, *wanted: str) -> None:
        """Wait until each of these was announced."""
        left = set(wanted)
        async with asyncio.timeout(10):
            while left:
                left.discard(await self._events.get())

    def rest(self) -> set[str]:
        return {self._events.get_nowait() for _ in range(self._events.qsize())}


async def subscribe(agent: Agent, uri: str) -> None:
    with pytest.warns(MCPDeprecationWarning):
        await agent.client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]


async def unsubscribe(agent: Agent, uri: str) -> None:
    with pytest.warns(MCPDeprecationWarning):
        await agent.client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]


@asynccontextmanager
async def listening(
    workspace: Workspace, mode: Mode, *uris: str
) -> AsyncGenerator[tuple[Agent, Heard]]:
    heard = Heard()

    async def handle(message: object) -> None:
        heard.note(message)

    async with connected(workspace, mode, watch=True, message_handler=handle) as agent:
        if mode == "legacy":
            for uri in uris:
                await subscribe(agent, uri)
            yield agent, heard
            return
        async with agent.client.listen(
            resource_subscriptions=uris, resources_list_changed=True
        ) as events:

            async def pass_on() -> None:
                async for event in events:
                    heard.note(event)

            passing = asyncio.create_task(pass_on())
            yield agent, heard
            passing.cancel()


TASK, STEPS, TASKS = "holdfast://tasks/report", "holdfast://tasks/report/steps", "holdfast://tasks"


async def test_a_tool_call_is_announced(workspace: Workspace, mode: Mode) -> None:
    async with listening(workspace, mode, TASK, STEPS, TASKS) as (agent, heard):
        await agent.call("save_checkpoint", task="report", plan=["a"])
        await heard.until(TASK, STEPS, TASKS, LIST_CHANGED)

        await agent.call("mark_step_done", task="report", step="a")
        await heard.until(TASK, STEPS, TASKS)

        # No task came or went by that.
        assert LIST_CHANGED not in heard.rest()


async def test_both_generations_say_that_they_announce(workspace: Workspace, mode: Mode) -> None:
    async with connected(workspace, mode) as agent:
        offered = agent.client.server_capabilities.resources

    assert offered is not None
    assert offered.subscribe
    assert offered.list_changed


@asynccontextmanager
async def watched(root: Path, mode: Mode, *uris: str) -> AsyncGenerator[tuple[Agent, Heard]]:
    """Listen to a folder that is there already, from when it is certainly being watched."""
    async with (
        Workspace.open(root) as workspace,
        listening(workspace, mode, *uris) as (agent, heard),
    ):
        async with Workspace.open(root) as elsewhere:
            for number in range(100):
                await elsewhere.caller("before").save(f"older-{number}")
                await asyncio.sleep(0.1)
                if heard.rest():
                    break
        yield agent, heard


def ceo_in(file: Path) -> str:
    return str(json.loads(file.read_text())["state"]["ceo"]) if file.exists() else ""


async def test_a_persons_edit_is_announced(root: Path, mode: Mode) -> None:
    async with watched(root, mode, TASK) as (agent, heard):
        await agent.call("save_checkpoint", task="report", state={"ceo": "Ann"})
        await heard.until(TASK)
        file = root / "tasks" / "report" / "state.json"
        for _ in range(500):
            if ceo_in(file) == "Ann":
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        heard.rest()

        document = json.loads(file.read_text())
        document["state"]["ceo"] = "Bea"
        file.write_text(json.dumps(document))
        await heard.until(TASK)

        brief = await agent.call("load_checkpoint", task="report")
        assert brief["state"] == {"ceo": "Bea"}


async def test_what_another_process_does_is_announced(root: Path, mode: Mode) -> None:
    async with watched(root, mode, TASK) as (agent, heard), Workspace.open(root) as elsewhere:
        await elsewhere.caller("other").save("report", {"a": 1})
        await heard.until(TASK, LIST_CHANGED)

        assert (await agent.call("load_checkpoint", task="report"))["state"] == {"a": 1}


async def test_the_first_write_of_a_workspace_is_announced(root: Path) -> None:
    async with (
        Workspace.open(root) as workspace,
        listening(workspace, "auto", TASK) as (agent, heard),
    ):
        await agent.call("save_checkpoint", task="report")

        await heard.until(TASK, LIST_CHANGED)


async def test_an_odd_id_is_announced_at_its_address(workspace: Workspace, mode: Mode) -> None:
    async with listening(workspace, mode, "holdfast://tasks/a%20b%2Fc") as (agent, heard):
        await agent.call("save_checkpoint", task="a b/c")

        await heard.until("holdfast://tasks/a%20b%2Fc")


async def test_nobody_hears_of_what_they_did_not_ask_for(workspace: Workspace, mode: Mode) -> None:
    async with listening(workspace, mode, TASK) as (agent, heard):
        await agent.call("save_checkpoint", task="other")
        await agent.call("save_checkpoint", task="report")
        await heard.until(TASK)

        assert heard.rest() <= {TASK, LIST_CHANGED}


async def test_one_who_unsubscribed_hears_no_more(workspace: Workspace) -> None:
    async with listening(workspace, "legacy", TASK, TASKS) as (agent, heard):
        await unsubscribe(agent, TASK)
        await unsubscribe(agent, "holdfast://tasks/never-subscribed")

        await agent.call("save_checkpoint", task="report")
        await heard.until(TASKS, LIST_CHANGED)

        assert TASK not in heard.rest()


async def test_a_client_that_does_not_read_holds_nobody_up(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_PATIENCE_SECONDS", 0.01)

    class Deaf:
        async def send_resource_updated(self, _: str) -> None:
            await asyncio.Event().wait()

    deaf = Deaf()

    async with listening(workspace, "legacy", TASK) as (agent, heard):
        low = agent.server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
        served = low.get_request_handler("resources/subscribe")
        assert served is not None
        context: Any = type("Stub", (), {"session": type("Stub", (), {"_connection": deaf})})
        await served.handler(context, SubscribeRequestParams(uri=TASK))

        await agent.call("save_checkpoint", task="report")
        await heard.until(TASK)
        await agent.call("mark_step_done", task="report", step="a")
        await heard.until(TASK)


async def test_watching_goes_on_after_a_failure(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_WATCH_AGAIN_SECONDS", 0)
    watch, failures = workspace.watch, iter([Busy("report", 5)])

    async def watch_badly() -> AsyncGenerator[set[str]]:
        for failure in failures:
            raise failure
        async for tasks in watch():
            yield tasks

    monkeypatch.setattr(workspace, "watch", watch_badly)
    told = Subscriptions()
    heard = Heard()
    told.bus.subscribe(heard.note)
    publishing = asyncio.create_task(told.publish_changes(workspace))

    async with connected(workspace) as agent:
        await asyncio.sleep(0.05)
        await agent.call("save_checkpoint", task="report")
        await heard.until(TASK)
    publishing.cancel()


async def test_an_address_is_heard_of_however_it_is_spelt(workspace: Workspace, mode: Mode) -> None:
    async with listening(workspace, mode, "holdfast://tasks/ré port") as (agent, heard):
        await agent.call("save_checkpoint", task="ré port")

        await heard.until("holdfast://tasks/ré port")
