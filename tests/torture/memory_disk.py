"""A file system in memory behind the engine's seam, which remembers what a power cut would spare.

Every file and folder has two faces: what processes see, and what was flushed. What lies between the
two is kept as the list of single changes, so that `power_cut` can let any part of them happen.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple, NoReturn

from holdfast_storage.engines.folder.disk import Disk, Identity
from holdfast_storage.engines.folder.waiting import WhileWaiting

SECOND = 1_000_000_000
_MADE_BEFORE = 1_800_000_000 * SECOND


class Killed(BaseException):
    """This process was killed: nothing it still does has any effect."""


class Stat(NamedTuple):
    """As much of a stat as the engine looks at."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_dev: int = 1


class Node:
    """What files and folders have in common."""

    def __init__(self, number: int, mode: int, now_ns: int) -> None:
        self.number, self.mode = number, mode
        self.links = 0
        self.mtime_ns = self.ctime_ns = now_ns
        self.handles: set[Handle] = set()
        self.lockers: set[Handle] = set()
        self.is_shared = False

    def stat(self) -> Stat:
        """Give what stat gives."""
        kind = stat.S_IFDIR if isinstance(self, Folder) else stat.S_IFREG
        size = len(self.data) if isinstance(self, File) else 4096
        links = max(1, self.links)
        return Stat(kind | self.mode, self.number, links, size, self.mtime_ns, self.ctime_ns)


class File(Node):
    """Bytes, and the writes since they were flushed: (offset, bytes), or (length, None) for a cut."""

    def __init__(self, number: int, mode: int, now_ns: int, data: bytes = b"") -> None:
        super().__init__(number, mode, now_ns)
        self.data = self.saved = data
        self.writes: list[tuple[int, bytes | None]] = []
        # Writes of which a flush failed: nobody will ever write them to the disk.
        self.lost: list[tuple[int, bytes]] = []

    def write(self, offset: int, raw: bytes | None) -> None:
        """Write, or cut off where there is nothing to write."""
        self.data = written(self.data, offset, raw)
        self.writes.append((offset, raw))
        end = offset if raw is None else offset + len(raw)
        if self.lost:
            # Cut off or written again, they are as good as any other.
            self.lost = [one for one in self.lost if not offset <= one[0] < max(end, offset + 1)]

    def flush(self) -> None:
        """Make it survive."""
        self.saved = self.data
        for offset, raw in self.lost:
            self.saved = written(self.saved, offset, bytes(len(raw)))
        self.writes.clear()

    def fail_to_flush(self) -> None:
        """Do as kernels do: the pages count as clean, so the next flush succeeds and means nothing."""
        self.lost += [(offset, raw) for offset, raw in self.writes if raw]
        self.writes.clear()


Move = tuple[tuple[str, Node | None], ...]


class Folder(Node):
    """Names, and the moves since they were flushed; each move happens wholly or not at all."""

    def __init__(self, number: int, mode: int, now_ns: int) -> None:
        super().__init__(number, mode, now_ns)
        self.entries: dict[str, Node] = {}
        self.saved: dict[str, Node] = {}
        self.moves: list[Move] = []

    def move(self, *changes: tuple[str, Node | None]) -> None:
        """Change names in one go."""
        for name, _ in changes:
            if name in self.entries:
                self.entries[name].links -= 1
        apply_move(self.entries, changes)
        for _, node in changes:
            if node is not None:
                node.links += 1
        self.moves.append(changes)

    def flush(self) -> None:
        """Make the names survive."""
        self.saved = dict(self.entries)
        self.moves.clear()


def apply_move(entries: dict[str, Node], changes: Move) -> None:
    """Change names as a move says."""
    for name, node in changes:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def written(data: bytes, offset: int, raw: bytes | None) -> bytes:
    """Give the bytes after one write, or after a cut where there is nothing to write."""
    if raw is None:
        return data[:offset].ljust(offset, b"\0")
    return data[:offset].ljust(offset, b"\0") + raw + data[offset + len(raw) :]


class Handle:
    """One open file of one process."""

    __slots__ = ("flags", "node", "position")

    def __init__(self, node: Node, flags: int) -> None:
        self.node, self.flags, self.position = node, flags, 0


class FileSystem:
    """All files of one machine between two power cuts."""

    def __init__(self, *, boot: int = 0, now_ns: int = _MADE_BEFORE) -> None:
        self.now_ns, self.boot, self.up_since_ns = now_ns, boot, now_ns
        self.root = Folder(2, 0o700, now_ns)
        self.last_number = 2
        # Called after everything that changes what a power cut may leave.
        self.after_change: Callable[[], None] | None = None
        # Called before every call, so that another process may come first.
        self.before_call: Callable[[], None] | None = None
        # Nobody does anything any more.
        self.is_over = False
        # Called while somebody else holds a lock; False if waiting is in vain.
        self.wait: Callable[[], bool] = lambda: False

    def number(self) -> int:
        """Give a number for a new file."""
        self.last_number += 1
        return self.last_number

    def tick(self) -> int:
        """Let a microsecond pass."""
        self.now_ns += 1000
        return self.now_ns

    def make_path(self, path: str) -> None:
        """Make folders that were there long before."""
        folder = self.root
        for name in path.strip("/").split("/"):
            child = folder.entries.get(name) or Folder(self.number(), 0o700, self.now_ns)
            folder.move((name, child))
            folder.flush()
            assert isinstance(child, Folder)
            folder = child


def _fail(code: int, name: str = "") -> NoReturn:
    raise OSError(code, os.strerror(code), name or None)


class MemoryDisk(Disk):
    """The calls of one process."""

    def __init__(self, fs: FileSystem, seed: int = 0, *, dies_at: int = 0) -> None:
        self.fs = fs
        self._random = Random(seed)
        self._handles: dict[int, Handle] = {}
        self._last_fd = 2
        # The change, counted from one, in the midst of which this process is killed.
        self._dies_at = dies_at
        self._changes = 0
        self.is_dead = False

    # --- life ---------------------------------------------------------------------------------

    @property
    def open_files(self) -> int:
        """How many descriptors are open."""
        return len(self._handles)

    def kill(self) -> None:
        """End the process as SIGKILL does: its descriptors and locks go, what it wrote stays."""
        self.is_dead = True
        for handle in self._handles.values():
            _let_go(handle)
        self._handles.clear()

    def _begin(self) -> None:
        if self.is_dead or self.fs.is_over:
            raise Killed
        if self.fs.before_call:
            self.fs.before_call()
            if self.is_dead:
                raise Killed

    def _begin_change(self) -> None:
        self._begin()
        self._changes += 1
        if self._changes == self._dies_at:
            self.kill()
            raise Killed
        self.fs.tick()

    def _changed(self) -> None:
        if self.fs.after_change:
            self.fs.after_change()

    # --- finding ------------------------------------------------------------------------------

    def _handle(self, fd: int) -> Handle:
        handle = self._handles.get(fd)
        if handle is None:
            _fail(errno.EBADF)
        return handle

    def _file(self, fd: int, *, to_write: bool = False) -> tuple[Handle, File]:
        handle = self._handle(fd)
        if not isinstance(handle.node, File):
            _fail(errno.EISDIR)
        if to_write and handle.flags & os.O_ACCMODE == os.O_RDONLY:
            _fail(errno.EBADF)
        return handle, handle.node

    def _folder(self, fd: int) -> Folder:
        node = self._handle(fd).node
        if not isinstance(node, Folder):
            _fail(errno.ENOTDIR)
        return node

    def _place(self, name: str, at: int | None) -> tuple[Folder, str]:
        """Give the folder a name lies in, and its last part."""
        folder = self.fs.root if at is None else self._folder(at)
        if "/" not in name:
            return folder, name
        *parents, last = [part for part in name.split("/") if part]
        for part in parents:
            node = folder.entries.get(part)
            if node is None:
                _fail(errno.ENOENT, name)
            if not isinstance(node, Folder):
                _fail(errno.ENOTDIR, name)
            folder = node
        return folder, last

    def _named(self, name: str, at: int | None) -> Node:
        if name == "." and at is not None:
            return self._folder(at)
        folder, last = self._place(name, at)
        node = folder.entries.get(last)
        if node is None:
            _fail(errno.ENOENT, name)
        return node

    # --- descriptors --------------------------------------------------------------------------

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        makes = bool(flags & os.O_CREAT)
        if makes or flags & os.O_TRUNC:
            self._begin_change()
        else:
            self._begin()
        node = self._opened(name, flags, mode, at)
        handle = Handle(node, flags)
        node.handles.add(handle)
        self._last_fd += 1
        self._handles[self._last_fd] = handle
        fd = self._last_fd
        if makes or flags & os.O_TRUNC:
            self._changed()
        return fd

    def _opened(self, name: str, flags: int, mode: int, at: int | None) -> Node:
        if flags & os.O_CREAT:
            folder, last = self._place(name, at)
            if last not in folder.entries:
                made = File(self.fs.number(), mode, self.fs.now_ns)
                folder.move((last, made))
                return made
            if flags & os.O_EXCL:
                _fail(errno.EEXIST, name)
        node = self._named(name, at)
        if flags & os.O_DIRECTORY and not isinstance(node, Folder):
            _fail(errno.ENOTDIR, name)
        if isinstance(node, Folder) and flags & os.O_ACCMODE != os.O_RDONLY:
            _fail(errno.EISDIR, name)
        if flags & os.O_TRUNC and isinstance(node, File):
            self._write(node, 0, None)
        return node

    def close(self, fd: int) -> None:
        if self.is_dead or self.fs.is_over:
            return
        self._begin()
        _let_go(self._handle(fd))
        del self._handles[fd]

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._begin()
        return self._file(fd)[1].data[offset : offset + size]

    def write(self, fd: int, raw: bytes) -> int:
        self._begin_change()
        handle, file = self._file(fd, to_write=True)
        offset = len(file.data) if handle.flags & os.O_APPEND else handle.position
        self._write(file, offset, raw)
        handle.position = offset + len(raw)
        self._changed()
        return len(raw)

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        self._begin_change()
        _, file = self._file(fd, to_write=True)
        self._write(file, offset, raw)
        self._changed()
        return len(raw)

    def truncate(self, fd: int, length: int) -> None:
        self._begin_change()
        _, file = self._file(fd, to_write=True)
        self._write(file, length, None)
        self._changed()

    def _write(self, file: File, offset: int, raw: bytes | None) -> None:
        file.write(offset, raw)
        file.mtime_ns = file.ctime_ns = self.fs.now_ns

    def chmod(self, fd: int, mode: int) -> None:
        self._begin()
        self._handle(fd).node.mode = mode

    def begin_flush(self, fd: int) -> None:
        """It is a hint: whatever it wrote early, a power cut may have taken all the same."""
        self._begin_change()

    def flush_data(self, fd: int) -> None:
        self.flush(fd)

    def flush(self, fd: int) -> None:
        self._begin_change()
        node = self._handle(fd).node
        assert isinstance(node, (File, Folder))
        node.flush()
        self._changed()

    def fstat(self, fd: int) -> Any:
        self._begin()
        return self._handle(fd).node.stat()

    # --- names --------------------------------------------------------------------------------

    def stat(self, name: str, *, at: int | None) -> Any:
        self._begin()
        return self._named(name, at).stat()

    def identity(self, path: str) -> Identity:
        found = self.stat(path, at=None)
        return found.st_ino, found.st_dev, found.st_size

    def listdir(self, fd: int) -> list[str]:
        self._begin()
        return list(self._folder(fd).entries)

    def folders(self, fd: int) -> list[str]:
        self._begin()
        entries = self._folder(fd).entries
        return [name for name, node in entries.items() if isinstance(node, Folder)]

    def links(self, fd: int) -> list[str]:
        self._begin()
        self._folder(fd)
        return []  # nobody plants any here: hostile_files does

    def mkdir(self, name: str, *, at: int | None) -> None:
        self._begin_change()
        folder, last = self._place(name, at)
        if last in folder.entries:
            _fail(errno.EEXIST, name)
        self._move(folder, (last, Folder(self.fs.number(), 0o700, self.fs.now_ns)))

    def rmdir(self, name: str, *, at: int) -> None:
        self._begin_change()
        node = self._named(name, at)
        if not isinstance(node, Folder) or node.entries:
            _fail(errno.ENOTEMPTY, name)
        self._move(self._folder(at), (name, None))

    def rename(self, old: str, new: str, *, at: int) -> None:
        self._begin_change()
        node, folder = self._named(old, at), self._folder(at)
        there = folder.entries.get(new)
        if isinstance(node, Folder) and there is not None and getattr(there, "entries", True):
            _fail(errno.ENOTEMPTY if isinstance(there, Folder) else errno.ENOTDIR, new)
        self._move(folder, (old, None), (new, node))

    def rename_new(self, old: str, new: str, *, at: int) -> None:
        self._begin_change()
        node, folder = self._named(old, at), self._folder(at)
        if new in folder.entries:
            _fail(errno.EEXIST, new)
        self._move(folder, (old, None), (new, node))

    def exchange(self, one: str, other: str, *, at: int) -> None:
        self._begin_change()
        first, second = self._named(one, at), self._named(other, at)
        self._move(self._folder(at), (one, second), (other, first))

    def link(self, old: str, new: str, *, at: int) -> None:
        self._begin_change()
        node, folder = self._named(old, at), self._folder(at)
        if new in folder.entries:
            _fail(errno.EEXIST, new)
        self._move(folder, (new, node))

    def unlink(self, name: str, *, at: int) -> None:
        self._begin_change()
        self._named(name, at)
        self._move(self._folder(at), (name, None))

    def _move(self, folder: Folder, *changes: tuple[str, Node | None]) -> None:
        folder.move(*changes)
        folder.mtime_ns = self.fs.now_ns
        for _, node in changes:
            if node is not None:
                node.ctime_ns = self.fs.now_ns
        self._changed()

    # --- locks --------------------------------------------------------------------------------

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        return self._lock(fd, 0.0, shared=shared)

    def lock_in_turn(
        self,
        gate: int,
        fd: int,
        wait_seconds: float = 0.0,
        while_waiting: WhileWaiting | None = None,
    ) -> bool:
        if not self._lock(gate, wait_seconds, while_waiting):
            return False
        try:
            return self._lock(fd, wait_seconds, while_waiting)
        finally:
            self.unlock(gate)

    def _lock(
        self,
        fd: int,
        wait_seconds: float,
        while_waiting: WhileWaiting | None = None,
        *,
        shared: bool = False,
    ) -> bool:
        self._begin()
        handle = self._handle(fd)
        node = handle.node
        while node.lockers - {handle} and not (shared and node.is_shared):
            if wait_seconds <= 0 or not self.fs.wait():
                return False
            if self.is_dead:
                raise Killed
            if while_waiting is not None:
                while_waiting.do()
        node.lockers.add(handle)
        node.is_shared = shared
        return True

    def unlock(self, fd: int) -> None:
        self._begin()
        handle = self._handle(fd)
        handle.node.lockers.discard(handle)

    @contextmanager
    def alone_with(self, fd: int) -> Generator[bool, None, None]:
        self._begin()
        yield self._handle(fd).node.handles == {self._handle(fd)}

    # --- time and chance ----------------------------------------------------------------------

    def now_ns(self) -> int:
        return self.fs.tick()

    def monotonic(self) -> float:
        return self.fs.tick() / SECOND

    def sleep(self, seconds: float) -> None:
        self._begin()
        self.fs.now_ns += int(seconds * SECOND)

    def random_hex(self, count: int = 8) -> str:
        return self._random.randbytes(count).hex()

    def up_since(self) -> float:
        return self.fs.up_since_ns / SECOND

    def boot_id(self) -> str:
        return f"boot-{self.fs.boot}"


def _let_go(handle: Handle) -> None:
    handle.node.handles.discard(handle)
    handle.node.lockers.discard(handle)
