"""Verify a workspace without touching it; repairing sets aside what is wrong and deletes nothing."""

from __future__ import annotations

import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import HoldfastError, Unreadable, UnsafeFile
from holdfast_storage.core.ids import folder_name
from holdfast_storage.core.records import DamagedLine, Place, Record, decode_line
from holdfast_storage.engines.base import Finding
from holdfast_storage.engines.folder import names
from holdfast_storage.engines.folder.disk import READ, Disk
from holdfast_storage.engines.folder.files import (
    open_file,
    open_folder,
    read_file,
    reading,
    untouched_seconds,
)
from holdfast_storage.engines.folder.kept import Kept
from holdfast_storage.engines.folder.limits import ABANDONED_SECONDS
from holdfast_storage.engines.folder.lines import BLANKS
from holdfast_storage.engines.folder.lock import GATE, LOCK, NOTE_LENGTH, note_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from holdfast_storage.engines.folder.progress import Extent
    from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

# Whoever holds a task's lock for longer than this is not waited for.
_LOCK_SECONDS = 1.0
_SUBFOLDERS = (names.JOURNAL, "checkpoints", "conflicts", "quarantine")


class Checker:
    """Looks through all of a workspace."""

    def __init__(self, disk: Disk, workspace: WorkspaceFolder, *, repair: bool) -> None:
        self._disk, self._workspace, self._repair = disk, workspace, repair

    def findings(self) -> list[Finding]:
        """Give everything that is not as it should be."""
        with reading("the workspace"):
            return self._findings()

    def _findings(self) -> list[Finding]:
        root = self._workspace.root_folder()
        if root is None:
            return []
        found = [*self._settings(root), *self._mode(root, "")]
        tasks = self._workspace.tasks_folder()
        for name in sorted(self._disk.listdir(tasks)) if tasks is not None else []:
            assert tasks is not None
            found += self._task(tasks, name)
        return found

    # --- the workspace ------------------------------------------------------------------------

    def _settings(self, root: int) -> Iterator[Finding]:
        try:
            settings = self._workspace.settings()
        except Unreadable as error:
            yield Finding(names.SETTINGS, error.problem, line=error.line)
            return
        except (OSError, HoldfastError) as error:
            yield Finding(names.SETTINGS, str(error))
            return
        has_tasks = names.TASKS in self._disk.listdir(root)
        # Without it each process would think up its own, and idempotency keys would change.
        if has_tasks and settings and not isinstance(settings.get("workspace", ""), str):
            yield Finding(names.SETTINGS, "workspace must be the text that Holdfast wrote there")

    def _mode(self, fd: int, path: str) -> Iterator[Finding]:
        mode = stat.S_IMODE(self._disk.fstat(fd).st_mode)
        if mode & 0o077:
            yield Finding(path or ".", f"others may enter it (mode {mode:o})", "take that away")
            if self._repair:
                self._disk.chmod(fd, mode & ~0o077)

    # --- one task -----------------------------------------------------------------------------

    def _task(self, tasks: int, name: str) -> list[Finding]:
        path = f"{names.TASKS}/{name}"
        if name.startswith(".new."):
            return self._in_the_making(tasks, name, path) if names.is_temporary(name) else []
        try:
            folder = open_folder(self._disk, name, at=tasks)
        except (OSError, UnsafeFile):
            return [Finding(path, "is not a folder; tasks are folders")]
        try:
            return list(_TaskCheck(self._disk, folder, name, repair=self._repair).findings())
        except (OSError, HoldfastError) as error:
            return [Finding(path, f"cannot be checked ({error})", task=name)]
        finally:
            self._disk.close(folder)

    def _in_the_making(self, tasks: int, name: str, path: str) -> list[Finding]:
        with suppress(FileNotFoundError):
            try:
                is_abandoned = untouched_seconds(self._disk, name, at=tasks) >= ABANDONED_SECONDS
            except (UnsafeFile, PermissionError) as error:
                return [Finding(path, f"has the name of a copy on its way and is none ({error})")]
            if is_abandoned:
                return [Finding(path, "was left by an import or fork that died; you may delete it")]
        return []


class _TaskCheck:
    """Looks through one task's folder."""

    def __init__(self, disk: Disk, folder: int, name: str, *, repair: bool) -> None:
        self._disk, self._folder, self._name, self._repair = disk, folder, name, repair
        self._path = f"{names.TASKS}/{name}"
        self._task = name
        self._seq = 0

    def findings(self) -> Iterator[Finding]:
        found = [*self._journal(), *self._files(), *self._view()]
        # The true name is known only now.
        for one in found:
            yield Finding(one.file, one.problem, one.repair, self._task, one.line)

    # --- files --------------------------------------------------------------------------------

    def _files(self) -> Iterator[Finding]:
        listed = self._disk.listdir(self._folder)
        mode = stat.S_IMODE(self._disk.fstat(self._folder).st_mode)
        if mode & 0o077:
            yield Finding(self._path, f"others may enter it (mode {mode:o})", "take that away")
            if self._repair:
                self._disk.chmod(self._folder, mode & ~0o077)
        has_records = names.JOURNAL in listed
        for name in (GATE, LOCK):
            if has_records and name not in listed:
                yield Finding(f"{self._path}/{name}", "is missing; the next write makes it")
        for name in sorted(listed):
            yield from self._links(name)
            if names.is_temporary(name):
                yield from self._abandoned(name)

    def _links(self, name: str) -> Iterator[Finding]:
        with suppress(FileNotFoundError):
            found = self._disk.stat(name, at=self._folder)
            if name in _SUBFOLDERS:
                if not stat.S_ISDIR(found.st_mode):
                    yield Finding(f"{self._path}/{name}", "is not a folder")
            elif name in (names.VIEW, GATE, LOCK, names.HEAD, names.LOADS) or names.is_leftover(
                name
            ):
                if not stat.S_ISREG(found.st_mode):
                    yield Finding(f"{self._path}/{name}", "is not a plain file (a link?)")
                elif found.st_nlink > 1:
                    yield Finding(
                        f"{self._path}/{name}", "has another name elsewhere (a hard link)"
                    )

    def _abandoned(self, name: str) -> Iterator[Finding]:
        with suppress(FileNotFoundError):
            age = (self._disk.now_ns() - self._disk.stat(name, at=self._folder).st_mtime_ns) / 1e9
            if age >= ABANDONED_SECONDS:
                aside = "move it to quarantine/"
                yield Finding(f"{self._path}/{name}", "was left by a process that died", aside)
                self._set_aside(name)

    def _set_aside(self, name: str) -> None:
        if self._repair:
            raw = read_file(self._disk, name, at=self._folder)
            Kept(self._disk, self._folder).keep("quarantine", name.lstrip("."), raw)
            self._disk.unlink(name, at=self._folder)

    def _view(self) -> Iterator[Finding]:
        path = f"{self._path}/{names.VIEW}"
        try:
            strict_json.parse_object(read_file(self._disk, names.VIEW, at=self._folder))
        except FileNotFoundError:
            return
        except Unreadable as error:
            yield Finding(path, error.problem, "move it to quarantine/", line=error.line)
            self._set_aside(names.VIEW)
        except UnsafeFile:
            return  # told of already

    # --- the journal --------------------------------------------------------------------------

    def _journal(self) -> Iterator[Finding]:
        path = f"{self._path}/{names.JOURNAL}"
        try:
            folder = open_folder(self._disk, names.JOURNAL, at=self._folder)
        except FileNotFoundError:
            if names.VIEW in self._disk.listdir(self._folder):
                yield Finding(path, "is missing, and with it everything that was recorded")
            return
        except UnsafeFile:
            return
        try:
            yield from self._segments(folder, path)
        finally:
            self._disk.close(folder)

    def _segments(self, folder: int, path: str) -> Iterator[Finding]:
        numbers = sorted(filter(None, map(names.segment_number, self._disk.listdir(folder))))
        for number, previous in zip(numbers, [0, *numbers], strict=False):
            file = f"{path}/{names.segment_name(number)}"
            if number != previous + 1:
                yield Finding(file, f"segments {previous + 1} to {number - 1} are missing")
            try:
                raw, note = self._read(folder, number, is_newest=number == numbers[-1])
            except UnsafeFile as error:
                yield Finding(file, error.problem)
                continue
            yield from self._lines(raw, file, number)
            lines_end = raw.rfind(b"\n") + 1
            if note and lines_end < note.length <= len(raw):
                problem = f"what was flushed up to byte {note.length} is not there"
                yield Finding(file, problem, "whoever uses the task next marks it as damaged")

    def _read(self, folder: int, number: int, *, is_newest: bool) -> tuple[bytes, Extent | None]:
        """Read a segment; the newest one together with what is noted of it, if anything is."""
        name = names.segment_name(number)
        if not is_newest:
            return read_file(self._disk, name, at=folder), None
        with self._undisturbed() as lock:
            raw = read_file(self._disk, name, at=folder)
            note = None if lock is None else note_in(self._disk.pread(lock, NOTE_LENGTH, 0))
            inode = self._disk.stat(name, at=folder).st_ino
        is_of_this = note is not None and (note.segment, note.inode) == (number, inode)
        return raw, note if is_of_this else None

    @contextmanager
    def _undisturbed(self) -> Generator[int | None, None, None]:
        """Keep writers away while what they write over is read; gives the lock, None if there is none.

        If somebody keeps it for too long, it is read all the same: then a second look tells more.
        """
        with ExitStack() as opened:
            fds: list[int] = []
            with suppress(FileNotFoundError, UnsafeFile):
                for name in (GATE, LOCK):
                    fds.append(open_file(self._disk, name, READ, at=self._folder))
                    opened.callback(self._disk.close, fds[-1])
            if len(fds) < 2:
                yield None
                return
            if self._disk.lock_in_turn(fds[0], fds[1], _LOCK_SECONDS):
                opened.callback(self._disk.unlock, fds[1])
            yield fds[1]

    def _lines(self, raw: bytes, file: str, number: int) -> Iterator[Finding]:
        *whole, tail = raw.rstrip(BLANKS).split(b"\n")
        is_leading = True
        for line, text in enumerate(whole, start=1):
            entry = decode_line(text, Place(number, 0 if line == 1 else 1, len(text)))
            if isinstance(entry, DamagedLine):
                yield Finding(file, entry.problem, "copy it to quarantine/", line=line)
                self._copy(f"{number:06d}-line-{line}.txt", text)
                self._seq = max(self._seq + 1, min(entry.seq or 0, self._seq + 1))
                continue
            if line == 1:
                yield from self._owner(entry, file)
            # The first lines of a segment may repeat what could not be flushed in the one before.
            if is_leading and entry.seq <= self._seq:
                continue
            is_leading = False
            yield from self._order(entry, file, line)
        if tail:
            problem = "the last line was cut off; the next write mends it"
            yield Finding(file, problem, "copy it to quarantine/", line=len(whole) + 1)
            self._copy(f"{number:06d}-line-{len(whole) + 1}.txt", tail)

    def _copy(self, name: str, text: bytes) -> None:
        if self._repair:
            Kept(self._disk, self._folder).keep("quarantine", name, text)

    def _owner(self, first: Record, file: str) -> Iterator[Finding]:
        task = first.body.get("task")
        if not isinstance(task, str):
            yield Finding(file, "its first line does not tell whose journal it is", line=1)
        elif folder_name(task) != self._name:
            yield Finding(file, f"belongs to the task {task[:80]!a}, not into this folder", line=1)
        else:
            self._task = task

    def _order(self, entry: Record, file: str, line: int) -> Iterator[Finding]:
        if entry.seq <= self._seq:
            yield Finding(file, f"record {entry.seq} stands after record {self._seq}", line=line)
        elif entry.seq > self._seq + 1:
            yield Finding(
                file, f"records {self._seq + 1} to {entry.seq - 1} are missing", line=line
            )
        self._seq = max(self._seq, entry.seq)
