"""One call of the disk fails: nothing stays locked, open, half made or believed because of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    FailingFlush,
    commit,
    ids,
    is_line,
    segment,
    task_folder,
)

from holdfast_storage.core.errors import Damaged, NotSaved
from holdfast_storage.engines.folder.disk import Disk, Identity
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder


class FailingOnce(Disk):
    """Fails the next call of one kind that mentions a word, and counts open descriptors."""

    def __init__(self) -> None:
        self.call, self.word = "", ""
        self.open_files = 0

    def fail(self, call: str, word: str = "") -> None:
        self.call, self.word = call, word

    def _fail(self, call: str, *mentioned: object) -> None:
        if call == self.call and self.word in " ".join(map(str, mentioned)):
            self.call = ""
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        self._fail("open", name)
        fd = super().open(name, flags, mode, at=at)
        self.open_files += 1
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self.open_files -= 1

    def stat(self, name: str, *, at: int | None) -> os.stat_result:
        self._fail("stat", name)
        return super().stat(name, at=at)

    def fstat(self, fd: int) -> os.stat_result:
        self._fail("fstat")
        return super().fstat(fd)

    def identity(self, path: str) -> Identity:
        self._fail("stat", path)
        return super().identity(path)

    def rename(self, old: str, new: str, *, at: int) -> None:
        self._fail("rename", old, new)
        super().rename(old, new, at=at)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


def test_a_lock_is_not_kept_when_its_file_cannot_be_looked_at(root: Path) -> None:
    disk = FailingOnce()
    folder = task_folder(root, disk)
    commit(folder, "a")

    disk.fail("stat", ".lock")
    with pytest.raises(NotSaved):
        commit(folder, "b")

    other = task_folder(root, lock_wait_seconds=0.1)
    commit(other, "c")
    commit(folder, "d")
    assert ids(other) == ["a", "c", "d"]


def test_no_descriptor_stays_open_whichever_look_at_a_file_fails(root: Path) -> None:
    commit(task_folder(root), "a")
    disk = FailingOnce()
    folder = task_folder(root, disk)

    for _ in range(6):
        disk.fail("fstat")
        with pytest.raises((NotSaved, Damaged)):
            commit(folder, "b")
        folder.close()
    folder._workspace.close()  # pyright: ignore[reportPrivateUsage]

    assert disk.open_files == 0


def test_a_sign_of_life_that_failed_half_way_is_made_again(root: Path) -> None:
    disk = FailingOnce()
    workspace = WorkspaceFolder(disk, root)
    disk.fail("rename", ".new.")
    with pytest.raises(OSError):
        workspace.prepare()

    workspace.prepare()

    assert WorkspaceFolder(Disk(), root).is_alive(workspace.process)
    assert [file.name for file in (root / ".alive").iterdir()] == [workspace.process]


def test_nobody_is_called_dead_who_cannot_be_asked(root: Path) -> None:
    living, disk = WorkspaceFolder(Disk(), root), FailingOnce()
    living.prepare()
    asking = WorkspaceFolder(disk, root)

    disk.fail("open", ".alive")

    assert asking.is_alive(living.process)


def test_settings_that_the_disk_does_not_give_are_damaged_and_not_empty(root: Path) -> None:
    WorkspaceFolder(Disk(), root).prepare()
    disk = FailingOnce()
    workspace = WorkspaceFolder(disk, root)

    disk.fail("open", "holdfast.json")

    with pytest.raises(Damaged, match=r"holdfast\.json"):
        workspace.settings()


class ForgettingNotes(FailingFlush):
    """Cannot note what was flushed either."""

    forgets = False

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        if self.forgets and not is_line(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, raw, offset)


def test_what_was_acknowledged_is_not_taken_back_when_a_later_flush_fails(root: Path) -> None:
    disk = ForgettingNotes()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.forgets = True
    commit(folder, "acknowledged")

    disk.failures = 100
    with pytest.raises(NotSaved):
        commit(folder, "b")

    assert ids(task_folder(root)) == ["a", "acknowledged"]


class NotingWrites(Disk):
    """Notes what is written to which place."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, int]] = []

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        self.written.append((raw, offset))
        return super().pwrite(fd, raw, offset)


def test_what_another_process_could_not_flush_is_written_again_before_it_is_believed(
    root: Path,
) -> None:
    disk = FailingFlush()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures, disk.can_truncate = 100, False
    with pytest.raises(NotSaved):
        commit(folder, "b")
    left = segment(root, 2).read_bytes()

    other = NotingWrites()
    ids(task_folder(root, other))

    assert left
    assert (left, 0) in other.written


@pytest.mark.parametrize("place", [".", "tasks/t", "tasks/t/journal", ".alive"])
def test_temporary_files_of_processes_that_died_go_after_an_hour(root: Path, place: str) -> None:
    commit(task_folder(root), "a")
    old, young = root / place / ".new.00ff00ff", root / place / ".new.11ff11ff"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))

    commit(task_folder(root), "b")

    assert not old.exists()
    assert young.exists()
