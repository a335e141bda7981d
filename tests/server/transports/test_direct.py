"""Calls that a stdio connection answers without the SDK: as the SDK would, in order, and no others."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.types import JSONRPCRequest
from tests.server.transports.programs import ENVELOPE, INITIALIZE, INITIALIZED, Message, call, line

from holdfast_server.app import build
from holdfast_server.stdio import Connection, Direct, Wire
from holdfast_storage import Workspace

CANCELLED: Message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
PATIENCE_SECONDS = 10.0


class Client:
    """The other end of a connection in this process, and a note of what came past the SDK."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._rest = b""
        self.directly: list[Any] = []

    def send(self, *messages: Message) -> None:
        os.write(self._to, b"".join(map(line, messages)))

    async def receive(self) -> Message:
        with anyio.fail_after(PATIENCE_SECONDS):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self._back)
                self._rest += os.read(self._back, 2**16)
        first, _, self._rest = self._rest.partition(b"\n")
        message: Message = json.loads(first)
        return message

    async def ask(self, message: Message) -> Message:
        """Send a request and give its answer, passing over notices."""
        self.send(message)
        while (answer := await self.receive()).get("id") != message["id"]:
            assert "id" not in answer
        return answer

    async def open(self, *, modern: bool = False) -> None:
        """Begin as either generation does, and have one call answered by the SDK."""
        if not modern:
            await self.ask(INITIALIZE)
            self.send(INITIALIZED)
        await self.ask(call("first", "list_checkpoints", modern))
        assert self.directly == []

    def noting(self, direct: Direct) -> Direct:
        def noted(request: JSONRPCRequest) -> Callable[[], Awaitable[bytes]] | None:
            answer = direct(request)
            if answer is not None:
                self.directly.append(request.id)
            return answer

        return noted


@asynccontextmanager
async def connected(instead: Direct | None = None) -> AsyncGenerator[Client]:
    """Serve a workspace to a client of ours; `instead` takes the place of what answers directly."""
    async with Workspace.open("memory:") as workspace:
        server, _ = build(workspace, agent="ann")
        direct = server.shortcut.directly()
        (source, to), (back, sink) = os.pipe(), os.pipe()
        wire, client = Wire(source, sink), Client(to, back)
        connection = Connection(wire)
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.serve, low, 2**20, client.noting(instead or direct))
            yield client
            connection.stop()
        wire.close()
        os.close(to)
        os.close(back)


@pytest.mark.parametrize("modern", [False, True])
async def test_an_answer_is_as_the_sdk_gives_it(modern: bool) -> None:
    plain = call(1, "list_checkpoints", modern, task="none", show="steps")
    refused = call(2, "prune", modern, task="none", keep_last="many")
    # Asked for its progress, a call is not plain.
    meta = {"_meta": (ENVELOPE if modern else {}) | {"progressToken": 7}}
    async with connected() as client:
        await client.open(modern=modern)
        for message in (plain, refused):
            long = message | {"params": message["params"] | meta}

            assert await client.ask(message) == await client.ask(long)

    assert client.directly == [1, 2]


async def test_nothing_is_answered_before_the_connection_is_opened() -> None:
    async with connected() as client:
        answer = await client.ask(call(1, "list_checkpoints"))
        await client.open()

        assert "error" in answer
        assert "result" in await client.ask(call(2, "list_checkpoints"))
    assert client.directly == [2]


@pytest.mark.parametrize(
    "params",
    [
        {"name": "ask_human", "arguments": {"task": "t", "question": "Which way?"}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "list_checkpoints"},
        {"name": ["list_checkpoints"], "arguments": {}},
        {"name": "list_checkpoints", "arguments": {}, "task": {}},
        {"name": "list_checkpoints", "arguments": {}, "_meta": ENVELOPE},
    ],
)
async def test_what_is_not_a_plain_call_of_a_tool_is_for_the_sdk(params: Message) -> None:
    async with connected() as client:
        await client.open()

        answer = await client.ask(call(1, "") | {"params": params})

    assert "result" in answer or "error" in answer
    assert client.directly == []


async def test_where_requests_are_traced_all_of_them_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_server.tools.shortcut.is_traced", lambda: True)
    async with connected() as client:
        await client.open()
        await client.ask(call(1, "list_checkpoints"))

    assert client.directly == []


async def test_a_call_overtakes_none_that_the_sdk_has() -> None:
    asked = call(1, "save_checkpoint", task="t", goal="g")
    asked["params"]["_meta"] = {"progressToken": 1}
    async with connected() as client:
        await client.open()

        client.send(asked, call(2, "load_checkpoint", task="t"))
        answers = {message["id"]: message for message in [await client.receive() for _ in "12"]}

    assert answers[2]["result"]["structuredContent"]["found"] is True
    assert client.directly == []


async def test_a_cancelled_call_is_never_answered_and_the_next_one_is() -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def for_ever() -> bytes:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async def at_once() -> bytes:
        return line({"jsonrpc": "2.0", "id": 2, "result": {}})

    async with connected(lambda request: for_ever if request.id == 1 else at_once) as client:
        client.send(call(1, "any"))
        with anyio.fail_after(PATIENCE_SECONDS):
            await begun.wait()
            client.send(CANCELLED | {"params": {"requestId": 1}})
            await ended.wait()

        assert (await client.ask(call(2, "any")))["result"] == {}
    assert client.directly == [1, 2]


async def test_a_call_cancelled_before_it_began_leaves_nothing_behind() -> None:
    async def at_once() -> bytes:
        return line({"jsonrpc": "2.0", "id": 1, "result": {}})

    async with connected(lambda request: at_once) as client:
        client.send(call(1, "any"), CANCELLED | {"params": {"requestId": 1}}, call(1, "any"))

        assert (await client.receive())["result"] == {}
