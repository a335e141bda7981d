"""What an agent is given to go on: enough, within its tokens, and nothing it was told already."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from holdfast_storage.core.errors import InvalidName, InvalidValue, LoadFirst, Unavailable, Unknown
from holdfast_storage.engines.folder.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.workspace.conftest import FolderPlace, Place

    from holdfast_storage.caller import Caller
    from holdfast_storage.workspace import Workspace


# --- the brief --------------------------------------------------------------------------------


async def test_the_brief_says_where_the_work_stands(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.save(
        *("report", {"pages": 1}),
        goal="Write it.",
        next="page 2",
        plan=["one", "two", "three", "four"],
        label="started",
        refs=["https://example.com/a"],
    )
    await ann.mark("report", "one", {"ok": True})
    await ann.mark("report", "two", outcome="failed")
    await ann.begin("report", "three")
    await ann.ask("report", "Go on?", ["yes", "no"])

    brief = await two.caller("bob").load("report")

    assert (brief.found, brief.task, brief.goal, brief.next) == (
        *(True, "report", "Write it."),
        "page 2",
    )
    assert (brief.status, brief.run, brief.checkpoint, brief.revision) == ("waiting", 1, 1, 5)
    assert (brief.label, brief.saved_by, brief.saved_at) == (
        *("started", "ann"),
        "2026-03-01T09:00:00.000Z",
    )
    assert (brief.progress.done, brief.progress.failed, brief.progress.total) == (1, 1, 4)
    assert (brief.progress.last_done, brief.progress.resumes) == ("one", 1)
    assert (brief.remaining, brief.in_doubt) == (["two", "four"], [])
    assert [(each.step, each.by) for each in brief.running] == [("three", "ann")]
    assert [(each.id, each.status) for each in brief.questions] == [("q1", "waiting")]
    assert [(each.ref, each.status) for each in brief.refs] == [
        ("https://example.com/a", "unchecked")
    ]
    assert (brief.changes, brief.conflicts, brief.warnings) == ([], [], [])
    assert (brief.state, brief.current, brief.chosen_because) == ({"pages": 1}, True, "")
    assert brief.hint


@pytest.mark.parametrize("max_tokens", [150, 300, 1000, 3000])
async def test_the_brief_fits_the_tokens_it_is_given(workspace: Workspace, max_tokens: int) -> None:
    ann = workspace.caller("ann")
    state = {"small": 1, **{f"large {n}": "ä" * 3000 for n in range(5)}}
    steps = [f"step {n}" for n in range(60)]
    await ann.save("report", state, goal="g" * 3000, next="n" * 3000, plan=steps)

    brief = await ann.load("report", max_tokens=max_tokens)

    sent = brief.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert len(json.dumps(sent, ensure_ascii=False, separators=(",", ":"))) <= 4 * max_tokens


async def test_what_fits_comes_whole_and_what_does_not_by_name_and_size(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"small": {"a": [1]}, "large": "x" * 20_000})

    state = (await ann.load("report", max_tokens=500)).state
    fetched = await ann.load("report", path=state["large"]["path"], max_tokens=9000)

    assert state == {"small": {"a": [1]}, "large": {"$cut": 20_002, "path": "/large"}}
    assert fetched.state == "x" * 20_000


async def test_a_path_leads_into_the_state(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a/b": {"list": [{"x": 1}]}})

    assert (await ann.load("report", path="/a~1b/list/0")).state == {"x": 1}
    with pytest.raises(Unknown) as unknown:
        await ann.load("report", path="/nothing")
    with pytest.raises(InvalidValue) as invalid:
        await ann.load("report", path="no pointer")

    assert (unknown.value.kind, unknown.value.similar) == ("path", ["/a~1b"])
    assert invalid.value.where == "path"


# --- which task -------------------------------------------------------------------------------


async def test_an_unknown_task_is_no_error_and_names_what_may_be_meant(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("ingest-200-docs", {"a": 1})

    near = await ann.load("ingest_200_doc")
    far = await ann.load("something else")

    assert (near.found, near.similar) == (False, ["ingest-200-docs"])
    assert (far.found, far.similar) == (False, [])
    assert "start fresh" in far.hint


async def test_without_a_name_the_task_last_touched_is_loaded(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("one", {"n": 1})
    await ann.save("two", {"n": 2})
    await ann.load("one")

    brief = await ann.load()

    assert (brief.task, brief.chosen_because) == ("one", "the task you last touched")


async def test_a_refused_call_has_touched_its_task(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await workspace.caller("bob").save("two", {"n": 2})
    await ann.save("one", {"n": 1})
    with pytest.raises(LoadFirst):
        await ann.save("two", {"n": 3})

    assert (await ann.load()).task == "two"


async def test_a_task_that_is_not_there_was_not_touched(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("one", {"n": 1})
    with pytest.raises(Unknown):
        await ann.finish("noe", "paused")

    assert (await ann.load()).task == "one"


async def test_without_a_name_the_only_open_task_is_loaded(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("one", {"n": 1})
    await ann.finish("one", "abandoned")
    await ann.save("two", {"n": 2})

    brief = await workspace.caller("bob").load()

    assert (brief.found, brief.task) == (True, "two")
    assert brief.chosen_because


async def test_without_a_name_there_is_a_list_to_choose_from(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("one", {"n": 1}, goal="First.")
    place.clock.forward(minutes=1)
    await ann.save("two", {"n": 2})

    brief = await workspace.caller("bob").load()

    assert not brief.found
    assert [(line.task, line.goal) for line in brief.tasks] == [("two", ""), ("one", "First.")]


async def test_where_there_are_no_tasks_the_brief_says_so(workspace: Workspace) -> None:
    brief = await workspace.caller("bob").load()

    assert (brief.found, brief.tasks) == (False, [])
    assert "no tasks yet" in brief.hint


async def test_finished_tasks_are_offered_where_there_are_no_others(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("one", {"n": 1})
    await ann.finish("one")

    brief = await workspace.caller("bob").load()

    assert [(line.task, line.status) for line in brief.tasks] == [("one", "done")]


async def test_no_name_that_is_none_is_looked_up(workspace: Workspace) -> None:
    with pytest.raises(InvalidName):
        await workspace.caller("ann").load("a\nb")


# --- earlier checkpoints ----------------------------------------------------------------------


async def test_looking_at_a_checkpoint_is_not_rewinding(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, label="first")
    await ann.save("report", {"n": 2})

    looked = await ann.load("report", checkpoint=1)
    saved = await ann.save("report", {"n": 3})

    assert (looked.current, looked.checkpoint, looked.label) == (False, 1, "first")
    assert looked.state == {"n": 1}
    # It was no load either: what ann submitted last is still what she builds on.
    assert saved.conflicts == []
    assert (await ann.load("report")).state == {"n": 3}


async def test_looking_at_a_checkpoint_takes_a_path_too(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"deep": {"n": 1}})
    await ann.save("report", {"deep": {"n": 2}})

    assert (await ann.load("report", checkpoint=1, path="/deep/n")).state == 1


async def test_a_checkpoint_of_a_closed_run_can_be_looked_at(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await ann.finish("report")
    await ann.load("report")
    await ann.save("report", {"m": 2})

    looked = await ann.load("report", checkpoint=1)

    assert (looked.current, looked.state) == (False, {"n": 1})


async def test_a_checkpoint_that_never_was_is_unknown(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})

    for number in (7, -1):
        with pytest.raises(Unknown) as unknown:
            await ann.load("report", checkpoint=number)
        assert unknown.value.kind == "checkpoint"


async def test_a_pruned_checkpoint_says_that_it_was_pruned(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    for number in range(3):
        await ann.save("report", {"n": number})
    await ann.prune("report", keep_last=1, older_than_hours=0)

    with pytest.raises(Unavailable) as gone:
        await ann.load("report", checkpoint=1)

    assert gone.value.why == "it was pruned"


# --- what changed meanwhile -------------------------------------------------------------------


async def test_a_persons_changes_are_told_until_the_next_load(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ada", "pages": 1})
    await place.edit(workspace, lambda view: view["state"].update(ceo="Bea"))

    marked = await ann.mark("report", "one")
    saved = await ann.save("report", {"pages": 2})
    begun = await ann.begin("report", "two")
    loaded = await ann.load("report")
    after = await ann.mark("report", "three")

    for answer in (marked, saved, begun, loaded):
        [change] = answer.changes
        assert (change.by, change.path) == ("human", "/state/ceo")
        assert (change.old, change.new) == ("Ada", "Bea")
        assert "changes" in answer.hint
    assert after.changes == []


async def test_another_agents_changes_are_told_once(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1, "b": 1})
    await bob.load("report")
    await ann.save("report", {"a": 2}, next="page 2")
    await ann.save("report", {"a": 3})

    first = await bob.mark("report", "one")
    second = await bob.mark("report", "two")

    assert {(each.by, each.path, each.old, each.new) for each in first.changes} == {
        ("ann", "/state/a", 1, 3),
        ("ann", "/next", "", "page 2"),
    }
    assert second.changes == []


async def test_an_answer_without_changes_leaves_them_for_the_next(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await ann.save("report", {"a": 2})

    await bob.ask("report", "Which chapter first?")
    await bob.finish("report", "paused")
    marked = await bob.mark("report", "one")

    assert [(each.by, each.path, each.new) for each in marked.changes] == [("ann", "/state/a", 2)]


async def test_ones_own_changes_are_no_news(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await ann.mark("report", "one", state={"a": 2})

    saved = await ann.save("report", {"b": 1})

    assert saved.changes == []


async def test_who_never_met_the_task_is_told_of_no_changes(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").save("report", {"a": 1})
    await one.caller("ann2").mark("report", "zero", state=None)

    marked = await two.caller("bob").mark("report", "one")

    assert marked.changes == []


async def test_a_large_value_is_told_by_its_size(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await ann.save("report", {"a": "x" * 1000})

    [change] = (await bob.mark("report", "one")).changes

    assert change.new == {"$cut": 1002, "path": "/a"}


# --- the state alone --------------------------------------------------------------------------


async def test_the_state_alone_is_the_whole_state(workspace: Workspace) -> None:
    state = {"text": "x" * 50_000, "list": [1, None, 2.5, {"a": 2**70}]}
    await workspace.caller("ann").save("report", state)

    bob = workspace.caller("bob")

    assert await bob.state("report") == state
    assert await bob.state("report") == state


async def test_the_state_of_a_task_that_nobody_began_is_empty(workspace: Workspace) -> None:
    assert await workspace.caller("ann").state("report") == {}


async def test_to_take_the_state_is_to_load(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1, "b": 1})
    with pytest.raises(LoadFirst):
        await bob.save("report", {"a": 2})

    await bob.state("report")
    await ann.save("report", {"a": 5})
    assert await bob.state("report") == {"a": 5, "b": 1}
    saved = await bob.save("report", {"a": 6})

    assert (saved.conflicts, saved.changes) == ([], [])
    assert await ann.state("report") == {"a": 6, "b": 1}


async def test_who_takes_the_state_takes_up_the_run_once(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})

    await bob.state("report")
    await bob.state("report")

    assert (await ann.load("report")).progress.resumes == 1


async def test_the_state_is_as_a_person_left_it(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ann"})
    assert await ann.state("report") == {"ceo": "Ann"}

    await place.edit(workspace, lambda view: view["state"].update(ceo="Bea"))

    assert await ann.state("report") == {"ceo": "Bea"}


async def test_what_a_program_does_with_the_state_is_no_change_to_ours(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"list": [1]})

    (await ann.state("report"))["list"].append(2)

    assert await ann.state("report") == {"list": [1]}


async def test_a_state_that_cannot_be_read_is_not_empty(place: Place) -> None:
    await (await place.open()).caller("ann").save("report", {"a": 1})
    await place.close()
    place.spoil(1)

    with pytest.raises(Unavailable):
        await (await place.open()).caller("bob").state("report")


async def test_after_a_finish_the_state_is_that_of_the_run_that_is_over(
    workspace: Workspace,
) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"a": 1})
    await ann.finish("report")

    assert await bob.state("report") == (await bob.load("report")).state
    # It has been told, so its next write opens a new run.
    assert (await bob.save("report", {"b": 2})).run == 2


async def test_who_takes_the_state_was_shown_all_of_it(workspace: Workspace) -> None:
    keys = {f"key{number}": "x" * 50 for number in range(300)}
    await workspace.caller("ann").save("report", keys)
    anew, after_a_part = workspace.caller("bob"), workspace.caller("eve")
    await after_a_part.load("report", max_tokens=50)

    await anew.state("report")
    await after_a_part.state("report")

    assert (await anew.save("report", {"all": "new"}, replace=True)).checkpoint == 2
    await after_a_part.state("report")
    assert (await after_a_part.save("report", {"new": "again"}, replace=True)).checkpoint == 3


async def test_who_takes_the_state_is_still_told_of_what_changed_beside_it(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ann"}, next="page 2")
    await place.edit(workspace, lambda view: view.update(next="stop"))
    await place.edit(workspace, lambda view: view["state"].update(ceo="Bea"))

    await ann.state("report")

    assert [change.path for change in (await ann.save("report", {"n": 1})).changes] == ["/next"]


async def test_who_could_not_take_the_state_has_not_loaded(place: Place) -> None:
    await (await place.open()).caller("ann").save("report", {"a": 1})
    await place.close()
    place.spoil(1)
    bob = (await place.open()).caller("bob")
    with pytest.raises(Unavailable):
        await bob.state("report")

    with pytest.raises(LoadFirst):
        await bob.save("report", {"a": 2})


async def _after_the_newest_save_was_damaged(place: Place) -> Caller:
    ann = (await place.open()).caller("ann")
    await ann.save("report", {"a": 1})
    await ann.save("report", {"a": 2})
    await place.close()
    place.spoil(2)
    return (await place.open()).caller("bob")


async def test_the_state_is_not_an_older_one_than_was_saved(place: Place) -> None:
    bob = await _after_the_newest_save_was_damaged(place)

    with pytest.raises(Unavailable):
        await bob.state("report")

    assert (await bob.load("report")).state == {"a": 1}
    await bob.save("report", {"a": 3})
    assert await bob.state("report") == {"a": 3}


async def test_one_list_in_two_places_is_two_lists(workspace: Workspace) -> None:
    ann, row = workspace.caller("ann"), {"done": False}
    await ann.save("report", append={"rows": [row, row]})
    await ann.save("report", {"again": {"$cut": 9, "path": "/rows/0"}, "row": {"rows": [row, row]}})

    state = await ann.state("report")
    state["rows"][0]["done"] = True

    assert (state["rows"][1], state["again"]) == ({"done": False}, {"done": False})


async def test_the_states_of_more_tasks_than_are_remembered_can_be_taken_at_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_storage.remembered._TASKS_KEPT", 3)
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    for number in range(12):
        await ann.save(f"task-{number}", {"n": number})

    async with asyncio.timeout(30):
        states = await asyncio.gather(*(bob.state(f"task-{number}") for number in range(12)))

    assert states == [{"n": number} for number in range(12)]


@pytest.mark.parametrize("how", ["load", "state"])
@pytest.mark.parametrize("turns", range(8))
async def test_who_gave_up_waiting_was_told_nothing(place: Place, how: str, turns: int) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await ann.save("report", {"a": 5})
    asking = asyncio.ensure_future(getattr(bob, how)("report"))
    for _ in range(turns):
        await asyncio.sleep(0)
    was_told = asking.done()
    asking.cancel()
    await asyncio.wait([asking])

    saved = await bob.save("report", {"a": 1, "n": 2})

    assert was_told or [conflict.path for conflict in saved.conflicts] == ["/state/a"]


async def test_the_state_is_known_again_when_a_step_has_set_it(place: Place) -> None:
    bob = await _after_the_newest_save_was_damaged(place)
    await bob.load("report")

    await bob.mark("report", "one", state={"b": 1})

    assert await bob.state("report") == {"a": 1, "b": 1}


async def test_a_task_that_was_put_back_to_an_earlier_run_can_be_loaded_and_saved(
    folder: FolderPlace, tmp_path: Path
) -> None:
    workspace = await folder.open()
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"a": 1})
    shutil.copytree(folder.folder(), tmp_path / "backup")
    await ann.finish("report")
    await ann.load("report")
    await ann.save("report", {"b": 2})
    await bob.state("report")
    folder.folder().rename(tmp_path / "gone")
    (tmp_path / "backup").rename(folder.folder())

    assert (await ann.load("report")).run == 1
    assert await bob.state("report") == {"a": 1}

    assert (await ann.save("report", {"c": 3})).run == 1
    assert [change.path for change in (await bob.save("report", {"d": 4})).changes] == ["/state/c"]


async def test_to_take_the_state_puts_nobody_back_into_a_run_that_is_over(
    workspace: Workspace,
) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await ann.finish("report")
    await bob.load("report")

    await asyncio.gather(bob.state("report"), bob.mark("report", "one"), bob.state("report"))
    await ann.load("report")
    await ann.save("report", {"b": 2})

    assert (await bob.save("report", {"c": 3})).run == 2


# --- who resumed ------------------------------------------------------------------------------


async def test_each_caller_that_takes_up_a_run_counts_once(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.save("report", {"a": 1})

    own = await ann.load("report")
    bob = two.caller("bob")
    first, second = await bob.load("report"), await bob.load("report")
    third = await one.caller("cat").load("report")

    assert own.progress.resumes == 0
    assert (first.progress.resumes, second.progress.resumes) == (1, 1)
    assert third.progress.resumes == 2


async def test_resumes_are_counted_for_each_run(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"a": 1})
    await bob.load("report")
    await ann.finish("report")
    await ann.load("report")
    await ann.save("report", {"a": 2})

    assert (await ann.load("report")).progress.resumes == 0


# --- warnings ---------------------------------------------------------------------------------


async def test_a_broken_state_json_is_warned_of_with_line_and_column(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})
    await workspace.render("report")
    await place.save_view(b'{\n  "task": "report",\n  "state": {,}\n}')

    brief = await ann.load("report")

    assert brief.state == {"a": 1}
    [warning] = brief.warnings
    assert "state.json" in warning
    assert "line 3, column 13" in warning


async def test_a_broken_holdfast_json_is_warned_of_and_the_last_good_one_counts(
    place: Place,
) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"steps": 2}}')
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one", "two"])
    place.write_settings(b'{"format": 1,\n oops}')

    brief = await ann.load("report")

    assert any("line 2, column 2" in warning for warning in brief.warnings)
    assert any("last good" in warning for warning in brief.warnings)
    place.write_settings(b'{"format": 1, "workspace": "w"}')
    assert (await ann.load("report")).warnings == []


async def test_a_workspace_used_from_two_machines_is_warned_of(
    folder: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Disk, "up_since", _since_ever)
    ann = (await folder.open()).caller("ann")
    await ann.save("report", {"a": 1})
    [line] = folder.lines()
    own = json.loads(line)["boot"]
    assert own
    # The next record comes from a machine that was started another time.
    await _append(folder, {"seq": 2, "op": "done", "step": "x", "boot": "another boot"})

    brief = await ann.load("report")
    folder.clock.forward(hours=25)
    await ann.mark("report", "y")
    later = await ann.load("report")

    assert any("another machine" in warning for warning in brief.warnings)
    assert later.warnings == []


async def test_a_restart_of_the_same_machine_is_no_second_machine(folder: FolderPlace) -> None:
    ann = (await folder.open()).caller("ann")
    await ann.save("report", {"a": 1})
    # Written before this machine was started: perhaps by itself, the last time it was up.
    await _append(folder, {"seq": 2, "op": "done", "step": "x", "boot": "another boot"})

    assert (await ann.load("report")).warnings == []


def _since_ever(_: Disk) -> float:
    return 0.0


async def _append(folder: FolderPlace, record: dict[str, object]) -> None:
    from holdfast_storage.core.records import Draft, encode_line

    body = {key: value for key, value in record.items() if key not in ("seq", "op", "boot")}
    draft = Draft("f" * 20, "2026-03-01T09:00:00.000Z", "bob", str(record["op"]), body)
    line = encode_line(2, draft, str(record["boot"]))
    folder.change_lines(lambda lines: [*lines, line])
