"""The promises of the design, one by one, through the door that everybody uses."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import ClaimReplaced, Damaged, HoldfastError, InDoubt, NotSaved
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import FolderPlace, Place


class FailingDisk(Disk):
    """A disk that takes what is written and cannot be made to keep it."""

    is_failing = False

    def flush_data(self, fd: int) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flush_data(fd)

    def flush(self, fd: int) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flush(fd)


class CountingDisk(Disk):
    """A disk that knows which descriptors were written to and not flushed since."""

    def __init__(self) -> None:
        super().__init__()
        self.unflushed: set[str] = set()

    def _name(self, fd: int) -> str:
        return str(Path(f"/proc/self/fd/{fd}").readlink())

    def write(self, fd: int, raw: bytes) -> int:
        self.unflushed.add(self._name(fd))
        return super().write(fd, raw)

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        self.unflushed.add(self._name(fd))
        return super().pwrite(fd, raw, offset)

    def flush_data(self, fd: int) -> None:
        super().flush_data(fd)
        self.unflushed.discard(self._name(fd))

    def flush(self, fd: int) -> None:
        super().flush(fd)
        self.unflushed.discard(self._name(fd))


# --- 1. durable -------------------------------------------------------------------------------


async def test_durable_everything_answered_is_there_for_somebody_who_comes_later(
    place: Place,
) -> None:
    ann = (await place.open()).caller("ann")
    saved = await ann.save("report", {"n": 1}, goal="Write it.")
    marked = await ann.mark("report", "one", {"r": 1})
    begun = await ann.begin("report", "two")
    asked = await ann.ask("report", "Go on?")

    # The first one is neither closed nor asked again.
    bob = (await place.open()).caller("bob")
    brief = await bob.load("report")

    assert (saved.revision, marked.revision, begun.revision, asked.revision) == (1, 2, 3, 4)
    assert (brief.revision, brief.goal, brief.state) == (4, "Write it.", {"n": 1})
    assert (brief.progress.done, [each.step for each in brief.running]) == (1, ["two"])
    assert [each.id for each in brief.questions] == ["q1"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="it looks into /proc")
async def test_durable_nothing_is_answered_before_the_journal_is_flushed(
    folder: FolderPlace,
) -> None:
    disk = CountingDisk()
    async with Workspace(FolderEngine.open(folder.root, disk=disk)) as workspace:
        ann = workspace.caller("ann")
        for call in (
            lambda: ann.save("report", {"n": 1}),
            lambda: ann.mark("report", "one"),
            lambda: ann.begin("report", "two"),
            lambda: ann.ask("report", "Go on?"),
            lambda: ann.finish("report", "abandoned"),
        ):
            await call()
            assert [name for name in disk.unflushed if name.endswith(".jsonl")] == []


async def test_durable_what_cannot_be_flushed_is_not_saved_and_nobody_sees_it(
    folder: FolderPlace,
) -> None:
    disk = FailingDisk()
    async with Workspace(FolderEngine.open(folder.root, disk=disk)) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {"n": 1})

        disk.is_failing = True
        for call in (
            ann.save("report", {"n": 2}),
            ann.mark("report", "one"),
            ann.begin("report", "two"),
        ):
            with pytest.raises(NotSaved) as refused:
                await call
            assert "NOT SAVED" in str(refused.value)
        disk.is_failing = False
        brief = await (await folder.open()).caller("bob").load("report")

        assert (brief.state, brief.progress.done, brief.running) == ({"n": 1}, 0, [])
        assert (await ann.save("report", {"n": 2})).checkpoint == 2
        assert (await ann.mark("report", "one")).already_done is False


# --- 2. atomic --------------------------------------------------------------------------------


async def test_atomic_a_record_cut_anywhere_is_wholly_there_or_wholly_absent(
    folder: FolderPlace,
) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1, "found": []})
    await ann.mark("report", "one", {"r": 1}, state={"n": 2}, append={"found": [1]})
    await workspace.close()
    path = folder.folder() / "journal" / "000001.jsonl"
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    seen: set[str] = set()

    for end in range(start, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        later = await folder.open()
        brief = await later.caller("bob").load("report")
        is_there = (brief.progress.done, brief.state) == (1, {"n": 2, "found": [1]})
        is_absent = (brief.progress.done, brief.state) == (0, {"n": 1, "found": []})
        assert is_there or is_absent
        assert brief.warnings == []
        seen.add("there" if is_there else "absent")
        assert is_there or end < len(whole)
        await later.close()

    assert "absent" in seen


async def test_atomic_a_refusal_leaves_nothing_of_its_operation(place: Place) -> None:
    one = await place.open()
    ann = one.caller("ann")
    await ann.save("report", {"n": 1})

    with pytest.raises(HoldfastError):
        await ann.mark("report", "one", float("nan"), state={"n": 2}, next="two")

    brief = await (await place.open()).caller("bob").load("report")
    assert (brief.state, brief.next, brief.progress.total) == ({"n": 1}, "", 0)


# --- 3. never lost between agents -------------------------------------------------------------


async def test_never_lost_between_agents_steps_and_appends_of_all_survive(place: Place) -> None:
    places = [await place.open() for _ in range(3)]
    await places[0].caller("first").save("report", {"found": []})

    async def agent(number: int) -> None:
        caller = places[number % 3].caller(f"agent {number}")
        for step in range(5):
            await caller.mark(
                "report", f"{number}-{step}", number, append={"found": [f"{number}-{step}"]}
            )

    await asyncio.gather(*(agent(number) for number in range(9)))

    brief = await (await place.open()).caller("bob").load("report")
    expected = sorted(f"{number}-{step}" for number in range(9) for step in range(5))
    assert brief.progress.done == 45
    assert sorted(brief.state["found"]) == expected
    assert brief.conflicts == []


async def test_never_lost_between_agents_saves_are_merged_by_path(place: Place) -> None:
    places = [await place.open() for _ in range(3)]
    await places[0].caller("first").save("report", {"shared": {}})
    callers = [places[number % 3].caller(f"agent {number}") for number in range(6)]
    for caller in callers:
        await caller.load("report")

    answers = await asyncio.gather(
        *(
            caller.save("report", {"shared": {f"key {number}": number}})
            for number, caller in enumerate(callers)
        )
    )

    brief = await (await place.open()).caller("bob").load("report")
    assert brief.state == {"shared": {f"key {number}": number for number in range(6)}}
    assert sorted(answer.checkpoint for answer in answers) == [2, 3, 4, 5, 6, 7]
    assert all(answer.conflicts == [] for answer in answers)


# --- 4. idempotent ----------------------------------------------------------------------------


async def test_idempotent_the_same_step_marked_by_all_at_once_has_one_effect(place: Place) -> None:
    places = [await place.open() for _ in range(3)]

    answers = await asyncio.gather(
        *(
            places[number % 3]
            .caller(f"agent {number}")
            .mark("report", "one", {"by": number}, append={"found": [number]})
            for number in range(6)
        )
    )

    [first] = [answer for answer in answers if not answer.already_done]
    assert all(answer.result == first.result for answer in answers)
    brief = await places[0].caller("bob").load("report")
    assert (brief.progress.done, brief.state) == (1, {"found": [first.result["by"]]})


async def test_idempotent_a_retried_save_is_that_save(place: Place) -> None:
    ann = (await place.open()).caller("ann")

    answers = await asyncio.gather(*(ann.save("report", {"n": 1}) for _ in range(5)))
    again = await ann.save("report", {"n": 1})

    assert {answer.checkpoint for answer in (*answers, again)} == {1}


# --- 5. no repeated side effect ---------------------------------------------------------------


async def test_no_repeated_side_effect_of_all_who_begin_a_step_one_may(place: Place) -> None:
    places = [await place.open() for _ in range(3)]

    answers = await asyncio.gather(
        *(places[n % 3].caller(f"agent {n}").begin("report", "pay") for n in range(6))
    )

    assert sum(answer.go for answer in answers) == 1
    assert len({answer.idempotency_key for answer in answers}) == 1


async def test_no_repeated_side_effect_after_a_crash_the_step_is_in_doubt(place: Place) -> None:
    crashed = await place.open()
    begun = await crashed.caller("ann").begin("report", "pay")
    await crashed.close()

    workspace = await place.open()
    bob = workspace.caller("bob")
    brief = await bob.load("report")
    with pytest.raises(InDoubt):
        [item async for item in workspace.task("report").remaining(["pay"])]
    again = await bob.begin("report", "pay")

    assert (brief.remaining, brief.in_doubt) == ([], ["pay"])
    assert (again.go, again.idempotency_key) == (False, begun.idempotency_key)


async def test_no_repeated_side_effect_only_the_newest_claim_confirms(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    first = await ann.begin("report", "pay")
    place.clock.forward(hours=1)
    bob = (await place.open()).caller("bob")
    second = await bob.begin("report", "pay")

    with pytest.raises(ClaimReplaced):
        await ann.mark("report", "pay", {"n": 1}, claim=first.claim)
    marked = await bob.mark("report", "pay", {"n": 2}, claim=second.claim)

    assert marked.result == {"n": 2}


# --- 6. people's edits survive ----------------------------------------------------------------


async def test_peoples_edits_survive_the_agents_next_save(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ada", "pages": 1})
    await place.edit(workspace, lambda view: view["state"].update(ceo="Bea"))

    saved = await ann.save("report", {"pages": 2})

    assert [(change.by, change.path) for change in saved.changes] == [("human", "/state/ceo")]
    assert (await ann.load("report")).state == {"ceo": "Bea", "pages": 2}


async def test_peoples_edits_survive_where_both_changed_the_same_value(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"ceo": "Ada"})
    await workspace.render("report")
    seen = json.loads(await place.view())
    # The agent saves while the person has the old file open.
    await ann.save("report", {"ceo": "Cleo"})
    seen["state"]["ceo"] = "Bea"
    await place.save_view(json.dumps(seen, indent=2).encode())

    brief = await ann.load("report")

    assert brief.state == {"ceo": "Bea"}
    [conflict] = brief.conflicts
    assert conflict.path == "/state/ceo"
    assert any(b"Cleo" in raw for raw in (await place.kept("conflicts")).values())


async def test_peoples_edits_survive_and_erase_no_step_recorded_meanwhile(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, plan=["one", "two", "three"])
    await workspace.render("report")
    seen = json.loads(await place.view())
    await ann.mark("report", "one")
    await ann.mark("report", "two", state={"m": 1})
    seen["goal"] = "By hand."
    await place.save_view(json.dumps(seen, indent=2).encode())

    brief = await (await place.open()).caller("bob").load("report")

    assert (brief.goal, brief.progress.done, brief.state) == ("By hand.", 2, {"n": 1, "m": 1})


async def test_peoples_edits_survive_a_prune_of_what_they_were_made_from(place: Place) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1, "other": 1})
    await workspace.render("report")
    seen = json.loads(await place.view())
    for number in range(2, 6):
        await ann.save("report", {"n": number})
    await ann.prune("report", keep_last=1, older_than_hours=0)
    await workspace.close()
    seen["goal"] = "By hand."
    await place.save_view(json.dumps(seen, indent=2).encode())

    brief = await (await place.open()).caller("bob").load("report")

    # The person changed the goal alone; what the agent saved since stands.
    assert brief.state == {"n": 5, "other": 1}
    kept = (await place.kept("conflicts")).values()
    assert brief.goal == "By hand." or any(b"By hand." in raw for raw in kept)


# --- 7. half-saved files cost nothing ---------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [b"", b'{"task": "rep', b"\xff\xfe\x00", b'{"a": 1, "a": 2}', b"[]"]
)
async def test_half_saved_files_cost_nothing(place: Place, raw: bytes) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, plan=["one"])
    await workspace.render("report")
    await place.save_view(raw)

    brief = await ann.load("report")
    marked = await ann.mark("report", "one", state={"n": 2})
    await workspace.render("report")

    assert brief.state == {"n": 1}
    assert any("state.json" in warning and "line" in warning for warning in brief.warnings)
    assert (marked.outcome, marked.already_done) == ("done", False)
    assert await place.view() == raw
    await place.save_view(b'{"task": "report", "goal": "whole again"}')
    await ann.load("report")
    assert (await ann.load("report")).state == {"n": 2}


# --- 8. broken is never empty -----------------------------------------------------------------


async def test_broken_is_never_empty_a_damaged_step_is_in_doubt(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    await ann.save("report", {"n": 1}, plan=["one", "two"])
    await ann.mark("report", "one")
    await ann.mark("report", "two")
    place.spoil(2)

    brief = await (await place.open()).caller("bob").load("report")

    assert brief.found
    assert "one" not in brief.remaining
    assert brief.in_doubt == ["one"]
    assert any("damaged" in warning for warning in brief.warnings)


async def test_broken_is_never_empty_though_the_record_that_opened_the_run_is_damaged(
    place: Place,
) -> None:
    ann = (await place.open()).caller("ann")
    for step in ("one", "two", "three"):
        await ann.mark("report", step)
    place.spoil(1)

    bob = (await place.open()).caller("bob")
    brief = await bob.load("report")
    again = await bob.mark("report", "two")

    assert brief.found
    assert brief.in_doubt == ["one"]
    assert again.already_done


async def test_broken_is_never_empty_though_the_only_record_is_damaged(place: Place) -> None:
    await (await place.open()).caller("ann").mark("report", "pay")
    place.spoil(1)
    workspace = await place.open()

    listed = (await workspace.caller("bob").list_checkpoints()).tasks
    brief = await workspace.caller("bob").load("report")

    assert [line.task for line in listed] == ["report"]
    assert brief.found
    assert brief.in_doubt == ["pay"]


# --- 9. bounded -------------------------------------------------------------------------------


async def test_bounded_a_steps_record_does_not_grow_with_their_number(folder: FolderPlace) -> None:
    ann = (await folder.open()).caller("ann")
    await ann.save("report", {"large": "x" * 5000}, plan=[f"s{n:03d}" for n in range(300)])
    for number in range(300):
        await ann.mark("report", f"s{number:03d}", {"r": 1})

    lengths = [len(line) for line in folder.lines()[1:]]

    assert max(lengths) - min(lengths) <= 4
    assert max(lengths) < 250


async def test_bounded_a_saves_record_grows_with_what_changed(folder: FolderPlace) -> None:
    ann = (await folder.open()).caller("ann")
    await ann.save("report", {"large": "x" * 50_000, "n": 0})
    for number in range(1, 50):
        await ann.save("report", {"n": number})

    assert sum(len(line) for line in folder.lines()) < 2 * 50_000


# --- 10. stays inside -------------------------------------------------------------------------


async def test_stays_inside_whatever_a_task_is_called(folder: FolderPlace) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    (folder.project.parent / "x").mkdir()

    for task in ("../x", "../../x", "/tmp/x", "..", "a/../../x"):
        await ann.save(task, {"n": 1})
        await workspace.render(task)

    assert list((folder.project.parent / "x").iterdir()) == []
    assert [path.name for path in folder.project.iterdir()] == [".holdfast"]


@pytest.mark.parametrize("change", ["swap", "drop"])
async def test_broken_is_never_empty_where_the_record_that_opened_the_run_is_lost(
    folder: FolderPlace, change: str
) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"old": 1})
    await ann.finish("report", "abandoned")
    await ann.load("report")
    await ann.save("report", {"new": 1}, plan=["one", "two"])
    await ann.mark("report", "one")
    await ann.mark("report", "two")

    def spoilt(lines: list[bytes]) -> list[bytes]:
        return [lines[1], lines[0], *lines[2:]] if change == "swap" else lines[1:]

    folder.change_lines(spoilt, segment=2)
    bob = (await folder.open()).caller("bob")
    brief = await bob.load("report")
    begun = [await bob.begin("report", step) for step in ("one", "two")]

    assert (brief.run, brief.status) == (2, "active")
    assert [each.go for each in begun] == [False, False]


async def test_broken_is_never_empty_where_all_of_a_journal_is_gone(folder: FolderPlace) -> None:
    workspace = await folder.open()
    await workspace.caller("ann").save("report", {"a": 1})
    await workspace.close()
    for segment in (folder.folder() / "journal").iterdir():
        segment.unlink()

    workspace = await folder.open()

    assert [(line.task, line.damaged) for line in await workspace.tasks()] == [("report", True)]
    with pytest.raises(Damaged):
        await workspace.caller("bob").load("report")


async def test_broken_is_never_empty_where_a_link_stands_for_a_task(folder: FolderPlace) -> None:
    workspace = await folder.open()
    await workspace.caller("ann").mark("report", "one")
    await workspace.close()
    elsewhere = folder.project / "elsewhere"
    folder.folder().rename(elsewhere)
    folder.folder().symlink_to(elsewhere)

    [line] = await (await folder.open()).tasks()

    assert (line.task, line.damaged, line.problem) == ("report", True, "it is a link")


async def test_stays_inside_where_a_link_leads_out(folder: FolderPlace) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await workspace.render("report")
    outside = folder.project / "outside.json"
    outside.write_bytes(b'{"task": "report", "state": {"n": 666}}')
    view = folder.folder() / "state.json"
    view.unlink()
    view.symlink_to(outside)

    try:
        brief: Any = await ann.load("report")
    except HoldfastError as refused:
        assert refused.code == "unsafe_file"
    else:
        assert brief.state == {"n": 1}
    assert outside.read_bytes() == b'{"task": "report", "state": {"n": 666}}'


# --- 11. explains itself ----------------------------------------------------------------------


async def test_explains_itself_check_finds_what_is_wrong_and_writes_nothing(
    folder: FolderPlace,
) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await ann.mark("report", "one")
    await workspace.close()
    healthy = await (await folder.open()).check()
    folder.spoil(2)
    before = folder.tree()

    found = await (await folder.open()).check()

    assert healthy == []
    assert [(problem.task, problem.line) for problem in found] == [("report", 2)]
    assert folder.tree() == before


async def test_explains_itself_every_refusal_says_what_to_do_next(workspace: Workspace) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"n": 1}, plan=["one", "two"])
    await ann.mark("report", "one")
    await workspace.caller("cat").begin("report", "two")

    for call in (
        bob.save("report", {"n": 2}),
        bob.mark("report", "one", outcome="failed"),
        bob.mark("report", "two", claim="another"),
        bob.finish("report"),
        bob.load("report", path="/nothing"),
        bob.load("report", checkpoint=9),
        bob.save("report", {"n": float("nan")}),
        bob.save("re\nport", {"n": 1}),
        workspace.restore("nothing"),
    ):
        with pytest.raises(HoldfastError) as refused:
            await call
        assert refused.value.hint
        assert refused.value.code != "error"
        assert refused.value.fields()
