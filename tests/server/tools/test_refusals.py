"""An error names a stable code, what happened and what to do next; a bug is never dressed up."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.types import CallToolResult
from tests.server.conftest import Agent, Mode, connected

from holdfast_server.app import build
from holdfast_storage import Workspace
from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import RevisionNeeded

_FORM = re.compile(r"[a-z_]+: .+\. [A-Z].+", re.DOTALL)


async def test_every_refusal_has_a_code_a_reason_and_a_way_on(
    agent: Agent, workspace: Workspace
) -> None:
    async with connected(workspace) as other:
        await other.call("save_checkpoint", task="t", state={"a": 1, "b": 2}, plan=["x", "y"])
        await other.call("begin_step", task="t", step="x")
        refusals = [
            await agent.refusal("save_checkpoint", task="t", state={"a": 2}),
            await agent.refusal("mark_step_done", task="t", step="x"),
            await agent.refusal("finish_task", task="t"),
            await agent.refusal("finish_task", task="nope"),
            await agent.refusal("list_checkpoints", task="t", cursor="x"),
            await agent.refusal("load_checkpoint", task="t", path="/zzz"),
            await agent.refusal("load_checkpoint", task="t", checkpoint=9),
            await agent.refusal("save_checkpoint"),
        ]
        await other.call("mark_step_done", task="t", step="y")
        refusals += [
            await agent.refusal("mark_step_done", task="t", step="y", outcome="failed"),
            await agent.refusal("begin_step", task="t", step="a\u200bb"),
        ]
        await other.call("finish_task", task="t", outcome="abandoned")
        refusals.append(await agent.refusal("mark_step_done", task="t", step="late"))

    assert [refused.code for refused in refusals] == [
        *("load_first", "claim_replaced", "unfinished", "unknown", "invalid_value"),
        *("unknown", "unknown", "wrong_arguments", "step_done", "wrong_arguments", "run_closed"),
    ]
    for refused in refusals:
        assert _FORM.fullmatch(str(refused)), refused
        assert ".." not in str(refused)


async def test_a_refusal_names_the_call_that_leads_on(agent: Agent, workspace: Workspace) -> None:
    async with connected(workspace) as other:
        await other.call("save_checkpoint", task="t", state={"a": 1})

    refused = await agent.refusal("save_checkpoint", task="t", state={"a": 2})

    assert refused.call == ("load_checkpoint", {"task": "t"})
    await agent.follow(refused)
    await agent.call("save_checkpoint", task="t", state={"a": 2})


async def test_a_revision_that_is_needed_stands_in_the_corrected_call(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise RevisionNeeded("t", 63)

    monkeypatch.setattr(Caller, "save", refuse)

    refused = await agent.refusal("save_checkpoint", task="t", state={"a": 2})

    assert refused.call == ("save_checkpoint", {"task": "t", "state": {"a": 2}, "revision": 63})


_OPERATIONS = {
    "save_checkpoint": "save",
    "load_checkpoint": "load",
    "list_checkpoints": "list_checkpoints",
    "mark_step_done": "mark",
    "prune": "prune",
    "finish_task": "finish",
    "begin_step": "begin",
    "ask_human": "ask",
}


async def test_a_bug_is_logged_and_answered_without_its_text(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(*_: Any, **__: Any) -> None:
        raise KeyError("a secret")

    for tool, operation in _OPERATIONS.items():
        monkeypatch.setattr(Caller, operation, break_down)
        more = {"step": "s"} if tool == "mark_step_done" else {}
        more |= {"question": "?"} if tool == "ask_human" else {}
        caplog.clear()

        refused = await agent.refusal(tool, task="t", **more)

        assert refused.code == "internal_error"
        for word in ("secret", "KeyError", "Traceback", "Error executing"):
            assert word not in str(refused)
        assert "load_checkpoint" in str(refused)
        [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], KeyError)


async def test_a_bug_in_telling_an_answer_is_a_bug_too(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("holdfast_server.tools.served.told", break_down)

    refused = await agent.refusal("load_checkpoint")

    assert refused.code == "internal_error"


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("save_checkpoint", {"task": "../../etc/passwd"}),
    ("save_checkpoint", {"task": "/etc/passwd"}),
    ("save_checkpoint", {"task": "a\x00b"}),
    ("save_checkpoint", {"task": "\ud800"}),
    ("save_checkpoint", {"task": "t", "goal": "\ud800"}),
    ("save_checkpoint", {"task": "t", "state": {"\ud800": 1}}),
    ("save_checkpoint", {"task": "t", "state": {"a": float("nan")}}),
    ("save_checkpoint", {"task": "t", "state": {"$enc": 1}}),
    ("save_checkpoint", {"task": "t", "state": {"$cut": 1}}),
    ("save_checkpoint", {"task": "t", "total": float("inf")}),
    ("save_checkpoint", {"task": "t", "refs": ["../../../etc/passwd", "\x00", "file:///etc"]}),
    ("mark_step_done", {"task": "t", "step": "s", "result": float("nan")}),
    ("mark_step_done", {"task": "t", "step": "s", "result": 10**5000}),
    ("load_checkpoint", {"task": "t", "path": "/~2/\ud800"}),
    ("load_checkpoint", {"task": "t", "checkpoint": 10**30}),
    ("prune", {"task": "t", "older_than_hours": 1e308}),
    ("prune", {"task": "t", "older_than_hours": float("nan")}),
    ("prune", {"task": "\ud800"}),
    ("list_checkpoints", {"cursor": "\ud800"}),
    ("list_checkpoints", {"task": "t", "cursor": "9" * 5000}),
    ("ask_human", {"task": "t", "question": "\ud800"}),
    ("ask_human", {"task": "t", "question": "?", "expires_in_hours": float("inf")}),
    ("begin_step", {"task": "t", "claim": "\ud800"}),
    ("finish_task", {"task": "t", "summary": "\ud800"}),
    ("\ud800", {}),
    ("save_checkpoint", {"task_id": "t", "goal": "\ud800"}),
    ("save_checkpoint", {"task_id": "t", "state": {"a": float("nan")}}),
    ("save_checkpoint", {"task_id": "t", "\ud800": 1}),
]


async def test_hostile_values_are_taken_or_refused_and_never_a_bug(root: Path) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    more = [
        ("save_checkpoint", {"task": "t", "state": {"a": deep}}),
        ("mark_step_done", {"task": "t", "step": "s", "result": deep}),
        ("save_checkpoint", {"task": "t", "plan": deep}),
        ("save_checkpoint", {"task": deep}),
        ("save_checkpoint", {"task_id": "t", "state": {"a": deep}}),
    ]
    # Around the client, which could not even write some of these down.
    async with Workspace.open(root) as workspace:
        server, _ = build(workspace, agent="hostile")
        await server.call_tool("mark_step_done", {"task": "t", "step": "first"})
        for tool, arguments in [*HOSTILE, *more]:
            answer = await server.call_tool(tool, arguments)
            assert isinstance(answer, CallToolResult)
            text = answer.content[0].model_dump()["text"]
            assert text.encode()
            assert not text.startswith("internal_error"), (tool, str(arguments)[:80], text)
    assert not (root.parent.parent / "etc").exists()


async def test_a_large_result_is_not_echoed_but_comes_back_when_asked_again(
    workspace: Workspace, mode: Mode
) -> None:
    result = {"text": "x" * 5_000}
    async with connected(workspace, mode) as agent:
        first = await agent.call("mark_step_done", task="t", step="s", result=result)
        again = await agent.call("mark_step_done", task="t", step="s", result=result)

    assert first["result"] == {"$cut": 5_011}
    assert again["result"] == result


async def test_a_page_of_large_results_is_cut_and_each_can_be_had(agent: Agent) -> None:
    for number in range(4):
        result = {"text": str(number) * 30_000} if number else "small"
        await agent.call("mark_step_done", task="t", step=f"s{number}", result=result)

    page = await agent.call("list_checkpoints", task="t", show="steps")
    one = await agent.call("list_checkpoints", task="t", show="steps", limit=1, cursor="3")

    assert page["steps"][0]["result"] == "small"
    assert sum("$cut" in line["result"] for line in page["steps"][1:]) == 2
    assert one["steps"][0]["result"] == {"text": "3" * 30_000}
