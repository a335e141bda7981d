"""Several processes on one folder, some of which are killed."""

from __future__ import annotations

import _thread
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    CountingDisk,
    Recording,
    commit,
    drafted,
    entries,
    ids,
    is_line,
    last_seq,
    quarantined,
    segment,
    task_folder,
)
from tests.storage.processes import Parent, all_at_once, child

from holdfast_storage.core.errors import Busy
from holdfast_storage.core.records import Record
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk


async def commits_many(parent: Parent, root: Path, name: str, count: int) -> list[int]:
    folder = task_folder(root, segment_bytes=20_000)
    parent.wait_for_go()
    return [commit(folder, f"{name}-{n}")[0].seq for n in range(count)]


def test_eight_processes_lose_nothing(root: Path) -> None:
    acknowledged = all_at_once(commits_many, [(root, f"p{n}", 200) for n in range(8)])

    found = entries(task_folder(root))
    assert [entry.seq for entry in found] == list(range(1, 1601))
    by_id = {entry.id: entry.seq for entry in found if isinstance(entry, Record)}
    assert len(by_id) == 1600
    for process, seqs in enumerate(acknowledged):
        assert [by_id[f"p{process}-{n}"] for n in range(200)] == seqs


async def writes_first(parent: Parent, root: Path, name: str) -> str:
    engine = FolderEngine.open(root, readme="Read me.\n", schema=b"{}\n")
    parent.wait_for_go()
    await engine.commit("t", Recording(drafted(name)))
    await engine.close()
    return engine.workspace_id


def test_racing_first_writes_agree_on_one_workspace(root: Path) -> None:
    found = all_at_once(writes_first, [(root, f"p{n}") for n in range(8)])

    assert set(found) == {json.loads((root / "holdfast.json").read_bytes())["workspace"]}
    assert sorted(ids(task_folder(root))) == [f"p{n}" for n in range(8)]
    assert sorted(file.name for file in root.iterdir()) == [
        ".alive",
        ".gitignore",
        "README.md",
        "holdfast.json",
        "schema",
        "tasks",
    ]


def test_waiting_without_descriptors_to_spare_leaves_nothing_behind(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = task_folder(root)
    commit(folder, "first")
    other = task_folder(root, lock_wait_seconds=0.05)
    commit(other, "second")
    before = len(list(Path("/proc/self/fd").iterdir()))
    copies: list[int] = []

    def dup(fd: int) -> int:
        if len(copies) % 2:
            copies.append(-1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        copies.append(_DUP(fd))
        return copies[-1]

    with folder.locked():
        monkeypatch.setattr(os, "dup", dup)
        outcomes = [other.commit([Recording(drafted(f"late {n}"))]) for n in range(3)]
        monkeypatch.undo()

    assert [type(outcome) for [outcome] in outcomes] == [Busy] * 3
    assert len(copies) == 6
    other.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


_DUP = os.dup


# --- killed -----------------------------------------------------------------------------------


async def dies_before_flushing(parent: Parent, root: Path) -> None:
    class Dying(Disk):
        def flush_data(self, fd: int) -> None:
            parent.say("written")
            parent.wait_to_be_killed()

    commit(task_folder(root, Dying()), "unflushed")


@pytest.fixture
def killed_before_flushing(root: Path) -> Path:
    commit(task_folder(root), "flushed")
    with child(dies_before_flushing, root) as writer:
        writer.expect("written")
        writer.kill()
    return root


def test_a_reader_flushes_what_a_killed_writer_did_not(killed_before_flushing: Path) -> None:
    disk = CountingDisk()
    reader = task_folder(killed_before_flushing, disk)

    assert ids(reader) == ["flushed", "unflushed"]
    flushes = disk.flushes
    assert ids(reader) == ["flushed", "unflushed"]

    assert flushes >= 2  # the segment and its folder
    assert disk.flushes == flushes


def test_a_decision_rests_only_on_what_is_flushed(killed_before_flushing: Path) -> None:
    disk = CountingDisk()
    writer = task_folder(killed_before_flushing, disk)
    operation = Recording(None)

    assert writer.commit([operation]) == [None]

    assert [len(shown) for shown in operation.shown] == [2]
    assert disk.flushes >= 2


async def dies_halfway(parent: Parent, root: Path) -> None:
    class Dying(Disk):
        def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
            super().pwrite(fd, raw[: len(raw) // 2], offset)
            parent.say("half written")
            parent.wait_to_be_killed()
            return 0

    folder = task_folder(root, Dying())
    folder.commit([Recording(drafted("torn"))])


def test_half_a_line_of_a_killed_writer_is_set_aside(root: Path) -> None:
    commit(task_folder(root), "a")
    with child(dies_halfway, root) as writer:
        writer.expect("half written")
        writer.kill()
    torn = segment(root).read_bytes().split(b"\n")[-1]

    [record] = commit(task_folder(root), "b")

    assert record.seq == 2
    assert torn and quarantined(root) == [torn]


async def dies_after_beginning_a_segment(parent: Parent, root: Path) -> None:
    class Dying(Disk):
        def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
            if not is_line(raw):
                return super().pwrite(fd, raw, offset)
            parent.say("segment begun")
            parent.wait_to_be_killed()
            return 0

    folder = task_folder(root, Dying())
    folder.commit([Recording(drafted("opening", opens=True))])


def test_a_segment_that_was_begun_and_never_written_to_is_used(root: Path) -> None:
    here = task_folder(root)
    commit(here, "a")
    with child(dies_after_beginning_a_segment, root) as writer:
        writer.expect("segment begun")
        writer.kill()
    assert segment(root, 2).stat().st_size == 0

    [record] = commit(here, "b")

    assert (record.seq, record.place.segment) == (2, 2)
    assert ids(task_folder(root)) == ["a", "b"]


async def holds_the_lock(parent: Parent, root: Path) -> None:
    with task_folder(root).locked(create=True):
        parent.say("locked")
        parent.wait_to_be_killed()


def test_a_killed_holder_leaves_no_lock_behind(root: Path) -> None:
    with child(holds_the_lock, root) as holder:
        holder.expect("locked")
        holder.kill()

    assert [record.seq for record in commit(task_folder(root), "a")] == [1]


def test_whoever_waits_too_long_is_told_that_it_is_busy(root: Path) -> None:
    folder = task_folder(root, lock_wait_seconds=0.05)
    with child(holds_the_lock, root) as holder:
        holder.expect("locked")

        for _ in range(3):
            with pytest.raises(Busy):
                commit(folder, "a")
        holder.kill()

    assert [record.seq for record in commit(folder, "a")] == [1]


def test_nobody_overtakes_whoever_waits_at_the_gate(root: Path) -> None:
    folder = task_folder(root, lock_wait_seconds=0.05)
    commit(folder, "a")
    with (root / "tasks" / "t" / ".gate").open("rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)

        with pytest.raises(Busy):
            commit(folder, "b")

    commit(folder, "b")


def test_a_waiter_that_gave_up_takes_nobodys_turn(root: Path) -> None:
    here = task_folder(root, lock_wait_seconds=0.05)
    patient = task_folder(root)
    with patient.locked(create=True), pytest.raises(Busy):
        commit(here, "a")

    commit(patient, "b")
    commit(here, "c")

    assert ids(task_folder(root)) == ["b", "c"]


def test_waiting_again_begins_no_further_thread(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = task_folder(root), task_folder(root)
    begun: list[object] = []

    def begin(call: Callable[[], object], arguments: tuple[()]) -> int:
        begun.append(call)
        return begin_thread(call, arguments)

    begin_thread = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", begin)
    with ThreadPoolExecutor(1) as other:
        for number in range(5):
            with there.locked(create=True):
                waiting = other.submit(commit, here, f"{number}")
                with pytest.raises(TimeoutError):
                    waiting.result(0.02)
            waiting.result()

    assert len(begun) <= 1
    assert ids(there) == ["0", "1", "2", "3", "4"]


async def is_there(parent: Parent, root: Path) -> None:
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))
    parent.say(engine.process)
    parent.wait_to_be_killed()


async def test_a_killed_process_is_not_alive(root: Path) -> None:
    engine = FolderEngine.open(root)
    with child(is_there, root) as other:
        process = other.hear()
        before = engine.is_alive(process)
        other.kill()

    assert before
    assert not engine.is_alive(process)
    await engine.commit("t", Recording(drafted("b"), last_seq(task_folder(root))))
    assert [file.name for file in (root / ".alive").iterdir()] == [engine.process]
    await engine.close()
    assert list((root / ".alive").iterdir()) == []


async def test_a_process_that_read_before_it_wrote_is_alive(root: Path) -> None:
    commit(task_folder(root), "a")
    engine, other = FolderEngine.open(root), FolderEngine.open(root)
    assert [len(portion) async for portion in engine.read("t", 0)] == [1]

    await engine.commit("t", Recording(drafted("b"), known=1))

    assert other.is_alive(engine.process)
    await engine.close()
    assert not other.is_alive(engine.process)
    await other.close()


def test_no_descriptor_is_inherited_by_a_child(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    script = "import os; print(*[os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])"

    with folder.locked():
        listed = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            close_fds=False,
            check=True,
        )

    assert str(root) not in listed.stdout


# --- prune ------------------------------------------------------------------------------------


async def rewrites_until(parent: Parent, root: Path, calls: int) -> None:
    """Rewrite a record and die before the so-many-th change to the disk."""

    class Dying(Disk):
        left = calls

        def _count(self) -> None:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1

        def write(self, fd: int, raw: bytes) -> int:
            self._count()
            return super().write(fd, raw)

        def rename(self, old: str, new: str, *, at: int) -> None:
            self._count()
            super().rename(old, new, at=at)

        def flush(self, fd: int) -> None:
            self._count()
            super().flush(fd)

        def mkdir(self, name: str, *, at: int | None) -> None:
            self._count()
            super().mkdir(name, at=at)

    engine = FolderEngine.open(root, disk=Dying())
    await engine.rewrite("t", {2: drafted("b", pruned=True)}, "prune")
    parent.say("done")


async def test_a_rewrite_that_is_killed_anywhere_leaves_the_old_or_the_new(root: Path) -> None:
    commit(task_folder(root), "a", "b", "c", text="x" * 50)
    before = entries(task_folder(root))
    for calls in range(40):
        with child(rewrites_until, root, calls) as writer:
            said = writer.all_heard()

        after = entries(task_folder(root))
        assert [entry.seq for entry in after] == [1, 2, 3]
        assert [after[0], after[2]] == [before[0], before[2]]
        if after[1] != before[1]:
            engine = FolderEngine.open(root)
            await engine.restore((await engine.trash())[0].name)
            await engine.close()
            assert entries(task_folder(root)) == before
        if said:
            break
    else:
        raise AssertionError("the rewrite never came to its end")
