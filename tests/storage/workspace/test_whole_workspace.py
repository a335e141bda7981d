"""The workspace around its tasks: looked over, watched, shared and closed."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import InvalidName, InvalidValue, NotSaved

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import FolderPlace, Place

    from holdfast_storage.caller import Caller
    from holdfast_storage.workspace import Workspace


# --- looking ----------------------------------------------------------------------------------


async def test_who_only_looks_resumes_nothing(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").save("report", {"n": 1})

    looked = await two.brief("report", max_tokens=500)

    assert (looked.state, looked.progress.resumes) == ({"n": 1}, 0)
    assert (await two.caller("bob").load("report")).progress.resumes == 1


async def test_tasks_are_told_with_the_last_touched_first(place: Place) -> None:
    workspace = await place.open()
    for name in ("a", "c", "b"):
        place.clock.forward(minutes=1)
        await workspace.caller("ann").save(name, {"n": 1})

    assert [line.task for line in await workspace.tasks()] == ["b", "c", "a"]


async def test_a_workspace_knows_where_it_is_and_what_counts(folder: FolderPlace) -> None:
    folder.write_settings(b'{"format": 1, "workspace": "w", "lease_seconds": 60}')
    workspace = await folder.open()

    assert workspace.location == str(folder.root)
    assert workspace.settings.lease_seconds == 60


async def test_more_tasks_than_are_remembered_at_once(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    for number in range(70):
        await ann.save(f"task-{number}", {"n": number}, plan=["one"])
    for number in range(70):
        await ann.mark(f"task-{number}", "one", number)

    for number in (0, 1, 35, 69):
        assert (await ann.load(f"task-{number}")).state == {"n": number}
        again = await ann.mark(f"task-{number}", "one", number)
        assert (again.already_done, again.result) == (True, number)


async def test_a_copied_task_folder_is_not_taken_for_another_task(folder: FolderPlace) -> None:
    workspace = await folder.open()
    await workspace.caller("ann").save("report", {"n": 1})
    await workspace.close()
    shutil.copytree(folder.folder("report"), folder.folder("copy"))

    later = await folder.open()
    found = await later.check()
    listed = (await later.caller("bob").list_checkpoints()).tasks

    assert found != []
    assert (await later.caller("bob").load("report")).state == {"n": 1}
    assert [line.task for line in listed if not line.problem] == ["report"]


# --- watching ---------------------------------------------------------------------------------


async def test_a_watcher_hears_of_a_persons_edit_which_is_then_taken_in(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await workspace.render("report")
    document = json.loads(await place.view())
    heard: asyncio.Queue[set[str]] = asyncio.Queue()
    watching = asyncio.create_task(_hear(workspace, heard))
    async with asyncio.timeout(20):
        await _until_it_hears(ann, heard)

        document["state"]["n"] = 2
        await place.save_view(json.dumps(document).encode())

        # Comparing does not look at people's files: only the watcher can have taken it in.
        while not (different := await workspace.diff("report", 1)):
            assert "report" in await heard.get()
    assert [(each.path, each.new) for each in different] == [("/n", 2)]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def _hear(workspace: Workspace, heard: asyncio.Queue[set[str]]) -> None:
    async for tasks in workspace.watch():
        await heard.put(tasks)


async def _until_it_hears(caller: Caller, heard: asyncio.Queue[set[str]]) -> None:
    for number in range(1000):
        await caller.mark("report", f"s{number}")
        await asyncio.sleep(0.01)
        if not heard.empty():
            return


# --- people's files ---------------------------------------------------------------------------


async def edited(place: Place, document: dict[str, Any]) -> None:
    await place.save_view(json.dumps(document, indent=2).encode())


async def test_a_buffer_saved_twice_is_two_edits_of_one_person(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1, "b": 1, "c": 1}, plan=["one", "two"])
    await ann.ask("report", "Go on?")
    await workspace.render("report")
    buffer = json.loads(await place.view())

    buffer["state"]["a"] = 2
    buffer["goal"] = "By hand."
    buffer["plan"]["one"] = "done"
    await edited(place, buffer)
    await ann.load("report")
    await ann.save("report", {"c": 2})
    buffer["state"]["b"] = 2
    buffer["questions"][0]["answer"] = "yes"
    await edited(place, buffer)
    brief = await ann.load("report")

    assert brief.state == {"a": 2, "b": 2, "c": 2}
    assert (brief.goal, brief.progress.done, brief.conflicts) == ("By hand.", 1, [])
    assert brief.questions[0].answer == "yes"
    edits = [
        event
        for event in (await ann.list_checkpoints("report", show="events")).events
        if event.op == "edit"
    ]
    assert len(edits) == 2


async def test_a_file_without_a_revision_counts_if_nothing_was_recorded_since(
    place: Place,
) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await workspace.render("report")

    await edited(place, {"task": "report", "state": {"a": 2}})

    assert (await ann.load("report")).state == {"a": 2}


async def test_a_file_without_a_revision_is_kept_aside_if_something_was(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await workspace.render("report")
    await ann.save("report", {"a": 3})

    await edited(place, {"task": "report", "state": {"a": 2}})
    brief = await ann.load("report")

    assert brief.state == {"a": 3}
    assert len(brief.conflicts) == 1
    [kept] = (await place.kept("conflicts")).values()
    assert json.loads(kept)["state"] == {"a": 2}
    # It is told once, and the view is rendered anew.
    await workspace.render("report")
    assert json.loads(await place.view())["state"] == {"a": 3}
    assert len((await ann.load("report")).conflicts) == 1


async def test_what_only_holdfast_writes_is_put_back(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})

    def change(view: dict[str, Any]) -> None:
        view["read_only"]["progress"]["done"] = 99
        view["$schema"] = "elsewhere"
        view["mine"] = {"kept": True}

    await place.edit(workspace, change)
    brief = await ann.load("report")
    await workspace.render("report")
    document = json.loads(await place.view())

    assert brief.progress.done == 0
    assert any("mine" in warning for warning in brief.warnings)
    assert document["read_only"]["progress"]["done"] == 0
    assert (document["$schema"][:6], document["mine"]) == ("../../", {"kept": True})


# --- the end ----------------------------------------------------------------------------------


async def test_closing_renders_what_is_not_rendered_yet(place: Place) -> None:
    workspace = await place.open()
    await workspace.caller("ann").save("report", {"n": 1})

    await workspace.close()

    assert json.loads(await place.view())["state"] == {"n": 1}


async def test_closing_twice_is_closing_once(place: Place) -> None:
    workspace = await place.open()
    await workspace.caller("ann").save("report", {"n": 1})
    await workspace.close()
    later = await place.open()
    await place.edit(later, lambda view: view.update(goal="By hand."))

    await workspace.close()

    assert (await later.caller("bob").load("report")).goal == "By hand."


async def test_a_closed_workspace_saves_nothing_and_says_so(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await workspace.close()

    with pytest.raises(NotSaved):
        await ann.save("report", {"n": 2})
    with pytest.raises(NotSaved):
        await ann.mark("report", "one")


async def test_a_caller_has_a_name_that_is_one(workspace: Workspace) -> None:
    assert workspace.caller().by == "agent@test"
    with pytest.raises(InvalidName):
        workspace.caller("a\nb")


async def test_a_caller_without_memory_sends_no_state_with_a_step(workspace: Workspace) -> None:
    nobody = workspace.caller("http", must_give_revision=True)

    with pytest.raises(InvalidValue) as refused:
        await nobody.mark("report", "one", state={"n": 1})
    marked = await nobody.mark("report", "one", append={"found": [1]})

    assert refused.value.where == "state"
    assert marked.outcome == "done"
