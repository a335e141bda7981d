"""One lock for one task: in turn, for a limited time, and never on a file that was replaced.

The lock's file also holds a note of how far the journal is known to be flushed. The note is not
flushed itself: after a power cut an older one only costs a flush too many.

Whoever had to wait may keep the lock for a stint: to hand it to a process whose caches are cold, which then
reads what was written meanwhile, costs two to three times as much as to go on.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import Busy
from holdfast_storage.engines.folder.disk import UPDATE, Disk
from holdfast_storage.engines.folder.files import new_file, open_at_least_to_read, open_file
from holdfast_storage.engines.folder.progress import Extent
from holdfast_storage.engines.folder.waiting import in_a_waiting_thread

if TYPE_CHECKING:
    from collections.abc import Generator

    from holdfast_storage.engines.folder.waiting import WhileWaiting

GATE, LOCK = ".gate", ".lock"

_NOTE = b"%06d %012d %020d\n"
NOTE_LENGTH = len(_NOTE % Extent(1, 0, 0))


class LockReplaced(Exception):
    """The lock's file is not the one we have open: the folder was replaced, or somebody deleted it."""


class TaskLock:
    """The lock of one task's folder, for one thread of this process at a time.

    Everybody waits at `.gate`, where the kernel keeps a queue; only its holder waits for `.lock`, and
    lets go of the gate when it has it. Without the gate whoever just released the lock mostly
    takes it again.
    """

    def __init__(self, disk: Disk, task: str, wait_seconds: float) -> None:
        self._disk, self._task, self._wait_seconds = disk, task, wait_seconds
        # A lock belongs to the open file, so it does not keep threads of one process apart.
        self._threads = Lock()
        self._gate = self._lock = -1
        self._identity = 0, 0
        # The bytes of a note and what they say, so that the same ones need not be read again.
        self._noted: tuple[bytes, Extent | None] = (b"", None)
        # While a stint lasts, the lock is kept when it is released, for whoever of us takes it next. What
        # is said of it changes, and the lock is let go of, under a mutex that nobody holds for long.
        self._mutex = Lock()
        self._is_kept = False
        self._stint_ends = 0.0
        self._stint = 0
        self._stint_is_over = Event()

    @contextmanager
    def one_thread(self) -> Generator[None, None, None]:
        """Keep the other threads of this process away."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Be the one thread of this process that uses the lock; Busy if that takes too long."""
        if not self._threads.acquire(timeout=self._wait_seconds):
            raise Busy(self._task, self._wait_seconds)

    def enter_if_free(self) -> bool:
        """Be that thread if nobody else is."""
        return self._threads.acquire(blocking=False)

    def leave(self) -> None:
        """Let other threads use it."""
        self._threads.release()

    def open(self, folder: int) -> None:
        """Open the lock's files in a task's folder, made if need be."""
        if self._lock >= 0:
            return
        try:
            self._gate = self._open_one(GATE, folder)
            self._lock = self._open_one(LOCK, folder)
            ours = self._disk.fstat(self._lock)
        except BaseException:
            self.close()
            raise
        self._identity = ours.st_ino, ours.st_dev

    def _open_one(self, name: str, folder: int) -> int:
        with suppress(FileNotFoundError):
            return open_at_least_to_read(self._disk, name, UPDATE, at=folder)
        with suppress(FileExistsError):
            return new_file(self._disk, name, at=folder)
        return open_file(self._disk, name, UPDATE, at=folder)

    @property
    def is_open(self) -> bool:
        """Say whether its files are open."""
        return self._lock >= 0

    def close(self) -> None:
        """Let go of the files."""
        # A child that was forked meanwhile has them open, too.
        self.end_stint()
        for fd in (self._gate, self._lock):
            if fd >= 0:
                self._disk.close(fd)
        self._gate = self._lock = -1

    def take_if_free(self, path: str) -> bool:
        """Take the lock if it was kept for us, or if nobody has it or waits for it."""
        return (
            self._take_kept() or self._disk.lock_in_turn(self._gate, self._lock)
        ) and self._is_ours_or_let_go(path)

    def take(self, path: str, while_waiting: WhileWaiting | None = None) -> bool:
        """Take the lock, and say whether others had it.

        `path` is the whole path of `.lock`, to see that it is still the same file.
        """
        has_it = self._take_kept() or self._disk.lock_in_turn(self._gate, self._lock)
        if not has_it:
            self._wait(while_waiting)
        if not self._is_ours_or_let_go(path):
            raise LockReplaced
        return not has_it

    def _wait(self, while_waiting: WhileWaiting | None) -> None:
        has_lock = False
        try:
            has_lock = self._disk.lock_in_turn(
                self._gate, self._lock, self._wait_seconds, while_waiting
            )
        finally:
            if not has_lock:
                # Our turn may come later on these descriptors; closed, it passes at once.
                self.close()
        if not has_lock:
            raise Busy(self._task, self._wait_seconds)

    def release(self) -> None:
        """Let go of the lock; while a stint lasts, only for others of this process."""
        with self._mutex:
            if self._stint_ends and self._disk.monotonic() < self._stint_ends:
                self._is_kept = True
            else:
                self._let_go()

    def _is_ours_or_let_go(self, path: str) -> bool:
        """Let go of the lock again unless it is the one that everybody takes."""
        is_in_place = False
        try:
            is_in_place = self._is_in_place(path)
        finally:
            if not is_in_place:
                with self._mutex:
                    self._let_go()
        return is_in_place

    def _let_go(self) -> None:
        self._is_kept = False
        self._forget_stint()
        self._disk.unlock(self._lock)

    # --- stints -------------------------------------------------------------------------------

    @property
    def has_stint(self) -> bool:
        """Say whether a stint lasts."""
        return self._stint_ends > 0

    def begin_stint(self, seconds: float) -> None:
        """Keep the lock for so long, for whoever of us takes it next; whoever holds it says so.

        A thread sees to its end, for a program that goes on and never comes back to it.
        """
        self._stint += 1
        self._stint_is_over.clear()
        self._stint_ends = self._disk.monotonic() + seconds
        if not in_a_waiting_thread(partial(self._sit_out, self._stint, seconds)):
            self._stint_ends = 0.0

    def _sit_out(self, stint: int, seconds: float) -> None:
        # Real seconds, whatever clock the disk has: real processes wait for it.
        self._stint_is_over.wait(seconds)
        self.end_stint(stint)

    def end_stint(self, stint: int | None = None) -> None:
        """Let go of a lock that is kept; one that is in use is let go of when that is over.

        With a number, only if it is that stint which lasts.
        """
        with self._mutex:
            if stint in (None, self._stint):
                self._forget_stint()
                if self._is_kept:
                    self._let_go()

    def _forget_stint(self) -> None:
        if self._stint_ends:
            self._stint_ends = 0.0
            self._stint_is_over.set()

    def _take_kept(self) -> bool:
        with self._mutex:
            was_kept, self._is_kept = self._is_kept, False
        return was_kept

    def _is_in_place(self, path: str) -> bool:
        try:
            inode, device, _ = self._disk.identity(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            return False
        return (inode, device) == self._identity

    # --- the note -----------------------------------------------------------------------------

    def note(self) -> Extent | None:
        """Give what was noted, if anything is."""
        raw = self._disk.pread(self._lock, NOTE_LENGTH, 0)
        if raw != self._noted[0]:
            self._noted = raw, note_in(raw)
        return self._noted[1]

    def write_note(self, note: Extent) -> None:
        """Note what was flushed. If that fails, the next one who looks flushes once more."""
        raw = _NOTE % note
        self._noted = raw, note
        try:
            self._disk.pwrite(self._lock, raw, 0)
        except OSError:
            return

    def keep_note(self) -> None:
        """See that a power cut leaves this note, or a later one."""
        self._disk.flush_data(self._lock)

    def withdraw_note(self) -> None:
        """Note that everybody must look for themselves; if that fails, nothing may be changed."""
        self._disk.pwrite(self._lock, b"-" * (NOTE_LENGTH - 1) + b"\n", 0)


def note_in(raw: bytes) -> Extent | None:
    """Read a note; None if it is none."""
    words = raw.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return None
    return Extent(*map(int, words))
