"""Mend the end of a segment: a writer that is killed leaves part of a line, even of one write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast_storage.core.records import Place, Record, decode_line
from holdfast_storage.engines.folder.files import write_at
from holdfast_storage.engines.folder.lines import BLANKS, ROOM, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast_storage.engines.folder.disk import Disk

_BLOCK = 1 << 16
# A disk writes so much at once or not at all; what is larger, in any order.
_SECTOR = 512


def mended(
    disk: Disk,
    fd: int,
    number: int,
    length: int,
    quarantine: Callable[[str, bytes], object],
    *,
    flushed: int | None,
) -> int:
    """See that a segment ends with a whole line, and perhaps room; answers where the line ends.

    Under the lock. Up to `flushed` all is known to be durable, and so to be whole: what is wrong there is
    damage. If that is not known, nothing was ever written over room.
    """
    start, is_torn = whole_until(disk, fd, length, flushed)
    rest = disk.pread(fd, length - start, start)
    line = rest.rstrip(BLANKS)
    if line and not is_torn and isinstance(decode_line(line, Place(number, start, 0)), Record):
        # Only its newline was cut off.
        write_at(disk, fd, b"\n", start + len(line))
        start += len(line) + 1
    elif line:
        quarantine(f"{number:06d}-{start}-torn.txt", _without_room(rest))
    if flushed is not None and start < flushed <= length:
        # It was acknowledged and is gone: from now on a line that cannot be believed tells so.
        write_at(disk, fd, b"\n", flushed - 1)
        start = flushed
    if disk.pread(fd, length, start).strip(ROOM):
        # Also zeros in the place of room, which would be looked at again and again.
        disk.truncate(fd, start)
    return start


def whole_until(disk: Disk, fd: int, length: int, flushed: int | None) -> tuple[int, bool]:
    """Give where the lines end that are there to be read, and whether one that is torn ends them."""
    if flushed is None:
        flushed = _start_of_last_line(disk, fd, length)
    elif not _is_start_of_line(disk, fd, flushed):
        # The note, or the journal, is not as it was. Then nothing is taken for torn.
        flushed = length
    start = _start_of_torn(disk, fd, flushed, length)
    return (start_of_tail(disk, fd, length), False) if start is None else (start, True)


def _is_start_of_line(disk: Disk, fd: int, offset: int) -> bool:
    return offset == 0 or disk.pread(fd, 1, offset - 1) == b"\n"


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


def _start_of_last_line(disk: Disk, fd: int, length: int) -> int:
    return start_of_tail(disk, fd, max(start_of_tail(disk, fd, length) - 1, 0))


def is_torn(line: bytes, offset: int) -> bool:
    """Say whether a sector of a line at this offset is blank: the power was cut before it was written.

    What is written over room may come to lie there in any order, and so end with its newline and yet not
    be there. Nothing that follows was acknowledged: it is of the same write.
    """
    starts = range(-(offset % _SECTOR), len(line), _SECTOR)
    parts = (line[max(0, start) : start + _SECTOR] for start in starts)
    return any(not part.strip(BLANKS) for part in parts)


def _without_room(torn: bytes) -> bytes:
    """Leave out the room behind a line, and none of what may be its own blanks."""
    line = torn.rstrip(BLANKS)
    return line if len(torn) - len(line) >= _SECTOR else torn


def _start_of_torn(disk: Disk, fd: int, flushed: int, length: int) -> int | None:
    for portion in lines_of(disk, fd, flushed, length):
        for offset, raw in portion:
            is_whole = isinstance(decode_line(raw, Place(0, offset, len(raw))), Record)
            if not is_whole and is_torn(raw, offset):
                return offset
    return None
