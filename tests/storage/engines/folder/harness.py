"""A task's folder driven directly, disks that misbehave on purpose, and a few words for tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast_storage.core.records import Draft, Entry, Record
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

TASK = "t"


def drafted(id: str, op: str = "done", *, opens: bool = False, **body: Any) -> Draft:
    """Give a draft with this id."""
    return Draft(id, "2026-01-02T03:04:05.678Z", "an agent", op, body, opens)


class Recording:
    """An operation that records one draft, and remembers how the engine went about it."""

    def __init__(self, draft: Draft | None, known: int = 0) -> None:
        self._draft, self.known = draft, known
        self.shown: list[list[Entry]] = []
        self.accepted: list[Record | None] = []

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        """Choose the draft, whatever is there."""
        self.shown.append(list(entries))
        return self._draft

    def accept(self, record: Record | None) -> None:
        """Remember that it was accepted."""
        self.accepted.append(record)


class Refusing(Recording):
    """An operation that refuses whatever it is shown."""

    def __init__(self, known: int = 0) -> None:
        super().__init__(None, known)

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        """Refuse."""
        raise ValueError("refused")


def task_folder(root: Path, disk: Disk | None = None, task: str = TASK, **times: Any) -> TaskFolder:
    """Open a task as another process would."""
    disk = disk or Disk()
    times.setdefault("settle_pause_seconds", 0.001)
    workspace = WorkspaceFolder(disk, root)
    folder = TaskFolder(disk, workspace, task, Limits(**times), disk.boot_id())
    _opened.append((folder, workspace))
    return folder


_opened: list[tuple[TaskFolder, WorkspaceFolder]] = []


def close_all() -> None:
    """Close what a test opened: a thousand descriptors later, others' `select` refuses to work."""
    while _opened:
        folder, workspace = _opened.pop()
        with suppress(OSError):
            folder.close()
        with suppress(OSError):
            workspace.close()


def commit(folder: TaskFolder, *ids: str, **body: Any) -> list[Record]:
    """Commit one record for each id, one after the other; raises what was raised."""
    records: list[Record] = []
    for id in ids:
        operation = Recording(drafted(id, **body), known=last_seq(folder))
        [refusal] = folder.commit([operation])
        if refusal:
            raise refusal
        records += [record for record in operation.accepted if record]
    return records


def last_seq(folder: TaskFolder) -> int:
    """Give the seq up to which this process has read."""
    return folder.journal.seq


def entries(folder: TaskFolder, after: int = 0) -> list[Entry]:
    """Read everything after a seq."""
    return [entry for portion in folder.read(after) for entry in portion]


def ids(folder: TaskFolder) -> list[str]:
    """Give the ids of all records."""
    return [entry.id for entry in entries(folder) if isinstance(entry, Record)]


def is_line(raw: bytes) -> bool:
    """Tell what is written to a journal from what is noted in a lock."""
    return raw.startswith(b'{"seq":')


def segment(root: Path, number: int = 1, task: str = TASK) -> Path:
    """Give the file of a segment."""
    return root / "tasks" / task / "journal" / f"{number:06d}.jsonl"


def quarantined(root: Path, task: str = TASK) -> list[bytes]:
    """Give what was set aside."""
    folder = root / "tasks" / task / "quarantine"
    return [file.read_bytes() for file in sorted(folder.iterdir())] if folder.exists() else []


class CountingDisk(Disk):
    """Counts flushes."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self, fd: int) -> None:
        self.flushes += 1
        super().flush(fd)

    def flush_data(self, fd: int) -> None:
        self.flushes += 1
        super().flush_data(fd)


class FailingFlush(Disk):
    """Fails the next so many flushes, and if told so cannot take anything back either."""

    def __init__(self) -> None:
        self.failures = 0
        self.can_truncate = True

    def truncate(self, fd: int, length: int) -> None:
        if not self.can_truncate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(fd, length)

    def flush(self, fd: int) -> None:
        self._fail()
        super().flush(fd)

    def flush_data(self, fd: int) -> None:
        self._fail()
        super().flush_data(fd)

    def _fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class FullDisk(Disk):
    """Has room for so many bytes; like a real one it takes what fits before it says so."""

    def __init__(self) -> None:
        self.room: int | None = None

    def write(self, fd: int, raw: bytes) -> int:
        return super().write(fd, self._taken(raw))

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        is_there = offset + len(raw) <= self.fstat(fd).st_size
        return super().pwrite(fd, raw if is_there else self._taken(raw), offset)

    def _taken(self, raw: bytes) -> bytes:
        if self.room is None:
            return raw
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = raw[: self.room]
        self.room -= len(taken)
        return taken


class Interrupting(Disk):
    """Does something in the very moment before a call, once."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], None]] = {}

    def exchange(self, one: str, other: str, *, at: int) -> None:
        self._interrupt("exchange")
        super().exchange(one, other, at=at)

    def rename_new(self, old: str, new: str, *, at: int) -> None:
        self._interrupt("rename_new")
        super().rename_new(old, new, at=at)

    def rename(self, old: str, new: str, *, at: int) -> None:
        self._interrupt("rename")
        super().rename(old, new, at=at)

    def _interrupt(self, call: str) -> None:
        if happen := self.before.pop(call, None):
            happen()


def raised(outcomes: Sequence[Exception | None]) -> list[type[Exception] | None]:
    """Give the kinds of what was raised."""
    return [type(outcome) if outcome else None for outcome in outcomes]
