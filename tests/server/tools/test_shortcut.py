"""The short way answers exactly as the SDK's long one, and takes nothing that is not its own."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.types import CallToolResult
from tests.server.conftest import Mode, connected

from holdfast_server.tools.served import ServedTool
from holdfast_storage import Workspace

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("mark_step_done", {"task": "t", "step": "a", "result": {"pages": [1, None, "é"]}}),
    ("mark_step_done", {"task": "t", "step": "a", "result": {"pages": [1, None, "é"]}}),
    ("mark_step_done", {"task": "t", "step": "b", "outcome": "complete"}),
    ("save_checkpoint", {"task": "u", "state": {"a": 1}, "plan": ["one", "two"]}),
    ("list_checkpoints", {"task": "u", "show": "steps"}),
    ("begin_step", {"task": "u"}),
    ("prune", {"task": "no such task"}),
]


async def answers(mode: Mode) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with (
        Workspace.open("memory:", by="program") as workspace,
        connected(workspace, mode, agent="ann") as agent,
    ):
        await agent.client.call_tool("list_checkpoints", {})
        for tool, arguments in CALLS:
            answer = await agent.client.call_tool(tool, arguments)
            assert isinstance(answer, CallToolResult)
            found.append(answer.model_dump(mode="json", by_alias=True))
    return found


async def test_an_answer_is_the_same_on_either_way(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = await answers(mode)
    monkeypatch.setattr(ServedTool, "may_ask_the_client", True)
    long = await answers(mode)

    assert len(short) == len(long) == len(CALLS)
    for one, two in zip(short, long, strict=True):
        assert _without_chance(one) == _without_chance(two)


def _without_chance(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is different each time."""
    said = dict(answer["structuredContent"] or {})
    for name in ("claim", "idempotency_key", "until"):
        said.pop(name, None)
    steps = [{**step, "at": ""} for step in said.get("steps", [])]
    text = answer["content"] if answer["isError"] else "as structuredContent"
    return answer | {"structuredContent": {**said, "steps": steps}, "content": text}


async def test_only_the_first_call_of_a_connection_takes_the_long_way(
    workspace: Workspace, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    call_tool = MCPServer.call_tool

    async def noted(self: MCPServer, name: str, *more: Any) -> Any:
        seen.append(name)
        return await call_tool(self, name, *more)

    monkeypatch.setattr(MCPServer, "call_tool", noted)
    async with connected(workspace, mode) as agent:
        for step in ("a", "b", "c"):
            await agent.client.call_tool("mark_step_done", {"task": "t", "step": step})

    assert seen == ["mark_step_done"]


async def test_a_tool_that_is_not_ours_is_refused_after_a_call_on_the_short_way(
    workspace: Workspace, mode: Mode
) -> None:
    async with connected(workspace, mode) as agent:
        for step in ("a", "b"):
            await agent.client.call_tool("mark_step_done", {"task": "t", "step": step})
        answer = await agent.client.call_tool("mark_step", {"task": "t", "step": "c"})

    assert isinstance(answer, CallToolResult)
    assert answer.is_error
    assert "mark_step_done" in answer.content[0].model_dump()["text"]
