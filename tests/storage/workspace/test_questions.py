"""Questions wait for people: asked once, answered anywhere, and never answered by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import InvalidName, InvalidValue, RunClosed, TooLarge, Unknown

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import Place

    from holdfast_storage.workspace import Workspace


async def test_a_question_waits_and_the_task_with_it(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one"])

    asked = await ann.ask("report", "Skip it?", ["skip", "stop"], step="one")

    assert (asked.status, asked.question_id, asked.answer) == ("waiting", "q1", None)
    brief = await ann.load("report")
    assert brief.status == "waiting"
    assert [(each.question, each.status) for each in brief.questions] == [("Skip it?", "waiting")]
    # Waiting blocks no write.
    assert (await ann.mark("report", "one")).outcome == "done"


async def test_the_same_text_is_the_same_question(place: Place) -> None:
    one, two = await place.open(), await place.open()
    first = await one.caller("ann").ask("report", "Skip it?")

    again = await two.caller("bob").ask("report", "Skip it?")
    for_a_step = await two.caller("bob").ask("report", "Skip it?", step="one")
    other = await two.caller("bob").ask("report", "Stop?")

    assert first.question_id == again.question_id == "q1"
    assert (for_a_step.question_id, other.question_id) == ("q2", "q3")


@pytest.mark.parametrize("answer", ["skip", False, 0, {"page": [3]}])
async def test_an_answer_ends_the_waiting(place: Place, answer: Any) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.ask("report", "Skip it?")

    told = await two.answer("report", answer, by="human:zoe")
    again = await ann.ask("report", "Skip it?")

    assert (told.status, told.answer) == ("answered", answer)
    assert (again.status, again.answer) == ("answered", answer)
    brief = await ann.load("report")
    assert (brief.status, brief.questions[0].status) == ("active", "answered")


async def test_an_answer_is_news_to_the_agent(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?")
    await workspace.answer("report", "yes")

    [change] = (await ann.mark("report", "one")).changes

    assert (change.by, change.path, change.new) == ("human", "/questions/q1/answer", "yes")


async def test_of_several_questions_the_one_that_is_named_is_answered(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.ask("report", "One?")
    await ann.ask("report", "Two?")

    with pytest.raises(Unknown) as unknown:
        await workspace.answer("report", "yes")
    await workspace.answer("report", "yes", "q2")
    await workspace.answer("report", "no", "q2")
    await workspace.answer("report", "no", "q2")

    assert unknown.value.similar == ["q1", "q2"]
    assert (await ann.ask("report", "One?")).status == "waiting"
    assert (await ann.ask("report", "Two?")).answer == "no"
    assert (await ann.load("report")).revision == 4


async def test_an_answer_in_state_json_answers(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?", ["skip", "stop"])

    await place.edit(workspace, lambda view: view["questions"][0].update(answer="skip"))

    asked = await ann.ask("report", "Skip it?")
    assert (asked.status, asked.answer) == ("answered", "skip")


async def test_an_expired_question_has_no_answer_and_nobody_waits(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?", expires_in_hours=2)
    place.clock.forward(hours=2)

    asked = await ann.ask("report", "Skip it?")
    brief = await ann.load("report")

    assert (asked.status, asked.answer) == ("expired", None)
    assert "do not act" in asked.hint
    assert (brief.status, brief.questions[0].status) == ("active", "expired")
    assert "do not act" in brief.hint
    with pytest.raises(Unknown):
        await workspace.answer("report", "too late")


async def test_an_answer_by_name_counts_even_after_its_time(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?", expires_in_hours=2)
    place.clock.forward(hours=3)

    told = await workspace.answer("report", "skip", "q1")

    assert told.status == "answered"


async def test_questions_belong_to_their_run(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?")
    await workspace.answer("report", "skip")
    await ann.finish("report")
    with pytest.raises(RunClosed):
        await workspace.answer("report", "stop", "q1")
    await ann.load("report")

    asked = await ann.ask("report", "Skip it?")

    assert (asked.status, asked.question_id) == ("waiting", "q1")


async def test_no_task_no_question_and_no_answer_are_told_apart(workspace: Workspace) -> None:
    with pytest.raises(Unknown) as task:
        await workspace.answer("nothing", "yes")
    ann = workspace.caller("ann")
    await ann.ask("report", "Skip it?")
    with pytest.raises(Unknown) as question:
        await workspace.answer("report", "yes", "q9")
    with pytest.raises(InvalidValue) as answer:
        await workspace.answer("report", None)

    assert (task.value.kind, question.value.kind) == ("task", "question")
    assert answer.value.where == "answer"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"question": "  "}, InvalidValue),
        ({"question": "x" * 20_000}, TooLarge),
        ({"question": "?", "options": ["x"] * 21}, TooLarge),
        ({"question": "?", "step": "a\nb"}, InvalidName),
        ({"question": "?", "expires_in_hours": -1}, InvalidValue),
        ({"question": "?", "expires_in_hours": float("nan")}, InvalidValue),
    ],
)
async def test_what_is_no_question_is_refused(
    workspace: Workspace, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await workspace.caller("ann").ask("report", **arguments)


async def test_there_is_a_limit_to_open_questions(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"open_questions": 2}}')
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.ask("report", "One?")
    await ann.ask("report", "Two?")

    with pytest.raises(TooLarge):
        await ann.ask("report", "Three?")
    await workspace.answer("report", "yes", "q1")

    assert (await ann.ask("report", "Three?")).status == "waiting"
