"""What callers are told whose calls go into one write, or meet each other half way."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import InvalidValue, LoadFirst, NotSaved
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import FolderPlace, Place

TASK = "report"
PATIENCE_SECONDS = 50.0


# --- one write for several calls --------------------------------------------------------------


class HeldDisk(Disk):
    """Holds the next flush until it is let go, so that everybody who comes meanwhile waits together."""

    def __init__(self) -> None:
        self.is_reached, self._may_go_on = threading.Event(), threading.Event()
        self._may_go_on.set()
        self.is_broken = False

    def flush_data(self, fd: int) -> None:
        self.is_reached.set()
        assert self._may_go_on.wait(PATIENCE_SECONDS)
        self._fail_if_broken()
        super().flush_data(fd)

    def flush(self, fd: int) -> None:
        self._fail_if_broken()
        super().flush(fd)

    def _fail_if_broken(self) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def held(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a call and wait until it stands before its flush."""
        self.is_reached.clear()
        self._may_go_on.clear()
        begun = asyncio.create_task(call)
        assert await asyncio.to_thread(self.is_reached.wait, PATIENCE_SECONDS)
        return begun

    def let_go(self) -> None:
        self._may_go_on.set()

    async def in_one_write(
        self, workspace: Workspace, *calls: Coroutine[Any, Any, Any]
    ) -> list[Any]:
        """Let several calls, and one more behind them, wait until one write takes all of them."""
        first = await self.held(workspace.caller("first").mark(TASK, "first"))
        waiting = [await queued(call) for call in calls]
        last = await queued(workspace.caller("last").load(TASK))
        self.let_go()
        await asyncio.gather(first, last)
        return await asyncio.gather(*waiting)


async def queued(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begin a call and let it go on until it waits for the disk."""
    begun = asyncio.create_task(call)
    for _ in range(20):
        await asyncio.sleep(0)
    return begun


@pytest.fixture
def disk() -> HeldDisk:
    return HeldDisk()


@pytest.fixture
async def slow(tmp_path: Path, disk: HeldDisk) -> AsyncIterator[Workspace]:
    engine = FolderEngine.open(tmp_path / ".holdfast", disk=disk, young_view_seconds=3600.0)
    async with Workspace(engine) as workspace:
        await workspace.caller("first").save(TASK, {"a": 1})
        yield workspace


async def test_each_answer_tells_of_its_own_record_and_not_of_the_next(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann, bob = slow.caller("ann"), slow.caller("bob")

    failed, done = await disk.in_one_write(
        slow, ann.mark(TASK, "s1", outcome="failed"), bob.mark(TASK, "s1")
    )

    assert (failed.outcome, done.outcome) == ("failed", "done")
    assert (failed.progress.done, done.progress.done) == (1, 2)
    assert (failed.revision, done.revision) == (3, 4)


async def test_a_pause_is_told_as_a_pause_though_the_next_call_ends_it(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann, bob = slow.caller("ann"), slow.caller("bob")

    paused, _ = await disk.in_one_write(slow, ann.finish(TASK, "paused"), bob.mark(TASK, "s1"))

    assert (paused.status, paused.revision) == ("paused", 3)


async def test_a_persons_decision_is_answered_with_its_own_revision(
    slow: Workspace, disk: HeldDisk
) -> None:
    await slow.caller("ann").mark(TASK, "s1")

    reopened, _ = await disk.in_one_write(
        slow, slow.reopen(TASK, "s1"), slow.caller("bob").mark(TASK, "s2")
    )

    assert reopened == 4


async def test_a_claim_is_told_as_it_was_handed_out(slow: Workspace, disk: HeldDisk) -> None:
    begun, _ = await disk.in_one_write(
        slow, slow.caller("ann").begin(TASK, "s1"), slow.release(TASK, "s1")
    )

    assert (begun.go, begun.attempts, begun.revision) == (True, 1, 3)


async def test_nobody_is_told_of_its_own_changes_in_the_same_write(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann = slow.caller("ann")
    await ann.load(TASK)

    first, second = await disk.in_one_write(
        slow, ann.mark(TASK, "s1", append={"log": [1]}), ann.mark(TASK, "s2", append={"log": [2]})
    )

    assert (first.changes, second.changes) == ([], [])


async def test_ones_own_pause_is_no_news_in_the_same_write(slow: Workspace, disk: HeldDisk) -> None:
    ann = slow.caller("ann")
    await ann.load(TASK)

    _, marked = await disk.in_one_write(slow, ann.finish(TASK, "paused"), ann.mark(TASK, "s1"))

    assert marked.changes == []


async def test_a_change_between_two_calls_of_one_write_is_told(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann, bob = slow.caller("ann"), slow.caller("bob")
    await ann.load(TASK)

    _, _, marked = await disk.in_one_write(
        slow, bob.ask(TASK, "Which?"), ann.save(TASK, {"ceo": "Bea"}), bob.mark(TASK, "s1")
    )

    assert [(change.by, change.new) for change in marked.changes] == [("ann", "Bea")]


async def unaware_of_bobs_change(workspace: Workspace) -> Caller:
    """Give somebody who loaded before bob saved."""
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.load(TASK)
    await bob.load(TASK)
    await bob.save(TASK, {"ceo": "Bea"})
    return ann


async def test_a_change_is_told_though_the_same_write_brings_hundreds_after_it(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann = await unaware_of_bobs_change(slow)
    many = [
        slow.caller(f"other-{n}").save(TASK, append={f"{n}-{key}": [1] for key in range(30)})
        for n in range(20)
    ]

    marked, *_ = await disk.in_one_write(slow, ann.mark(TASK, "s1"), *many)

    assert [(change.by, change.new) for change in marked.changes] == [("bob", "Bea")]


async def test_another_agents_changes_are_told_once_in_the_same_write(
    slow: Workspace, disk: HeldDisk
) -> None:
    ann = await unaware_of_bobs_change(slow)

    first, second = await disk.in_one_write(slow, ann.mark(TASK, "s1"), ann.mark(TASK, "s2"))

    assert [change.new for change in first.changes] == ["Bea"]
    assert second.changes == []


async def test_what_was_not_saved_is_in_nobodys_memory(slow: Workspace, disk: HeldDisk) -> None:
    ann, bob, cid = slow.caller("ann"), slow.caller("bob"), slow.caller("cid")
    first = await disk.held(ann.mark(TASK, "s1"))
    disk.is_broken = True
    lost = await queued(bob.mark(TASK, "s2"))
    disk.let_go()
    for call in (first, lost):
        with pytest.raises(NotSaved):
            await call
    disk.is_broken = False

    marked = await cid.mark(TASK, "s3")

    assert (marked.revision, marked.progress.done, marked.progress.total) == (2, 1, 1)


# --- what is known of another run -------------------------------------------------------------


async def in_the_second_run(workspace: Workspace) -> Any:
    """Give somebody who knows the first run, while others are in the second."""
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, {"ceo": "Ann", "pages": 1})
    await bob.finish(TASK, "abandoned")
    await bob.load(TASK)
    await bob.save(TASK, {"ceo": "Bea", "pages": 1})
    return ann


async def test_a_step_marked_in_a_new_run_makes_nobody_know_its_state(workspace: Workspace) -> None:
    ann = await in_the_second_run(workspace)
    await ann.mark(TASK, "s1")

    with pytest.raises(LoadFirst):
        await ann.save(TASK, {"ceo": "Cid"})


async def test_an_append_in_a_new_run_makes_nobody_know_its_state(workspace: Workspace) -> None:
    ann = await in_the_second_run(workspace)
    await ann.save(TASK, append={"log": [1]})

    with pytest.raises(LoadFirst):
        await ann.save(TASK, {"ceo": "Cid"})


async def test_a_step_begun_in_a_new_run_makes_nobody_know_its_state(workspace: Workspace) -> None:
    ann = await in_the_second_run(workspace)
    await ann.begin(TASK, "s1")

    with pytest.raises(LoadFirst):
        await ann.save(TASK, {"ceo": "Cid"})


async def test_a_revision_does_not_reach_into_a_run_that_opens_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await place.open()
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    seen = await ann.save(TASK, {"ceo": "Ann"})
    note = workspace._refs.note  # pyright: ignore[reportPrivateUsage]

    async def note_late(refs: Any) -> Any:
        # Ann's base is read, and her save not yet decided.
        monkeypatch.undo()
        await bob.finish(TASK, "abandoned")
        await bob.load(TASK)
        await bob.save(TASK, {"ceo": "Bea"})
        return await note(refs)

    monkeypatch.setattr(workspace._refs, "note", note_late)  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(InvalidValue, match="over"):
        await ann.save(TASK, {"pages": 1}, revision=seen.revision)

    assert (await bob.load(TASK)).state == {"ceo": "Bea"}


# --- reading while others write ---------------------------------------------------------------


def before_the_next_fetch(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace, happen: Awaitable[Any]
) -> None:
    """Let something happen between learning where a line lies and reading it."""
    engine: Any = workspace._engine  # pyright: ignore[reportPrivateUsage]
    fetch = engine.fetch

    async def fetch_late(*arguments: Any) -> Any:
        monkeypatch.undo()
        await happen
        return await fetch(*arguments)

    monkeypatch.setattr(engine, "fetch", fetch_late)


async def test_a_list_of_steps_is_of_one_moment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save(TASK, plan=["s1", "s2"])
    await ann.mark(TASK, "s1", result=1)
    before_the_next_fetch(monkeypatch, workspace, bob.begin(TASK, "s2"))

    steps = (await ann.list_checkpoints(TASK, show="steps")).steps

    assert [(each.status, each.attempts) for each in steps] == [("done", 1), ("pending", 0)]


async def test_an_old_checkpoint_is_shown_while_somebody_prunes_others(
    folder: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, workspace = await folder.open(), await folder.open()
    ann = other.caller("ann")
    for pages in range(4):
        await ann.save(TASK, {"pages": pages, "text": "long" * pages})
    prune = other.prune(TASK, keep_last=2, older_than_hours=0)
    before_the_next_fetch(monkeypatch, workspace, prune)

    shown = await workspace.state_at(TASK, 3)

    assert shown == {"pages": 2, "text": "longlong"}


async def test_a_first_result_is_told_whatever_happens_to_its_record_meanwhile(
    folder: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, other = await folder.open(), await folder.open()
    ann, bob = workspace.caller("ann"), other.caller("bob")
    for pages in range(4):
        await ann.save(TASK, {"pages": pages})
    await ann.mark(TASK, "s1", result=1)

    async def prune_and_begin_another_run() -> None:
        await other.prune(TASK, keep_last=1, older_than_hours=0)
        await bob.load(TASK)
        await bob.finish(TASK, "abandoned")
        await bob.load(TASK)
        await bob.mark(TASK, "s1", result=3)

    before_the_next_fetch(monkeypatch, workspace, prune_and_begin_another_run())

    again = await ann.mark(TASK, "s1", result=2)

    assert (again.already_done, again.result, again.differs) == (True, 1, True)
