"""How far a journal goes, how far it was read, and the reading on from there."""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from holdfast_storage.core.records import Place
from holdfast_storage.engines.folder import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.lines import Numbered

# A longer last line is compared by its end only; its crc is in there.
COMPARED = 4096
_COMPARED_IN_SHORT = 64
_PACKED = Struct("=6Q")


class Extent(NamedTuple):
    """How far the journal goes: its newest segment and the length of that."""

    segment: int
    length: int
    inode: int  # of that segment: one that prune has replaced since ends elsewhere


class Reached(NamedTuple):
    """How far it was read, and what must still be there for that to hold."""

    segment: int = 0
    inode: int = 0
    offset: int = 0
    ending: bytes = b""  # the last bytes before `offset`
    seq: int = 0
    believed: int = 0
    longest: int = 0  # the longest line of the segment

    def packed(self) -> bytes | None:
        """Give it in few bytes, with only the end of the last line, its crc included.

        None if a number in it is one that no program of ours writes, and so none that can be packed.
        """
        numbers = (self.segment, self.inode, self.offset, self.seq, self.believed, self.longest)
        try:
            return _PACKED.pack(*numbers) + self.ending[-_COMPARED_IN_SHORT:]
        except error:
            return None

    @classmethod
    def unpacked(cls, packed: bytes) -> Reached:
        """Give what was packed."""
        segment, inode, offset, seq, believed, longest = _PACKED.unpack_from(packed)
        ending = packed[_PACKED.size :]
        return cls(segment, inode, offset, ending, seq, believed, longest)


class Progress:
    """How far a reader has come while it walks through segments."""

    def __init__(self, task: str, start: Reached) -> None:
        self.reached = start
        self.is_sure = True
        self._numbering = lines.Numbering(task, start.seq, start.believed)

    def through(self, disk: Disk, fd: int, number: int, extent: Extent) -> Iterator[list[Numbered]]:
        """Go through the rest of one segment."""
        found = disk.fstat(fd)
        is_same = number == self.reached.segment and self.reached.inode in (0, found.st_ino)
        if number == self.reached.segment and not is_same:
            # Prune replaced it meanwhile: what was seen of it is passed over, its length is another.
            self.is_sure = False
        start = self.reached.offset if is_same else 0
        ending, longest = (self.reached.ending, self.reached.longest) if is_same else (b"", 0)
        is_last = (number, found.st_ino) == (extent.segment, extent.inode)
        # Any other is closed, and whole.
        end = extent.length if is_last else found.st_size
        take = self._numbering.take
        for portion in lines.lines_of(disk, fd, start, end):
            fresh: list[Numbered] = []
            for offset, raw in portion:
                take(raw, Place(number, offset, len(raw)), fresh)
            longest = max(longest, 1 + max(len(raw) for _, raw in portion))
            ending = (portion[-1][1] + b"\n")[-COMPARED:]
            yield fresh
        numbering = self._numbering
        self.reached = Reached(
            number,
            found.st_ino,
            max(start, end),
            ending,
            numbering.seq,
            numbering.believed,
            longest,
        )

    def on(self, raw: bytes) -> list[Numbered]:
        """Go on through whole lines that follow in the same segment."""
        segment, inode, offset, _, _, _, longest = self.reached
        numbering = self._numbering
        fresh: list[Numbered] = []
        length = 0
        for line in raw[:-1].split(b"\n"):
            length = len(line)
            numbering.take(line, Place(segment, offset, length), fresh)
            offset += length + 1
            longest = max(longest, length + 1)
        fresh += numbering.end()
        ending = raw[-min(length + 1, COMPARED) :]
        self.reached = Reached(
            segment, inode, offset, ending, numbering.seq, numbering.believed, longest
        )
        return fresh

    def end(self) -> list[Numbered]:
        """Give what was held back."""
        return self._numbering.end()
