"""Whoever had to wait for a task's lock keeps it for a stint, and nobody waits for somebody at rest."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.storage.engines.folder.harness import (
    Recording,
    commit,
    drafted,
    ids,
    last_seq,
    segment,
    task_folder,
)

from holdfast_storage.core.errors import Busy, JournalReplaced
from holdfast_storage.core.records import Draft, Entry
from holdfast_storage.engines.base import Following
from holdfast_storage.engines.folder import FolderEngine, lock
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.lock import TaskLock
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.waiting import WhileWaiting

# No test that passes lasts as long.
LONG = 30.0
PATIENT = 60.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


class Watched(Disk):
    """A disk that says when somebody begins to wait for a lock, and counts who asks for one."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()
        self.asked = self.flushes = 0

    def flush_data(self, fd: int) -> None:
        self.flushes += 1
        super().flush_data(fd)

    def lock_in_turn(
        self,
        gate: int,
        fd: int,
        wait_seconds: float = 0.0,
        while_waiting: WhileWaiting | None = None,
    ) -> bool:
        self.asked += 1
        if wait_seconds:
            self.waits.set()
        return super().lock_in_turn(gate, fd, wait_seconds, while_waiting)


@contextmanager
def in_a_thread(call: Callable[[], Any]) -> Generator[Future[Any], None, None]:
    with ThreadPoolExecutor(1) as other:
        yield other.submit(call)


def commit_with_stint(folder: TaskFolder, id: str, seconds: float = LONG) -> None:
    operation = Recording(drafted(id), known=last_seq(folder))
    [refusal] = folder.commit([operation], stint_seconds=seconds)
    if refusal:
        raise refusal


def done_after_waiting(disk: Watched, holder: TaskFolder, call: Callable[[], Any]) -> None:
    """Have something done in a thread that has to wait for whoever holds the lock."""
    with holder.locked(), in_a_thread(call) as waiting:
        disk.waits.wait()
        # Now, and not only at the end: the thread must come to its own before.
        holder._lock.release()  # pyright: ignore[reportPrivateUsage]
        waiting.result()


def in_a_stint(root: Path, seconds: float = LONG) -> TaskFolder:
    """Give a task whose lock was waited for and is kept, with the record "waited" behind "held"."""
    disk = Watched()
    here, there = task_folder(root, disk), task_folder(root)
    commit(here, "held")
    done_after_waiting(disk, there, lambda: commit_with_stint(here, "waited", seconds))
    return here


def test_whoever_had_to_wait_goes_on_without_asking_for_the_lock_again(root: Path) -> None:
    here, there = in_a_stint(root), task_folder(root, lock_wait_seconds=0.05)
    operation = Recording(drafted("next"), known=last_seq(here))

    assert here.commit_at_once(operation) == [None]

    with pytest.raises(Busy):
        commit(there, "kept out")
    here.end_stint()
    commit(there, "after")
    assert ids(there) == ["held", "waited", "next", "after"]


def test_whoever_had_not_to_wait_lets_go_of_the_lock(root: Path) -> None:
    here = task_folder(root)

    commit_with_stint(here, "a")

    assert not here.has_stint
    commit(task_folder(root, lock_wait_seconds=0.05), "b")


def test_a_lock_is_kept_only_for_whoever_asks_for_a_stint(root: Path) -> None:
    disk = Watched()
    here, there = task_folder(root, disk), task_folder(root)
    commit(here, "a")
    done_after_waiting(disk, there, lambda: commit(here, "b"))

    assert not here.has_stint
    commit(task_folder(root, lock_wait_seconds=0.05), "c")


def test_after_its_stint_the_lock_is_let_go_of_by_whoever_uses_it(root: Path) -> None:
    class Clock(Watched):
        later = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.later

    disk = Clock()
    here, there = task_folder(root, disk), task_folder(root)
    commit(here, "a")
    done_after_waiting(disk, there, lambda: commit_with_stint(here, "b"))
    disk.later = LONG

    [refusal] = here.commit_at_once(Recording(drafted("c"), known=last_seq(here)))

    assert refusal is None
    assert not here.has_stint
    commit(task_folder(root, lock_wait_seconds=0.05), "d")


def test_a_lock_that_nobody_uses_is_let_go_of_when_the_stint_is_over(root: Path) -> None:
    here = in_a_stint(root, seconds=0.02)

    commit(task_folder(root), "after")

    assert not here.has_stint


def test_without_a_thread_that_sees_to_its_end_there_is_no_stint(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread_to_spare(call: Callable[[], None]) -> bool:
        return False

    monkeypatch.setattr(lock, "in_a_waiting_thread", no_thread_to_spare)

    here = in_a_stint(root)

    assert not here.has_stint


def test_the_end_of_one_stint_is_not_the_end_of_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_to: list[Callable[[], None]] = []

    def in_a_waiting_thread(call: Callable[[], None]) -> bool:
        seen_to.append(call)
        return True

    monkeypatch.setattr(lock, "in_a_waiting_thread", in_a_waiting_thread)
    path = str(root / ".lock")
    root.mkdir()
    disk = Disk()
    folder = disk.open(".", 0, at=disk.open(str(root), 0, at=None))
    ours, theirs = TaskLock(disk, "t", PATIENT), TaskLock(disk, "t", PATIENT)
    for each in (ours, theirs):
        each.open(folder)
    ours.take(path)
    ours.begin_stint(0.001)
    ours.begin_stint(LONG)
    ours.release()

    seen_to[0]()

    assert ours.has_stint
    assert not theirs.take_if_free(path)
    for each in (ours, theirs):
        each.close()


def test_a_stint_that_is_over_before_it_has_quite_begun_is_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(call: Callable[[], None]) -> bool:
        call()
        return True

    monkeypatch.setattr(lock, "in_a_waiting_thread", at_once)

    here = in_a_stint(root, seconds=0.001)

    assert not here.has_stint
    commit(task_folder(root, lock_wait_seconds=0.05), "after")


def test_a_slow_answer_keeps_no_lock_longer_than_the_stint(root: Path) -> None:
    class Slow(Recording):
        def decide(self, entries: Sequence[Entry]) -> Draft | None:
            commit(task_folder(root), "another")
            return None

    here = in_a_stint(root, seconds=0.02)

    assert here.answer_at_once(Slow(None, known=last_seq(here))) == [None]

    assert ids(task_folder(root)) == ["held", "waited", "another"]


def test_a_closed_task_keeps_no_lock(root: Path) -> None:
    here = in_a_stint(root)

    here.close()

    there = task_folder(root, lock_wait_seconds=0.05)
    commit(there, "after")
    with there.locked():
        assert here.commit_at_once(Recording(drafted("again"), last_seq(here))) == []


def test_a_folder_that_was_replaced_in_a_stint_gets_nothing_more(root: Path) -> None:
    here = in_a_stint(root)
    folder = root / "tasks" / "t"
    folder.rename(root / "tasks" / "gone")
    task_folder(root).close()
    commit(task_folder(root), "another")

    assert here.commit_at_once(Recording(drafted("next"), known=last_seq(here))) == []

    with pytest.raises(JournalReplaced):
        commit_with_stint(here, "next")
    assert ids(task_folder(root)) == ["another"]


def test_a_lock_file_that_was_deleted_in_a_stint_is_not_taken_for_the_one_that_others_have(
    root: Path,
) -> None:
    here = in_a_stint(root)
    (root / "tasks" / "t" / ".lock").unlink()

    with task_folder(root).locked(create=True):
        assert here.commit_at_once(Recording(drafted("next"), known=last_seq(here))) == []


def test_a_task_closed_in_a_stint_is_locked_by_no_child_that_was_forked_meanwhile(
    root: Path,
) -> None:
    here = in_a_stint(root)
    fd = vars(here)["_lock"].__dict__["_lock"]
    childs = os.dup(fd)

    here.close()

    commit(task_folder(root, lock_wait_seconds=0.05), "after")
    os.close(childs)


def test_a_stint_that_ends_while_somebody_reads_is_over_when_they_have(root: Path) -> None:
    here = in_a_stint(root)
    with here.locked():
        here.end_stint()

    commit(task_folder(root, lock_wait_seconds=0.05), "after")


# --- in an engine -----------------------------------------------------------------------------


async def waited(
    root: Path, wait_seconds: float = 0.0, **times: Any
) -> tuple[FolderEngine, Watched]:
    """Open an engine whose last commit had to wait for the lock, for so long at least."""
    times.setdefault("at_once_seconds", PATIENT)
    disk = Watched()
    engine = FolderEngine.open(root, disk=disk, **times)
    for number in range(10):
        await engine.commit("t", Recording(drafted(f"first-{number}"), number), is_light=True)
    there = task_folder(root)
    disk.waits.clear()
    with there.locked():
        waiting = asyncio.create_task(engine.commit("t", Recording(drafted("waited"), 10)))
        await asyncio.to_thread(disk.waits.wait)
        await asyncio.sleep(wait_seconds)
        there._lock.release()  # pyright: ignore[reportPrivateUsage]
        await waiting
    return engine, disk


async def test_a_program_that_goes_on_at_once_keeps_the_lock(root: Path) -> None:
    engine, disk = await waited(root, stint_seconds=LONG)
    asked = disk.asked

    for number in range(40):
        await engine.commit("t", Recording(drafted(f"next-{number}"), 11 + number), is_light=True)

    assert disk.asked == asked
    await engine.close()
    assert len(ids(task_folder(root))) == 51


async def test_a_program_at_rest_keeps_no_lock(root: Path) -> None:
    engine, _ = await waited(root, stint_seconds=LONG)

    await asyncio.to_thread(commit, task_folder(root), "another")

    await engine.close()


async def test_a_program_that_never_comes_back_to_its_loop_keeps_no_lock(root: Path) -> None:
    engine, _ = await waited(root, stint_seconds=0.05)

    with in_a_thread(lambda: commit(task_folder(root), "another")) as other:
        other.result(PATIENT)  # the loop's own thread waits, and nothing in it can run

    await engine.close()


async def test_waiting_for_others_does_not_make_a_disk_a_slow_one(root: Path) -> None:
    class Located(Recording):
        thread: threading.Thread | None = None

        def decide(self, entries: Sequence[Entry]) -> Draft | None:
            self.thread = threading.current_thread()
            return super().decide(entries)

    engine, _ = await waited(root, at_once_seconds=0.5, stint_seconds=LONG, wait_seconds=0.6)

    operation = Located(drafted("next"), 11)
    await engine.commit("t", operation, is_light=True)

    assert operation.thread is threading.main_thread()
    await engine.close()


def test_a_loop_that_was_closed_in_a_stint_takes_nothing_with_it(root: Path) -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    engine, disk = first.run_until_complete(waited(root, stint_seconds=LONG))
    first.close()

    async def at_once() -> None:
        operations = [Recording(drafted(f"{number}"), 11) for number in range(2)]
        before = disk.flushes
        await asyncio.gather(*(engine.commit("t", one, is_light=True) for one in operations))
        assert disk.flushes - before == 1
        await asyncio.to_thread(commit, task_folder(root), "another")
        await engine.close()

    second.run_until_complete(at_once())
    second.close()


# --- reading on while others have the lock ----------------------------------------------------


def test_what_others_noted_as_flushed_is_read_without_the_lock(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    commit(there, "b", "c")
    with there.locked():
        fresh = here.journal.read_ahead()

    assert [(seq, getattr(entry, "id", "")) for seq, entry in fresh] == [(2, "b"), (3, "c")]
    assert commit(here, "d")[0].seq == 4


def test_what_is_not_noted_as_flushed_is_not_read_ahead(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    note = root / "tasks" / "t" / ".lock"
    noted = note.read_bytes()
    commit(there, "b")
    note.write_bytes(noted)

    assert here.journal.read_ahead() == []
    assert last_seq(here) == 1


def test_damage_is_not_read_ahead(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    commit(there, "b")
    file = segment(root)
    file.write_bytes(file.read_bytes().replace(b'"id":"b"', b'"id":"x"'))

    assert here.journal.read_ahead() == []
    assert last_seq(here) == 1


def test_a_journal_that_was_put_back_after_it_was_read_ahead_is_noticed(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    before = segment(root).read_bytes()
    commit(there, "b")
    assert here.journal.read_ahead()
    segment(root).write_bytes(before)

    with pytest.raises(JournalReplaced):
        commit(here, "c")


class Follower(Recording, Following):
    """An operation that remembers what it was told of while it waited."""

    def __init__(self, id: str, known: int) -> None:
        super().__init__(drafted(id), known)
        self.told: list[str] = []
        self.knows_all = threading.Event()

    def follow(self, entries: Sequence[Entry]) -> None:
        self.told += [getattr(entry, "id", "") for entry in entries]
        self.known += len(entries)
        if self.told[-1:] == ["meanwhile"]:
            self.knows_all.set()


def test_whoever_waits_is_told_meanwhile_and_decides_on_the_rest(root: Path) -> None:
    here = task_folder(root, read_ahead_seconds=0.001)
    commit(here, "own")
    busy = in_a_stint(root)
    operation = Follower("patient", last_seq(here))

    with in_a_thread(lambda: here.commit([operation])) as waiting:
        busy.commit_at_once(Recording(drafted("meanwhile"), last_seq(busy)))
        operation.knows_all.wait()
        busy.end_stint()
        assert waiting.result() == [None]

    assert operation.told == ["held", "waited", "meanwhile"]
    assert operation.shown == [[]]
    assert ids(here) == ["own", "held", "waited", "meanwhile", "patient"]


def test_what_goes_wrong_while_somebody_waits_is_seen_again_when_they_decide(root: Path) -> None:
    class Failing(Follower):
        def follow(self, entries: Sequence[Entry]) -> None:
            self.knows_all.set()
            raise ZeroDivisionError

    here = task_folder(root, read_ahead_seconds=0.001)
    commit(here, "own")
    busy = in_a_stint(root)
    operation = Failing("patient", last_seq(here))

    with in_a_thread(lambda: here.commit([operation])) as waiting:
        operation.knows_all.wait()
        busy.end_stint()
        assert waiting.result() == [None]

    assert [getattr(entry, "id", "") for entry in operation.shown[-1]] == ["held", "waited"]


def test_whoever_ends_while_it_waits_stands_in_nobodys_way(root: Path) -> None:
    class Ended(BaseException):
        pass

    class Ending(Follower):
        def follow(self, entries: Sequence[Entry]) -> None:
            raise Ended

    here = task_folder(root, read_ahead_seconds=0.001)
    commit(here, "own")
    busy = in_a_stint(root)
    ending = Ending("ending", last_seq(here))
    with in_a_thread(lambda: here.commit([ending])) as waiting, pytest.raises(Ended):
        waiting.result()
    busy.end_stint()

    commit(task_folder(root), "after")


def test_whoever_does_not_know_what_we_read_is_not_told_of_what_follows(root: Path) -> None:
    here = task_folder(root, read_ahead_seconds=0.001)
    commit(here, "own")
    busy = in_a_stint(root)
    knows_all = Follower("told", last_seq(here))
    knows_nothing = Follower("not told", 0)

    with in_a_thread(lambda: here.commit([knows_nothing, knows_all])) as waiting:
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        busy.end_stint()
        assert waiting.result() == [None, None]

    assert knows_nothing.told == []
    assert [getattr(entry, "id", "") for entry in knows_nothing.shown[-1]] == [
        *("own", "held", "waited")
    ]


def test_reading_ahead_goes_on_where_a_portion_ended(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    commit(there, *(f"large {number}" for number in range(5)), result="x" * 20_000)

    first, then = here.journal.read_ahead(), here.journal.read_ahead()

    assert [seq for seq, _ in first] == [2, 3, 4]
    assert [seq for seq, _ in then] == [5, 6]


@pytest.mark.parametrize("words", [(2, 1), (0, 2)], ids=["another segment", "another file"])
def test_a_note_of_another_file_is_not_read_ahead_to(root: Path, words: tuple[int, int]) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    commit(there, "b")
    note = root / "tasks" / "t" / ".lock"
    said = note.read_text().split()
    said[words[0]] = f"{7:0{len(said[words[0]])}}"
    note.write_text(" ".join(said) + "\n")

    assert here.journal.read_ahead() == []


def test_another_journal_in_the_same_file_is_not_read_ahead(root: Path) -> None:
    here, there = task_folder(root), task_folder(root)
    commit(here, "a")
    commit(there, "b")
    raw = segment(root).read_bytes()
    with segment(root).open("r+b") as file:
        file.write(raw.replace(b'"id":"a"', b'"id":"A"'))

    assert here.journal.read_ahead() == []
