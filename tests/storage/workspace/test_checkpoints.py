"""Checkpoints are listed, looked at, gone back to, let go of and brought back, always exactly."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.processes import opened

from holdfast_storage.core.errors import InvalidName, InvalidValue, Unavailable, Unknown
from holdfast_storage.engines.memory import MemoryEngine, MemoryStore
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.storage.workspace.conftest import FolderPlace, Place

    from holdfast_storage.caller import Caller
    from holdfast_storage.core.fold import Checkpoint, Fold
    from holdfast_storage.results import Listing


async def pages(caller: Caller, task: str = "", **what: Any) -> list[Listing]:
    found = [await caller.list_checkpoints(task, **what)]
    while found[-1].cursor:
        found.append(await caller.list_checkpoints(task, cursor=found[-1].cursor, **what))
    return found


# --- listing ----------------------------------------------------------------------------------


async def test_tasks_are_listed_in_pages_that_miss_and_repeat_none(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    for number in range(7):
        await ann.save(f"task-{number}", {"n": number}, goal=f"goal {number}", plan=["one"])

    found = await pages(ann, limit=3)

    lines = [line for page in found for line in page.tasks]
    assert [len(page.tasks) for page in found] == [3, 3, 1]
    assert sorted(line.task for line in lines) == [f"task-{number}" for number in range(7)]
    assert (lines[0].status, lines[0].by, lines[0].progress.total) == ("active", "ann", 1)
    assert lines[0].goal.startswith("goal ")
    assert lines[0].updated_at == "2026-03-01T09:00:00.000Z"


async def test_tasks_are_listed_by_status(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    for number in range(6):
        await ann.save(f"task-{number}", {"n": number})
        if number % 2:
            await ann.finish(f"task-{number}")

    found = await pages(ann, status="done", limit=2)

    lines = [line for page in found for line in page.tasks]
    assert sorted(line.task for line in lines) == ["task-1", "task-3", "task-5"]
    assert all(len(page.tasks) <= 2 for page in found)


async def test_a_listing_is_right_after_the_views_were_rendered(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.save("report", {"n": 1}, next="first")
    await one.render("report")
    await ann.save("report", {"n": 2}, next="second")

    [line] = (await two.caller("bob").list_checkpoints()).tasks

    assert line.next == "second"


async def test_checkpoints_are_listed_newest_first_in_pages(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    for number in range(1, 8):
        await ann.save("report", {"n": number}, label=f"l{number}")

    found = await pages(ann, "report", limit=3)

    lines = [line for page in found for line in page.checkpoints]
    assert [line.checkpoint for line in lines] == [7, 6, 5, 4, 3, 2, 1]
    assert [len(page.checkpoints) for page in found] == [3, 3, 1]
    assert (lines[0].label, lines[0].run, lines[0].available) == ("l7", 1, True)
    assert lines[0].bytes > 0


async def test_steps_are_listed_in_order_in_pages_and_by_status(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=[f"s{number}" for number in range(7)])
    for number in (1, 3, 5):
        await ann.mark("report", f"s{number}", number)

    every = await pages(ann, "report", show="steps", limit=3)
    done = await pages(ann, "report", show="steps", status="done", limit=2)

    assert [line.step for page in every for line in page.steps] == [f"s{n}" for n in range(7)]
    assert [(line.step, line.result) for page in done for line in page.steps] == [
        ("s1", 1),
        ("s3", 3),
        ("s5", 5),
    ]


async def test_events_are_listed_newest_first_in_pages(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, goal="g")
    for number in range(5):
        await ann.mark("report", f"s{number}")
    await ann.save("report", {"n": 2})

    found = await pages(ann, "report", show="events", limit=3)

    events = [event for page in found for event in page.events]
    assert [event.seq for event in events] == [7, 6, 5, 4, 3, 2, 1]
    assert (events[0].op, events[0].by) == ("save", "ann")
    assert events[0].about["changed"] == ["/state/n"]
    assert events[1].about["step"] == "s4"
    assert "/goal" in events[-1].about["changed"]


async def test_a_persons_edit_is_an_event_with_an_author(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, plan=["one"])
    await ann.ask("report", "Go on?")

    def change(view: dict[str, Any]) -> None:
        view["state"]["n"] = 2
        view["plan"]["one"] = "done"
        view["questions"][0]["answer"] = "yes"

    await place.edit(workspace, change)
    [newest, *_] = (await ann.list_checkpoints("report", show="events")).events

    assert (newest.op, newest.by) == ("edit", "human")
    assert sorted(newest.about["changed"]) == ["/plan/one", "/questions/q1/answer", "/state/n"]


async def test_a_damaged_record_is_an_event_too(memory: Place) -> None:
    ann = (await memory.open()).caller("ann")
    await ann.save("report", {"n": 1})
    await ann.mark("report", "one")
    memory.spoil(2)

    events = (
        await (await memory.open()).caller("bob").list_checkpoints("report", show="events")
    ).events

    assert [event.op for event in events] == ["damaged", "save"]


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": True}, "limit"),
        ({"show": "everything"}, "show"),
        ({"cursor": "abc"}, "cursor"),
        ({"cursor": "-1"}, "cursor"),
        ({"cursor": "9" * 30}, "cursor"),
        ({"cursor": "9" * 5000}, "cursor"),
    ],
)
@pytest.mark.parametrize("show", ["checkpoints", "steps", "events"])
async def test_no_page_where_there_is_none(
    workspace: Workspace, arguments: dict[str, Any], where: str, show: Any
) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})

    with pytest.raises(InvalidValue) as refused:
        await ann.list_checkpoints("report", **({"show": show} | arguments))

    assert refused.value.where == where


async def test_an_unknown_task_has_no_pages(workspace: Workspace) -> None:
    with pytest.raises(Unknown):
        await workspace.caller("ann").list_checkpoints("nothing")


# --- going back and comparing -----------------------------------------------------------------


async def test_rewinding_is_a_save_and_done_steps_stay_done(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await ann.save("report", {"n": 1, "old": None, "gone": 1}, next="first", replace=True)
    await ann.mark("report", "one")
    await ann.save("report", {"n": 2, "gone": None, "new": 1}, next="second")

    saved = await two.rewind("report", 1, by="human:zoe")

    assert (saved.run, saved.checkpoint, saved.revision) == (1, 3, 4)
    brief = await one.caller("bob").load("report")
    assert (brief.state, brief.next) == ({"n": 1, "old": None, "gone": 1}, "first")
    assert (brief.progress.done, brief.saved_by) == (1, "human:zoe")
    [newest, *_] = (await ann.list_checkpoints("report")).checkpoints
    assert newest.restored_from == 1
    # The agent that goes on is told.
    assert {change.path for change in (await ann.mark("report", "two")).changes} >= {"/state/n"}


async def test_rewinding_to_a_checkpoint_without_next_clears_it(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await ann.save("report", {"n": 2}, next="second")

    await workspace.rewind("report", 1)

    assert (await ann.load("report")).next == ""


async def test_rewinding_a_finished_task_opens_a_run(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await ann.save("report", {"n": 2})
    await ann.finish("report")

    saved = await workspace.rewind("report", 1)

    assert (saved.run, saved.checkpoint) == (2, 3)
    assert (await ann.load("report")).state == {"n": 1}


async def test_nothing_can_be_rewound_to_what_never_was(workspace: Workspace) -> None:
    with pytest.raises(Unknown) as task:
        await workspace.rewind("nothing", 1)
    await workspace.caller("ann").save("report", {"n": 1})
    with pytest.raises(Unknown) as checkpoint:
        await workspace.rewind("report", 9)

    assert (task.value.kind, checkpoint.value.kind) == ("task", "checkpoint")
    assert checkpoint.value.similar == ["1"]


async def test_a_difference_names_each_value(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"same": 1, "set": {"x": 1}, "list": [1], "gone": True})
    await ann.save("report", {"set": {"x": 2}, "list": [1, 2], "gone": None, "new": 1})
    await ann.mark("report", "one", state={"new": 2})

    between = await workspace.diff("report", 1, 2)
    until_now = await workspace.diff("report", 2)

    assert [(each.path, each.old, each.new) for each in between] == [
        ("/gone", True, None),
        ("/list", [1], [1, 2]),
        ("/new", None, 1),
        ("/set/x", 1, 2),
    ]
    assert [(each.path, each.old, each.new) for each in until_now] == [("/new", 1, 2)]
    assert await workspace.diff("report", 2, 2) == []


# --- letting go -------------------------------------------------------------------------------


async def saved(caller: Caller, count: int, task: str = "report", **more: Any) -> None:
    for number in range(1, count + 1):
        await caller.save(task, {"n": number, "long": f"{number}" * 500, f"k{number}": 1}, **more)


async def test_prune_says_what_goes_and_what_stays_and_why(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await saved(ann, 2)
    await ann.save("report", {"n": 3}, milestone=True)
    await saved(ann, 2)
    await workspace.pin("report", 2)
    place.clock.forward(hours=30)
    await saved(ann, 3)

    pruned = await ann.prune("report", keep_last=2)

    assert [(line.checkpoint, line.why) for line in pruned.removed] == [
        (1, "older than 24 h and not among the newest 2"),
        (4, "older than 24 h and not among the newest 2"),
        (5, "older than 24 h and not among the newest 2"),
    ]
    assert [(line.checkpoint, line.why) for line in pruned.kept] == [
        (2, "pinned"),
        (3, "milestone"),
        (6, "younger than 24 h"),
        (7, "among the newest 2"),
        (8, "the newest"),
    ]
    assert pruned.freed_bytes > 0
    assert pruned.restorable_until == "2026-03-03T15:00:00.000Z"
    assert len(pruned.trash) == 1
    lines = (await ann.list_checkpoints("report")).checkpoints
    assert [line.checkpoint for line in lines if not line.available] == [5, 4, 1]


async def test_a_dry_run_changes_nothing(folder: FolderPlace) -> None:
    workspace = await folder.open()
    await saved(workspace.caller("ann"), 5)
    await workspace.close()  # so that nothing is left to be rendered
    ann = (await folder.open()).caller("ann")
    before = folder.tree()

    dry = await ann.prune("report", keep_last=1, older_than_hours=0, dry_run=True)

    assert folder.tree() == before
    assert [line.checkpoint for line in dry.removed] == [1, 2, 3, 4]
    assert (dry.dry_run, dry.trash, dry.restorable_until) == (True, [], "")
    wet = await ann.prune("report", keep_last=1, older_than_hours=0)
    assert (wet.removed, wet.freed_bytes) == (dry.removed, dry.freed_bytes)


async def test_the_newest_always_stays(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 3)

    pruned = await ann.prune("report", keep_last=0, older_than_hours=0)

    assert [line.checkpoint for line in pruned.kept] == [3]
    assert (await ann.load("report")).state["n"] == 3


async def test_pruning_again_finds_nothing_more(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 4)
    await ann.prune("report", keep_last=2, older_than_hours=0)

    again = await ann.prune("report", keep_last=2, older_than_hours=0)

    assert (again.removed, again.freed_bytes, again.trash) == ([], 0, [])
    assert [line.checkpoint for line in again.kept] == [3, 4]


async def test_a_star_prunes_every_task(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 3, "one")
    await saved(ann, 3, "two")

    pruned = await workspace.prune("*", keep_last=1, older_than_hours=0, by="human:zoe")

    assert sorted((line.task, line.checkpoint) for line in pruned.removed) == [
        *(("one", 1), ("one", 2), ("two", 1), ("two", 2)),
    ]
    assert len(pruned.trash) == 2
    [newest, *_] = (await ann.list_checkpoints("one", show="events")).events
    assert (newest.op, newest.by) == ("prune", "human:zoe")


async def test_pruning_is_no_sign_of_life(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await saved(ann, 3)
    place.clock.forward(hours=1)

    await ann.prune("report", keep_last=1, older_than_hours=0)

    [line] = (await ann.list_checkpoints()).tasks
    assert line.updated_at == "2026-03-01T09:00:00.000Z"


@pytest.mark.parametrize(
    "arguments",
    [{"keep_last": -1}, {"keep_last": 1.5}, {"older_than_hours": -1}, {"older_than_hours": "1"}],
)
async def test_prune_refuses_what_is_no_number(
    workspace: Workspace, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidValue):
        await workspace.prune("report", **arguments)


async def test_prune_of_nothing_is_unknown(workspace: Workspace) -> None:
    with pytest.raises(Unknown):
        await workspace.prune("nothing")
    assert (await workspace.prune("*")).removed == []


async def test_results_and_steps_are_right_after_a_prune_elsewhere(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    for number in range(6):
        await ann.save("report", {"n": number, "long": "x" * 300})
        await ann.mark("report", f"s{number}", {"r": number})
    # Both have a warm memory of where each record lies.
    await ann.load("report")
    await bob.load("report")

    await two.prune("report", keep_last=1, older_than_hours=0)

    for number in range(6):
        again = await ann.mark("report", f"s{number}", {"r": number})
        assert (again.already_done, again.differs) == (True, False)
        begun = await one.caller("cat").begin("report", f"s{number}")
        assert begun.result == {"r": number}
    steps = (await ann.list_checkpoints("report", show="steps")).steps
    assert [line.result for line in steps] == [{"r": number} for number in range(6)]
    assert (await ann.load("report")).state == {"n": 5, "long": "x" * 300}
    assert (await ann.save("report", {"n": 6})).checkpoint == 7
    assert await one.state_at("report", 7) == {"n": 6, "long": "x" * 300}


async def test_retention_runs_when_a_run_ends(place: Place) -> None:
    place.write_settings(
        b'{"format": 1, "workspace": "w", "retention": {"keep_last": 2, "older_than_hours": 0}}'
    )
    workspace = await place.open()
    ann = workspace.caller("ann")
    await saved(ann, 5)
    before = (await ann.list_checkpoints("report")).checkpoints

    await ann.finish("report")

    after = (await ann.list_checkpoints("report")).checkpoints
    assert all(line.available for line in before)
    assert [line.checkpoint for line in after if line.available] == [5, 4]
    [newest, *_] = (await ann.list_checkpoints("report", show="events")).events
    assert (newest.op, newest.by) == ("prune", "retention")


async def test_retention_runs_when_a_person_ends_a_run(place: Place) -> None:
    place.write_settings(
        b'{"format": 1, "workspace": "w", "retention": {"keep_last": 2, "older_than_hours": 0}}'
    )
    workspace = await place.open()
    ann = workspace.caller("ann")
    await saved(ann, 5)

    await workspace.finish("report")

    lines = (await ann.list_checkpoints("report")).checkpoints
    assert [line.checkpoint for line in lines if line.available] == [5, 4]


async def test_a_pin_holds_until_it_is_taken_off(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 3)
    first = await workspace.pin("report", 1)
    again = await workspace.pin("report", 1)
    held = await ann.prune("report", keep_last=1, older_than_hours=0)
    listed = (await ann.list_checkpoints("report")).checkpoints
    await workspace.pin("report", 1, pinned=False)
    taken = await ann.prune("report", keep_last=1, older_than_hours=0)

    assert first == again
    assert [line.checkpoint for line in held.removed] == [2]
    assert [line.checkpoint for line in listed if line.pinned] == [1]
    assert [line.checkpoint for line in taken.removed] == [1]


async def test_a_checkpoint_of_an_older_run_can_be_pinned(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 2)
    await ann.finish("report")
    await ann.load("report")
    await ann.save("report", {"n": 9})

    await workspace.pin("report", 1)
    pruned = await ann.prune("report", keep_last=1, older_than_hours=0)

    assert [line.checkpoint for line in pruned.removed] == [2]
    assert (await workspace.state_at("report", 1))["n"] == 1


async def test_only_a_checkpoint_that_exists_can_be_pinned(workspace: Workspace) -> None:
    await workspace.caller("ann").save("report", {"n": 1})

    with pytest.raises(Unknown):
        await workspace.pin("report", 9)
    with pytest.raises(InvalidName):
        await workspace.pin("\ud800", 1)


# --- bringing back ----------------------------------------------------------------------------


async def test_what_prune_took_comes_back_exactly(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann = one.caller("ann")
    await saved(ann, 6)
    states = [await one.state_at("report", number) for number in range(1, 7)]
    pruned = await ann.prune("report", keep_last=1, older_than_hours=0)
    with pytest.raises(Unavailable):
        await two.state_at("report", 1)

    [trashed] = await two.trash()
    brought_back = await two.restore(trashed.name, by="human:zoe")

    assert [trashed.name] == pruned.trash
    assert (trashed.task, trashed.checkpoints) == ("report", (1, 2, 3, 4, 5))
    assert brought_back.checkpoints == (1, 2, 3, 4, 5)
    assert [await one.state_at("report", number) for number in range(1, 7)] == states
    assert all(line.available for line in (await ann.list_checkpoints("report")).checkpoints)
    assert await two.trash() == []
    assert (await ann.load("report")).state == states[-1]


async def test_what_was_restored_can_be_pruned_again(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await saved(ann, 4)
    [name] = (await ann.prune("report", keep_last=1, older_than_hours=0)).trash
    await workspace.restore(name)

    again = await ann.prune("report", keep_last=2, older_than_hours=0)

    assert [line.checkpoint for line in again.removed] == [1, 2]
    assert (await workspace.state_at("report", 3))["n"] == 3


@pytest.mark.parametrize("name", ["nothing", "../../etc", "", ".", "..", "a/b", "\ud800", "x\x00"])
async def test_only_what_prune_took_can_be_restored(workspace: Workspace, name: str) -> None:
    await workspace.caller("ann").save("report", {"n": 1})

    with pytest.raises((Unknown, InvalidName)):
        await workspace.restore(name)


async def test_checkpoint_files_follow_what_is_there(folder: FolderPlace) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 0}, label="Start here", milestone=True)
    await saved(ann, 7)
    await workspace.render("report")
    shown = sorted(await folder.kept("checkpoints"))

    [name] = (await ann.prune("report", keep_last=2, older_than_hours=0)).trash
    await workspace.render("report")
    after = sorted(await folder.kept("checkpoints"))
    await workspace.restore(name)
    await workspace.render("report")

    assert shown == ["0001-start-here.json", *(f"000{n}.json" for n in range(4, 9))]
    assert after == ["0001-start-here.json", "0007.json", "0008.json"]
    assert sorted(await folder.kept("checkpoints")) == shown
    assert json.loads((await folder.kept("checkpoints"))["0008.json"])["state"]["n"] == 7


# --- always exactly ---------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner),
    max_leaves=5,
)
states = st.dictionaries(st.text("abc~/", min_size=1, max_size=2), values, max_size=4)
saves = st.tuples(st.just("save"), states, st.booleans())
prunes = st.tuples(st.just("prune"), st.integers(0, 4), st.sets(st.integers(1, 12), max_size=2))
other = st.sampled_from([("restore",), ("mark",), ("finish",), ("reopen process",)])


@given(story=st.lists(saves | saves | prunes | other, min_size=1, max_size=25))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_kept_checkpoint_rebuilds_exactly_whatever_went(
    story: Sequence[tuple[Any, ...]],
) -> None:
    asyncio.run(_tell(story))


async def _tell(story: Sequence[tuple[Any, ...]]) -> None:
    store, expected = MemoryStore(), dict[int, dict[str, Any]]()
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def clock() -> datetime:
        nonlocal now
        now += timedelta(hours=1)
        return now

    writer = await Workspace(MemoryEngine(store), clock=clock).__aenter__()
    reader = await Workspace(MemoryEngine(store), clock=clock).__aenter__()
    ann = writer.caller("ann")
    gone: set[int] = set()
    for number, (what, *how) in enumerate(story):
        if what == "save":
            await ann.load("report")
            new = await ann.save("report", how[0], replace=how[1], label=f"l{number}")
            expected[new.checkpoint] = (await ann.load("report", max_tokens=10**6)).state
        elif not expected:
            continue
        elif what == "prune":
            for pinned in how[1] & expected.keys():
                await reader.pin("report", pinned)
            pruned = await reader.prune("report", keep_last=how[0], older_than_hours=0)
            gone |= {line.checkpoint for line in pruned.removed}
        elif what == "restore":
            for trashed in await reader.trash():
                await reader.restore(trashed.name)
            gone.clear()
        elif what == "mark":
            await ann.load("report")
            await ann.mark("report", f"s{number}", state={f"m{number}": number})
        elif what == "finish":
            await ann.finish("report", "abandoned")
        else:
            writer = await Workspace(MemoryEngine(store), clock=clock).__aenter__()
            ann = writer.caller("ann")
        await _look(reader, expected, gone)
        await _look(await Workspace(MemoryEngine(store), clock=clock).__aenter__(), expected, gone)


async def _look(workspace: Workspace, expected: dict[int, dict[str, Any]], gone: set[int]) -> None:
    for number, state in expected.items():
        if number in gone:
            with pytest.raises(Unavailable):
                await workspace.state_at("report", number)
        else:
            assert await workspace.state_at("report", number) == state
    brief = await workspace.caller("bob").load("report", max_tokens=10**6)
    assert brief.warnings == []
    assert await workspace.check() == []


async def test_large_checkpoints_are_not_read_again_to_make_no_files_of_them(
    folder: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After the first one a view is rendered only when that is asked for.
    async with opened(folder.root, young_view_seconds=3600.0) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {f"k{n}": "x" * 90 for n in range(1_000)})
        await workspace.render("report")
        for number in range(7):
            await ann.save("report", {"k3": f"{number}"}, milestone=number == 1)
        read: list[int] = []
        state_of = workspace.desk.state_of

        async def noted(task: str, kept: Checkpoint, fold: Fold) -> dict[str, Any]:
            read.append(kept.number)
            return await state_of(task, kept, fold)

        monkeypatch.setattr(workspace.desk, "state_of", noted)
        await workspace.render("report")

    assert read == [3]  # the milestone
    assert [path.name for path in (folder.folder() / "checkpoints").iterdir()] == ["0003.json"]


async def test_nor_are_those_that_hold_a_whole_state_each(
    folder: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    for number in range(7):
        await ann.save("report", {"text": f"{number}" * 100_000}, replace=True)

    async def none_is(task: str, kept: Checkpoint, fold: Fold) -> dict[str, Any]:
        raise AssertionError(f"checkpoint {kept.number} was read")

    monkeypatch.setattr(workspace.desk, "state_of", none_is)
    await workspace.render("report")

    assert not await folder.kept("checkpoints")


async def test_a_small_checkpoint_after_large_ones_is_shown_and_so_are_those_after_it(
    folder: FolderPlace,
) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"kept": 1, "large": "x" * 100_000})
    await ann.save("report", {"more": 1})
    await ann.save("report", {"large": None})
    await ann.save("report", {"more": 2})

    await workspace.render("report")

    assert sorted(await folder.kept("checkpoints")) == ["0003.json", "0004.json"]
