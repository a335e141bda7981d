"""Without being taught: a plausible wrong call works, or its error holds the call that does."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.server.conftest import Agent, Mode, Refused, connected

from holdfast_storage import Workspace

Call = tuple[str, dict[str, Any]]
T = {"task": "report"}
S = {"task": "report", "step": "two"}
DRY = {"dry_run": True}

# What a model might send, and the arguments it should be told to send instead (None: it just works).
WRONG: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    # names of the task
    ("save_checkpoint", {"task_id": "report", "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"taskId": "report", "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"Task": "report", "GOAL": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"name": "report", "state": {"a": 1}}, {**T, "state": {"a": 1}}),
    ("save_checkpoint", {"thread_id": "report", "goal": "g"}, {**T, "goal": "g"}),
    ("load_checkpoint", {"task_id": "report"}, T),
    ("load_checkpoint", {"id": "report"}, T),
    ("list_checkpoints", {"taskName": "report"}, T),
    ("finish_task", {"task_name": "report", "outcome": "paused"}, {**T, "outcome": "paused"}),
    ("save_checkpoint", {"tsak": "report", "goal": "g"}, {**T, "goal": "g"}),
    # the task itself
    ("save_checkpoint", {"goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"task": "", "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"task": None, "goal": "g"}, {**T, "goal": "g"}),
    ("mark_step_done", {"step": "two"}, S),
    ("save_checkpoint", {"task": ["report"], "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"task": {"id": "report"}, "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"task": " report\n", "goal": "g"}, {**T, "goal": "g"}),
    ("save_checkpoint", {"task": 7, "goal": "g"}, {"task": "7", "goal": "g"}),
    ("prune", {"task": "all"}, {"task": "*", "dry_run": True}),
    # one object too many, or too few
    ("save_checkpoint", {"arguments": {"task": "report", "goal": "g"}}, {**T, "goal": "g"}),
    ("mark_step_done", {"input": '{"task":"report","step":"two"}'}, S),
    ("save_checkpoint", {**T, "pages": 3}, {**T, "state": {"pages": 3}}),
    ("save_checkpoint", {**T, "state": {"a": 1}, "pages": 3}, {**T, "state": {"pages": 3, "a": 1}}),
    # the state
    ("save_checkpoint", {**T, "data": {"a": 1}}, {**T, "state": {"a": 1}}),
    ("save_checkpoint", {**T, "checkpoint": {"a": 1}}, {**T, "state": {"a": 1}}),
    ("save_checkpoint", {**T, "state": '{"a": 1}'}, {**T, "state": {"a": 1}}),
    ("save_checkpoint", {**T, "state": [1, 2]}, {**T, "state": {"items": [1, 2]}}),
    ("save_checkpoint", {**T, "state": "half done"}, {**T, "state": {"notes": "half done"}}),
    ("save_checkpoint", {**T, "state": None}, T),
    ("save_checkpoint", {**T, "progress": 47}, {**T, "state": {"notes": 47}}),
    ("save_checkpoint", {**T, "append": {"log": "x"}}, {**T, "append": {"log": ["x"]}}),
    ("save_checkpoint", {**T, "append": ["x"]}, {**T, "append": {"items": ["x"]}}),
    ("save_checkpoint", {**T, "overwrite": "true"}, {**T, "replace": True}),
    ("save_checkpoint", {**T, "merge_mode": "merge"}, T),
    ("save_checkpoint", {**T, "milestone": "yes"}, {**T, "milestone": True}),
    ("save_checkpoint", {**T, "milestone": 1}, {**T, "milestone": True}),
    # the plan
    (
        "save_checkpoint",
        {**T, "plan": [{"id": "x", "status": "pending"}, {"id": "y"}]},
        {**T, "plan": ["x", "y"]},
    ),
    ("save_checkpoint", {**T, "plan": {"x": "pending", "y": "done"}}, {**T, "plan": ["x", "y"]}),
    ("save_checkpoint", {**T, "plan": "- x\n- y\n"}, {**T, "plan": ["x", "y"]}),
    ("save_checkpoint", {**T, "plan": '["x", "y"]'}, {**T, "plan": ["x", "y"]}),
    ("save_checkpoint", {**T, "plan": [1, 2]}, {**T, "plan": ["1", "2"]}),
    ("save_checkpoint", {**T, "todos": [{"content": "x"}]}, {**T, "plan": ["x"]}),
    ("save_checkpoint", {**T, "steps": ["x", ""]}, {**T, "plan": ["x"]}),
    # texts and numbers
    ("save_checkpoint", {**T, "goal": ["a", "b"]}, {**T, "goal": "a; b"}),
    ("save_checkpoint", {**T, "next": ["a"]}, {**T, "next": "a"}),
    ("save_checkpoint", {**T, "next_step": "a"}, {**T, "next": "a"}),
    ("save_checkpoint", {**T, "nextSteps": "a"}, {**T, "next": "a"}),
    ("save_checkpoint", {**T, "description": "a"}, {**T, "goal": "a"}),
    ("save_checkpoint", {**T, "label": "line\nbreak"}, {**T, "label": "line break"}),
    ("save_checkpoint", {**T, "total": "200"}, {**T, "total": 200}),
    ("save_checkpoint", {**T, "total": 200.0}, {**T, "total": 200}),
    ("save_checkpoint", {**T, "total": -1}, {**T, "total": 0}),
    ("save_checkpoint", {**T, "files": "a, b.txt"}, {**T, "refs": ["a, b.txt"]}),
    ("save_checkpoint", {**T, "refs": [{"path": "a.txt"}]}, {**T, "refs": ["a.txt"]}),
    # steps
    ("mark_step_done", {**T, "step_id": "two"}, S),
    ("mark_step_done", {**T, "stepId": "two"}, S),
    ("mark_step_done", {"task_id": "report", "step_name": "two"}, S),
    ("mark_step_done", {"task_id": "report", "name": "two"}, S),
    ("mark_step_done", {**T, "step": 47}, {**T, "step": "47"}),
    ("mark_step_done", {**T, "step": ["two", "three"]}, S),
    ("mark_step_done", {**T, "steps": ["two", "three"]}, S),
    ("mark_step_done", {**T, "step": {"name": "two"}}, S),
    ("mark_step_done", {**S, "status": "complete"}, {**S, "outcome": "done"}),
    ("mark_step_done", {**S, "status": "completed"}, {**S, "outcome": "done"}),
    ("mark_step_done", {**S, "outcome": "Success"}, {**S, "outcome": "done"}),
    ("mark_step_done", {**S, "outcome": "error"}, {**S, "outcome": "failed"}),
    ("mark_step_done", {**S, "state": "done"}, {**S, "outcome": "done"}),
    ("mark_step_done", {**S, "done": True}, {**S, "outcome": "done"}),
    ("mark_step_done", {**S, "success": False}, {**S, "outcome": "failed"}),
    ("mark_step_done", {**S, "failed": True}, {**S, "outcome": "failed"}),
    ("mark_step_done", {**S, "done": 0}, {**S, "outcome": "failed"}),
    ("mark_step_done", {**S, "error": "boom"}, {**S, "result": "boom", "outcome": "failed"}),
    ("mark_step_done", {**S, "failed": "late"}, {**S, "result": "late", "outcome": "failed"}),
    (
        "mark_step_done",
        {**S, "failure": "x", "output": 1},
        {**S, "result": 1, "outcome": "failed"},
    ),
    ("mark_step_done", {**S, "output": {"rows": 3}}, {**S, "result": {"rows": 3}}),
    ("mark_step_done", {**S, "data": [1]}, {**S, "result": [1]}),
    ("mark_step_done", {**S, "duration_ms": 12}, {**S, "result": {"duration_ms": 12}}),
    ("mark_step_done", {**S, "claim": None, "next": None}, S),
    ("mark_step_done", {**S, "claim_id": "x", "files": ["a"]}, {**S, "refs": ["a"], "claim": "x"}),
    # looking
    ("load_checkpoint", {**T, "checkpoint_id": "1"}, {**T, "checkpoint": 1}),
    ("load_checkpoint", {**T, "checkpoint": "checkpoint-1"}, {**T, "checkpoint": 1}),
    ("load_checkpoint", {**T, "version": "latest"}, {**T, "checkpoint": 0}),
    ("load_checkpoint", {**T, "checkpoint": 99}, {**T, "checkpoint": 1}),
    ("load_checkpoint", {**T, "path": "totals.pages"}, {**T, "path": "/totals/pages"}),
    ("load_checkpoint", {**T, "path": "$.totals"}, {**T, "path": "/totals"}),
    ("load_checkpoint", {**T, "path": "/state/totals"}, {**T, "path": "/totals"}),
    ("load_checkpoint", {**T, "key": "totals"}, {**T, "path": "/totals"}),
    ("load_checkpoint", {**T, "max_tokens": "1,000"}, {**T, "max_tokens": 1000}),
    ("load_checkpoint", {**T, "max_tokens": 10**9}, {**T, "max_tokens": 100_000}),
    ("load_checkpoint", {**T, "include_state": True}, T),
    ("load_checkpoint", {"task": "unknown"}, None),
    ("load_checkpoint", {}, None),
    ("list_checkpoints", {**T, "show": "step"}, {**T, "show": "steps"}),
    ("list_checkpoints", {**T, "type": "log"}, {**T, "show": "events"}),
    ("list_checkpoints", {**T, "show": "tasks"}, {}),
    ("list_checkpoints", {"status": "in_progress"}, {"status": "active"}),
    ("list_checkpoints", {"status": "completed"}, {"status": "done"}),
    ("list_checkpoints", {"limit": 1000}, {"limit": 200}),
    ("list_checkpoints", {"limit": "5"}, {"limit": 5}),
    ("list_checkpoints", {"page_size": 0}, {"limit": 1}),
    ("list_checkpoints", {"task": None}, {}),
    # pruning: what was not said for certain is only looked at
    ("prune", {**T, "keep": 5}, {**T, "keep_last": 5, **DRY}),
    ("prune", {**T, "keep_last": "5"}, {**T, "keep_last": 5, **DRY}),
    ("prune", {**T, "older_than": "7d"}, {**T, "older_than_hours": 168, **DRY}),
    ("prune", {**T, "older_than": "24 hours"}, {**T, "older_than_hours": 24, **DRY}),
    ("prune", {**T, "older_than_days": 7}, {**T, "older_than_hours": 168, **DRY}),
    ("prune", {**T, "older_than_days": "7"}, {**T, "older_than_hours": 168, **DRY}),
    ("prune", {**T, "max_age_hours": 5}, {**T, "older_than_hours": 5, **DRY}),
    ("prune", {**T, "dryRun": True}, {**T, **DRY}),
    ("prune", {**T, "keep_last": 5, "confirm": True}, {**T, "keep_last": 5, **DRY}),
    ("prune", {**T, "dry_run": "false"}, {**T, "dry_run": False}),
    # ending
    ("finish_task", {**T, "status": "in_progress"}, {**T, "outcome": "paused"}),
    ("finish_task", {**T, "outcome": "cancelled"}, {**T, "outcome": "abandoned"}),
    ("finish_task", {**T, "outcome": "PAUSED"}, {**T, "outcome": "paused"}),
    (
        "finish_task",
        {**T, "outcome": "paused", "result": {"rows": 3}},
        {**T, "outcome": "paused", "summary": '{"rows":3}'},
    ),
    # before an effect, and asking
    ("begin_step", {**T, "step_id": "two"}, S),
    ("begin_step", {**T, "step": 2}, {**T, "step": "2"}),
    ("begin_step", {**S, "lease_seconds": 60}, S),
    ("begin_step", {**S, "retry": "false"}, {**S, "retry": False}),
    ("ask_human", {**T, "prompt": "Go?"}, {**T, "question": "Go?"}),
    ("ask_human", {**T, "question": ["Go?"]}, {**T, "question": "Go?"}),
    (
        "ask_human",
        {**T, "question": "Go?", "choices": "yes, no"},
        {**T, "question": "Go?", "options": ["yes", "no"]},
    ),
    (
        "ask_human",
        {**T, "question": "Go?", "options": [{"label": "yes"}, {"label": "no"}]},
        {**T, "question": "Go?", "options": ["yes", "no"]},
    ),
    (
        "ask_human",
        {**T, "question": "Go?", "timeout_minutes": 30},
        {**T, "question": "Go?", "expires_in_hours": 0.5},
    ),
    (
        "ask_human",
        {**T, "question": "Go?", "expires_in_hours": "2h"},
        {**T, "question": "Go?", "expires_in_hours": 2},
    ),
]

# Where the way out is another tool.
ELSEWHERE: list[tuple[str, dict[str, Any], Call]] = [
    ("mark_step_done", T, ("load_checkpoint", T)),
    ("mark_step_done", {**T, "result": 1}, ("load_checkpoint", T)),
    ("mark_step_done", {**S, "status": "in_progress"}, ("begin_step", S)),
    ("prune", {}, ("list_checkpoints", {})),
    ("finish_task", {"outcome": "paused"}, ("list_checkpoints", {})),
    ("finish_task", {"task": "unknown"}, ("list_checkpoints", {})),
    ("prune", {"task": "unknown"}, ("list_checkpoints", {})),
    ("list_checkpoints", {"task": "unknown"}, ("list_checkpoints", {})),
]

# Where a wrong guess loses work or calls it done, and what the error has to say instead.
DANGEROUS: list[tuple[str, dict[str, Any], str]] = [
    ("prune", {**T, "dry_run": "preview only"}, "dry_run is true or false"),
    ("prune", {**T, "dryRun": "preview"}, "dry_run is true or false"),
    ("prune", {**T, "keep_last": "all", "older_than_hours": "0", "dry_run": "preview"}, " is "),
    ("prune", {**T, "keep_last": "all"}, "keep_last is a whole number from 0"),
    ("prune", {**T, "keep_last": -1, "older_than_hours": 0}, "keep_last is a whole number from 0"),
    ("prune", {**T, "keep": True}, "keep_last is a whole number"),
    ("prune", {**T, "older_than": "last week"}, "older_than_hours is a number from 0"),
    ("prune", {**T, "checkpoint": 3}, "by keep_last and older_than_hours only"),
    ("prune", {**T, "label": "keepme"}, "by keep_last and older_than_hours only"),
    ("prune", {**T, "id": 3, "dry_run": False}, "by keep_last and older_than_hours only"),
    ("prune", {"task": ["report", "other"]}, "one task"),
    *(
        ("finish_task", {**T, name: word}, "outcome is one of done, paused, failed, abandoned")
        for name, word in [
            *(("outcome", "not done"), ("outcome", "undone"), ("status", "unfinished")),
            *(("outcome", "continue"), ("state", "not done"), ("done", False), ("outcom", "dome")),
            *(("unfinished", True), ("more_to_do", True), ("outcome", 0)),
        ]
    ),
    *(
        ("mark_step_done", {**S, name: word}, "outcome is one of done, failed, skipped")
        for name, word in [
            *(("outcome", "not done"), ("outcome", "blocked"), ("status", "unsuccessful")),
            *(("status", "incomplete"), ("outcome", "retry"), ("outcome", "non-successful")),
            *(("blocked", True), ("not_done", True), ("retry", True), ("state", "not done")),
            *(("incomplete", True), ("done", "half"), ("status", 1)),
        ]
    ),
    ("mark_step_done", {**S, "outcome": "done", "error": "boom"}, "outcome is one of"),
    ("mark_step_done", {**S, "success": True, "failed": True}, "outcome is one of"),
    ("save_checkpoint", {**T, "state": "null"}, "null removes a key"),
    ("save_checkpoint", {**T, "state": '{"totals": null}'}, "null removes a key"),
    ("save_checkpoint", {**T, "totals": {"pages": None}}, "null removes a key"),
    ("save_checkpoint", {**T, "state": {"z": 1}, "z": 5}, "'z' was sent twice"),
    ("save_checkpoint", {**T, "replace": "merge"}, "replace is true or false"),
    ("save_checkpoint", {**T, "replaced": True}, "replace is true or false"),
    ("save_checkpoint", {**T, "replace": True, "state": None}, "With replace, state is"),
    ("begin_step", {**S, "entry": True}, "retry is true or false"),
    ("begin_step", {**S, "retry": "maybe"}, "retry is true or false"),
]

NOT_FOR_MODELS = re.compile(
    r"pydantic|https?://|Traceback|File \"|Error executing|validation error"
)


async def prepared(agent: Agent, task: str = "report") -> None:
    """Bring the agent to where it has one task with some state, and has loaded it."""
    await agent.call(
        "save_checkpoint",
        task=task,
        state={"totals": {"pages": 3}},
        plan=["one", "two", "three"],
    )
    await agent.call("load_checkpoint", task=task)


def test_there_are_at_least_sixty() -> None:
    assert len(WRONG) >= 60


@pytest.mark.parametrize(("tool", "sent", "said"), DANGEROUS)
async def test_no_call_is_offered_where_a_wrong_guess_does_harm(
    workspace: Workspace, tool: str, sent: dict[str, Any], said: str
) -> None:
    async with connected(workspace) as agent:
        await prepared(agent)

        refused = await agent.refusal(tool, **sent)

        assert refused.code == "wrong_arguments"
        assert refused.call is None, refused
        assert "Call again" not in str(refused)
        assert said in str(refused)
        assert not NOT_FOR_MODELS.search(str(refused))


@pytest.mark.parametrize("sent", [row[1] for row in WRONG if row[0] == "prune"])
async def test_a_corrected_prune_only_looks_unless_told_otherwise(
    workspace: Workspace, sent: dict[str, Any]
) -> None:
    async with connected(workspace) as agent:
        await prepared(agent)

        refused = await agent.refusal("prune", **sent)

        if refused.code == "wrong_arguments" and sent.get("dry_run") != "false":
            assert refused.call is not None
            assert refused.call[1]["dry_run"] is True


async def test_a_corrected_call_names_the_task_that_was_asked_for_and_is_not_there(
    workspace: Workspace,
) -> None:
    await workspace.caller("another").save("alpha", {"a": 1})
    async with connected(workspace) as agent:
        await agent.call("load_checkpoint", task="beta")

        refused = await agent.refusal("save_checkpoint", goal="g")

    assert refused.call == ("save_checkpoint", {"task": "beta", "goal": "g"})


async def test_of_several_steps_the_first_is_said_to_be_only_the_first(agent: Agent) -> None:
    refused = await agent.refusal("mark_step_done", task="t", steps=["s1", "s2", "s3"])

    assert "one call for each step; this is only the first" in str(refused)
    assert refused.call == ("mark_step_done", {"task": "t", "step": "s1"})


async def test_what_a_corrected_call_leaves_out_is_said(agent: Agent) -> None:
    mode = await agent.refusal("save_checkpoint", task="t", merge_mode="merge", a=1)
    more = await agent.refusal("mark_step_done", task="t", step="s", result=1, rows=3)

    assert "This leaves out 'merge_mode'" in str(mode)
    assert mode.call == ("save_checkpoint", {"task": "t", "state": {"a": 1}})
    assert "This leaves out 'rows'" in str(more)


async def test_which_task_to_prune_or_finish_is_asked_not_remembered(agent: Agent) -> None:
    await prepared(agent)

    for tool in ("prune", "finish_task"):
        refused = await agent.refusal(tool)

        assert "Name the task" in str(refused)
        assert refused.call == ("list_checkpoints", {})


async def test_a_null_that_was_sent_in_the_state_stays(agent: Agent) -> None:
    refused = await agent.refusal("save_checkpoint", task_id="t", state={"a": None})

    assert refused.call == ("save_checkpoint", {"task": "t", "state": {"a": None}})


@pytest.mark.parametrize("tool", sorted({tool for tool, *_ in WRONG}))
async def test_a_wrong_call_works_or_is_corrected(
    workspace: Workspace, mode: Mode, tool: str
) -> None:
    rows = [(sent, meant) for name, sent, meant in WRONG if name == tool]
    async with connected(workspace, mode) as agent:
        for number, (sent, meant) in enumerate(rows):
            task = f"report-{number}"
            await prepared(agent, task)
            await _works_or_is_corrected(agent, tool, _about(sent, task), _about(meant, task))


async def _works_or_is_corrected(agent: Agent, tool: str, sent: Any, meant: Any) -> None:
    try:
        await agent.send(tool, sent)
    except Refused as refused:
        assert meant is not None, (sent, refused)
        assert refused.code in ("wrong_arguments", "unknown"), (sent, refused)
        assert not NOT_FOR_MODELS.search(str(refused)), (sent, refused)
        assert refused.call == (tool, meant), (sent, refused)
        await agent.follow(refused)
    else:
        assert meant is None, sent


def _about(arguments: Any, task: str) -> Any:
    """Give the same arguments for a task of their own."""
    return json.loads(json.dumps(arguments).replace("report", task))


@pytest.mark.parametrize(("tool", "sent", "meant"), ELSEWHERE)
async def test_a_call_that_cannot_be_completed_leads_elsewhere(
    workspace: Workspace, mode: Mode, tool: str, sent: dict[str, Any], meant: Call
) -> None:
    async with connected(workspace, mode) as agent:
        await prepared(agent)

        refused = await agent.refusal(tool, **sent)

        assert refused.call == meant
        await agent.send(*meant)


async def test_without_any_task_the_name_comes_from_the_goal(workspace: Workspace) -> None:
    async with connected(workspace) as agent:
        named = await agent.refusal("save_checkpoint", goal="Summarise all 200 contracts, please!")
        unnamed = await agent.refusal("save_checkpoint", state={"a": 1})

        assert named.call is not None
        assert named.call[1]["task"] == "summarise-all-200-contracts-please"
        assert unnamed.call == ("save_checkpoint", {"task": "my-task", "state": {"a": 1}})


async def test_of_several_tasks_none_is_guessed(workspace: Workspace) -> None:
    async with connected(workspace) as other:
        await other.call("save_checkpoint", task="one")
        await other.call("save_checkpoint", task="two")
    async with connected(workspace) as agent:
        refused = await agent.refusal("mark_step_done", step="a")

        assert refused.call == ("list_checkpoints", {})


async def test_the_nearest_right_name_is_said(agent: Agent) -> None:
    refused = await agent.refusal("save_checkpoint", task="t", mile_stone=True, zzz=1)

    assert "there is no argument 'mile_stone'; it is called milestone" in str(refused)
    assert "there is no argument 'zzz'; there are task, state, replace" in str(refused)


async def test_nothing_is_done_by_a_wrong_call(agent: Agent) -> None:
    await agent.refusal("save_checkpoint", task="t", state={"a": 1}, gaol="typo")

    assert await agent.call("list_checkpoints") == {"cursor": "", "tasks": []}


async def test_a_large_wrong_call_is_not_repeated_whole(agent: Agent) -> None:
    state = {"text": "x" * 50_000}

    renamed = await agent.refusal("save_checkpoint", task_id="t", state=state)
    as_text = await agent.refusal("save_checkpoint", task="t", state=str(state))

    assert 'with the rest as you sent it, and with {"task":"t"}' in str(renamed)
    assert len(str(renamed)) + len(str(as_text)) < 1_000
    assert "state must be a JSON object, not a text" in str(as_text)


async def test_names_of_arguments_come_back_harmless(agent: Agent) -> None:
    refused = await agent.refusal("load_checkpoint", **{"ta\nsk\u202e" + "x" * 500: 1})

    assert "\n" not in str(refused)
    assert "\u202e" not in str(refused).replace("Call again", "")
    assert len(str(refused)) < 400


# --- text stays as it was sent ----------------------------------------------------------------

JSON_LOOKALIKES = [
    '{"a":1}',
    "[]",
    "null",
    "123",
    "true",
    '"quoted"',
    "1e5",
    "  spaced\n",
    "ünï 漢字 🙂",
]


async def test_free_text_stays_exactly_as_sent(agent: Agent) -> None:
    for number, text in enumerate(JSON_LOOKALIKES):
        task = f"t{number}"
        await agent.call("save_checkpoint", task=task, goal=text, next=text, state={text: text})
        await agent.call("mark_step_done", task=task, step="s", result=text)
        await agent.call("ask_human", task=task, question=text, options=[text])
        again = await agent.call("mark_step_done", task=task, step="s", result=text)
        brief = await agent.call("load_checkpoint", task=task)
        await agent.call("finish_task", task=task, outcome="paused", summary=text)

        assert (brief["goal"], brief["next"], brief["state"]) == (text, text, {text: text})
        assert brief["questions"][0]["question"] == text
        assert (again["result"], again["already_done"], again["differs"]) == (text, True, False)


async def test_names_that_look_like_json_stay_names(agent: Agent) -> None:
    for text in ('{"a":1}', "[]", "null", "123", "true"):
        await agent.call("save_checkpoint", task=text, label=text, plan=[text])
        begun = await agent.call("begin_step", task=text, step=text)
        marked = await agent.call("mark_step_done", task=text, step=text, claim=begun["claim"])
        brief = await agent.call("load_checkpoint", task=text)

        assert (marked["task"], marked["step"]) == (text, text)
        assert (brief["task"], brief["label"]) == (text, text)


async def test_any_json_is_a_result_and_is_kept_exactly(agent: Agent) -> None:
    results: list[Any] = [None, 0, 1.5, True, "", [], {}, {"deep": [{"a": None}]}, 2**70, "null"]
    for number, result in enumerate(results):
        sent = {"task": "t", "step": f"s{number}", "result": result}
        first = await agent.send("mark_step_done", sent)
        again = await agent.send("mark_step_done", sent)

        for told in (first["result"], again["result"]):
            assert told == result
            assert type(told) is type(result)
        assert again["already_done"]
        assert not again["differs"]


async def test_no_arguments_at_all_are_no_arguments(agent: Agent) -> None:
    told = await agent.send("load_checkpoint", None)

    assert not told["found"]
