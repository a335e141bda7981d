"""Files and folders as a power cut sees them: what is durable, and what has yet to become so."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import cast

PAGE = 4096


@dataclass(slots=True)
class Effect:
    """A write, or where `raw` is None a truncation, that no flush has made durable yet."""

    offset: int
    raw: bytes | None
    # A flush of it failed: the kernel calls it clean and no later flush writes it.
    is_forsaken: bool = False

    def on(self, data: bytes) -> bytes:
        """Give the file after it happened."""
        if self.raw is None:
            return data[: self.offset].ljust(self.offset, b"\0")
        end = self.offset + len(self.raw)
        return data[: self.offset].ljust(self.offset, b"\0") + self.raw + data[end:]


class Node:
    """What a name leads to."""

    def __init__(self, number: int, mode: int, now_ns: int) -> None:
        self.number, self.mode = number, mode
        self.mtime_ns = self.ctime_ns = now_ns
        self.links = 0

    def stat(self) -> os.stat_result:
        """Give what `stat` tells of it."""
        return cast("os.stat_result", _Stat(self))

    @property
    def size(self) -> int:
        return 0


class _Stat:
    """Looks like an `os.stat_result`, which cannot be made with nanoseconds."""

    __slots__ = ("st_ctime_ns", "st_dev", "st_ino", "st_mode", "st_mtime_ns", "st_nlink", "st_size")

    def __init__(self, node: Node) -> None:
        self.st_ino, self.st_dev, self.st_mode = node.number, 1, node.mode
        self.st_nlink, self.st_size = node.links, node.size
        self.st_mtime_ns, self.st_ctime_ns = node.mtime_ns, node.ctime_ns


class File(Node):
    """Bytes: as programs see them, as they are durable, and what lies between."""

    def __init__(self, number: int, permissions: int, now_ns: int, data: bytes = b"") -> None:
        super().__init__(number, stat.S_IFREG | permissions, now_ns)
        self.data = self.durable = data
        self.pending: list[Effect] = []

    @property
    def size(self) -> int:
        return len(self.data)

    def happen(self, effect: Effect, now_ns: int) -> None:
        """Let something happen that is not durable yet."""
        self.data = effect.on(self.data)
        self.pending.append(effect)
        self.mtime_ns = self.ctime_ns = now_ns

    def flush(self) -> None:
        """Make durable what a flush still can."""
        for effect in self.pending:
            if not effect.is_forsaken or effect.raw is None:
                self.durable = effect.on(self.durable)
        # What was forsaken may have reached the disk all the same, or not.
        self.pending = [effect for effect in self.pending if effect.is_forsaken and effect.raw]

    def fail_to_flush(self) -> None:
        """Fail as kernels do: what was to be written now counts as clean."""
        for effect in self.pending:
            effect.is_forsaken = True


Change = dict[str, "Node | None"]


class Folder(Node):
    """Names: as programs see them, as they are durable, and the changes between, each atomic."""

    def __init__(self, number: int, now_ns: int) -> None:
        super().__init__(number, stat.S_IFDIR | 0o700, now_ns)
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[Change] = []

    def happen(self, change: Change, now_ns: int) -> None:
        """Let names change in one go."""
        for name, node in change.items():
            if (before := self.entries.pop(name, None)) is not None:
                before.links -= 1
                before.ctime_ns = now_ns
        for name, node in change.items():
            if node is not None:
                self.entries[name] = node
                node.links += 1
                node.ctime_ns = now_ns
        self.pending.append(change)
        self.mtime_ns = self.ctime_ns = now_ns

    def flush(self) -> None:
        """Make all changes of names durable."""
        self.durable = dict(self.entries)
        self.pending = []


@dataclass(slots=True)
class Open:
    """A descriptor."""

    node: Node
    flags: int
    process: str
    is_shared: bool = False
    has_lock: bool = False


@dataclass(slots=True)
class Tree:
    """A folder in one of the states a power cut may leave: plain names and bytes."""

    files: dict[str, FileImage] = field(default_factory=dict["str", "FileImage"])
    folders: dict[str, Tree] = field(default_factory=dict["str", "Tree"])


@dataclass(frozen=True, slots=True)
class FileImage:
    """A file in such a state."""

    number: int
    data: bytes
    permissions: int
    mtime_ns: int
