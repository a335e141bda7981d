"""What becomes of a save: merged by path, nothing lost unnoticed, the same call twice is one save."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import (
    InvalidValue,
    LoadFirst,
    NotSaved,
    RevisionNeeded,
    TooLarge,
    WouldDrop,
)
from holdfast_storage.engines.memory import MemoryEngine
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.workspace.conftest import FolderPlace, Place


async def state_of(workspace: Workspace, task: str = "report") -> Any:
    return (await workspace.caller("somebody who looks").load(task)).state


# --- what a save changes ----------------------------------------------------------------------


async def test_the_first_save_opens_a_run_and_is_checkpoint_1(workspace: Workspace) -> None:
    saved = await workspace.caller("ann").save("report", {"pages": 1}, goal="Write it.")

    assert (saved.task, saved.run, saved.checkpoint, saved.revision) == ("report", 1, 1, 1)
    assert (saved.changes, saved.conflicts, saved.warnings) == ([], [], [])


async def test_state_is_merged_deeply_and_lists_are_whole(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"totals": {"pages": 1, "words": 10}, "names": ["a", "b"]})

    await ann.save("report", {"totals": {"pages": 2}, "names": ["c"]})

    assert await state_of(workspace) == {"totals": {"pages": 2, "words": 10}, "names": ["c"]}


async def test_null_removes_a_key(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1, "b": {"c": 2, "d": 3}})

    await ann.save("report", {"a": None, "b": {"c": None}})

    assert await state_of(workspace) == {"b": {"d": 3}}


async def test_with_replace_null_is_a_value_and_what_is_not_sent_goes(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1, "b": 2})

    await ann.save("report", {"a": None}, replace=True)

    assert await state_of(workspace) == {"a": None}


async def test_append_adds_to_a_list_and_makes_a_missing_one(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"found": [1]})

    await ann.save("report", append={"found": [2, 3], "new": ["x"]})

    assert await state_of(workspace) == {"found": [1, 2, 3], "new": ["x"]}


async def test_append_to_what_is_no_list_is_refused_and_changes_nothing(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"found": "text"})

    with pytest.raises(InvalidValue) as refused:
        await ann.save("report", append={"found": [1]})

    assert refused.value.where == "append/found"
    assert await state_of(workspace) == {"found": "text"}


async def test_appends_of_two_agents_who_never_looked_never_conflict(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").save("report", {"found": [0]})

    a = await one.caller("bob").save("report", append={"found": [1]})
    b = await two.caller("cat").save("report", append={"found": [2]})

    assert (a.conflicts, b.conflicts) == ([], [])
    assert await state_of(two) == {"found": [0, 1, 2]}


async def test_what_is_omitted_stays_and_a_single_space_clears(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, goal="Write it.", next="page 1", plan=["one"], total=9)

    await ann.save("report", {"a": 2})
    kept = await ann.load("report")
    await ann.save("report", goal=" ", next=" ")
    cleared = await ann.load("report")

    assert (kept.goal, kept.next, kept.remaining, kept.progress.total) == (
        *("Write it.", "page 1", ["one"]),
        9,
    )
    assert (cleared.goal, cleared.next, cleared.state) == ("", "", {"a": 2})


async def test_text_stays_exactly_as_sent(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    goal = '  Ünïcode, "quotes",\nnew lines\tand 雪 & <b>&amp;</b> \u0000 end  '

    await ann.save("report", {"k\u0000ey/~": goal}, goal=goal)
    loaded = await ann.load("report")

    assert (loaded.goal, loaded.state) == (goal, {"k\u0000ey/~": goal})


async def test_a_plan_adds_and_orders_and_never_removes(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["a", "b", "c"])

    await ann.save("report", plan=["c", "a", "d"])

    remaining = (await ann.load("report")).remaining
    assert sorted(remaining) == ["a", "b", "c", "d"]
    assert remaining.index("c") < remaining.index("a") < remaining.index("d")


async def test_a_label_and_a_milestone_are_listed(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1}, label="research complete", milestone=True)

    [listed] = (await ann.list_checkpoints("report")).checkpoints

    assert (listed.label, listed.milestone, listed.by) == ("research complete", True, "ann")
    assert (await ann.load("report")).label == "research complete"


async def test_steps_with_nearly_the_same_name_are_warned_of(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["doc-007"])

    saved = await ann.save("report", plan=["Doc_7"])

    assert len(saved.warnings) == 1
    assert "doc-007" in saved.warnings[0]


async def test_a_program_may_go_on_with_its_own_objects(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    state: dict[str, Any] = {"found": [1], "deep": {"list": [1]}}
    await ann.save("report", state)

    state["found"].append(2)
    state["deep"]["list"].append(2)
    saved = await ann.save("report", state)

    assert saved.conflicts == []
    assert await state_of(await place.open()) == {"found": [1, 2], "deep": {"list": [1, 2]}}


async def test_a_program_may_change_the_state_it_loaded_and_save_it(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    await ann.save("report", {"found": [1]})
    state = (await ann.load("report")).state

    state["found"].append(2)
    state["new"] = True
    saved = await ann.save("report", state)

    assert (saved.checkpoint, saved.conflicts) == (2, [])
    assert await state_of(await place.open()) == {"found": [1, 2], "new": True}


async def test_objects_given_with_a_step_stay_the_programs_own(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    found = [1]
    await ann.mark("report", "one", state={"found": found})

    found.append(2)
    marked = await ann.mark("report", "two", state={"found": found})

    assert marked.conflicts == []
    assert await state_of(await place.open()) == {"found": [1, 2]}


# --- who knew what ----------------------------------------------------------------------------


async def test_two_agents_who_change_different_paths_both_get_their_way(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": {"x": 1}, "b": 1})
    await bob.load("report")

    await ann.save("report", {"a": {"y": 2}})
    saved = await bob.save("report", {"b": 2})

    assert saved.conflicts == []
    assert await state_of(one) == {"a": {"x": 1, "y": 2}, "b": 2}


async def test_a_value_both_changed_stays_and_the_answer_says_how_to_insist(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"ceo": "Ada"})
    await bob.load("report")
    await ann.save("report", {"ceo": "Bea"})

    saved = await bob.save("report", {"ceo": "Cleo"})

    [conflict] = saved.conflicts
    assert (conflict.path, conflict.yours, conflict.current) == ("/state/ceo", "Cleo", "Bea")
    assert conflict.kept_by == "ann"
    assert f"revision={saved.revision}" in conflict.insist
    assert await state_of(one) == {"ceo": "Bea"}
    [(_, kept)] = (await place.kept("conflicts")).items()
    assert b"Cleo" in kept

    insisting = await bob.save("report", {"ceo": "Cleo"}, revision=saved.revision)

    assert insisting.conflicts == []
    assert await state_of(one) == {"ceo": "Cleo"}


async def test_what_others_removed_conflicts_as_well(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"ceo": "Ada", "b": 1})
    await bob.load("report")
    await ann.save("report", {"ceo": None})

    [conflict] = (await bob.save("report", {"ceo": "Cleo"})).conflicts

    assert (conflict.yours, conflict.current) == ("Cleo", None)
    assert await state_of(one) == {"b": 1}


async def test_an_old_value_repeated_is_a_conflict_until_the_caller_is_told(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"ceo": "Ada", "pages": 0})
    await bob.load("report")
    await ann.save("report", {"ceo": "Bea"})

    first = await bob.save("report", {"ceo": "Ada", "pages": 1})
    second = await bob.save("report", {"ceo": "Ada", "pages": 2})
    await bob.load("report")
    told = await bob.save("report", {"ceo": "Ada", "pages": 3})

    assert [each.path for each in first.conflicts] == ["/state/ceo"]
    assert [each.path for each in second.conflicts] == ["/state/ceo"]
    assert told.conflicts == []
    assert await state_of(one) == {"ceo": "Ada", "pages": 3}


async def test_the_merge_base_is_never_a_merge_result(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"ceo": "Ada", "pages": 0})
    await bob.load("report")
    await ann.save("report", {"ceo": "Bea"})
    await bob.save("report", {"pages": 1})

    # What bob submitted was merged with ann's change, which nobody showed to bob as his state.
    saved = await bob.save("report", {"ceo": "Cleo"})

    assert [each.path for each in saved.conflicts] == ["/state/ceo"]
    assert await state_of(one) == {"ceo": "Bea", "pages": 1}


async def test_a_save_over_work_never_loaded_is_refused(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").save("report", {"a": 1})

    with pytest.raises(LoadFirst) as refused:
        await two.caller("bob").save("report", {"a": 2})

    assert (refused.value.code, refused.value.checkpoint) == ("load_first", 1)
    assert await state_of(one) == {"a": 1}


async def test_a_save_on_a_run_of_steps_alone_needs_no_load(workspace: Workspace) -> None:
    await workspace.caller("ann").mark("report", "one")

    saved = await workspace.caller("bob").save("report", {"a": 1})

    assert saved.checkpoint == 1


async def test_a_given_revision_is_the_base(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    first = await ann.save("report", {"a": 1, "b": 1})
    await ann.save("report", {"a": 2})

    saved = await bob.save("report", {"a": 3, "b": 3}, revision=first.revision)

    assert [each.path for each in saved.conflicts] == ["/state/a"]
    assert await state_of(workspace) == {"a": 2, "b": 3}


@pytest.mark.parametrize("revision", [-1, 99, True, "1"])
async def test_a_revision_that_never_was_is_refused(workspace: Workspace, revision: Any) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})

    with pytest.raises(InvalidValue) as refused:
        await ann.save("report", {"a": 2}, revision=revision)

    assert refused.value.where == "revision"


async def test_a_revision_of_a_run_that_is_over_is_no_base(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    old = await ann.save("report", {"a": 1})
    await ann.finish("report")
    await ann.load("report")
    await ann.save("report", {"a": 2})

    with pytest.raises(InvalidValue) as refused:
        await ann.save("report", {"a": 3}, revision=old.revision)

    assert refused.value.where == "revision"


async def test_a_revision_whose_state_was_pruned_is_no_base(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    old = await ann.save("report", {"a": 1, "b": 1})
    await ann.save("report", {"a": 2})
    await ann.save("report", {"a": 3})
    await ann.prune("report", keep_last=1, older_than_hours=0)

    with pytest.raises(InvalidValue) as refused:
        await workspace.caller("bob").save("report", {"b": 2}, revision=old.revision)

    assert refused.value.where == "revision"


async def test_a_caller_without_memory_must_give_a_revision(workspace: Workspace) -> None:
    nobody = workspace.caller("http", must_give_revision=True)
    first = await nobody.save("report", {"a": 1})

    with pytest.raises(RevisionNeeded) as refused:
        await nobody.save("report", {"a": 2})
    saved = await nobody.save("report", {"a": 2}, revision=refused.value.revision)

    assert refused.value.revision == first.revision
    assert f"revision={first.revision}" in refused.value.hint
    assert saved.checkpoint == 2


@pytest.mark.parametrize("append", [None, {"list": [1]}])
async def test_a_save_of_one_key_does_not_show_the_others(
    place: Place, append: dict[str, list[Any]] | None
) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1, "b": {"c": 1}, "secret": 2})
    theirs = (await place.open()).caller("bob")
    await theirs.load("report", path="/a")

    await theirs.save("report", {"a": 2}, append=append)
    with pytest.raises(WouldDrop) as refused:
        await theirs.save("report", {"new": 1}, replace=True)

    assert sorted(refused.value.keys) == ["b", "secret"]


async def test_an_append_shows_no_other_keys_even_where_it_was_to_replace(place: Place) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1, "secret": 2})
    theirs = (await place.open()).caller("bob")
    await theirs.load("report", path="/a")

    await theirs.save("report", append={"list": [1]}, replace=True)
    with pytest.raises(WouldDrop) as refused:
        await theirs.save("report", {"new": 1}, replace=True)

    assert refused.value.keys == ["secret"]


async def test_what_was_appended_before_anything_was_seen_counts_as_sent(place: Place) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1})
    theirs = (await place.open()).caller("bob")
    await theirs.mark("report", "s1", append={"list": [1]})
    await theirs.load("report", path="/a")

    await theirs.save("report", {"new": 1}, replace=True)

    assert await state_of(await place.open()) == {"new": 1}


async def test_whoever_has_seen_or_sent_every_key_may_drop_them(place: Place) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1, "b": 1})
    theirs = (await place.open()).caller("bob")
    await theirs.load("report", path="/a")
    await theirs.save("report", {"b": 2, "c": 3})

    await theirs.save("report", {"new": 1}, replace=True)

    assert await state_of(await place.open()) == {"new": 1}


async def test_whoever_replaced_all_may_not_drop_what_came_since(place: Place) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1})
    await ours.save("report", {"a": 2}, replace=True)
    theirs = (await place.open()).caller("bob")
    await theirs.load("report")
    await theirs.save("report", {"theirs": 1})

    with pytest.raises(WouldDrop) as refused:
        await ours.save("report", {"a": 3}, replace=True)

    assert refused.value.keys == ["theirs"]


async def test_whoever_brought_a_key_by_replacing_all_may_drop_it_whoever_changed_it(
    place: Place,
) -> None:
    ours = (await place.open()).caller("ann")
    await ours.save("report", {"a": 1})
    await ours.save("report", {"b": 1}, replace=True)
    theirs = (await place.open()).caller("bob")
    await theirs.load("report")
    await theirs.save("report", {"b": 2})

    await ours.save("report", {"c": 1}, replace=True)

    assert "c" in await state_of(await place.open())


async def test_replace_that_would_drop_what_was_never_shown_names_it(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1, "secret": 1})
    await bob.load("report", path="/a")

    with pytest.raises(WouldDrop) as refused:
        await bob.save("report", {"a": 2}, replace=True)

    assert refused.value.keys == ["secret"]
    await bob.load("report", path="/secret")
    await bob.save("report", {"a": 2}, replace=True)
    assert await state_of(one) == {"a": 2}


async def test_a_key_that_was_sent_as_null_was_never_shown(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"a": 1})
    await ann.save("report", {"a": 2, "notes": None})
    await bob.load("report")
    await bob.save("report", {"notes": "all of it"})
    await ann.load("report", path="/a")

    with pytest.raises(WouldDrop) as refused:
        await ann.save("report", {"a": 3}, replace=True)

    assert refused.value.keys == ["notes"]


async def test_a_conflict_names_its_author_however_much_was_changed_at_once(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob, cyd = one.caller("ann"), two.caller("bob"), one.caller("cyd")
    await ann.save("report", {f"key {number}": 0 for number in range(100)})
    await bob.load("report")
    await bob.save("report", {f"key {number}": 1 for number in range(100)})
    await cyd.load("report")
    await cyd.mark("report", "another step")

    saved = await ann.save("report", {"key 0": 2})

    assert [(lost.path, lost.kept_by) for lost in saved.conflicts] == [("/state/key 0", "bob")]


async def test_a_persons_value_is_theirs_though_an_agent_changed_much_around_it(
    workspace: Workspace,
) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"facts": {f"fact {number}": 0 for number in range(60)}})
    await bob.load("report")
    view = strict_json.parse_object(await workspace.view("report"))
    view["state"]["facts"]["fact 0"] = "so it is"
    await workspace.edit("report", strict_json.pretty(view))
    await ann.load("report")
    await ann.save("report", {"facts": {f"fact {number}": 1 for number in range(1, 50)}})

    saved = await bob.save("report", {"facts": {"fact 0": "bob's"}})

    assert [lost.kept_by for lost in saved.conflicts] == ["human"]


async def test_what_a_short_brief_left_out_was_never_shown(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {f"key {number}": "x" * 40 for number in range(50)})
    brief = await bob.load("report", max_tokens=1)
    assert "$cut" in brief.state

    with pytest.raises(WouldDrop):
        await bob.save("report", {"a": 1}, replace=True)


async def test_a_cut_value_sent_back_means_unchanged(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"a": 1, "long": "x" * 9000})
    brief = await bob.load("report", max_tokens=400)

    saved = await bob.save("report", brief.state | {"a": 2}, replace=True)

    assert (brief.state["long"]["path"], saved.conflicts) == ("/long", [])
    assert (await ann.load("report", path="/long", max_tokens=9000)).state == "x" * 9000


# --- the same again ---------------------------------------------------------------------------


async def test_the_same_call_twice_is_one_save(workspace: Workspace) -> None:
    ann = workspace.caller("ann")

    first = await ann.save("report", {"a": 1}, append={"l": [1]}, label="x")
    second = await ann.save("report", {"a": 1}, append={"l": [1]}, label="x")

    assert first == second
    assert await state_of(workspace) == {"a": 1, "l": [1]}


@pytest.mark.parametrize("more", [{}, {"refs": ["a.txt"]}, {"revision": 1}])
async def test_the_same_call_twice_at_once_is_one_save(
    workspace: Workspace, more: dict[str, Any]
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 0})

    both = await asyncio.gather(
        *(ann.save("report", {"a": 1}, append={"l": [1]}, **more) for _ in range(2))
    )

    assert both[0] == both[1]
    assert both[0].checkpoint == 2
    assert (await ann.load("report")).state == {"a": 1, "l": [1]}


async def test_the_same_call_after_something_of_its_own_is_another_save(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", append={"l": [1]})
    await ann.mark("report", "one")

    again = await ann.save("report", append={"l": [1]})

    assert again.checkpoint == 2
    assert await state_of(workspace) == {"l": [1, 1]}


async def test_the_same_content_from_a_restarted_agent_is_the_newest_save(place: Place) -> None:
    one, two = await place.open(), await place.open()
    first = await one.caller("ann").save("report", {"a": 1}, goal="Write it.", plan=["one"])
    ann = two.caller("ann")
    await ann.load("report")

    again = await ann.save("report", {"a": 1}, goal="Write it.", plan=["one"])

    assert (again.checkpoint, again.revision) == (first.checkpoint, first.revision)
    assert len((await ann.list_checkpoints("report")).checkpoints) == 1


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        ({}, [{"append": {"log": [deep(61)]}, "goal": goal} for goal in "abc"]),
        ({"depth": 1}, [{"state": {"a": number}} for number in range(3)]),
        ({"depth": 2}, [{"append": {"l": [number]}} for number in range(3)]),
        (
            {"state_bytes": 1000},
            [
                {"plan": [f"step-{number}" for number in range(100)], "state": {"a": last}}
                for last in range(3)
            ],
        ),
    ],
    ids=["deep", "one level", "two levels", "a long plan"],
)
async def test_calls_that_reach_a_limit_are_not_taken_for_one_another(
    tmp_path: Path, limits: dict[str, int], calls: list[dict[str, Any]]
) -> None:
    root = tmp_path / ".holdfast"
    root.mkdir()
    (root / "holdfast.json").write_text(json.dumps({"limits": limits}))
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        saved = [await ann.save("report", **call) for call in calls]

    assert [each.checkpoint for each in saved] == [1, 2, 3]


async def test_a_save_that_could_not_be_kept_is_made_when_called_again() -> None:
    engine = MemoryEngine()
    async with Workspace(engine) as workspace:
        ann = workspace.caller("ann")

        with engine.failing(), pytest.raises(NotSaved):
            await ann.save("report", {"a": 1})
        saved = await ann.save("report", {"a": 1})

        assert saved.checkpoint == 1
        assert await state_of(workspace) == {"a": 1}


async def test_a_cancelled_save_goes_on_and_calling_again_gets_its_answer(
    folder: FolderPlace,
) -> None:
    ann = (await folder.open()).caller("ann")
    await ann.save("report", {"a": 0})
    saving = asyncio.ensure_future(ann.save("report", append={"l": [1]}))
    await asyncio.sleep(0)
    saving.cancel()

    saved = await ann.save("report", append={"l": [1]})

    assert saved.checkpoint == 2
    assert (await ann.load("report")).state == {"a": 0, "l": [1]}


# --- what cannot be saved ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"state": ["no", "object"]}, "state"),
        ({"append": {"l": "no list"}}, "append/l"),
        ({"plan": "one"}, "plan"),
        ({"total": -1}, "total"),
        ({"total": 1.5}, "total"),
        ({"goal": 5}, "goal"),
        ({"refs": "a.txt"}, "refs"),
        ({"refs": [""]}, "refs"),
        ({"state": {"$enc": 1}}, "state"),
        ({"state": {"a": {"$cut": 9, "path": "/never"}}}, "state"),
    ],
)
async def test_what_cannot_be_kept_is_refused_by_name(
    workspace: Workspace, arguments: dict[str, Any], where: str
) -> None:
    ann = workspace.caller("ann")

    with pytest.raises(InvalidValue) as refused:
        await ann.save("report", **arguments)

    assert refused.value.where == where
    assert not (await ann.load("report")).found


async def test_too_many_refs_are_refused(workspace: Workspace) -> None:
    with pytest.raises(TooLarge):
        await workspace.caller("ann").save("report", refs=["a"] * 1001)
