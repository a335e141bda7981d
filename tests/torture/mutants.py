"""Bugs planted on purpose, each of which a harness must catch: a harness that catches none shows nothing.

Each replaces one function of the engine by what a careless hand would have written.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from zlib import crc32

from tests.torture.workloads import Story

from holdfast_storage import caller as caller_module
from holdfast_storage.core.decide.steps import decide_mark
from holdfast_storage.core.errors import NotSaved
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Place
from holdfast_storage.core.records import decode_line as believed
from holdfast_storage.engines.folder import (
    files,
    found,
    lines,
    rewriting,
    tail,
    workspace_folder,
)
from holdfast_storage.engines.folder import journal as journal_module
from holdfast_storage.engines.folder.alive import Alive
from holdfast_storage.engines.folder.journal import Journal
from holdfast_storage.engines.folder.kept import Kept
from holdfast_storage.engines.folder.lock import LOCK, TaskLock
from holdfast_storage.engines.folder.names import VIEW
from holdfast_storage.engines.folder.planting import Planting
from holdfast_storage.engines.folder.progress import Extent
from holdfast_storage.engines.folder.publishing import Publication
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.views import Views
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

Change = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug, the harness that catches it, and the stories in which it shows."""

    name: str
    changes: tuple[Change, ...]
    stories: tuple[Story, ...] = ()
    # Where much must happen before it shows, fewer states of each call are looked at.
    at_a_call: int = 12

    @contextmanager
    def planted(self) -> Generator[None, None, None]:
        """Have the bug for a while."""
        with ExitStack() as stack:
            for target, attribute, instead in self.changes:
                stack.enter_context(patch.object(target, attribute, instead))
            yield


def nothing(*arguments: Any, **more: Any) -> None:
    """Do nothing."""


def yes(*arguments: Any) -> bool:
    """Say yes."""
    return True


# --- stories in which they show ---------------------------------------------------------------

_WORK = Story(agents=(("save", "mark", "begin_and_mark", "save_pages", "mark"),))
_ROLLING = Story(agents=(("save", "mark", "mark", "mark", "mark", "mark"),), segment_bytes=300)
_PRUNING = Story(
    agents=(("save", "save", "mark", "save", "prune", "restore", "save", "prune"),),
    segment_bytes=600,
)
_EDITING = tuple(
    Story(
        agents=(("save", "render", "save", "render", "save", "render", "save", "render"),),
        before=("save", "render"),
        person=(style,) * 4,
    )
    for style in ("edit", "edit_in_place", "edit", "edit_in_place")
)
_OVER_ROOM = (
    Story(
        agents=(("save", "mark", "mark_many", "save_pages", "begin", "mark_many"),),
        room_after_writes=0,
    ),
)
_TOGETHER = (
    Story(
        agents=(("mark_shared", "mark_shared", "mark", "begin_shared", "mark"),) * 3,
        before=("save",),
    ),
) * 12
_KILLED = tuple(
    Story(
        agents=(
            ("mark_shared", "mark_shared", "mark_shared"),
            ("mark_shared", "mark_shared", "mark_shared", "load"),
        ),
        before=("save",),
        kills=(number, 0),
    )
    for number in range(10, 20)
)
_SPOILT = (Story(agents=(("save", "mark", "mark", "spoil", "mark"),)),)


# --- the journal ------------------------------------------------------------------------------

_flush, _write_note = Journal._flush, TaskLock.write_note  # pyright: ignore[reportPrivateUsage]


def _flush_only_new(self: Any, chunk: Any) -> None:
    if chunk.is_new:
        _flush(self, chunk)


def _flush_no_folder(self: Any, chunk: Any) -> None:
    self._disk.flush(self._segments.fd)


def _note_first(self: Any, chunk: Any, *_: Any) -> Any:
    self._append(chunk)
    self._lock.write_note(Extent(chunk.segment, chunk.offset + chunk.length, self._segments.inode))
    self._flush(chunk)
    self._remember(chunk)
    return chunk


def _believe_unflushed(self: Any, note: Any, extent: Any, size: Any) -> Any:
    self._lock.write_note(extent)
    return extent


_catch_up = Journal.catch_up


def _catch_up_once(self: Any) -> Any:
    return _catch_up(self) if self.reached is None else []


def _mend_nothing(disk: Any, fd: int, number: int, length: int, quarantine: Any, **_: Any) -> int:
    return length


def _mend_by_deleting(
    disk: Any, fd: int, number: int, length: int, quarantine: Any, **more: Any
) -> int:
    return int(_mended(disk, fd, number, length, nothing, **more))


_mended = tail.mended
_take = lines.Numbering.take


def _stop_at_damage(self: Any, raw: bytes, place: Place, fresh: Any) -> None:
    if not self._held:
        _take(self, raw, place, fresh)


def _believe_all(line: bytes, place: Place) -> Any:
    open_ended = line[: -len(b',"crc":"01234567"}')]
    return believed(b'%b,"crc":"%08x"}' % (open_ended, crc32(open_ended)), place)


# --- locks and life ---------------------------------------------------------------------------

_open_lock, _release = TaskLock.open, TaskLock.release
_folders: dict[int, int] = {}


def _open_and_remember(self: Any, folder: int) -> None:
    _folders[id(self)] = folder
    _open_lock(self, folder)


def _release_and_unlink(self: Any) -> None:
    _release(self)
    try:
        self._disk.unlink(LOCK, at=_folders[id(self)])
    except OSError:
        return
    self.close()


_status_of = Fold.status_of


def _no_doubt(self: Any, step: str, *more: Any) -> str:
    status = _status_of(self, step, *more)
    return "pending" if status == "in_doubt" else status


def _mark_again(fold: Fold, request: Any, belief: Any, context: Any) -> Any:
    fold.steps.pop(request.step, None)
    return decide_mark(fold, request, belief, context)


# --- files ------------------------------------------------------------------------------------


def _unflushed_file(disk: Any, name: str, raw: bytes, *, at: int, mode: int = 0o600) -> None:
    fd = files.new_file(disk, name, at=at, mode=mode)
    files.write_all(disk, fd, raw)
    disk.close(fd)


def _replace_unflushed(disk: Any, name: str, raw: bytes, *, at: int, mode: int = 0o600) -> None:
    _unflushed_file(disk, ".new.00", raw, at=at, mode=mode)
    disk.rename(".new.00", name, at=at)
    disk.flush(at)


def _replace_in_place(disk: Any, name: str, raw: bytes, *, at: int, mode: int = 0o600) -> None:
    fd = disk.open(name, os.O_RDWR | os.O_TRUNC, at=at)
    disk.write(fd, raw)
    disk.flush(fd)
    disk.close(fd)


def _keep_unflushed(self: Any, kind: Any, name: str, raw: bytes) -> str:
    with self._opened(kind) as folder:
        return f"{kind}/{self._keep_all(name, raw, folder)}"


def _restore_with_nothing_left(self: Any, name: str, trash: Any) -> Any:
    copies = list(trash.segments(name))
    taken = trash.taken(name)
    trash.remove(name)
    with (
        patch.object(Trash, "segments", return_value=iter(copies)),
        patch.object(Trash, "taken", return_value=taken),
    ):
        return rewriting.Rewriting(self._disk, self, trash).restore(name)


# --- views ------------------------------------------------------------------------------------


def _publish_blindly(self: Any, view: Any, revision: int) -> bool:
    self._disk.rename(self._ours.name, VIEW, at=self._folder)
    self._remember()
    return True


def _replace_and_forget(self: Any, view: Any) -> bool:
    self._disk.exchange(self._ours.name, VIEW, at=self._folder)
    self._disk.unlink(self._ours.name, at=self._folder)
    self._remember()
    return True


def _write_view_unflushed(self: Any, name: str, raw: bytes, folder: int) -> int:
    fd = files.new_file(self._disk, name, at=folder)
    files.write_all(self._disk, fd, raw)
    return fd


_finish_planting = Planting.finish


def _name_first(self: Any) -> bool:
    """Give a copy its name while it is not flushed yet."""
    self._disk.rename(self._temporary, self._name, at=self._tasks)
    self._workspace.flush()
    self._end_segment()
    self._disk.flush(self._journal)
    self._disk.flush(self._folder)
    return True


def _name_only(self: Any) -> bool:
    """Give a copy its name and say so before the name is durable."""
    with patch.object(self._workspace, "flush", nothing):
        return _finish_planting(self)


def _begin_in_place(self: Any, beside: Any) -> bool:
    """Make a copy under its own name from the beginning."""
    self._temporary = self._name
    return _begin_planting(self, beside)


def _finish_in_place(self: Any) -> bool:
    self._end_segment()
    self._disk.flush(self._journal)
    self._disk.flush(self._folder)
    self._workspace.flush()
    self._temporary = ".nothing"
    return True


_begin_planting = Planting.begin
_COPY = (Story(agents=(("save", "mark", "save", "fork"),), segment_bytes=700),)

CRASH_MUTANTS = (
    Mutant("a copy named before it is flushed", ((Planting, "finish", _name_first),), _COPY),
    Mutant("a copy's name not flushed", ((Planting, "finish", _name_only),), _COPY),
    Mutant(
        "a copy made in place",
        ((Planting, "begin", _begin_in_place), (Planting, "finish", _finish_in_place)),
        _COPY,
    ),
    Mutant("acknowledged before the flush", ((Journal, "_flush", _flush_only_new),), (_WORK,)),
    Mutant(
        "the name of a new segment not flushed",
        ((Journal, "_flush", _flush_no_folder),),
        (_ROLLING,),
    ),
    Mutant(
        "the folders around a new task not flushed",
        ((TaskFolder, "flush_parents", nothing),),
        (_WORK,),
    ),
    Mutant("the workspace itself not flushed", ((WorkspaceFolder, "flush", nothing),), (_WORK,)),
    Mutant("no repair of torn tails", ((tail, "mended", _mend_nothing),), (_WORK,)),
    Mutant(
        "what a cut tore over room taken for damage",
        ((tail, "_start_of_torn", nothing),),
        _OVER_ROOM * 4,
    ),
    Mutant(
        "room made and not known where",
        ((TaskLock, "keep_note", nothing),),
        _OVER_ROOM * 4,
    ),
    Mutant("torn tails deleted, not kept", ((tail, "mended", _mend_by_deleting),), (_WORK,)),
    Mutant("what is kept is not flushed", ((Kept, "keep", _keep_unflushed),), (_WORK,)),
    Mutant(
        "flush noted before it is done",
        ((Journal, "write", _note_first),),
        _KILLED * 12,
        at_a_call=3,
    ),
    Mutant(
        "what a killed writer left is believed unflushed",
        ((Journal, "_flush_unnoted", _believe_unflushed),),
        # It shows only where the one who goes on is answered from the dead one's bytes.
        _KILLED * 12,
        at_a_call=3,
    ),
    Mutant(
        "decided without reading on",
        ((Journal, "catch_up", _catch_up_once),),
        _TOGETHER,
        at_a_call=3,
    ),
    Mutant(
        "questions answered without a look at the journal",
        ((Journal, "is_as_it_was", yes),),
        # Others come to work during the first load: the second is to show it.
        (Story(agents=(("mark", *["load"] * 8), ("mark",) * 4), before=("save",)),) * 4,
        at_a_call=3,
    ),
    Mutant(
        "no lock",
        ((TaskLock, "take", nothing), (TaskLock, "release", nothing)),
        _TOGETHER,
        at_a_call=3,
    ),
    Mutant(
        "the lock file unlinked",
        (
            (TaskLock, "open", _open_and_remember),
            (TaskLock, "release", _release_and_unlink),
            (TaskLock, "_is_in_place", yes),
        ),
        _TOGETHER,
        at_a_call=3,
    ),
    Mutant("stop at the first bad line", ((lines.Numbering, "take", _stop_at_damage),), _SPOILT),
    Mutant("the crc is not looked at", ((lines, "decode_line", _believe_all),), _SPOILT),
    Mutant("the dead taken for living", ((Alive, "_is_held", yes),), (_WORK,)),
    Mutant("pending instead of in doubt", ((Fold, "status_of", _no_doubt),), (_WORK,)),
    Mutant(
        "a second result replaces the first",
        ((caller_module, "decide_mark", _mark_again),),
        (_WORK,),
    ),
    Mutant("prune keeps no copy", ((Trash, "take", nothing),), (_PRUNING,)),
    Mutant(
        "prune replaces before it flushes",
        ((rewriting, "replace_file", _replace_unflushed),),
        (_PRUNING,),
    ),
    Mutant("prune writes in place", ((rewriting, "replace_file", _replace_in_place),), (_PRUNING,)),
    Mutant(
        "restore empties the trash first",
        ((TaskFolder, "restore", _restore_with_nothing_left),),
        (_PRUNING,),
    ),
    Mutant(
        "settings not flushed before their place",
        ((workspace_folder, "write_new_file", _unflushed_file),),
        (_WORK,),
    ),
    Mutant(
        "view replaced without looking",
        ((Publication, "publish", _publish_blindly),),
        _EDITING,
        at_a_call=3,
    ),
    Mutant(
        "what a rendering displaced is dropped",
        ((Publication, "_replace", _replace_and_forget),),
        _EDITING * 4,
        at_a_call=3,
    ),
    Mutant(
        "view not flushed before its place",
        ((Views, "_write", _write_view_unflushed),),
        _EDITING,
    ),
    Mutant(
        "temporary files of the dead stay",
        ((TaskFolder, "_sweep", nothing),),
        (Story(agents=(("save", "render", "mark", "render"),)),) * 3,
    ),
)


# --- disks that fail --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiskMutant(Mutant):
    """One that shows when a call of this operation fails in this way."""

    operation: str = "mark"
    fault: str = "EIO once"


def _flush_again(self: Any, chunk: Any, *_: Any) -> Any:
    self._append(chunk)
    try:
        self._flush(chunk)
    except OSError:
        self._flush(chunk)
    self._remember(chunk)
    return chunk


def _append_and_leave(self: Any, chunk: Any) -> None:
    if chunk.is_new:
        self._begin_segment(chunk.segment)
    files.write_at(self._disk, self._segments.fd, b"".join(chunk.raw), chunk.offset)


def _write_some(disk: Any, fd: int, raw: bytes, offset: int, room: bytes = b"") -> None:
    disk.pwrite(fd, raw, offset)


def _open_and_leak(disk: Any, name: str, flags: int, *, at: int, label: str = "") -> int:
    fd: int = disk.open(name, flags, at=at)
    disk.fstat(fd)
    return fd


def _look_and_keep(self: Any, path: str) -> bool:
    return bool(self._is_in_place(path))


def _open_half(self: Any, folder: int) -> None:
    if self._lock < 0:
        self._gate = self._open_one(".gate", folder)
        self._lock = self._open_one(LOCK, folder)
        ours = self._disk.fstat(self._lock)
        self._identity = ours.st_ino, ours.st_dev


_move = Journal._move  # pyright: ignore[reportPrivateUsage]


def _take_back_all(self: Any, failed: Any, error: OSError, **more: Any) -> Any:
    return _move(self, failed, error)


def _say_it_is_saved(self: Any, chunk: Any, *more: Any) -> Any:
    try:
        return _write(self, chunk, *more)
    except NotSaved:
        return chunk


_write = Journal.write

DISK_MUTANTS = (
    DiskMutant("flushed again and believed", ((Journal, "write", _flush_again),)),
    DiskMutant(
        "half a line left behind",
        ((Journal, "_append", _append_and_leave), (tail, "mended", _mend_nothing)),
        fault="a short write",
    ),
    DiskMutant(
        "a short write taken for a whole one",
        ((journal_module, "write_at", _write_some),),
        fault="a short write",
    ),
    DiskMutant("a failure answered as saved", ((Journal, "write", _say_it_is_saved),)),
    DiskMutant(
        "descriptor kept after a failing fstat",
        ((found, "open_file", _open_and_leak),),
        operation="render",
    ),
    DiskMutant(
        "lock kept after a failing stat", ((TaskLock, "_is_ours_or_let_go", _look_and_keep),)
    ),
    DiskMutant("lock files half open", ((TaskLock, "open", _open_half),), operation="reach anew"),
    DiskMutant(
        "taken back although perhaps acknowledged",
        ((Journal, "_move", _take_back_all),),
        # The second write finds that the first could not be noted.
        operation="begin_and_mark",
        fault="ENOSPC from then on",
    ),
    DiskMutant(
        "a failed flush of another process believed",
        ((Journal, "_write_over", nothing),),
        fault="EIO from then on",
    ),
)
