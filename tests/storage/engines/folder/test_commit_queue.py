"""Which thread commits: the loop's own for what is light and alone on a quick disk, else another."""

# One moment comes about only by chance, so it is made by reaching inside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.storage.engines.folder.harness import (
    CountingDisk,
    Recording,
    Refusing,
    commit,
    drafted,
    ids,
    task_folder,
)

from holdfast_storage.core.errors import JournalReplaced
from holdfast_storage.core.records import Draft, Entry
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk

# However slow the machine is today, a commit counts as quick.
PATIENT = 60.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


class Watched(Recording):
    """An operation that remembers which thread it was decided in."""

    is_in_loop: bool | None = None

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        self.is_in_loop = threading.current_thread() is threading.main_thread()
        return super().decide(entries)


async def committed(
    engine: FolderEngine, id: str, *, known: int = 10, is_light: bool = True
) -> Watched:
    operation = Watched(drafted(id), known)
    await engine.commit("t", operation, is_light=is_light)
    return operation


async def convinced(root: Path, disk: Disk | None = None, **times: Any) -> FolderEngine:
    """Open an engine that has seen ten quick commits."""
    times.setdefault("at_once_seconds", PATIENT)
    engine = FolderEngine.open(root, disk=disk, **times)
    for number in range(10):
        await committed(engine, f"first-{number}", known=number)
    return engine


async def test_a_light_operation_that_comes_alone_is_committed_in_the_loops_thread(
    root: Path,
) -> None:
    engine = await convinced(root)

    light = await committed(engine, "light")
    heavy = await committed(engine, "heavy", known=11, is_light=False)

    await engine.close()
    assert (light.is_in_loop, heavy.is_in_loop) == (True, False)
    assert ids(task_folder(root))[-2:] == ["light", "heavy"]


async def asked(engine: FolderEngine, *, known: int) -> Watched:
    question = Watched(None, known)
    if not engine.answers_at_once("t", question):
        await engine.commit("t", question, is_light=True)
    return question


async def test_a_question_after_one_quick_commit_is_answered_in_the_loops_thread(
    root: Path,
) -> None:
    engine = FolderEngine.open(root, at_once_seconds=PATIENT)
    first = await committed(engine, "first", known=0)

    question = await asked(engine, known=1)

    await engine.close()
    assert (first.is_in_loop, question.is_in_loop) == (False, True)
    assert question.accepted


@pytest.fixture
async def closed(root: Path) -> AsyncIterator[FolderEngine]:
    """An engine that wrote to a task, and then to another, which is all that it keeps open."""
    engine = FolderEngine.open(root, at_once_seconds=PATIENT, hot_tasks=1)
    await committed(engine, "first", known=0)
    await engine.commit("another", Watched(drafted("other"), 0))
    yield engine
    await engine.close()


async def test_a_question_to_a_task_that_was_closed_meanwhile_opens_it_in_the_loops_thread(
    closed: FolderEngine,
) -> None:
    question = await asked(closed, known=1)

    assert question.is_in_loop
    assert question.accepted


async def test_the_first_question_to_a_task_tidies_up_after_the_dead(root: Path) -> None:
    """Whoever has only read it has not, and what is answered in the loop's thread does not."""
    before = FolderEngine.open(root)
    await committed(before, "first", known=0)
    await before.close()
    left = root / "tasks" / "t" / ".new.0123456789abcdef"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    engine = FolderEngine.open(root, at_once_seconds=PATIENT)
    await engine.prepare()
    _ = [portion async for portion in engine.read("t", 0)]
    folder = engine._task("t")  # pyright: ignore[reportPrivateUsage]

    assert folder.commit_at_once(Watched(None, 1)) == []
    await asked(engine, known=1)

    await engine.close()
    assert not left.exists()


async def test_where_opening_takes_long_closed_tasks_are_opened_in_a_thread(root: Path) -> None:
    class Slow(Disk):
        pause = 0.0

        def open(self, name: str, flags: int, mode: int = 0, *, at: int | None) -> int:
            time.sleep(self.pause)
            return super().open(name, flags, mode, at=at)

    disk = Slow()
    engine = FolderEngine.open(root, disk=disk, at_once_seconds=0.02, hot_tasks=1)
    other = FolderEngine.open(root)
    for task in "abcdef":
        await engine.commit(task, Watched(drafted("first"), 0))
        # Else there would be nothing to open it for.
        await other.commit(task, Watched(drafted("second"), 1))
    await other.close()
    disk.pause = 0.02
    questions = [Watched(None, 2) for _ in "abcde"]

    for task, question in zip("abcde", questions, strict=True):
        if not engine.answers_at_once(task, question):
            await engine.commit(task, question, is_light=True)

    await engine.close()
    # The first may have had to find out.
    assert [question.is_in_loop for question in questions[1:]] == [False] * 4


async def test_what_others_wrote_to_a_task_while_it_was_closed_is_seen(
    closed: FolderEngine, root: Path
) -> None:
    commit(task_folder(root), "theirs")

    question = await asked(closed, known=1)

    assert [len(entries) for entries in question.shown] == [1]


async def test_a_journal_that_was_replaced_while_its_task_was_closed_is_not_taken_for_the_old_one(
    closed: FolderEngine, root: Path
) -> None:
    [segment] = (root / "tasks" / "t" / "journal").iterdir()
    copy = segment.with_name("copy")
    copy.write_bytes(segment.read_bytes())
    copy.rename(segment)

    with pytest.raises(JournalReplaced):
        await asked(closed, known=1)


async def test_a_task_that_was_deleted_while_it_was_closed_is_not_made_again_by_a_question(
    closed: FolderEngine, root: Path
) -> None:
    shutil.rmtree(root / "tasks" / "t")

    with pytest.raises(JournalReplaced):
        await asked(closed, known=1)

    assert not (root / "tasks" / "t").exists()


async def test_a_question_to_a_slow_disk_is_left_to_a_thread(root: Path) -> None:
    class Slow(Disk):
        is_slow = False

        def pread(self, fd: int, size: int, offset: int) -> bytes:
            if self.is_slow:
                time.sleep(0.02)
            return super().pread(fd, size, offset)

    disk = Slow()
    engine = FolderEngine.open(root, disk=disk, at_once_seconds=0.01)
    disk.is_slow = True
    await committed(engine, "first", known=0)

    threads = [(await asked(engine, known=1)).is_in_loop for _ in range(3)]

    await engine.close()
    assert threads == [False, False, False]


async def test_quick_answers_do_not_tell_that_the_disk_is_quick(root: Path) -> None:
    engine = FolderEngine.open(root, at_once_seconds=PATIENT)
    await committed(engine, "first", known=0)
    for _ in range(20):
        await asked(engine, known=1)

    operation = await committed(engine, "second", known=1)

    await engine.close()
    assert not operation.is_in_loop


async def test_a_question_waits_for_what_was_put_before_it(root: Path) -> None:
    engine = await convinced(root)

    before, question = await asyncio.gather(committed(engine, "a"), asked(engine, known=10))

    await engine.close()
    assert [entry.seq for entry in question.shown[-1]] == [11]
    assert before.accepted


async def test_a_question_that_is_refused_is_the_callers(root: Path) -> None:
    engine = await convinced(root)

    with pytest.raises(ValueError, match="refused"):
        engine.answers_at_once("t", Refusing(known=10))
    question = await asked(engine, known=10)

    await engine.close()
    assert question.is_in_loop


async def test_whoever_commits_again_and_again_lets_timers_run(root: Path) -> None:
    engine = await convinced(root)
    alarm = asyncio.create_task(asyncio.sleep(0.001))

    for number in range(100):
        await committed(engine, f"{number}", known=10 + number)

    assert alarm.done()
    await engine.close()


async def test_light_operations_at_once_go_to_a_thread_and_share_a_flush(root: Path) -> None:
    disk = CountingDisk()
    engine = await convinced(root, disk)
    before = disk.flushes

    many = await asyncio.gather(*(committed(engine, f"{n}") for n in range(100)))

    await engine.close()
    assert disk.flushes - before == 1
    assert not any(operation.is_in_loop for operation in many)
    assert len(ids(task_folder(root))) == 110


async def test_the_loop_waits_for_no_other_process(root: Path) -> None:
    engine = await convinced(root)
    other = task_folder(root)
    turns = 0

    with other.locked():
        waiting = asyncio.create_task(committed(engine, "waits"))
        while turns < 20:
            turns += 1
            await asyncio.sleep(0)
        assert not waiting.done()

    assert not (await waiting).is_in_loop
    await engine.close()
    assert ids(task_folder(root))[-1] == "waits"


@pytest.mark.parametrize(("count", "is_in_loop"), [(1, True), (100, False)])
async def test_what_another_process_wrote_is_read_in_the_loops_thread_if_it_is_little(
    root: Path, count: int, is_in_loop: bool
) -> None:
    engine = await convinced(root)
    commit(task_folder(root), *(f"of another {number}" for number in range(count)))

    operation = await committed(engine, "after it")

    await engine.close()
    assert operation.is_in_loop == is_in_loop
    assert len(operation.shown[-1]) == count
    assert len(ids(task_folder(root))) == 11 + count


async def test_whoever_has_to_read_first_does_so_in_a_thread(root: Path) -> None:
    engine = await convinced(root)

    operation = await committed(engine, "knows little", known=3)

    await engine.close()
    assert not operation.is_in_loop
    assert len(operation.shown[-1]) == 7


async def test_a_slow_disk_is_left_to_a_thread(root: Path) -> None:
    class Slow(Disk):
        def flush_data(self, fd: int) -> None:
            time.sleep(0.02)
            super().flush_data(fd)

    engine = await convinced(root, Slow(), at_once_seconds=0.01)

    operation = await committed(engine, "a")

    await engine.close()
    assert not operation.is_in_loop


async def test_a_refusal_in_the_loops_thread_is_the_callers(root: Path) -> None:
    engine = await convinced(root)

    with pytest.raises(ValueError, match="refused"):
        await engine.commit("t", Refusing(known=10), is_light=True)
    after = await committed(engine, "after")

    await engine.close()
    assert after.is_in_loop
    assert ids(task_folder(root))[-1] == "after"


@pytest.mark.parametrize("is_light", [False, True])
async def test_a_task_that_cannot_be_looked_up_once_leaves_nobody_waiting(
    root: Path, is_light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await convinced(root)
    failures, look_up = [1], engine._task

    def failing_once(task: str) -> Any:
        is_queues = sys._getframe(2).f_code.co_name in ("_commit_here", "_drain")
        if is_queues and failures:
            failures.pop()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look_up(task)

    monkeypatch.setattr(engine, "_task", failing_once)

    with pytest.raises(OSError, match="Input/output"):
        await asyncio.wait_for(committed(engine, "a", is_light=is_light), 10)
    after = await asyncio.wait_for(committed(engine, "b", is_light=is_light), 10)

    await engine.close()
    assert after.accepted


async def test_closing_waits_for_what_the_loop_is_about_to_commit(root: Path) -> None:
    engine = await convinced(root)
    waiting = asyncio.create_task(committed(engine, "last"))
    await asyncio.sleep(0)

    await engine.close()

    assert (await waiting).accepted
    assert ids(task_folder(root))[-1] == "last"


async def test_a_caller_that_stops_waiting_for_the_loop_stops_nothing(root: Path) -> None:
    engine = await convinced(root)
    waiting = asyncio.create_task(committed(engine, "a"))
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await engine.close()

    assert ids(task_folder(root))[-1] == "a"
