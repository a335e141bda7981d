"""A disk in memory behind the seam: it remembers what is durable, and can be cut off, killed or failed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from random import Random

from tests.torture.model.nodes import Change, Effect, File, Folder, Node, Open, Tree
from tests.torture.model.schedule import Killed, Schedule

from holdfast_storage.engines.folder.files import (
    FILE_MODE,
    Disk,
    ExchangeUnsupported,
    LeaseUnsupported,
)

_TICK_NS = 1_000_000
_START_NS = 1_767_300_000_000_000_000

# What a power cut after them may undo; all other calls leave the disk as it is.
CHANGING = frozenset(
    {
        *("create", "write", "pwrite", "truncate", "flush_data", "flush", "mkdir", "rmdir"),
        *("rename", "rename_new", "exchange", "link", "unlink", "chmod"),
    }
)


class World:
    """All there is on one machine: files, descriptors, locks and a clock."""

    def __init__(self, random: Random, now_ns: int = _START_NS) -> None:
        self.random, self.now_ns = random, now_ns
        self._nodes = 1
        self.root = Folder(1, now_ns)
        self.descriptors: dict[int, Open] = {}
        self._next_descriptor = 3
        self.leased: set[int] = set()
        self.schedule = Schedule(random)
        self.can_exchange = self.can_lease = True
        # Called before every call that changes something.
        self.before_change: Callable[[], None] = _nothing

    @classmethod
    def after(cls, tree: Tree, random: Random, now_ns: int) -> World:
        """Give the machine after a power cut, a minute later."""
        world = cls(random, now_ns + 60_000_000_000)
        world._fill(world.root, tree, {})
        return world

    def _fill(self, folder: Folder, tree: Tree, known: dict[int, File]) -> None:
        for name, image in tree.files.items():
            file = known.get(image.number)
            if file is None:
                file = File(self.number(), image.permissions, image.mtime_ns, image.data)
                known[image.number] = file
            file.links += 1
            folder.entries[name] = file
        for name, below in tree.folders.items():
            inner = Folder(self.number(), self.now_ns)
            inner.links = 1
            folder.entries[name] = inner
            self._fill(inner, below, known)
        folder.durable = dict(folder.entries)

    def number(self) -> int:
        """Give the number of a new file."""
        self._nodes += 1
        return self._nodes

    def tick(self) -> int:
        """Let a little time pass."""
        self.now_ns += _TICK_NS
        return self.now_ns

    def open(self, node: Node, flags: int, process: str) -> int:
        """Give a descriptor."""
        fd = self._next_descriptor
        self._next_descriptor += 1
        self.descriptors[fd] = Open(node, flags, process)
        return fd

    def end(self, process: str) -> None:
        """End a process: the kernel closes what it had open."""
        for fd in self.held_by(process):
            del self.descriptors[fd]

    def held_by(self, process: str) -> list[int]:
        """Give the descriptors of a process."""
        return [fd for fd, held in self.descriptors.items() if held.process == process]

    def locks_of(self, process: str) -> list[Open]:
        """Give the locks that a process holds."""
        return [one for one in self.descriptors.values() if one.process == process and one.has_lock]

    def is_free(self, fd: int, *, shared: bool) -> bool:
        """Say whether nobody else has a lock that keeps this one from being had."""
        mine = self.descriptors[fd]
        return not any(
            other.has_lock and not (shared and other.is_shared)
            for other in self.descriptors.values()
            if other is not mine and other.node is mine.node
        )


def _nothing() -> None:
    pass


Trouble = Callable[[str, int], None]


class ModelDisk(Disk):
    """What one process sees of a world."""

    def __init__(self, world: World, process: str, boot: str = "first boot") -> None:
        self.world, self.process, self._boot = world, process, boot
        self._random = Random(f"{process}:{world.random.random()}")
        self.calls = 0
        self.changes = 0
        self.kill_at = 0  # before so many changing calls
        self.is_dead = False
        # May raise in the place of a call, given its name and which one it is.
        self.trouble: Trouble | None = None
        # How much of a write goes in, given how long it is.
        self.shortening: Callable[[int], int] | None = None
        self._offsets: dict[int, int] = {}
        self._flushing = -1

    # --- every call ---------------------------------------------------------------------------

    def _call(self, name: str) -> None:
        if self.is_dead:
            raise Killed
        world = self.world
        world.schedule.pause()
        world.tick()
        self.calls += 1
        if name in CHANGING:
            self.changes += 1
            world.before_change()
            if self.changes == self.kill_at:
                self.kill()
        if self.trouble is not None:
            try:
                self.trouble(name, self.calls)
            except OSError:
                if name in ("flush", "flush_data"):
                    self._fail_to_flush()
                raise

    def kill(self) -> None:
        """End the process here and now."""
        self.is_dead = True
        self.world.end(self.process)
        raise Killed

    # --- descriptors --------------------------------------------------------------------------

    def open(self, name: str, flags: int, mode: int = FILE_MODE, *, at: int | None) -> int:
        folder, last = self._place(name, at)
        node: Node | None = folder if last in ("", ".") else folder.entries.get(last)
        self._call("create" if node is None and flags & os.O_CREAT else "open")
        folder, last = self._place(name, at)
        node = folder if last in ("", ".") else folder.entries.get(last)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, name)
            node = File(self.world.number(), mode, self.world.now_ns)
            folder.happen({last: node}, self.world.now_ns)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, name)
        if flags & os.O_DIRECTORY and not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, name)
        if isinstance(node, Folder) and flags & (os.O_RDWR | os.O_WRONLY):
            raise _error(errno.EISDIR, name)
        found = node
        self.world.schedule.wait(lambda: found.number not in self.world.leased)
        if isinstance(node, File) and flags & os.O_TRUNC and node.size:
            self._call("truncate")
            node.happen(Effect(0, None), self.world.now_ns)
        return self.world.open(node, flags, self.process)

    def close(self, fd: int) -> None:
        if self.is_dead:
            raise Killed
        self._held(fd)
        del self.world.descriptors[fd]

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._call("pread")
        return self._file(fd).data[offset : offset + size]

    def write(self, fd: int, raw: bytes) -> int:
        self._call("write")
        file, held = self._file(fd), self._held(fd)
        if not held.flags & (os.O_RDWR | os.O_WRONLY):
            raise _error(errno.EBADF)
        offset = file.size if held.flags & os.O_APPEND else self._offsets.get(fd, 0)
        taken = raw if self.shortening is None else raw[: self.shortening(len(raw))]
        if taken:
            file.happen(Effect(offset, taken), self.world.now_ns)
        self._offsets[fd] = offset + len(taken)
        return len(taken)

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        self._call("pwrite")
        if not self._held(fd).flags & (os.O_RDWR | os.O_WRONLY):
            raise _error(errno.EBADF)
        self._file(fd).happen(Effect(offset, raw), self.world.now_ns)
        return len(raw)

    def truncate(self, fd: int, length: int) -> None:
        self._call("truncate")
        self._file(fd).happen(Effect(length, None), self.world.now_ns)

    def chmod(self, fd: int, mode: int) -> None:
        self._call("chmod")
        node = self._held(fd).node
        node.mode = node.mode & ~0o7777 | mode

    def flush_data(self, fd: int) -> None:
        self._flush("flush_data", fd)

    def flush(self, fd: int) -> None:
        self._flush("flush", fd)

    def _flush(self, call: str, fd: int) -> None:
        self._flushing = fd
        self._call(call)
        node = self._held(fd).node
        assert isinstance(node, File | Folder)
        node.flush()

    def _fail_to_flush(self) -> None:
        node = self._held(self._flushing).node
        if isinstance(node, File):
            node.fail_to_flush()

    def fstat(self, fd: int) -> os.stat_result:
        self._call("fstat")
        return self._held(fd).node.stat()

    # --- names --------------------------------------------------------------------------------

    def stat(self, name: str, *, at: int | None) -> os.stat_result:
        self._call("stat")
        return self._node(name, at).stat()

    def listdir(self, fd: int) -> list[str]:
        self._call("listdir")
        names = list(self._folder(fd).entries)
        self._random.shuffle(names)
        return names

    def folders(self, fd: int) -> list[str]:
        self._call("listdir")
        found = self._folder(fd).entries.items()
        return [name for name, node in found if isinstance(node, Folder)]

    def mkdir(self, name: str, *, at: int | None) -> None:
        self._call("mkdir")
        folder, last = self._place(name, at)
        if last in folder.entries:
            raise _error(errno.EEXIST, name)
        made = Folder(self.world.number(), self.world.now_ns)
        folder.happen({last: made}, self.world.now_ns)

    def rmdir(self, name: str, *, at: int) -> None:
        self._call("rmdir")
        node = self._node(name, at)
        assert isinstance(node, Folder)
        if node.entries:
            raise _error(errno.ENOTEMPTY, name)
        self._change(at, {name: None})

    def rename(self, old: str, new: str, *, at: int) -> None:
        self._call("rename")
        self._change(at, {old: None, new: self._node(old, at)})

    def rename_new(self, old: str, new: str, *, at: int) -> None:
        self._call("rename_new")
        if new in self._folder(at).entries:
            raise _error(errno.EEXIST, new)
        self._change(at, {old: None, new: self._node(old, at)})

    def exchange(self, one: str, other: str, *, at: int) -> None:
        if not self.world.can_exchange:
            raise ExchangeUnsupported
        self._call("exchange")
        self._change(at, {one: self._node(other, at), other: self._node(one, at)})

    def link(self, old: str, new: str, *, at: int) -> None:
        self._call("link")
        if new in self._folder(at).entries:
            raise _error(errno.EEXIST, new)
        self._change(at, {new: self._node(old, at)})

    def unlink(self, name: str, *, at: int) -> None:
        self._call("unlink")
        self._node(name, at)
        self._change(at, {name: None})

    # --- locks --------------------------------------------------------------------------------

    def lock(self, fd: int, wait_seconds: float = 0.0, *, shared: bool = False) -> bool:
        self._call("lock")
        world = self.world
        if not world.is_free(fd, shared=shared):
            is_in_time = wait_seconds > 0 and world.schedule.wait(
                lambda: world.is_free(fd, shared=shared)
            )
            if not is_in_time:
                world.now_ns += int(max(0.0, wait_seconds) * 1e9)
                return False
        held = self._held(fd)
        held.has_lock, held.is_shared = True, shared
        return True

    def unlock(self, fd: int) -> None:
        self._call("unlock")
        self._held(fd).has_lock = False

    @contextmanager
    def alone_with(self, fd: int) -> Generator[bool, None, None]:
        if not self.world.can_lease:
            raise LeaseUnsupported
        self._call("lease")
        node = self._held(fd).node
        if sum(held.node is node for held in self.world.descriptors.values()) > 1:
            yield False
            return
        self.world.leased.add(node.number)
        try:
            yield True
        finally:
            self.world.leased.discard(node.number)

    # --- time and chance ----------------------------------------------------------------------

    def now_ns(self) -> int:
        return self.world.now_ns

    def monotonic(self) -> float:
        return self.world.now_ns / 1e9

    def sleep(self, seconds: float) -> None:
        self._call("sleep")
        self.world.now_ns += int(seconds * 1e9)

    def random_hex(self, count: int = 8) -> str:
        return self._random.randbytes(count).hex()

    def boot_id(self) -> str:
        return sha256(self._boot.encode()).hexdigest()[:12]

    # --- finding things -----------------------------------------------------------------------

    def _held(self, fd: int) -> Open:
        held = self.world.descriptors.get(fd)
        if held is None or held.process != self.process:
            raise _error(errno.EBADF)
        return held

    def _file(self, fd: int) -> File:
        node = self._held(fd).node
        if not isinstance(node, File):
            raise _error(errno.EISDIR)
        return node

    def _folder(self, fd: int) -> Folder:
        node = self._held(fd).node
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR)
        return node

    def _place(self, name: str, at: int | None) -> tuple[Folder, str]:
        folder = self.world.root if at is None else self._folder(at)
        *way, last = name.strip("/").split("/")
        for step in way:
            node = folder.entries.get(step)
            if node is None:
                raise _error(errno.ENOENT, name)
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, name)
            folder = node
        return folder, last

    def _node(self, name: str, at: int | None) -> Node:
        folder, last = self._place(name, at)
        if last in ("", "."):
            return folder
        node = folder.entries.get(last)
        if node is None:
            raise _error(errno.ENOENT, name)
        return node

    def _change(self, at: int, change: Change) -> None:
        self._folder(at).happen(change, self.world.now_ns)


def _error(code: int, name: str = "") -> OSError:
    return OSError(code, os.strerror(code), name)
