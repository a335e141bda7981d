"""The files of one task's journal, and which of them are kept open."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast_storage.core.records import Place, Record
from holdfast_storage.engines.folder import lines
from holdfast_storage.engines.folder.disk import READ, UPDATE
from holdfast_storage.engines.folder.files import (
    make_folder,
    new_file,
    open_at_least_to_read,
    open_file,
    open_folder,
)
from holdfast_storage.engines.folder.found import NO_FILE, stamp_of
from holdfast_storage.engines.folder.names import JOURNAL, segment_name, segment_number

if TYPE_CHECKING:
    from collections.abc import Generator

    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.found import Stamp

_FIRSTS_KEPT = 64
# More of it nobody makes.
_MOST_ROOM = 1 << 20


class Segments:
    """The journal's folder, with its newest segment open for appending."""

    def __init__(self, disk: Disk, task: str, path: str) -> None:
        self._disk, self._task, self._path = disk, task, path
        self.folder = self.fd = -1
        self.number = self.inode = 0
        # The number of one segment, its whole path, and that of the one to follow it.
        self._paths = (0, "", "")
        self._parent = -1
        # Number, inode and descriptor of the segment that was the newest before.
        self._passed: tuple[int, int, int] | None = None
        self._firsts: dict[int, Record] = {}
        # How the newest one was when it was last looked at by its path.
        self.seen: Stamp = NO_FILE
        # How large it was when anybody looked, or we changed that: the lines, and the room behind them.
        self.size = 0

    # --- open and close -----------------------------------------------------------------------

    def open(self, parent: int, *, create: bool) -> None:
        """Open the journal's folder in the task's; FileNotFoundError if there is none."""
        if create:
            make_folder(self._disk, JOURNAL, at=parent)
        self.folder = open_folder(self._disk, JOURNAL, at=parent, label=self._path)
        self._parent = parent

    def close(self) -> None:
        """Let go of all descriptors."""
        self.let_pass()
        for fd in (self.fd, self.folder):
            if fd >= 0:
                self._disk.close(fd)
        self.folder = self.fd = self._parent = -1
        self.number = 0

    def reach_anew_if_replaced(self) -> None:
        """Follow if somebody put another folder in the place of the journal's."""
        there = self._disk.stat(JOURNAL, at=self._parent)
        if there.st_ino != self._disk.fstat(self.folder).st_ino:
            parent = self._parent
            self.close()
            self.open(parent, create=False)

    def forget(self) -> None:
        """Remember nothing of what was read."""
        self._firsts.clear()

    def forget_first(self, number: int) -> None:
        """Look at the first line of a segment again: it was rewritten."""
        self._firsts.pop(number, None)

    # --- which there are ----------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """Give the numbers of all segments, in order."""
        found = map(segment_number, self._disk.listdir(self.folder))
        return sorted(number for number in found if number is not None)

    def newest(self, known: int) -> int:
        """Give the number of the newest segment, 0 if there is none; `known` is one that exists."""
        if known == 0:
            return max(self.numbers(), default=0)
        while self.exists(known + 1):
            known += 1
        return known

    def exists(self, number: int) -> bool:
        """Say whether there is such a segment."""
        try:
            self._disk.stat(segment_name(number), at=self.folder)
        except FileNotFoundError:
            return False
        return True

    def is_untouched(self, number: int, inode: int, length: int) -> bool:
        """Say whether the segment we have open is the one at its path, and at least of that length."""
        if (number, inode) != (self.number, self.inode) or self.fd < 0:
            return False
        before = self.size
        try:
            if before > length:
                # It is about to be written over, and its time says nothing.
                found, _, self.size = self._disk.identity(self._paths_of(number)[1])
            else:
                there = self._disk.stat(self._paths_of(number)[1], at=None)
                found, self.size, self.seen = there.st_ino, there.st_size, stamp_of(there)
        except OSError:
            return False
        # Whoever makes more room lets it be seen; whatever else made it larger, too.
        return found == inode and (
            self.size in (length, before) or self.ends_with_room(length, self.size)
        )

    def ends_with_room(self, length: int, size: int) -> bool:
        """Say whether a line ends at this length and nothing but room follows it up to the size."""
        if not 0 <= size - length <= _MOST_ROOM:
            return False
        start = max(0, length - 1)
        raw = self._disk.pread(self.fd, size - start, start)
        line_end, room = raw[: length - start], raw[length - start :]
        return line_end in (b"", b"\n") and not room.strip(lines.ROOM)

    def is_last(self, number: int, seen: Stamp) -> bool:
        """Say, of a segment that need not be open, whether nobody has touched it and none follows it."""
        try:
            there = self._disk.stat(self._paths_of(number)[1], at=None)
            return stamp_of(there) == seen and not self._is_followed(number)
        except OSError:
            return False

    def is_open_last(self) -> bool:
        """Say of the one we have open that it is in its place and none follows it."""
        if self.fd < 0:
            return False
        try:
            found, _, size = self._disk.identity(self._paths_of(self.number)[1])
            return (found, size) == (self.inode, self.size) and not self._is_followed(self.number)
        except OSError:
            return False

    def _is_followed(self, number: int) -> bool:
        try:
            self._disk.stat(self._paths_of(number)[2], at=None)
        except FileNotFoundError:
            return False
        return True

    def _paths_of(self, number: int) -> tuple[int, str, str]:
        """Give a segment's number, its whole path, and that of the one to follow it."""
        if self._paths[0] != number:
            path, following = (f"{self._path}/{segment_name(n)}" for n in (number, number + 1))
            self._paths = number, path, following
        return self._paths

    # --- the newest one -----------------------------------------------------------------------

    def hold(self, number: int) -> int:
        """Have the newest segment open for writing; answers its size."""
        if self.fd < 0 or self.number != number or not self._is_in_place():
            self._set_aside(number)
            fd = open_at_least_to_read(self._disk, segment_name(number), UPDATE, at=self.folder)
            self._know(fd, number)
        self.size = self._disk.fstat(self.fd).st_size
        return self.size

    def hold_again(self, number: int) -> bool:
        """Have a segment open that was the newest; whether it still is the one is for others to see."""
        if self.fd < 0:
            self.hold(number)
        return self.number == number

    def _is_in_place(self) -> bool:
        try:
            there = self._disk.stat(segment_name(self.number), at=self.folder)
        except FileNotFoundError:
            return False
        return there.st_ino == self.inode

    def _set_aside(self, number: int) -> None:
        """Keep the segment before this one open until it is read: prune may have replaced it."""
        self.let_pass()
        if self.fd >= 0 and self.number < number:
            self._passed = (self.number, self.inode, self.fd)
        elif self.fd >= 0:
            self._disk.close(self.fd)
        self.fd = -1

    def let_pass(self) -> None:
        """Let go of the segment that was the newest before."""
        if self._passed:
            self._disk.close(self._passed[2])
            self._passed = None

    def begin(self, number: int) -> None:
        """Make a new segment; the caller flushes it and the folder."""
        fd = new_file(self._disk, segment_name(number), at=self.folder)
        self.let_pass()
        if self.fd >= 0:
            self._disk.close(self.fd)
            self.fd = -1
        self._know(fd, number)
        self.size = 0

    def cut(self, length: int) -> None:
        """Take away what lies behind this."""
        self._disk.truncate(self.fd, length)
        self.size = length

    def _know(self, fd: int, number: int) -> None:
        try:
            inode = self._disk.fstat(fd).st_ino
        except BaseException:
            self._disk.close(fd)
            raise
        self.fd, self.number, self.inode = fd, number, inode

    @contextmanager
    def readable(self, number: int, inode: int = 0) -> Generator[int, None, None]:
        """Lend a descriptor; of a segment that prune replaced, the one we had open before."""
        if self._passed and self._passed[:2] == (number, inode):
            yield self._passed[2]
        elif self.number == number and self.fd >= 0:
            yield self.fd
        else:
            with self.opened(number) as fd:
                yield fd

    @contextmanager
    def opened(self, number: int, folder: int | None = None) -> Generator[int, None, None]:
        """Open a segment for reading."""
        at = self.folder if folder is None else folder
        fd = open_file(self._disk, segment_name(number), READ, at=at)
        try:
            yield fd
        finally:
            self._disk.close(fd)

    # --- first lines --------------------------------------------------------------------------

    def first(self, number: int, folder: int | None = None) -> Record | None:
        """Give the first record of a segment without its body, if it can be believed."""
        known = self._firsts.get(number)
        if known is not None:
            return known
        with self.opened(number, folder) as fd:
            first = self._first_line(fd, number)
        if first is not None:
            # A state of 16 MiB is not to stay in memory for the sake of its seq.
            first = Record(
                first.seq, first.id, first.at, first.by, first.op, {}, first.opens, first.boot
            )
            self._firsts[number] = first
            if len(self._firsts) > _FIRSTS_KEPT:
                # Each run begins a segment, and a task may have any number; the newest are asked for.
                # Another reader may be doing the same.
                self._firsts.pop(min(tuple(self._firsts)), None)
        return first

    def _first_line(self, fd: int, number: int) -> Record | None:
        length = self._disk.fstat(fd).st_size
        for portion in lines.lines_of(self._disk, fd, 0, length):
            raw = portion[0][1]
            entry = lines.decode(self._task, raw, Place(number, 0, len(raw)))
            return entry if isinstance(entry, Record) else None
        return None
