"""What agents see of the tools is what DESIGN.md section 6 says, argument for argument."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import Tool
from tests.server.conftest import Agent, Mode, assert_snapshot, connected

from holdfast_server.app import build
from holdfast_server.tools import specs
from holdfast_storage import Workspace
from holdfast_storage.core import errors, hints

# The table of DESIGN.md section 6: arguments with their defaults, and the fields of the answer.
_REQUIRED = object()
ARGUMENTS: dict[str, dict[str, Any]] = {
    "save_checkpoint": {
        "task": _REQUIRED,
        "state": None,
        "replace": False,
        "append": None,
        "goal": "",
        "next": "",
        "plan": None,
        "total": 0,
        "label": "",
        "milestone": False,
        "refs": None,
        "revision": 0,
    },
    "load_checkpoint": {"task": "", "checkpoint": 0, "path": "", "max_tokens": 3000},
    "list_checkpoints": {
        "task": "",
        "show": "checkpoints",
        "status": "",
        "limit": 20,
        "cursor": "",
    },
    "mark_step_done": {
        "task": _REQUIRED,
        "step": _REQUIRED,
        "result": None,
        "outcome": "done",
        "state": None,
        "append": None,
        "next": "",
        "refs": None,
        "claim": "",
    },
    "prune": {"task": _REQUIRED, "keep_last": 20, "older_than_hours": 24, "dry_run": False},
    "finish_task": {"task": _REQUIRED, "outcome": "done", "summary": ""},
    "begin_step": {"task": _REQUIRED, "step": "", "claim": "", "retry": False},
    "ask_human": {
        "task": _REQUIRED,
        "question": _REQUIRED,
        "options": None,
        "step": "",
        "expires_in_hours": 0,
    },
}
_BRIEF = (
    "found task goal status run revision checkpoint label saved_at saved_by next progress remaining "
    "running in_doubt questions changes conflicts refs warnings state hint"
)
ANSWERS = {
    "save_checkpoint": "task run checkpoint revision changes conflicts warnings hint",
    "load_checkpoint": _BRIEF,
    "list_checkpoints": "cursor",
    "mark_step_done": (
        "task step outcome already_done differs result progress next_step revision changes warnings "
        "hint"
    ),
    "prune": "removed kept freed_bytes restorable_until",
    "finish_task": "task run status unfinished hint",
    "begin_step": (
        "go status step claim idempotency_key attempts held_by until result changes hint"
    ),
    "ask_human": "status question_id answer hint",
}
# Told only when there is something to tell.
SOMETIMES = {
    "load_checkpoint": "current chosen_because similar tasks",
    "list_checkpoints": "tasks checkpoints steps events",
    "mark_step_done": "conflicts",
    "begin_step": "warnings",
    "prune": "dry_run trash",
}
CORE = [
    *("load_checkpoint", "save_checkpoint", "mark_step_done", "list_checkpoints", "prune"),
    "finish_task",
]
ANNOTATIONS = {
    # read-only, destructive, idempotent, open world
    "save_checkpoint": (False, False, True, False),
    "load_checkpoint": (True, False, True, False),
    "list_checkpoints": (True, False, True, False),
    "mark_step_done": (False, False, True, False),
    "prune": (False, True, True, False),
    "finish_task": (False, False, True, False),
    "begin_step": (False, False, False, False),
    "ask_human": (False, False, True, False),
}


async def listed(agent: Agent) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await agent.client.list_tools()).tools}


def definition(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }


def size_of(tools: dict[str, Tool]) -> int:
    return sum(
        len(json.dumps(definition(tool), separators=(",", ":"), ensure_ascii=False).encode())
        for tool in tools.values()
    )


async def test_the_arguments_are_those_of_the_contract(agent: Agent) -> None:
    tools = await listed(agent)

    assert set(tools) == set(ARGUMENTS)
    for name, wanted in ARGUMENTS.items():
        schema = tools[name].input_schema
        assert list(schema["properties"]) == list(wanted), name
        required = [argument for argument, default in wanted.items() if default is _REQUIRED]
        assert schema.get("required", []) == required, name
        for argument, default in wanted.items():
            said = schema["properties"][argument].get("default", default)
            assert said == default, (name, argument)


async def test_the_answers_are_those_of_the_contract(agent: Agent) -> None:
    for name, tool in (await listed(agent)).items():
        always, sometimes = ANSWERS[name].split(), SOMETIMES.get(name, "").split()
        assert tool.output_schema is not None
        assert tool.output_schema["required"] == always, name
        assert list(tool.output_schema["properties"]) == [*always, *sometimes], name


async def test_every_tool_answers_with_exactly_those_fields(agent: Agent) -> None:
    call = agent.call
    answers = {
        "save_checkpoint": await call("save_checkpoint", task="t", plan=["a", "b"], state={"n": 1}),
        "load_checkpoint": await call("load_checkpoint", task="t"),
        "begin_step": await call("begin_step", task="t", step="a"),
        "mark_step_done": await call("mark_step_done", task="t", step="a", result=[1]),
        "ask_human": await call("ask_human", task="t", question="Go on?"),
        "finish_task": await call("finish_task", task="t", outcome="paused"),
        "prune": await call("prune", task="t"),
    }

    for tool, told in answers.items():
        assert list(told) == ANSWERS[tool].split(), tool


async def test_a_listing_has_what_was_asked_for_and_the_cursor(agent: Agent) -> None:
    assert await agent.call("list_checkpoints") == {"cursor": "", "tasks": []}

    await agent.call("save_checkpoint", task="t", plan=["a"], label="one", goal="g", next="n")
    tasks = await agent.call("list_checkpoints")
    checkpoints = await agent.call("list_checkpoints", task="t")
    steps = await agent.call("list_checkpoints", task="t", show="steps")
    events = await agent.call("list_checkpoints", task="t", show="events")

    [task], [checkpoint], [step] = tasks["tasks"], checkpoints["checkpoints"], steps["steps"]
    assert list(task) == ["task", "status", "goal", "progress", "next", "by", "updated_at"]
    assert list(checkpoint) == ["checkpoint", "label", "milestone", "at", "by", "bytes", "pinned"]
    assert list(step) == ["step", "status", "attempts", "at", "by", "result", "refs"]
    assert [list(told) for told in (tasks, checkpoints, steps, events)] == [
        *(["cursor", "tasks"], ["cursor", "checkpoints"], ["cursor", "steps"], ["cursor", "events"])
    ]


async def test_an_empty_listing_says_of_what(agent: Agent) -> None:
    await agent.call("mark_step_done", task="t", step="a")

    assert await agent.call("list_checkpoints", task="t") == {"cursor": "", "checkpoints": []}
    nothing = await agent.call("list_checkpoints", status="abandoned")
    assert nothing == {"cursor": "", "tasks": []}


async def test_titles_and_annotations_are_complete(agent: Agent) -> None:
    for name, tool in (await listed(agent)).items():
        hints_ = tool.annotations
        assert tool.title
        assert hints_ is not None
        assert hints_.title == tool.title
        said = (
            hints_.read_only_hint,
            hints_.destructive_hint,
            hints_.idempotent_hint,
            hints_.open_world_hint,
        )
        assert said == ANNOTATIONS[name], name


async def test_every_argument_is_described_and_bounded(agent: Agent) -> None:
    for tool in (await listed(agent)).values():
        assert tool.description
        for argument, schema in tool.input_schema["properties"].items():
            assert schema["description"], (tool.name, argument)
            if schema.get("type") in ("integer", "number"):
                assert {"default", "minimum", "maximum"} <= set(schema), (tool.name, argument)


_LONG = "x" * 20_000
OVER_THE_LIMIT: list[tuple[str, dict[str, Any], str]] = [
    *(
        (tool, {"task": "t", **more, name: _LONG}, "wrong_arguments")
        for tool, name, more in [
            ("save_checkpoint", "task", {}),
            ("save_checkpoint", "label", {}),
            ("mark_step_done", "step", {}),
            ("begin_step", "step", {}),
            ("ask_human", "step", {"question": "?"}),
        ]
    ),
    ("save_checkpoint", {"task": "t", "goal": _LONG}, "too_large"),
    ("save_checkpoint", {"task": "t", "next": _LONG}, "too_large"),
    ("save_checkpoint", {"task": "t", "plan": [_LONG]}, "wrong_arguments"),
    ("save_checkpoint", {"task": "t", "plan": [str(n) for n in range(10_001)]}, "too_large"),
    ("save_checkpoint", {"task": "t", "refs": [str(n) for n in range(1_001)]}, "too_large"),
    ("save_checkpoint", {"task": "t", "state": {"a": "x" * 17 * 2**20}}, "too_large"),
    ("mark_step_done", {"task": "t", "step": "a", "result": "x" * 70_000}, "too_large"),
    ("finish_task", {"task": "t", "summary": _LONG, "outcome": "paused"}, "too_large"),
    ("ask_human", {"task": "t", "question": _LONG}, "too_large"),
    ("ask_human", {"task": "t", "question": "?", "options": ["a"] * 21}, "too_large"),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    OVER_THE_LIMIT,
    ids=[f"{tool}-{list(arguments)[-1]}-{code}" for tool, arguments, code in OVER_THE_LIMIT],
)
async def test_what_is_too_large_is_refused_by_name(
    workspace: Workspace, tool: str, arguments: dict[str, Any], code: str
) -> None:
    async with connected(workspace) as agent:
        await agent.call("mark_step_done", task="t", step="first")

        refused = await agent.refusal(tool, **arguments)

    assert refused.code == code
    assert len(str(refused)) < 6_000


@pytest.mark.parametrize(("tools", "budget"), [("all", 6_000), ("core", 4_500)])
async def test_definitions_stay_within_their_budget(
    workspace: Workspace, mode: Mode, tools: str, budget: int
) -> None:
    async with connected(workspace, mode, tools=tools) as agent:
        assert size_of(await listed(agent)) < budget


@pytest.mark.parametrize("tools", ["all", "core"])
async def test_instructions_teach_in_under_150_words(
    workspace: Workspace, mode: Mode, tools: str
) -> None:
    async with connected(workspace, mode, tools=tools) as agent:
        said = agent.client.instructions or ""

    assert 60 < len(said.split()) < 150
    for lesson in (
        "Load first",
        "unit boundaries",
        "before asking a person",
        "five minutes",
        "never",
    ):
        assert lesson in said, lesson


async def test_core_serves_six_and_names_no_other(workspace: Workspace, mode: Mode) -> None:
    async with connected(workspace, mode, tools="core") as agent:
        tools = await listed(agent)
        prompts = await agent.client.get_prompt("resume", {"task": "t"})
        said = [
            agent.client.instructions or "",
            *(json.dumps(definition(t)) for t in tools.values()),
        ]

    assert list(tools) == CORE
    for text in [*said, prompts.model_dump_json()]:
        assert "begin_step" not in text
        assert "ask_human" not in text


async def test_no_hint_in_core_names_an_absent_tool(workspace: Workspace) -> None:
    """Walk an agent into every hint that could name one."""
    async with connected(workspace, tools="core") as agent, connected(workspace) as other:
        await other.call("save_checkpoint", task="t", plan=["a", "b", "c"])
        await other.call("begin_step", task="t", step="a")
        await other.call("begin_step", task="t", step="b")
        await workspace.release("t", "b")
        await workspace.pause("t")
        said = [
            str(await agent.call("load_checkpoint", task="t")),
            str(await agent.refusal("mark_step_done", task="t", step="a")),
            str(await agent.refusal("mark_step_done", task="t", step="b")),
            str(await agent.refusal("mark_step_done", task="t", step="c", status="in_progress")),
            str(await agent.refusal("begin_step", task="t", step="b")),
            str(await agent.refusal("finish_task", task="t")),
            *[
                str(await agent.call("mark_step_done", task="t", step="c", outcome=outcome))
                for outcome in ("failed", "failed", "failed", "done")
            ],
        ]

    assert "holdfast resolve" in said[0]
    # The name that was called comes back, as what there is not.
    said[4] = said[4].replace("there is no tool 'begin_step'", "")
    for text in said:
        assert "begin_step" not in text
        assert "ask_human" not in text


def test_no_error_names_a_tool_that_core_lacks() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.HoldfastError):
            assert "begin_step" not in kind.hint, kind
            assert "ask_human" not in kind.hint, kind
    for text in (hints.CHANGED, hints.CONFLICTS, hints.STOP, hints.ATTEMPTS):
        assert "begin_step" not in text
        assert "ask_human" not in text


async def test_a_tool_that_is_not_there_is_answered_with_the_right_one(agent: Agent) -> None:
    refused = await agent.refusal("complete_step", task="t", step="a")

    assert refused.code == "unknown_tool"
    assert "mean mark_step_done" in str(refused)


def test_the_server_has_one_tool_for_each_spec() -> None:
    assert {spec.name for spec in specs.ALL} == set(ARGUMENTS)
    assert [spec.name for spec in specs.CORE] == CORE


@pytest.mark.parametrize("tools", ["all", "core"])
async def test_what_agents_see_is_what_was_reviewed(workspace: Workspace, tools: str) -> None:
    server, _ = build(workspace, tools="core" if tools == "core" else "all")
    seen = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        for tool in await server.list_tools()
    ]

    assert_snapshot(f"tools-{tools}", {"instructions": server.instructions, "tools": seen})
