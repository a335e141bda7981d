"""Where a task stands, for people; and state.json given and taken without the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import InvalidValue, Unavailable, Unknown, Unreadable
from holdfast_storage.core.seal import is_sealed

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import Place

    from holdfast_storage.workspace import Workspace


async def changed(workspace: Workspace, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Give the view as a person leaves it."""
    document = json.loads(await workspace.view("report"))
    change(document)
    return json.dumps(document).encode()


# --- where it stands --------------------------------------------------------------------------


async def test_a_standing_names_what_runs_and_what_is_asked(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, goal="A report", next="two", plan=["one", "two"])
    await ann.begin("report", "one")
    await ann.ask("report", "Red?", ["yes", "no"], step="two", expires_in_hours=1)

    standing = await workspace.standing("report")

    assert (standing.status, standing.goal, standing.next) == ("waiting", "A report", "two")
    assert [(step.step, step.by) for step in standing.running] == [("one", "ann")]
    [question] = standing.questions
    assert (question.question, question.options, question.step) == ("Red?", ["yes", "no"], "two")
    assert (question.asked_by, question.status) == ("ann", "waiting")
    place.clock.forward(hours=2)
    later = await workspace.standing("report")
    assert (later.status, later.questions[0].status) == ("active", "expired")
    # Nobody has given a sign of life for longer than a claim lasts.
    assert (later.running, later.in_doubt_count) == ([], 1)
    assert (later.in_doubt[0].step, later.in_doubt[0].by) == ("one", "ann")


async def test_looking_at_a_standing_is_no_resume_and_no_record(place: Place) -> None:
    workspace = await place.open()
    await workspace.task("report").save({"a": 1})

    await workspace.standing("report")

    assert (await workspace.standing("report")).revision == 1
    assert (await workspace.loads("report")) == []


async def test_a_standing_has_conflicts_with_both_sides(workspace: Workspace) -> None:
    ann, bea = workspace.caller("ann"), workspace.caller("bea")
    await ann.save("report", {"colour": "red"})
    await bea.load("report")
    await ann.save("report", {"colour": "blue"})
    await bea.save("report", {"colour": "green"})

    standing = await workspace.standing("report")

    [lost] = standing.conflicts
    assert (lost.path, lost.kept_by, lost.lost_by) == ("/state/colour", "ann", "bea")
    assert standing.conflict_count == 1


async def test_a_line_counts_what_waits_for_a_person(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await ann.begin("report", "one")
    await ann.begin("report", "two")
    await workspace.release("report", "two")

    [line] = await workspace.tasks()

    assert (line.begun, line.in_doubt, line.conflicts) == (1, 1, 0)


async def test_loads_are_told_with_who_and_when(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.task("report").save({"a": 1})
    await two.caller("bea").load("report")

    [load] = await one.loads("report")

    assert (load.by, load.run, load.revision) == ("bea", 1, 1)


async def test_a_course_has_so_many_points_and_ends_with_all(place: Place) -> None:
    workspace = await place.open()
    for number in range(100):
        place.clock.forward(seconds=1)
        await workspace.task("report").done(f"s{number}")
    await workspace.task("report").save({"a": 1}, label="all of them", milestone=True)

    course = await workspace.course("report", points=10)

    assert [point.done for point in course.points] == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert [point.at for point in course.points] == sorted(point.at for point in course.points)
    assert [(mark.checkpoint, mark.label) for mark in course.milestones] == [(1, "all of them")]
    assert len((await workspace.course("report")).points) == 100


@pytest.mark.parametrize("ask", ["standing", "view"])
async def test_of_an_unknown_task_nothing_is_told(workspace: Workspace, ask: str) -> None:
    with pytest.raises(Unknown):
        await getattr(workspace, ask)("nobody")
    assert await workspace.tasks() == []


async def test_the_state_as_it_is_now_is_a_copy(workspace: Workspace) -> None:
    await workspace.task("report").save({"a": [1]})

    (await workspace.state_at("report", 0))["a"].append(2)

    assert await workspace.state_at("report", 0) == {"a": [1]}


async def test_a_state_that_is_unknown_is_not_given_as_empty(place: Place) -> None:
    workspace = await place.open()
    await workspace.task("report").save({"a": 1})
    await workspace.close()
    place.spoil(1)

    with pytest.raises(Unavailable):
        await (await place.open()).state_at("report", 0)


async def test_a_difference_says_whether_it_was_added_removed_or_changed(
    workspace: Workspace,
) -> None:
    task = workspace.task("report")
    await task.save({"gone": None, "old": 1, "same": 1}, replace=True)
    await task.save({"new": None, "old": 2, "same": 1}, replace=True)

    found = await workspace.diff("report", 1, 2)

    assert {each.path: each.kind for each in found} == {
        "/gone": "removed",
        "/new": "added",
        "/old": "changed",
    }


# --- the view without the file ----------------------------------------------------------------


async def test_the_view_is_what_the_file_would_say(place: Place) -> None:
    workspace = await place.open()
    await workspace.task("report").save({"a": 1})

    given = await workspace.view("report")
    await workspace.render("report")

    assert is_sealed(given)
    assert given == await place.view()


async def test_an_edit_is_a_record_with_its_author(workspace: Workspace) -> None:
    await workspace.task("report").save({"ceo": "Ann"})
    raw = await changed(workspace, lambda view: view["state"].update(ceo="Bea"))

    edited = await workspace.edit("report", raw, by="human:Maria")

    assert (edited.changed, edited.revision) == (True, 2)
    assert await workspace.state_at("report", 0) == {"ceo": "Bea"}
    listed = await workspace.caller("reader").list_checkpoints("report", show="events", limit=1)
    assert (listed.events[0].op, listed.events[0].by) == ("edit", "human:Maria")


async def test_an_edit_is_merged_with_what_was_saved_since(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ann", "pages": 1, "colour": "red"})
    raw = await changed(workspace, lambda view: view["state"].update(ceo="Bea", colour="blue"))
    await ann.save("report", {"pages": 2, "colour": "green"})

    edited = await workspace.edit("report", raw)

    assert await workspace.state_at("report", 0) == {"ceo": "Bea", "pages": 2, "colour": "blue"}
    [lost] = edited.conflicts
    assert (lost.path, lost.lost_by) == ("/state/colour", "ann")


async def test_an_edit_and_a_saved_file_are_both_taken_in(place: Place) -> None:
    workspace = await place.open()
    await workspace.task("report").save({"a": 1, "b": 1})
    await place.edit(workspace, lambda view: view["state"].update(a=2))
    raw = json.loads(await workspace.view("report"))
    raw["state"]["b"] = 2

    await workspace.edit("report", json.dumps(raw).encode())

    assert await workspace.state_at("report", 0) == {"a": 2, "b": 2}


async def test_two_people_with_one_view_lose_nothing_unannounced(workspace: Workspace) -> None:
    await workspace.task("report").save({"a": 1, "b": 1})
    one = await changed(workspace, lambda view: view["state"].update(a=2))
    two = await changed(workspace, lambda view: view["state"].update(b=2))

    await workspace.edit("report", one, by="human:Ann")
    edited = await workspace.edit("report", two, by="human:Bea")

    # The later save stands as a whole; what it took back is kept.
    assert await workspace.state_at("report", 0) == {"a": 1, "b": 2}
    assert [lost.path for lost in edited.conflicts] == ["/state/a"]


async def test_the_same_edit_twice_is_one(workspace: Workspace) -> None:
    await workspace.task("report").save({"a": 1})
    raw = await changed(workspace, lambda view: view["state"].update(a=2))

    await workspace.edit("report", raw)
    again = await workspace.edit("report", raw)

    assert (again.changed, again.revision) == (False, 2)


async def test_an_edit_whose_base_nobody_knows_is_kept_aside_and_announced(
    workspace: Workspace,
) -> None:
    await workspace.task("report").save({"a": 1})
    raw = await changed(workspace, lambda view: view["read_only"].update(revision=99))

    edited = await workspace.edit("report", raw)

    assert "its base is not known" in edited.warnings[0]
    assert edited.conflicts[0].file.startswith("conflicts/")
    assert await workspace.state_at("report", 0) == {"a": 1}


async def test_what_is_no_view_of_this_task_is_refused(workspace: Workspace) -> None:
    await workspace.task("report").save({"a": 1})

    with pytest.raises(Unreadable) as broken:
        await workspace.edit("report", b'{"a": 1,}')
    with pytest.raises(InvalidValue):
        await workspace.edit("report", b'{"task": "another"}')
    with pytest.raises(Unknown):
        await workspace.edit("nobody", b'{"task": "nobody"}')

    assert (broken.value.line, broken.value.column) == (1, 9)
    assert [line.task for line in await workspace.tasks()] == ["report"]
