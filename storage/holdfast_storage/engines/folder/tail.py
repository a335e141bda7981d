"""Mend the end of a segment: a writer that is killed leaves part of a line, even of one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast_storage.core.records import Place, Record, decode_line
from holdfast_storage.engines.folder.files import write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast_storage.engines.folder.files import Disk

_BLOCK = 1 << 16


def mended(
    disk: Disk, fd: int, number: int, length: int, quarantine: Callable[[str, bytes], object]
) -> int:
    """See that a segment ends with a whole line; answers its length then. Under the lock."""
    start = start_of_tail(disk, fd, length)
    if start == length:
        return length
    tail = disk.pread(fd, length - start, start)
    if isinstance(decode_line(tail, Place(number, start, len(tail))), Record):
        # Only its newline was cut off.
        write_all(disk, fd, b"\n")
        return length + 1
    quarantine(f"{number:06d}-{start}-torn.txt", tail)
    disk.truncate(fd, start)
    return start


def start_of_tail(disk: Disk, fd: int, length: int) -> int:
    """Give the offset after the last newline."""
    end = length
    while end > 0:
        size = min(_BLOCK, end)
        found = disk.pread(fd, size, end - size).rfind(b"\n")
        if found >= 0:
            return end - size + found + 1
        end -= size
    return 0
