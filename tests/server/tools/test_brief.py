"""The brief of a huge task fits what the agent will spend, and any part of it can be fetched."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.server.conftest import Agent, Mode, connected

from holdfast_storage import Workspace
from holdfast_storage.core.strict_json import is_object

STEPS = [f"document-{number:05d}" for number in range(10_000)]
STATE: dict[str, Any] = {
    "model": "small",
    "totals": {"pages": 812, "words": 90_000},
    "findings": [{"document": n, "text": "finding " * 12} for n in range(6_000)],
    "by/author~s": {f"author-{n}": "x" * 40 for n in range(5_000)},
    "notes": "word " * 40_000,
}


@pytest.fixture
async def huge() -> AsyncGenerator[Workspace]:
    async with Workspace.open("memory:") as workspace:
        caller = workspace.caller("before")
        await caller.save("huge", STATE, goal="Read them all. " * 50, plan=STEPS, next="go " * 100)
        for step in STEPS[:3]:
            await caller.mark("huge", step)
        yield workspace


def tokens(answer: Any) -> float:
    return len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False)) / 4


def test_the_task_is_as_large_as_we_say() -> None:
    assert len(json.dumps(STATE)) > 2**20


async def test_the_brief_fits_and_says_where_things_stand(huge: Workspace, mode: Mode) -> None:
    async with connected(huge, mode) as agent:
        briefs = {
            max_tokens: await agent.call("load_checkpoint", task="huge", max_tokens=max_tokens)
            for max_tokens in (500, 20_000, 100_000)
        }
        briefs[3_000] = await agent.call("load_checkpoint")

    for max_tokens, brief in briefs.items():
        assert tokens(brief) <= max_tokens
        assert (brief["progress"]["done"], brief["progress"]["total"]) == (3, 10_000)
        assert brief["remaining"][0] == STEPS[3]
        # What fits comes whole, the rest by name and size.
        assert brief["state"]["model"] == "small"
        assert brief["state"]["totals"] == STATE["totals"]
        assert brief["state"]["findings"]["path"] == "/findings"
        assert brief["state"]["findings"]["$cut"] > 500_000


async def fetched(agent: Agent, path: str) -> Any:
    """Fetch a part by its path, going on below wherever it was cut."""
    brief = await agent.call("load_checkpoint", task="huge", path=path, max_tokens=100_000)
    assert tokens(brief) <= 100_000
    return await whole(agent, brief["state"], path)


async def whole(agent: Agent, part: Any, path: str) -> Any:
    if is_object(part):
        if "$cut" in part:
            assert part["path"] != path, "a part that never comes whole"
            return await fetched(agent, part["path"])
        return {key: await whole(agent, value, f"{path}/{key}") for key, value in part.items()}
    return part


async def test_path_fetches_any_part(huge: Workspace) -> None:
    parts = {
        "/totals/pages": 812,
        "/notes": STATE["notes"],
        "/by~1author~0s": STATE["by/author~s"],
        "/by~1author~0s/author-77": "x" * 40,
        "/findings/5999": STATE["findings"][5999],
    }
    async with connected(huge) as agent:
        for path, value in parts.items():
            assert await fetched(agent, path) == value


async def test_what_was_cut_and_sent_back_is_unchanged(huge: Workspace) -> None:
    async with connected(huge) as agent:
        brief = await agent.call("load_checkpoint", task="huge")
        await agent.call("save_checkpoint", task="huge", state=brief["state"] | {"model": "large"})
        again = await agent.call("load_checkpoint", task="huge", path="/notes", max_tokens=100_000)
        model = await agent.call("load_checkpoint", task="huge", path="/model")

    assert again["state"] == STATE["notes"]
    assert model["state"] == "large"


async def test_ordinary_answers_are_short(huge: Workspace) -> None:
    async with connected(huge) as agent:
        await agent.call("load_checkpoint", task="huge")
        answers = {
            "save": await agent.call("save_checkpoint", task="huge", state={"page": 4}),
            "begin": await agent.call("begin_step", task="huge"),
            "mark": await agent.call("mark_step_done", task="huge", step=STEPS[3]),
            "ask": await agent.call("ask_human", task="huge", question="Go on?"),
            "unfinished": str(await agent.refusal("finish_task", task="huge")),
            "pause": await agent.call("finish_task", task="huge", outcome="paused"),
            "list": await agent.call("list_checkpoints", task="huge", show="steps"),
            "prune": await agent.call("prune", task="huge", dry_run=True),
        }

    limits = {"save": 60, "begin": 110, "mark": 110, "ask": 80, "pause": 170, "unfinished": 170}
    limits |= {"list": 900, "prune": 80}
    for name, answer in answers.items():
        assert tokens(answer) <= limits[name], (name, tokens(answer), answer)


async def test_a_hint_says_how_to_go_on_in_every_write(agent: Agent) -> None:
    await agent.call("save_checkpoint", task="t", plan=["a", "b"])

    first = await agent.call("mark_step_done", task="t", step="a")
    last = await agent.call("mark_step_done", task="t", step="b")
    finished = await agent.call("finish_task", task="t")

    assert (first["next_step"], first["hint"]) == ("b", "Go on with next_step.")
    assert "finish_task" in last["hint"]
    assert "Run 1 is over" in finished["hint"]
