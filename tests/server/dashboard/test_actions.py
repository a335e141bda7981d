"""What a person does on the page is done: recorded, by name, and seen by agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.server.dashboard.conftest import Person, browser

from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace


async def last_event(workspace: Workspace, task: str) -> tuple[str, str]:
    listed = await workspace.caller("reader").list_checkpoints(task, show="events", limit=1)
    return listed.events[0].op, listed.events[0].by


@pytest.mark.parametrize(
    ("typed", "answer"),
    [({"option": "red"}, "red"), ({"answer": " green "}, "green"), ({"option": "<b>"}, "<b>")],
)
async def test_answering_lets_the_agent_go_on(
    person: Person, typed: dict[str, str], answer: str
) -> None:
    agent = person.workspace.caller("agent")
    await agent.ask("report", "Which colour?", ["red", "<b>"])

    page = await person.send((await person.see("/task/report")).form("answer"), **typed)

    assert "Answered." in page.text
    assert "A question for you" not in page.text
    asked = await agent.ask("report", "Which colour?", ["red", "<b>"])
    assert (asked.status, asked.answer) == ("answered", answer)
    assert await last_event(person.workspace, "report") == ("answer", "human")


async def test_enter_in_the_field_sends_what_was_typed_and_no_option(person: Person) -> None:
    agent = person.workspace.caller("agent")
    await agent.ask("report", "Delete the table?", ["yes", "no"])

    forms = (await person.see("/task/report")).forms
    typing = next(form for form in forms if "answer" in form.fields)

    # A browser presses the first button of the form.
    assert "name" not in typing.buttons[0]
    pressed = {button["name"]: button["value"] for button in typing.buttons[:1] if "name" in button}
    await person.send(typing, answer="No! Keep it", **pressed)
    asked = await agent.ask("report", "Delete the table?", ["yes", "no"])
    assert asked.answer == "No! Keep it"


async def test_an_empty_answer_is_refused(person: Person) -> None:
    await person.workspace.caller("agent").ask("report", "Which colour?")

    page = await person.send((await person.see("/task/report")).form("answer"), answer="  ")

    assert page.status == 422
    assert "That was not done" in page.text


@pytest.fixture
async def doubtful(tmp_path: Path, tokens: Tokens) -> AsyncGenerator[Person]:
    """Give a task whose agent died between a step's effect and its word about it."""
    root = tmp_path / ".holdfast"
    async with Workspace.open(root) as crashing:
        await crashing.task("mails").begin("ann")
    async with Workspace.open(root) as workspace, browser(workspace, tokens) as client:
        yield Person(client, workspace)


@pytest.mark.parametrize(("said", "status"), [("yes", "done"), ("no", "pending")])
@pytest.mark.parametrize("view", ["task", "steps"])
async def test_a_doubt_is_settled(doubtful: Person, view: str, said: str, status: str) -> None:
    form = (await doubtful.see(f"/{view}/mails")).form("resolve", step="ann")

    page = await doubtful.send(form, happened=said)

    assert "Settled." in page.text
    listed = await doubtful.workspace.caller("reader").list_checkpoints("mails", show="steps")
    assert [(line.step, line.status) for line in listed.steps] == [("ann", status)]


async def test_a_conflict_is_acknowledged(person: Person) -> None:
    ann, bea = person.workspace.caller("ann"), person.workspace.caller("bea")
    await ann.save("shared", {"colour": "red"})
    await bea.load("shared")
    await ann.save("shared", {"colour": "blue"})
    await bea.save("shared", {"colour": "green"})
    page = await person.see("/task/shared")
    assert "/state/colour" in page.text

    after = await person.send(page.form("acknowledge"))

    assert "Conflicts" not in after.text
    assert (await person.workspace.standing("shared")).conflicts == []


async def test_pausing_stops_agents_until_a_person_lets_them_go_on(person: Person) -> None:
    agent = person.workspace.caller("agent")
    await agent.save("report", plan=["a"])

    paused = await person.send((await person.see("/task/report")).form("pause"))
    assert not (await agent.begin("report", "a")).go
    await person.send(paused.form("go_on"))

    assert (await agent.begin("report", "a")).go


async def test_a_running_step_is_released_and_a_done_one_reopened(person: Person) -> None:
    agent = person.workspace.caller("agent")
    await agent.begin("report", "a")
    await agent.mark("report", "b")

    await person.send((await person.see("/steps/report")).form("release", step="a"))
    await person.send((await person.see("/steps/report")).form("reopen", step="b"))

    listed = await agent.list_checkpoints("report", show="steps")
    assert {line.step: line.status for line in listed.steps} == {"a": "in_doubt", "b": "pending"}


async def test_a_task_is_rewound_forked_and_pinned(person: Person) -> None:
    task = person.workspace.task("report")
    await task.save({"n": 1})
    await task.save({"n": 2})
    page = await person.see("/checkpoints/report")

    forked = await person.send(page.form("fork", checkpoint="1"), new="rehearsal")
    pinned = await person.send(page.form("pin", checkpoint="1"), pinned="yes")
    await person.send(page.form("rewind", checkpoint="1"))

    assert "rehearsal · Holdfast" in forked.text
    assert (await person.workspace.standing("rehearsal")).status == "paused"
    assert await person.workspace.state_at("rehearsal", 0) == {"n": 1}
    assert "pinned" in pinned.text
    assert await person.workspace.state_at("report", 0) == {"n": 1}
    unpinned = await person.send(pinned.form("pin", checkpoint="1"), pinned="no")
    assert "Unpin" not in unpinned.text


async def test_prune_shows_its_plan_before_it_takes_anything(person: Person) -> None:
    task = person.workspace.task("report")
    for number in range(5):
        await task.save({"n": number})

    plan = await person.see("/prune/report?keep_last=2&hours=0")
    assert "3 checkpoints would go" in plan.text
    assert (await person.workspace.state_at("report", 1)) == {"n": 0}
    await person.send(plan.form("prune"))

    page = await person.see("/checkpoints/report")
    assert page.text.count("not available") == 3
    assert (await person.see("/state/report?checkpoint=1")).status == 404


async def test_with_a_token_deeds_are_recorded_by_name(person: Person, tokens: Tokens) -> None:
    await person.workspace.task("report").save({"a": 1})
    token = tokens.add("maria")
    login = await person.see("/task/report", follow_redirects=True)
    assert login.forms[0].action == "/login"

    page = await person.send(login.forms[0], token=token)
    await person.send(page.form("pause"))

    assert await last_event(person.workspace, "report") == ("finish", "human:maria")


async def test_an_action_nobody_knows_is_refused(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1})
    form = (await person.see("/task/report")).form("pause")

    assert (await person.send(form, do="explode")).status == 404
    assert (await person.send(form, do="rewind", checkpoint="x")).status == 422
    assert (await person.send(form, do="resolve", step="a", happened="maybe")).status == 422
