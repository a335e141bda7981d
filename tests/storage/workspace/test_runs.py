"""A run ends, is laid down or goes on; what comes too late is refused, what comes next is fresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast_storage.core.errors import InvalidValue, RunClosed, Unfinished, Unknown

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import Place

    from holdfast_storage.workspace import Workspace


# --- ending -----------------------------------------------------------------------------------


async def test_a_run_with_nothing_left_is_done(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one"])
    await ann.mark("report", "one")

    finished = await ann.finish("report", summary="All of it.")

    assert (finished.status, finished.run, finished.unfinished) == ("done", 1, [])
    assert (await ann.load("report")).status == "done"


async def test_done_is_refused_while_something_is_open_and_lists_it(place: Place) -> None:
    crashed = await place.open()
    await crashed.caller("ann").begin("report", "in doubt")
    await crashed.close()
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.load("report")
    await ann.save("report", plan=["pending", "failed", "running", "done"])
    await ann.mark("report", "failed", outcome="failed")
    await ann.mark("report", "done")
    await ann.begin("report", "running")
    await ann.ask("report", "Go on?")

    with pytest.raises(Unfinished) as refused:
        await ann.finish("report")

    assert refused.value.steps == ["in doubt", "pending", "failed", "running"]
    assert (refused.value.questions, refused.value.more) == (["q1"], 0)
    assert (await ann.load("report")).status == "waiting"


async def test_of_many_unfinished_steps_some_are_listed_and_the_rest_counted(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=[f"step {number}" for number in range(50)])

    with pytest.raises(Unfinished) as refused:
        await ann.finish("report")
    paused = await ann.finish("report", "paused")

    assert (len(refused.value.steps), refused.value.more) == (20, 30)
    assert len(paused.unfinished) == 20


async def test_an_expired_question_does_not_hold_a_run_open(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    await ann.ask("report", "Go on?", expires_in_hours=1)
    place.clock.forward(hours=2)

    assert (await ann.finish("report")).status == "done"


async def test_abandoning_needs_nothing_to_be_finished(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one"])

    finished = await ann.finish("report", "abandoned")

    assert (finished.status, finished.unfinished) == ("abandoned", ["one"])


@pytest.mark.parametrize("outcome", ["done", "abandoned", "paused", "failed"])
async def test_finishing_twice_gives_the_same_answer(place: Place, outcome: str) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").save("report", {"a": 1})

    first = await one.caller("ann").finish("report", outcome)
    second = await two.caller("bob").finish("report", outcome)

    assert first == second


async def test_a_closed_run_cannot_end_another_way(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await ann.finish("report")

    with pytest.raises(RunClosed) as refused:
        await ann.finish("report", "failed")

    assert (refused.value.run, refused.value.finished_by) == (1, "ann")


async def test_only_a_task_that_exists_can_end_and_only_in_these_ways(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    with pytest.raises(Unknown):
        await ann.finish("nothing")
    await ann.save("report", {"a": 1})

    with pytest.raises(InvalidValue) as refused:
        await ann.finish("report", "finished")

    assert refused.value.where == "outcome"


# --- too late ---------------------------------------------------------------------------------


async def test_a_writer_that_comes_too_late_is_told_that_the_run_is_closed(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await bob.mark("report", "one", {"n": 1})
    await ann.finish("report")

    for call in (
        bob.save("report", {"a": 2}),
        bob.mark("report", "two"),
        bob.begin("report", "two"),
        bob.ask("report", "Go on?"),
    ):
        with pytest.raises(RunClosed) as refused:
            await call
        assert (refused.value.run, refused.value.finished_by) == (1, "ann")
    assert (await two.caller("cat").load("report")).run == 1


async def test_a_late_repetition_of_a_done_step_is_answered(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await bob.mark("report", "one", {"n": 1})
    await ann.finish("report")

    again = await bob.mark("report", "one", {"n": 1})

    assert (again.already_done, again.result) == (True, {"n": 1})


async def test_who_loads_first_opens_a_new_run_that_is_fresh(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1}, goal="Write it.", next="x", plan=["one"], total=5)
    first = await ann.begin("report", "one")
    await ann.mark("report", "one")
    await ann.finish("report")

    closed = await bob.load("report")
    saved = await bob.save("report", {"b": 1})
    second = await bob.begin("report", "one")
    brief = await bob.load("report")

    assert (closed.status, closed.run, closed.state) == ("done", 1, {"a": 1})
    # Numbers run over the task's life.
    assert (saved.run, saved.checkpoint, saved.revision) == (2, 2, 5)
    assert (brief.run, brief.status, brief.state) == (2, "active", {"b": 1})
    assert (brief.goal, brief.next, brief.progress.done, brief.progress.total) == ("", "", 0, 1)
    # The same step in another run is another effect.
    assert second.go
    assert second.idempotency_key != first.idempotency_key


@pytest.mark.parametrize("opening", ["save", "mark", "begin", "ask"])
async def test_any_write_opens_the_next_run(workspace: Workspace, opening: str) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "one", state={"a": 1})
    await ann.finish("report", "abandoned")
    await ann.load("report")

    if opening == "save":
        await ann.save("report", {"b": 1})
    elif opening == "mark":
        await ann.mark("report", "one", state={"b": 1})
    elif opening == "begin":
        await ann.begin("report", "one")
    else:
        await ann.ask("report", "Go on?")

    brief = await ann.load("report")
    assert brief.run == 2
    assert "a" not in brief.state


async def test_one_load_opens_one_run(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await ann.finish("report")
    await ann.load("report")
    await bob.load("report")
    await ann.save("report", {"b": 1})
    await ann.finish("report")

    with pytest.raises(RunClosed) as refused:
        await bob.save("report", {"c": 1})

    assert refused.value.run == 2


# --- laid down --------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["paused", "failed"])
async def test_what_was_laid_down_goes_on_where_it_was(place: Place, outcome: str) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.save("report", {"a": 1}, plan=["one", "two"])
    await ann.mark("report", "one")
    await ann.finish("report", outcome)

    bob = two.caller("bob")
    brief = await bob.load("report")
    begun = await bob.begin("report")

    assert (brief.status, brief.run, brief.remaining) == (outcome, 1, ["two"])
    assert (begun.go, begun.step) == (True, "two")
    assert (await bob.load("report")).status == "active"


async def test_a_persons_pause_holds_until_a_person_ends_it(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, plan=["one", "two"])
    await workspace.pause("report")
    again = await workspace.pause("report")

    saved = await ann.save("report", {"a": 2})
    marked = await ann.mark("report", "one")
    begun = await ann.begin("report", "two")
    loaded = await ann.load("report")

    assert again == 2
    assert (saved.checkpoint, marked.outcome) == (2, "done")
    assert (begun.go, begun.status) == (False, "paused")
    assert loaded.status == "paused"
    for answer in (saved, marked, begun, loaded):
        assert "stop" in answer.hint
    await workspace.go_on("report")
    await workspace.go_on("report")
    assert (await ann.begin("report", "two")).go


async def test_a_person_may_hold_what_an_agent_paused(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await ann.finish("report", "paused")

    await workspace.pause("report")
    await ann.finish("report", "paused")
    await ann.save("report", {"a": 2})

    assert (await ann.load("report")).status == "paused"


async def test_a_person_pauses_and_goes_on_in_state_json(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, plan=["one"])

    await place.edit(workspace, lambda view: view.update(status="paused"))
    paused = await ann.begin("report", "one")
    await place.edit(workspace, lambda view: view.update(status="active"))
    begun = await ann.begin("report", "one")

    assert (paused.go, paused.status) == (False, "paused")
    assert begun.go


async def test_a_person_ends_a_run(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, plan=["one"])

    with pytest.raises(Unfinished):
        await workspace.finish("report")
    finished = await workspace.finish("report", "abandoned", "No longer needed.", by="human:zoe")

    assert (finished.status, finished.unfinished) == ("abandoned", ["one"])
    with pytest.raises(RunClosed) as refused:
        await ann.mark("report", "one")
    assert refused.value.finished_by == "human:zoe"
    with pytest.raises(RunClosed):
        await workspace.go_on("report")


async def test_done_in_state_json_with_something_left_is_put_back(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, plan=["one"])

    await place.edit(workspace, lambda view: view.update(status="done"))
    brief = await ann.load("report")

    assert brief.status == "active"
    assert any("status was put back" in warning for warning in brief.warnings)
