"""A question reaches the person at the client where it can, and waits in the file where it cannot."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mcp.client.context import ClientRequestContext
from mcp.types import (
    INTERNAL_ERROR,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    UrlElicitationCapability,
)
from tests.server.conftest import Agent, Mode, connected

from holdfast_server.tools import elicit
from holdfast_storage import Workspace

QUESTION = {"task": "t", "question": "doc-031 is unreadable: skip it?", "options": ["skip", "stop"]}


class Person:
    """Somebody at a client who is shown a form."""

    def __init__(self, says: ElicitResult | ErrorData | Exception) -> None:
        self.says = says
        self.saw: list[ElicitRequestFormParams] = []

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        assert isinstance(params, ElicitRequestFormParams)
        self.saw.append(params)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@asynccontextmanager
async def asking(
    workspace: Workspace, mode: Mode, says: ElicitResult | ErrorData | Exception
) -> AsyncGenerator[tuple[Agent, Person]]:
    person = Person(says)
    async with connected(workspace, mode, elicitation_callback=person) as agent:
        yield agent, person


async def status_in_the_file(workspace: Workspace) -> tuple[str, Any]:
    [question] = (await workspace.brief("t")).questions
    return question.status, question.answer


async def test_an_accepted_form_is_the_answer(workspace: Workspace, mode: Mode) -> None:
    said = ElicitResult(action="accept", content={"answer": "skip"})
    async with asking(workspace, mode, said) as (agent, person):
        told = await agent.send("ask_human", QUESTION)
        again = await agent.send("ask_human", QUESTION)

    assert (told["status"], told["answer"], told["question_id"]) == ("answered", "skip", "q1")
    assert again == told
    # Answered once, nobody is asked again.
    [form] = person.saw
    assert form.message == QUESTION["question"]
    assert form.requested_schema["properties"]["answer"]["enum"] == ["skip", "stop"]
    assert await status_in_the_file(workspace) == ("answered", "skip")


async def test_an_answer_in_the_form_is_a_persons(workspace: Workspace, mode: Mode) -> None:
    said = ElicitResult(action="accept", content={"answer": "stop"})
    async with asking(workspace, mode, said) as (agent, _):
        await agent.send("ask_human", QUESTION)
        events = await agent.call("list_checkpoints", task="t", show="events")

    assert [(event["op"], event["by"] == "human") for event in events["events"]] == [
        ("answer", True),
        ("ask", False),
    ]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_decline_and_cancel_leave_the_question_open(
    workspace: Workspace, mode: Mode, action: Any
) -> None:
    async with asking(workspace, mode, ElicitResult(action=action)) as (agent, person):
        told = await agent.send("ask_human", QUESTION)
        await workspace.answer("t", "stop")
        later = await agent.send("ask_human", QUESTION)

    assert (told["status"], told["answer"]) == ("waiting", None)
    assert "paused" in told["hint"]
    assert (later["status"], later["answer"]) == ("answered", "stop")
    assert len(person.saw) == 1


@pytest.mark.parametrize("content", [None, {}, {"answer": ""}, {"other": "skip"}])
async def test_an_empty_form_is_no_answer(workspace: Workspace, mode: Mode, content: Any) -> None:
    said = ElicitResult(action="accept", content=content)
    async with asking(workspace, mode, said) as (agent, _):
        told = await agent.send("ask_human", QUESTION)

    assert told["status"] == "waiting"
    assert await status_in_the_file(workspace) == ("waiting", None)


async def test_a_client_that_fails_leaves_the_question_open(
    workspace: Workspace, mode: Mode
) -> None:
    failed = ErrorData(code=INTERNAL_ERROR, message="no window")
    async with asking(workspace, mode, failed) as (agent, _):
        if mode == "legacy":
            told = await agent.send("ask_human", QUESTION)
            assert told["status"] == "waiting"
        else:
            # This generation fails in the client itself, before it calls again.
            with pytest.raises(Exception, match="no window"):
                await agent.send("ask_human", QUESTION)

    assert await status_in_the_file(workspace) == ("waiting", None)


async def test_without_the_capability_the_question_waits_in_the_file(
    workspace: Workspace, mode: Mode
) -> None:
    async with connected(workspace, mode) as agent:
        told = await agent.send("ask_human", QUESTION)
        brief = await agent.call("load_checkpoint", task="t")

    assert told["status"] == "waiting"
    assert brief["status"] == "waiting"
    assert [(each["id"], each["status"]) for each in brief["questions"]] == [("q1", "waiting")]


@pytest.mark.parametrize(
    ("offered", "asks"),
    [
        (None, False),
        (ElicitationCapability(), True),
        (ElicitationCapability(url=UrlElicitationCapability()), False),
    ],
)
def test_only_a_client_that_shows_forms_is_asked(
    offered: ElicitationCapability | None, asks: bool
) -> None:
    class Stub:
        client_capabilities = ClientCapabilities(elicitation=offered)

    context: Any = Stub()

    assert elicit._shows_forms(context) is asks  # pyright: ignore[reportPrivateUsage]


async def test_a_question_without_options_takes_any_text(workspace: Workspace, mode: Mode) -> None:
    said = ElicitResult(action="accept", content={"answer": '{"a":1}'})
    async with asking(workspace, mode, said) as (agent, person):
        told = await agent.call("ask_human", task="t", question="What is the rate?")

    assert "enum" not in person.saw[0].requested_schema["properties"]["answer"]
    assert told["answer"] == '{"a":1}'


async def test_an_expired_question_has_no_answer_and_must_not_be_acted_on(mode: Mode) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    said = ElicitResult(action="decline")
    async with (
        Workspace.open("memory:", clock=lambda: now) as workspace,
        asking(workspace, mode, said) as (agent, person),
    ):
        sent = {**QUESTION, "expires_in_hours": 1}
        waiting = await agent.send("ask_human", sent)
        now += timedelta(hours=2)
        person.says = ElicitResult(action="accept", content={"answer": "skip"})
        expired = await agent.send("ask_human", sent)
        brief = await agent.call("load_checkpoint", task="t")

    assert waiting["status"] == "waiting"
    assert (expired["status"], expired["answer"]) == ("expired", None)
    assert "do not act" in expired["hint"]
    assert "do not act" in brief["hint"]
    # It is too late to ask anybody.
    assert len(person.saw) == 1


@pytest.mark.parametrize("answer", ["maybe", " ", ["skip", "stop"]])
async def test_what_does_not_fit_the_form_is_nobodys_answer(
    workspace: Workspace, mode: Mode, answer: Any
) -> None:
    accepted = ElicitResult(action="accept", content={"answer": answer})
    async with asking(workspace, mode, accepted) as (agent, _):
        assert (await agent.call("ask_human", **QUESTION))["status"] == "waiting"

    assert await status_in_the_file(workspace) == ("waiting", None)
